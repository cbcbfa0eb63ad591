"""Which scenario a request plays, and how far it is: read from the request alone.

The marker ``[[scenario:NAME key=value ...]]`` stands in a user message (or, where no user message has one, in the
system prompt). The last one wins, so that a child finds its own and a fork does not find its parent's. Tool results and
assistant messages are never searched: they may quote a child's prompt. Values are quoted as in a shell:
``text="two words"``.

The turn is the number of assistant turns after the message that holds the marker; consecutive assistant messages are
one turn. No state is kept for it, so any number of conversations can run in parallel. Only the attempt (the same
history again: a retry) is counted by the server.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

__all__ = ("Cue", "find_cue", "marker")

_MARKER: Final = re.compile(r"\[\[scenario:([\w.-]+)((?:\s.*?)?)\]\](?!\])", re.DOTALL)
_NAME: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Cue:
    """What a request asks for: scenario name (None without a marker), its arguments, and the turn."""

    scenario: str | None
    arguments: Mapping[str, str]
    turn: int


def marker(scenario: str, /, **arguments: str) -> str:
    """The marker text for a prompt.

    Args:
        scenario: name of the scenario.
        arguments: its arguments; any text that does not hold ``]]``.

    Raises:
        ValueError: the name or an argument cannot stand in a marker.
    """
    if not _NAME.fullmatch(scenario):
        raise ValueError(f"not a scenario name: {scenario!r}")
    words = [scenario, *(f"{key}={shlex.quote(value)}" for key, value in arguments.items())]
    text = " ".join(words)
    if "]]" in text:
        raise ValueError("an argument of a marker must not hold ']]'")
    return f"[[scenario:{text}]]"


def find_cue(body: Mapping[str, Any]) -> Cue:
    """The cue in the body of a request, of either protocol. Odd bodies have no marker; never raises."""
    listed = body.get("messages")
    messages = [m for m in listed if isinstance(m, dict)] if isinstance(listed, list) else []
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            found = _last_marker(messages[index].get("content"))
            if found:
                return Cue(found[0], found[1], _turns(messages[index + 1 :]))
    for system in (
        body.get("system"),
        *(m.get("content") for m in messages if m.get("role") in ("system", "developer")),
    ):
        found = _last_marker(system)
        if found:
            return Cue(found[0], found[1], _turns(messages))
    return Cue(None, {}, _turns(messages))


def _last_marker(content: Any) -> tuple[str, dict[str, str]] | None:
    matches = [match for text in _texts(content) for match in _MARKER.finditer(text)]
    if not matches:
        return None
    name, rest = matches[-1].groups()
    return name, _arguments(rest)


def _arguments(rest: str) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    return {key: value for key, found, value in (word.partition("=") for word in words) if found}


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
                yield part["text"]


def _turns(messages: list[dict[str, Any]]) -> int:
    return sum(1 for role, _ in groupby(messages, key=lambda m: m.get("role")) if role == "assistant")
