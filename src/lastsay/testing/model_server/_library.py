"""The scenarios that every model server knows.

Most take arguments in the marker: ``text`` (what is said), ``tool`` and ``input`` (a tool's name, and its input as a
JSON object), ``status`` (of an HTTP error), ``delay`` (seconds between deltas), ``pieces`` (number of deltas). The
default tool exists in no harness, so a call of it is answered by an error result and the loop goes on.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from lastsay.testing.model_server._marker import marker
from lastsay.testing.model_server._steps import (
    Attempts,
    CallTool,
    Cut,
    EndBlock,
    Hang,
    HttpError,
    Say,
    Scenario,
    SseError,
    Step,
    Stop,
    Think,
    Turn,
)

__all__ = ("BUILT_IN", "delegating")

_Arguments = Mapping[str, str]
_Turns = tuple[Turn | Attempts, ...]

_TEXT: Final = "The harbour opens at six and the ferry leaves at seven."
_TOOL: Final = "lookup"
_TOOL_INPUT: Final = '{"query": "the opening hours of the harbour"}'


def _say(arguments: _Arguments, *, text: str = _TEXT, pieces: int = 4, delay: float = 0.0) -> Say:
    return Say(
        _split(arguments.get("text", text), int(arguments.get("pieces", pieces))),
        float(arguments.get("delay", delay)),
    )


def _split(text: str, pieces: int) -> tuple[str, ...]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return tuple(text[start : start + size] for start in range(0, len(text), size)) or ("",)


def _call(arguments: _Arguments, *, cut: bool = False) -> CallTool:
    return CallTool(arguments.get("tool", _TOOL), _object(arguments.get("input", _TOOL_INPUT)), cut=cut)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"the input of a tool must be a JSON object: {text}")  # noqa: TRY004 - bad text, not a bad type
    return value


def _text(arguments: _Arguments) -> _Turns:
    return ((_say(arguments),),)


def _slow(arguments: _Arguments) -> _Turns:
    return ((_say(arguments, pieces=20, delay=0.1),),)


def _tool(arguments: _Arguments, *last: Step) -> _Turns:
    return (_say(arguments, text="I look it up."), _call(arguments)), last


def _max_tokens(arguments: _Arguments) -> _Turns:
    first: Turn = (_say(arguments, text="First piece of a long answer. "), Stop("max_tokens"))
    more = ("Second piece. ", "Third piece. ", "Fourth piece. ")
    return first, *((Say(text), Stop("max_tokens")) for text in more)


def _max_tokens_once(arguments: _Arguments) -> _Turns:
    return _max_tokens(arguments)[0], (Say("The rest."),)


def _cut_tool(arguments: _Arguments) -> _Turns:
    return ((_say(arguments, text="I write the report now."), _call(arguments, cut=True)),)


def _cut_tool_once(arguments: _Arguments) -> _Turns:
    return *_cut_tool(arguments), ()


def _think_and_say(arguments: _Arguments) -> _Turns:
    return ((Think("I think first."), _say(arguments)),)


def _cut_after_block(arguments: _Arguments) -> _Turns:
    return ((_say(arguments), EndBlock(), Cut()),)


def _http_error(arguments: _Arguments, *, status: int = 500) -> _Turns:
    return ((HttpError(int(arguments.get("status", status))),),)


def _http_error_after_text(arguments: _Arguments) -> _Turns:
    return _tool(arguments)[0], (HttpError(int(arguments.get("status", 500))),)


def _cut_once(arguments: _Arguments) -> _Turns:
    lost: Turn = (Say(("This attempt ", "is lost")), Cut())
    return (Attempts((lost, (_say(arguments),))),)


def _hang(arguments: _Arguments) -> _Turns:
    return ((_say(arguments, text="So far I know that the harbour"), Hang()),)


def _parallel(arguments: _Arguments) -> _Turns:
    calls = tuple(_call(arguments) for _ in range(int(arguments.get("calls", 3))))
    return (Say("Three look-ups at once."), *calls), (_say(arguments),)


def delegating(
    name: str,
    about: str = "a parent that hands its work to a child, then says one sentence",
    *,
    tool: str = "Agent",
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the field's own word for it, as in CallTool
    prompt_key: str = "prompt",
) -> Scenario:
    """A scenario in which the parent calls a delegation tool, and the child gets a marker of its own.

    The marker's ``child`` names the child's scenario (default ``text``), ``child.KEY`` are the child's arguments,
    ``text`` is what the parent says at the end, and ``tool`` and ``input`` override the tool's name and input.

    Args:
        name: name of the scenario.
        about: one line that says what happens.
        tool: name of the delegation tool.
        input: its input, without the prompt; by default the one of Claude Code's `Agent`, in the foreground.
        prompt_key: where in the input the child's prompt goes.
    """
    default = {"description": "Scripted child", "subagent_type": "general-purpose", "run_in_background": False}
    base = default if input is None else dict(input)

    def turns(arguments: _Arguments) -> _Turns:
        own = {key.removeprefix("child."): value for key, value in arguments.items() if key.startswith("child.")}
        prompt = f"Do the work of the child. {marker(arguments.get('child', 'text'), **own)}"
        given = _object(arguments["input"]) if "input" in arguments else base
        call = CallTool(arguments.get("tool", tool), {**given, prompt_key: prompt})
        return (Say("I hand this over."), call), (_say(arguments, text="The child has reported."),)

    return Scenario(name, about, turns)


BUILT_IN: Final[tuple[Scenario, ...]] = (
    Scenario("text", "one text block, end_turn", _text),
    Scenario("slow", "one text block in 20 deltas, 0.1 s apart", _slow),
    Scenario("two-blocks", "two text blocks in one message", ((Say("First block."), Say("Second block.")),)),
    Scenario("tool-then-text", "text and a tool call, then text", lambda a: _tool(a, Say(_TEXT))),
    Scenario("tool-then-empty", "text and a tool call, then an empty turn", _tool),
    Scenario("parallel-tools", "text and three tool calls in one message, then text", _parallel),
    Scenario("max-tokens", "text cut by max_tokens, in every turn", _max_tokens),
    Scenario("max-tokens-once", "text cut by max_tokens, then the rest", _max_tokens_once),
    Scenario("max-tokens-in-tool", "text and a tool call cut by max_tokens, then an empty turn", _cut_tool_once),
    Scenario("max-tokens-in-tool-always", "text and a tool call cut by max_tokens, in every turn", _cut_tool),
    Scenario("empty", "a message without content", ((),)),
    Scenario("whitespace", "a text block of white space only", ((Say(" \n\t"),),)),
    Scenario("thinking-only", "a reasoning block and no text", ((Think(("I think ", "and say nothing.")),),)),
    Scenario("thinking-then-text", "a reasoning block and a text block", _think_and_say),
    Scenario("refusal", "refusal without text", ((Stop("refusal"),),)),
    Scenario("refusal-after-text", "text and a tool call, then a refusal", lambda a: _tool(a, Stop("refusal"))),
    Scenario("http-error", "HTTP error at once; status=500", _http_error),
    Scenario("http-400", "HTTP 400 at once", lambda a: _http_error(a, status=400)),
    Scenario("http-500", "HTTP 500 at once", lambda a: _http_error(a, status=500)),
    Scenario("http-529", "HTTP 529 at once", lambda a: _http_error(a, status=529)),
    Scenario("http-error-after-text", "text and a tool call, then an HTTP error; status=500", _http_error_after_text),
    Scenario("sse-error", "an error event in mid-stream", lambda a: ((_say(a), SseError()),)),
    Scenario("sse-error-first", "an error event before any content", ((SseError(),),)),
    Scenario("cut-once", "the connection is cut in mid-text, the retry is answered", _cut_once),
    Scenario("cut-always", "the connection is cut in mid-text, every time", lambda a: ((_say(a), Cut()),)),
    Scenario("cut-after-block", "the connection is cut after a complete block", _cut_after_block),
    Scenario("hang", "text, then silence with the connection open", _hang),
    Scenario("hang-first", "silence before any content", ((Hang(),),)),
    delegating("delegate"),
)  # fmt: skip
