"""How streams compose: Stream, the fused pipeline, one operator per file."""

from lastsay.operators._stream import CLOSE_LIMIT, Batches, Opened, Stream, as_stream

__all__ = (
    "CLOSE_LIMIT",
    "Batches",
    "Opened",
    "Stream",
    "as_stream",
)
