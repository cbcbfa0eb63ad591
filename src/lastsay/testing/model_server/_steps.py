"""The scenario language: what the scripted model does, as data.

A scenario is a list of turns, and a turn is a tuple of steps. The server plays turn *n* to a request whose history
holds *n* assistant turns since the marker; when the turns are used up, the last one is played again and again. A turn
that should differ between a first try and its retries is an `Attempts`.

    Scenario("tool-then-empty", "text and a tool call, then nothing", (
        (Say("I look it up."), CallTool("lookup", {"q": "x"})),
        (),
    ))

Unless a turn holds a `Stop`, it ends with ``tool_use`` after a tool call, ``max_tokens`` after a cut one, and
``end_turn`` otherwise. A content block stays open until the next content step, `Stop`, `EndBlock` or the end of the
turn: so ``(Say("a"), Cut())`` loses the connection inside the block, and ``(Say("a"), EndBlock(), Cut())`` after it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = (
    "Attempts",
    "CallTool",
    "Cut",
    "EndBlock",
    "Hang",
    "HttpError",
    "Say",
    "Scenario",
    "Sleep",
    "SseError",
    "Step",
    "Stop",
    "Think",
    "Tokens",
    "Turn",
)


@dataclass(frozen=True, slots=True)
class Say:
    """One text block. A tuple is streamed as that many deltas, with `delay` seconds before each."""

    text: str | tuple[str, ...]
    delay: float = 0.0

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text as the deltas that are sent."""
        return (self.text,) if isinstance(self.text, str) else self.text


@dataclass(frozen=True, slots=True)
class Think:
    """One reasoning block. A tuple is streamed as that many deltas, with `delay` seconds before each."""

    text: str | tuple[str, ...]
    delay: float = 0.0
    signature: str = "c2NyaXB0ZWQ="

    @property
    def pieces(self) -> tuple[str, ...]:
        """The reasoning as the deltas that are sent."""
        return (self.text,) if isinstance(self.text, str) else self.text


@dataclass(frozen=True, slots=True)
class CallTool:
    """One tool call. With `cut`, its JSON ends in the middle, as when the model ran out of tokens there.

    Without an `id` the call gets one that no other call of this server has.
    """

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    cut: bool = False
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """The stop reason, in the words of Anthropic Messages; they are translated for chat completions. Ends the turn."""

    reason: str | None = "end_turn"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token counts that this turn reports, in place of a count made from its length."""

    input: int = 10
    output: int = 10
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class HttpError:
    """An HTTP error in place of an answer. Must be the first step of its turn (or follow a `Sleep`)."""

    status: int = 500
    message: str = "scripted failure"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SseError:
    """An error event inside the stream, after which the stream ends."""

    type: str = "overloaded_error"
    message: str = "scripted failure"


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is dropped, without an end of the stream."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more is sent and the connection stays open: for `seconds`, or until the client goes away."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause of `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class EndBlock:
    """Ends the content block that is open."""


Step: TypeAlias = Say | Think | CallTool | Stop | Tokens | HttpError | SseError | Cut | Hang | Sleep | EndBlock
Turn: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Attempts:
    """One turn that differs between requests with equal history: the first, its first retry and so on.

    The last one is played again for every further try.
    """

    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("Attempts needs at least one turn")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named behaviour of the scripted model.

    Args:
        name: what stands in the marker; letters, digits, ``-``, ``_`` and ``.``.
        about: one line that says what happens.
        turns: the turns, or a function that makes them from the marker's ``key=value`` arguments.
    """

    name: str
    about: str
    turns: tuple[Turn | Attempts, ...] | Callable[[Mapping[str, str]], tuple[Turn | Attempts, ...]]

    def __post_init__(self) -> None:
        if not callable(self.turns):
            _check(self.turns)

    def play(self, arguments: Mapping[str, str], turn: int, attempt: int) -> Turn:
        """The steps for one request.

        Args:
            arguments: the marker's ``key=value`` pairs.
            turn: number of assistant turns since the marker, from 0.
            attempt: number of earlier requests with equal history, from 0.
        """
        turns = self.turns(arguments) if callable(self.turns) else self.turns
        _check(turns)
        chosen = turns[min(turn, len(turns) - 1)]
        if isinstance(chosen, Attempts):
            return chosen.turns[min(attempt, len(chosen.turns) - 1)]
        return chosen


def _check(turns: tuple[Turn | Attempts, ...]) -> None:
    if not turns:
        raise ValueError("a scenario needs at least one turn (which may be the empty tuple)")
    for turn in turns:
        for steps in turn.turns if isinstance(turn, Attempts) else (turn,):
            before = {type(step) for step in steps[: next(_errors_at(steps), 0)]}
            if before - {Sleep}:
                raise ValueError("HttpError must be the first step of its turn; inside a stream use SseError or Cut")


def _errors_at(steps: Turn) -> Any:
    return (index for index, step in enumerate(steps) if isinstance(step, HttpError))
