"""DeepSeek Harness as a source: over its SDK protocol, and from its durable logs."""

from lastsay.backends.dsh._live import stream
from lastsay.backends.dsh._log import LogNormaliser, LogReader, events_of, looks_like, recognises
from lastsay.backends.dsh._tail import tail_of
from lastsay.backends.dsh._wire import WireNormaliser

__all__ = ("LogNormaliser", "LogReader", "WireNormaliser", "events_of", "looks_like", "recognises", "stream", "tail_of")
