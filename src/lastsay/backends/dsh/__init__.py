"""DeepSeek Harness as a source: over its SDK protocol, and from its durable logs."""

from lastsay.backends.dsh._log import LogNormaliser, events_of, looks_like
from lastsay.backends.dsh._tail import tail_of
from lastsay.backends.dsh._wire import WireNormaliser

__all__ = ("LogNormaliser", "WireNormaliser", "events_of", "looks_like", "tail_of")
