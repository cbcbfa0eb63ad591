"""How streams compose: Stream, the fused pipeline, one operator per file."""

from lastsay.operators._bridge import FunctionBridge
from lastsay.operators._confirm import EXECUTION_FAILED, confirm
from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handler, Handlers, Kind, Stage, every
from lastsay.operators._stream import CLOSE_LIMIT, Batches, Opened, Stream, as_stream

__all__ = (
    "CLOSE_LIMIT",
    "EXECUTION_FAILED",
    "Batches",
    "FunctionBridge",
    "Handler",
    "Handlers",
    "Kind",
    "Opened",
    "Operator",
    "Stage",
    "Stream",
    "as_stream",
    "confirm",
    "every",
    "through",
)
