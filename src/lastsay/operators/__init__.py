"""How streams compose: Stream, the fused pipeline, one operator per file."""

from lastsay.operators._bridge import FunctionBridge
from lastsay.operators._broadcast import Broadcast, broadcast
from lastsay.operators._budget import budget
from lastsay.operators._coalesce import coalesce
from lastsay.operators._confirm import EXECUTION_FAILED, confirm
from lastsay.operators._deadline import deadline
from lastsay.operators._epochs import epochs
from lastsay.operators._fused import Operator, through
from lastsay.operators._lane import LaneStatistics, WhenFull
from lastsay.operators._mailbox import Mailbox
from lastsay.operators._merge import merge
from lastsay.operators._own_task import own_task
from lastsay.operators._redact import redact
from lastsay.operators._sequence import dedupe, in_order
from lastsay.operators._split import RunStream, SplitRuns, split_runs
from lastsay.operators._stage import Handler, Handlers, Kind, Stage, every
from lastsay.operators._stream import CLOSE_LIMIT, Batches, Opened, Stream, as_stream
from lastsay.operators._tap import tap
from lastsay.operators._validate import validate

__all__ = (
    "CLOSE_LIMIT",
    "EXECUTION_FAILED",
    "Batches",
    "Broadcast",
    "FunctionBridge",
    "Handler",
    "Handlers",
    "Kind",
    "LaneStatistics",
    "Mailbox",
    "Opened",
    "Operator",
    "RunStream",
    "SplitRuns",
    "Stage",
    "Stream",
    "WhenFull",
    "as_stream",
    "broadcast",
    "budget",
    "coalesce",
    "confirm",
    "deadline",
    "dedupe",
    "epochs",
    "every",
    "in_order",
    "merge",
    "own_task",
    "redact",
    "split_runs",
    "tap",
    "through",
    "validate",
)
