"""One agreed answer from every child agent.

    stream = lastsay.claude.stream("Count the files.", options) | lastsay.coalesce(0.05)
    async with lastsay.open_run(stream, consumers=[lastsay.lifecycle(on_end=print)]) as run:
        async for event in run: ...
    lastsay.tool_result(run.outcome)

What flows is in `lastsay.events`, what is decided in `lastsay.fold`, how streams compose in `lastsay.operators`, where
events come from in `lastsay.backends`, where the answer goes in `lastsay.consumers`.
"""

from lastsay.backends import acp, claude, dsh, scripted
from lastsay.consumers import lifecycle, tool_result
from lastsay.errors import LastsayError
from lastsay.fold import ANSWER, CANONICAL, Outcome, OutputFold, Policy, final_output
from lastsay.operators import (
    Stream,
    budget,
    coalesce,
    confirm,
    deadline,
    dedupe,
    epochs,
    in_order,
    own_task,
    redact,
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
    "lifecycle",
    "open_run",
    "own_task",
    "redact",
    "scripted",
    "tap",
    "tool_result",
    "validate",
)
