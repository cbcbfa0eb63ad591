"""One agreed answer from every child agent.

    stream = lastsay.claude.stream("Count the files.") | lastsay.coalesce(0.05)
    async with lastsay.open_run(stream, consumers=[lastsay.lifecycle(on_end=print)]) as run:
        async for event in run: ...
    lastsay.tool_result(run.outcome)

What flows is in `lastsay.events`, what is decided in `lastsay.fold`, what is confirmed in `lastsay.receipts`, how
streams compose in `lastsay.operators`, where events come from in `lastsay.backends`, where the answer goes in
`lastsay.consumers`, what is kept in `lastsay.logs`.

The names below are loaded when they are first used, so that a program pays for the parts it has.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lastsay._traced import traced
    from lastsay.backends import acp, claude, dsh, in_process, scripted
    from lastsay.consumers import lifecycle, telemetry, tool_result
    from lastsay.errors import LastsayError
    from lastsay.fold import ANSWER, CANONICAL, Outcome, OutputFold, Policy, final_output
    from lastsay.operators import (
        Stream,
        broadcast,
        budget,
        coalesce,
        confirm,
        deadline,
        dedupe,
        epochs,
        in_order,
        merge,
        own_task,
        redact,
        split_runs,
        tap,
        validate,
    )
    from lastsay.run import collect, open_run

__all__ = (
    "ANSWER",
    "CANONICAL",
    "LastsayError",
    "Outcome",
    "OutputFold",
    "Policy",
    "Stream",
    "acp",
    "broadcast",
    "budget",
    "claude",
    "coalesce",
    "collect",
    "confirm",
    "deadline",
    "dedupe",
    "dsh",
    "epochs",
    "final_output",
    "in_order",
    "in_process",
    "lifecycle",
    "merge",
    "open_run",
    "own_task",
    "redact",
    "scripted",
    "split_runs",
    "tap",
    "telemetry",
    "tool_result",
    "traced",
    "validate",
)

_BACKENDS: Final = ("acp", "claude", "dsh", "in_process", "scripted")
_HOMES: Final = {
    "lastsay._traced": ("traced",),
    "lastsay.consumers": ("lifecycle", "telemetry", "tool_result"),
    "lastsay.errors": ("LastsayError",),
    "lastsay.fold": ("ANSWER", "CANONICAL", "Outcome", "OutputFold", "Policy", "final_output"),
    "lastsay.run": ("collect", "open_run"),
}


def __getattr__(name: str) -> Any:
    if name in _BACKENDS:
        return import_module(f"lastsay.backends.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'lastsay' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "lastsay.operators")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
