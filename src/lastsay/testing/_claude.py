"""Options under which the real Claude Code CLI runs offline, against a scripted model server on loopback."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lastsay.errors import MissingExtraError

if TYPE_CHECKING:
    from claude_agent_sdk import ClaudeAgentOptions

__all__ = ("CLAUDE_OFFLINE_MODEL", "claude_offline_environment", "claude_offline_options")

CLAUDE_OFFLINE_MODEL: Final = "scripted-model-1"
"""A name that the CLI does not know: for known models it adds reminders to what the model is sent (2.1.332)."""

_QUIET: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "IS_SANDBOX": "1",
}


def claude_offline_environment(server_url: str, home: Path, *, max_retries: int = 0) -> dict[str, str]:
    """Environment variables that keep the CLI on loopback and all that it writes below `home`.

    Args:
        server_url: address of a server that speaks Anthropic Messages, e.g. `ModelServer.url`.
        home: an existing directory, best a temporary one.
        max_retries: how often the CLI repeats a failed request; its own default needs more than 150 seconds.
    """
    return {
        **_QUIET,
        "ANTHROPIC_API_KEY": "not-a-key",
        "ANTHROPIC_AUTH_TOKEN": "",
        "ANTHROPIC_BASE_URL": server_url,
        "CLAUDE_CODE_MAX_RETRIES": str(max_retries),
        "CLAUDE_CONFIG_DIR": str(home / "config"),
        "HOME": str(home),
    }


def claude_offline_options(
    server_url: str,
    home: Path,
    *,
    max_retries: int = 0,
    env: Mapping[str, str] | None = None,
    **fields: Any,
) -> "ClaudeAgentOptions":
    """Options for `lastsay.claude.stream` (or the SDK's own `query`) that need no key and no network.

    No settings of the machine are read, no built-in tools are offered, and the working directory is `home`/work.

    Args:
        server_url: address of a server that speaks Anthropic Messages, e.g. `ModelServer.url`.
        home: an existing directory, best a temporary one; the CLI's own files (transcripts too) go to `home`/config.
        max_retries: how often the CLI repeats a failed request.
        env: further environment variables.
        **fields: fields of `ClaudeAgentOptions` that replace those set here, e.g. ``tools=["Agent"]``.

    Raises:
        MissingExtraError: claude-agent-sdk is not installed.
    """
    try:
        from claude_agent_sdk import ClaudeAgentOptions  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("claude", "running Claude Code offline") from error
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    defaults: dict[str, Any] = {
        "cwd": work,
        "model": CLAUDE_OFFLINE_MODEL,
        "setting_sources": [],
        "strict_mcp_config": True,
        "system_prompt": "You are a scripted assistant.",
        "tools": [],
    }
    environment = {**claude_offline_environment(server_url, home, max_retries=max_retries), **(env or {})}
    return ClaudeAgentOptions(**{**defaults, **fields, "env": environment})
