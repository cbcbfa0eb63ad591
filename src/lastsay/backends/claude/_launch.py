"""How the native CLI is started: program, arguments and environment, as the SDK itself would start it.

The SDK's own transport is not used to run it: it starts the CLI in the caller's process group (so nothing the CLI
started can be ended with it), waits up to five seconds for an exit while a request hangs, limits a line to 1 MiB by
default, and prints the CLI's standard error. Its command line is used, because it alone knows the options.
"""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
from opentelemetry import propagate

from lastsay.errors import MissingExtraError, SourceError, UsageError

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

__all__ = ("MAX_BUFFER", "Launch", "launch_of", "prepared", "sdk")

MAX_BUFFER: Final = 16 * 1024 * 1024
"""Default cap of one line of the CLI's output, in bytes. A line holds a tool result twice; the SDK's 1 MiB is too few
(https://github.com/anthropics/claude-agent-sdk-python/issues/98)."""


class Launch(NamedTuple):
    """What it takes to start the CLI."""

    command: list[str]
    environment: dict[str, str]
    directory: str | None


def sdk() -> Any:
    """The module claude_agent_sdk.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import claude_agent_sdk  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("claude", "the Claude backend") from error
    return claude_agent_sdk


def prepared(
    options: "ClaudeAgentOptions | None", *, partial_messages: bool, subagent_text: bool
) -> "ClaudeAgentOptions":
    """The options with what the normaliser wants switched on.

    Raises:
        UsageError: an option cannot be honoured here.
    """
    given: ClaudeAgentOptions = sdk().ClaudeAgentOptions() if options is None else options
    if given.session_store is not None and (given.resume or given.continue_conversation):
        raise UsageError(
            "options.session_store together with resume or continue_conversation is not supported by claude.stream: "
            "open a ClaudeSDKClient and wrap it, claude.events(client.receive_messages())"
        )
    if given.user is not None:
        raise UsageError("options.user is not supported by claude.stream: start the whole program as that user")
    return dataclasses.replace(
        given,
        include_partial_messages=given.include_partial_messages or partial_messages,
        forward_subagent_text=given.forward_subagent_text or subagent_text,
        max_buffer_size=given.max_buffer_size or MAX_BUFFER,
    )


async def launch_of(options: "ClaudeAgentOptions") -> Launch:
    """Command, environment and working directory for the options.

    Raises:
        SourceError: the CLI is not there, or the options make no command line.
    """
    return await anyio.to_thread.run_sync(_launch, options)  # it looks for files


def _launch(options: "ClaudeAgentOptions") -> Launch:
    directory = str(options.cwd) if options.cwd else None
    if directory is not None and not Path(directory).is_dir():
        raise SourceError(f"Claude Code cannot start: its working directory does not exist: {directory} (options.cwd)")
    return Launch(_command(options), _environment(options, directory), directory)


def _command(options: "ClaudeAgentOptions") -> list[str]:
    try:
        from claude_agent_sdk._internal.transport.subprocess_cli import (  # noqa: PLC0415 - optional dependency
            SubprocessCLITransport,
        )
    except ImportError as error:
        raise SourceError(f"this version of claude-agent-sdk is not known to lastsay: {error}") from error
    asking = options
    if options.can_use_tool is not None and options.permission_prompt_tool_name is None:
        asking = dataclasses.replace(options, permission_prompt_tool_name="stdio")
    try:
        transport: Any = SubprocessCLITransport("", asking)
        if transport._cli_path is None:  # noqa: SLF001 - the command line is known nowhere else
            transport._cli_path = transport._find_cli()  # noqa: SLF001
        command: list[str] = transport._build_command()  # noqa: SLF001
    except AttributeError as error:
        raise SourceError(f"this version of claude-agent-sdk is not known to lastsay: {error}") from error
    except Exception as error:
        raise SourceError(f"Claude Code cannot be started: {error}") from error
    if not Path(command[0]).exists():
        raise SourceError(f"Claude Code is not at {command[0]}: check options.cli_path, or leave it out")
    return command


def _environment(options: "ClaudeAgentOptions", directory: str | None) -> dict[str, str]:
    # CLAUDECODE would make the CLI believe that it runs inside another one.
    inherited = {key: value for key, value in os.environ.items() if key != "CLAUDECODE"}
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if "traceparent" in carrier:
        inherited = {key: value for key, value in inherited.items() if key not in ("TRACEPARENT", "TRACESTATE")}
        inherited |= {key.upper(): value for key, value in carrier.items()}
    environment = {
        # The CLI says when it is idle, so that a result with a follow-up turn behind it is not taken for the end.
        "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
        **inherited,
        "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
        **options.env,
        "CLAUDE_AGENT_SDK_VERSION": str(sdk().__version__),
    }
    if options.client_app is not None:
        environment["CLAUDE_AGENT_SDK_CLIENT_APP"] = options.client_app
    if options.enable_file_checkpointing:
        environment["CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"] = "true"
    if directory is not None:
        environment["PWD"] = directory
    return environment
