"""The table of commands. A new one is a file with a `command` in it, and one line here."""

from importlib import import_module
from typing import Final

import click

import lastsay

__all__ = ("commands",)

_COMMANDS: Final = {
    "run": ("lastsay.cli._run", "Run a child agent and print what it finally said."),
    "fold": ("lastsay.cli._fold", "Print what the agents in recorded logs finally said."),
    "explain": ("lastsay.cli._explain", "Show why the output is what it is: candidates, rules, evidence."),
    "receipts": ("lastsay.cli._receipts", "Audit the tool results in recorded logs."),
    "demo": ("lastsay.cli._demo", "Show a real harness and lastsay side by side, offline."),
}


class _Lazy(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in _COMMANDS.items()])


def commands() -> click.Group:
    """The group of all commands."""
    settings = {"help_option_names": ["-h", "--help"]}
    what = (lastsay.__doc__ or "").partition("\n")[0]
    group = _Lazy("lastsay", context_settings=settings, help=what, no_args_is_help=True)
    return click.version_option(package_name="lastsay")(group)
