"""``lastsay demo``: a real harness and lastsay side by side, offline."""

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Final

import anyio
import click

from lastsay.cli._status import FAILED
from lastsay.errors import MissingExtraError
from lastsay.fold import POLICIES, Policy, policy_named
from lastsay.testing.model_server import model_server

if TYPE_CHECKING:
    from lastsay.cli.demo import Case, Shown

__all__ = ("command",)

_NEEDED: Final = {"claude_agent_sdk": "claude", "opentelemetry.sdk": "otel", "rich": "cli"}


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="One JSON list with everything, in place of text.")
@click.option("--only", multiple=True, metavar="NAME", help="Play this scenario only; may be given again.")
@click.option(
    "--policy",
    "policy_name",
    type=click.Choice(sorted(POLICIES)),
    default="canonical",
    help="The rule that selects the output.",
)
def command(*, as_json: bool, only: tuple[str, ...], policy_name: str) -> int:
    """Show a real harness and lastsay side by side, offline.

    Starts a scripted model on loopback and runs the real Claude Code CLI against it, in scenarios in which children
    lose their output. Each is played twice: on the bare SDK, and through lastsay with tool result, end event and span
    as consumers. No key is needed, and nothing but loopback is used.

    Exit status: 0 if the three consumers were told the same in every scenario, else 6.
    """
    from lastsay.cli.demo import CASES

    unknown = sorted(set(only) - {case.name for case in CASES})
    if unknown:
        known = ", ".join(case.name for case in CASES)
        raise click.BadParameter(f"no scenario {unknown[0]!r}; known are {known}", param_hint="--only")
    _check_extras()
    cases = [case for case in CASES if not only or case.name in only]
    # The SDK reports a killed CLI here too, on standard error if nobody listens; the scenario shows it.
    logging.getLogger("claude_agent_sdk").addHandler(logging.NullHandler())
    shown = anyio.run(_play_all, cases, policy_named(policy_name), as_json)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in shown], indent=2))
    return 0 if all(one.agreed for one in shown) else FAILED


def _check_extras() -> None:
    from importlib.util import find_spec

    for module, extra in _NEEDED.items():
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise MissingExtraError(extra, "the demo")


async def _play_all(cases: "list[Case]", policy: Policy, as_json: bool) -> "list[Shown]":  # noqa: FBT001 - anyio.run
    from rich.console import Console

    from lastsay.cli.demo import play
    from lastsay.cli.demo._show import show, show_introduction, show_summary

    console, progress = Console(highlight=False), Console(stderr=True)
    begun, shown = time.monotonic(), []
    if not as_json:
        show_introduction(console)
    async with model_server() as server:
        for number, case in enumerate(cases, 1):
            with progress.status(f"{number}/{len(cases)}  {case.title}"):
                one = await play(case, server, policy=policy)
            shown.append(one)
            if not as_json:
                show(one, number, console)
                sys.stdout.flush()
    if not as_json:
        show_summary(shown, time.monotonic() - begun, console)
    return shown
