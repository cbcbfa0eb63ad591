"""What a telemetry consumer was asked to do, in one frozen value."""

from collections.abc import Callable

import msgspec
from opentelemetry.context import Context

from lastsay.consumers._contract import RunStart
from lastsay.consumers._telemetry._content import Capture
from lastsay.consumers._telemetry._names import PROVIDERS, Names

__all__ = ("Options",)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """See `telemetry` for each."""

    names: Names
    capture: Capture
    content_limit: int
    tolerated: frozenset[str]
    delegations: bool
    model_calls: bool
    prompt: str | None
    conversation_id: str | None
    provider: str | None
    parent: Context | Callable[[], Context] | None

    def provider_of(self, backend: str | None) -> str | None:
        """The provider's name in the conventions' vocabulary; None where it is not known."""
        if self.provider is not None or backend is None:
            return self.provider
        return PROVIDERS.get(backend, backend)

    def agent_provider(self, start: RunStart, backend: str | None) -> str | None:
        """The same for a run; None where the profile does not tell it of one in this process."""
        return self.provider_of(backend) if self.names.provider_of_local or not start.local else None
