"""Permission requests: the agent asks, a policy answers.

The default is to reject: what a child agent may do is for its caller to say. A request that is pending when the turn
is cancelled is answered with ``cancelled``, as the protocol demands; gemini-cli 0.61.0 and mistral-vibe 3.0.2 hang
otherwise.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from lastsay.errors import UsageError
from lastsay.events import MAIN

__all__ = (
    "Permission",
    "PermissionOption",
    "PermissionRequest",
    "checked_policy",
    "chosen_by",
    "outcome",
    "request_of",
)


class PermissionOption(msgspec.Struct, frozen=True):
    """One possible answer. `kind` is allow_once, allow_always, reject_once, reject_always, or the agent's own."""

    id: str
    name: str
    kind: str


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent asks for.

    Attributes:
        title: what is shown to people.
        tool_call: the tool call's id, or None where the request is about something else.
        input: the tool call's input, or None where the agent did not tell.
        options: the possible answers.
        run: the run id of the session that asks.
        raw: the request as it came.
    """

    title: str
    options: tuple[PermissionOption, ...]
    tool_call: str | None = None
    input: Any = None
    run: str = MAIN
    raw: Mapping[str, Any]


Decide = Callable[[PermissionRequest], str | Awaitable[str | None] | None]
Permission = Literal["reject", "allow"] | Decide
"""A policy: reject everything, allow everything once, or a function that gives an option's id (None: no answer)."""

_PREFERRED: Final[Mapping[str, tuple[str, ...]]] = {
    "allow": ("allow_once", "allow_always"),
    "reject": ("reject_once", "reject_always"),
}


def checked_policy(policy: Permission) -> Permission:
    """The policy.

    Raises:
        UsageError: it is none.
    """
    if callable(policy) or policy in _PREFERRED:
        return policy
    msg = f"permission must be 'reject', 'allow' or a function that picks an option's id, not {policy!r}"
    raise UsageError(msg)


def request_of(params: Any, run: str) -> PermissionRequest:
    """The request in a frame's parameters, of protocol 1 or 2; what is missing is empty."""
    fields: Mapping[str, Any] = params if isinstance(params, Mapping) else {}
    subject = fields.get("subject")
    call = subject.get("toolCall") if isinstance(subject, Mapping) else fields.get("toolCall")
    call = call if isinstance(call, Mapping) else {}
    offered = fields.get("options")
    options = [
        PermissionOption(o["optionId"], str(o.get("name", "")), str(o.get("kind", "")))
        for o in (offered if isinstance(offered, list) else [])
        if isinstance(o, Mapping) and isinstance(o.get("optionId"), str)
    ]
    call_id = call.get("toolCallId")
    return PermissionRequest(
        title=str(fields.get("title") or call.get("title") or ""),
        options=tuple(options),
        tool_call=call_id if isinstance(call_id, str) else None,
        input=call.get("rawInput"),
        run=run,
        raw=fields,
    )


def chosen_by(policy: Literal["reject", "allow"], request: PermissionRequest) -> str | None:
    """The option that a fixed policy picks: the narrowest of its kind; None where none is offered."""
    by_kind = {option.kind: option.id for option in reversed(request.options)}
    return next((by_kind[kind] for kind in _PREFERRED[policy] if kind in by_kind), None)


def outcome(option: str | None) -> dict[str, Any]:
    """The answer's result; None is ``cancelled``."""
    if option is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option}}
