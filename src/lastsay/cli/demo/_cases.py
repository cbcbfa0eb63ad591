"""The demo's scenarios: what the scripted model does, and what happens to the child meanwhile."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from lastsay.testing.model_server import marker

__all__ = ("CASES", "READABLE", "Case")

READABLE: Final = "timetable.txt"
"""A file in the child's working directory, for the tool calls of the script."""

_ANSWER: Final = "The ferry leaves at seven, from the north pier."
_FOUND: Final = "The timetable says that the ferry leaves at seven."
_HALF: Final = "So far I know that the ferry leaves"


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario of the demo.

    Attributes:
        name: what it is called in the JSON output.
        title: one line for people.
        script: the model server's scenario.
        arguments: the scenario's arguments; ``{file}`` stands for the path of a file that can be read.
        tools: the tools that the child is given.
        disturb: what is done to the child when `streamed` has arrived.
        streamed: the text to wait for.
        child: whether the run to look at is a subagent of the run that is started.
    """

    name: str
    title: str
    script: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    disturb: Literal["cancel", "kill"] | None = None
    streamed: str = ""
    child: bool = False

    def prompt(self, directory: Path) -> str:
        """The prompt, with the marker in it."""
        given = {key: value.replace("{file}", str(directory / READABLE)) for key, value in self.arguments.items()}
        return f"When does the ferry leave? {marker(self.script, **given)}"


def _reads(text: str, **more: str) -> dict[str, Any]:
    return {"text": text, "tool": "Read", "input": json.dumps({"file_path": "{file}"}), **more}


CASES: Final[tuple[Case, ...]] = (
    Case("plain-answer", "A plain answer", "text", {"text": _ANSWER}),
    Case("tool-then-empty", "Text and a tool call, then an empty turn", "tool-then-empty", _reads(_FOUND), ("Read",)),
    Case(
        "max-tokens-in-tool",
        "Text, then max_tokens inside a tool call's JSON",
        "max-tokens-in-tool",
        _reads("It leaves at seven. I look that up once more."),
        ("Read",),
    ),
    Case("max-tokens", "max_tokens in text, until the CLI gives up", "max-tokens"),
    Case(
        "cancelled", "Cancelled in mid-stream", "hang", {"text": _HALF}, disturb="cancel", streamed=_HALF
    ),
    Case(
        "http-error", "HTTP 400 after text", "http-error-after-text", _reads(_FOUND, status="400"), ("Read",)
    ),
    Case("refusal", "A refusal", "refusal"),
    Case("killed", "CLI killed with SIGKILL in mid-stream", "hang", {"text": _HALF}, disturb="kill", streamed=_HALF),
    Case(
        "subagent-max-tokens",
        "A foreground subagent, cut by max_tokens every time",
        "delegate",
        {"child": "max-tokens", "text": "My helper has reported."},
        ("Agent",),
        child=True,
    ),
)  # fmt: skip
