"""The pulse of a run: what is kept while it goes on. Plain numbers; never an event, never a text."""

from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.trace import Span

if TYPE_CHECKING:
    import weakref

__all__ = ("Call", "Delegation", "Pulse")


class Call:
    """A tool call that has not been answered, as far as its span needs it."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: Any) -> None:
        self.name = name
        self.arguments = arguments


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
    """See the module. Times are nanoseconds: `first_ns` since the epoch, `last` on the monotonic clock."""

    __slots__ = (
        "agent",
        "bridged",
        "calls",
        "context",
        "delegation",
        "delegations",
        "first_ns",
        "gap",
        "last",
        "net",
        "prompt",
        "span",
    )

    def __init__(self, span: Span, context: Context, agent: str | None, last: int) -> None:
        self.span = span
        self.context = context
        """The context that holds the span: the parent of whatever the run starts."""
        self.last = last
        self.gap = 0
        self.first_ns: int | None = None
        self.agent = agent
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
