"""The pulse of a run: what is kept while it goes on. Plain numbers; never an event, never a text."""

from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import Span

if TYPE_CHECKING:
    import weakref

    from lastsay.events import Usage

__all__ = ("Call", "Delegation", "ModelCall", "Pulse")


class Call:
    """A tool call that has not been answered, as far as its span needs it."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Any) -> None:
        self.name = name
        self.arguments = arguments


class ModelCall:
    """A call of the model, as far as its span needs it."""

    __slots__ = ("began_ns", "ended_ns", "finish", "usage")

    def __init__(self, began_ns: int) -> None:
        self.began_ns = self.ended_ns = began_ns
        self.finish: str | None = None
        self.usage: Usage | None = None


class Delegation:
    """The span of the parent's tool call that runs a child. It ends with the child, once the call is answered too."""

    __slots__ = ("answered", "child_ended_ns", "error", "prompt", "result", "span")

    def __init__(self, span: Span, prompt: str | None) -> None:
        self.span = span
        self.prompt = prompt
        """What the child was asked, where the arguments show it and content may be told."""
        self.answered = False
        self.child_ended_ns: int | None = None
        self.error: str | None = None
        """The `error.type`, where the child or the answer is one."""
        self.result: str | None = None


class Pulse:
    """See the module.

    What ends in `_ns` is nanoseconds since the epoch; `last` and `gap` are seconds of a clock that only goes forward.
    """

    __slots__ = (
        "agent",
        "asked_ns",
        "backend",
        "bridged",
        "calls",
        "context",
        "delegation",
        "delegations",
        "first_ns",
        "gap",
        "last",
        "model_calls",
        "net",
        "prompt",
        "span",
    )

    def __init__(
        self, span: Span, context: Context, *, agent: str | None, backend: str | None, asked_ns: int, last: float
    ) -> None:
        self.span = span
        self.context = context
        """The context that holds the span: the parent of whatever the run starts."""
        self.asked_ns = asked_ns
        """When the model could last be asked."""
        self.model_calls: dict[str, ModelCall] = {}
        self.last = last
        self.gap = 0.0
        self.first_ns: int | None = None
        self.agent = agent
        self.backend = backend
        """The run's own backend or, where it names none, its parent's."""
        self.prompt: str | None = None
        self.net: weakref.finalize[Any, Any] | None = None
        """Ends the span if the run's scope is dropped without being left."""
        self.delegation: Delegation | None = None
        """The parent's call that runs this run."""
        self.delegations: dict[str, Delegation] = {}
        """This run's calls that run children, by call id."""
        self.bridged: dict[str, Span] = {}
        """Open calls of the function bridge, by call id."""
        self.calls: dict[str, Call] = {}
