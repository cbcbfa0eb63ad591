"""How streams compose: Stream, the fused pipeline, one operator per file."""

from lastsay.operators._fused import Operator, through
from lastsay.operators._stage import Handler, Handlers, Kind, Stage, every
from lastsay.operators._stream import CLOSE_LIMIT, Batches, Opened, Stream, as_stream

__all__ = (
    "CLOSE_LIMIT",
    "Batches",
    "Handler",
    "Handlers",
    "Kind",
    "Opened",
    "Operator",
    "Stage",
    "Stream",
    "as_stream",
    "every",
    "through",
)
