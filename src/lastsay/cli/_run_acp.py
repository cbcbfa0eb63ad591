"""``lastsay run acp PROMPT -- COMMAND...``: the stream of an ACP agent, from the options of the command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lastsay.errors import UsageError

if TYPE_CHECKING:
    from lastsay.operators import Stream

__all__ = ("stream",)


def stream(prompt: str, given: Mapping[str, Any]) -> "Stream":
    """The stream; the agent's command stands after ``--``. Permissions are rejected unless they are to be bypassed."""
    from lastsay.backends import acp

    if not given["program"]:
        raise UsageError("the agent's command is missing: lastsay run acp PROMPT -- COMMAND...")
    permission: acp.Permission = "allow" if given["permission_mode"] == "bypassPermissions" else "reject"
    config = {"model": given["model"]} if given["model"] else None
    return acp.stream(given["program"], prompt, cwd=given["cwd"], permission=permission, config=config)
