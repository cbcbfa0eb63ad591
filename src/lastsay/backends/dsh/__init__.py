"""DeepSeek Harness as a source: over its SDK protocol, and from its durable logs."""

from lastsay.backends.dsh._wire import WireNormaliser

__all__ = ("WireNormaliser",)
