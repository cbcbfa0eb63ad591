"""A receipt, read: what a tool result event says about one call, reduced to what the rules need.

`ToolResult.native` is the harness's own record of the result. The rules look at these keys and take an absent one as
not said; a backend that knows none of them leaves `native` None and loses nothing but the stronger proofs.

    tool_use_result      the recorded parts (a list), or a text; absent or None for the calls of a subagent
    tool_result_meta     a list of objects with `id` and `non_execution_kind`
    non_execution_kind   the same, already picked out: why the call was not executed
    isSynthetic          written by the harness in the user's place: never a receipt
    isReplay             restated from earlier: never a receipt
    session_id           the session that the record belongs to
    parent_tool_use_id   the call that caused the subagent whose record this is; None for the root

Text parts of no length carry nothing, and borders drop them; so the content is compared without them on both sides.
The record, where there is one, still holds them.
"""

from typing import Any

import msgspec

from lastsay.events import Block, Text, ToolResult

__all__ = ("Receipt", "receipt_of", "substantial")


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool result says about its call."""

    call: str
    content: tuple[Block, ...]
    is_error: bool
    run: str
    record: Any = None
    """The harness's own record of the result; None where there is none."""
    not_executed: str | None = None
    live: bool = True
    """False for a replayed or synthetic record."""
    session: str | None = None
    root: bool = True
    """False where the record says that a subagent made the call."""


def receipt_of(event: ToolResult) -> Receipt:
    """The receipt that a tool result is. Never raises, whatever `native` holds."""
    native = event.native if isinstance(event.native, dict) else {}
    session = native.get("session_id")
    return Receipt(
        call=event.id,
        content=substantial(event.content),
        is_error=event.is_error,
        run=event.run,
        record=native.get("tool_use_result"),
        not_executed=_not_executed(native, event.id),
        live=not (native.get("isSynthetic") or native.get("isReplay")),
        session=session if isinstance(session, str) else None,
        root=native.get("parent_tool_use_id") is None,
    )


def _not_executed(native: dict[str, Any], call: str) -> str | None:
    meta = native.get("tool_result_meta")
    entries = [entry for entry in (meta if isinstance(meta, list) else [meta]) if isinstance(entry, dict)]
    mine = (entry.get("non_execution_kind") for entry in entries if entry.get("id", call) == call)
    return next((str(kind) for kind in (native.get("non_execution_kind"), *mine) if kind), None)


def substantial(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """The blocks without text blocks of no length."""
    return tuple([block for block in content if type(block) is not Text or block.text])
