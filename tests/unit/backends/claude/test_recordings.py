"""What the real CLI wrote (recorded by scripts/record_claude.py), and what it must come to, live and from disk."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from lastsay.backends import claude
from lastsay.events import Event, Message, MessageStarted, RunEnded, RunStarted, TextDelta, ToolResult
from lastsay.fold import ANSWER, CANONICAL, Outcome, Policy, RunFold

FOLDER = Path(__file__).parents[3] / "fixtures" / "claude"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
TEXT = "The harbour opens at six and the ferry leaves at seven."
KILLED = -9

# name: (stop reason, raw word, text) of each run, the root first
WIRE: dict[str, list[tuple[str, str | None, str | None]]] = {
    "background": [("completed", "end_turn", "It has come."), ("completed", "completed", "From afar.")],
    "child": [
        ("completed", "end_turn", "The child has reported."),
        ("completed", "completed", "First block.Second block."),
    ],
    "child-empty": [("completed", "end_turn", "The child has reported."), ("error", "failed", None)],
    "child-http-400": [("completed", "end_turn", "The child has reported."), ("error", "unknown", "I look it up.")],
    "child-http-500": [
        ("completed", "end_turn", "The child has reported."),
        ("error", "server_error", "I look it up."),
    ],
    "child-interrupted": [("aborted", "aborted_tools", "I hand this over."), ("aborted", "user-rejected", None)],
    "child-max-tokens": [
        ("completed", "end_turn", "The child has reported."),
        ("max-tokens", "max_output_tokens", "Fourth piece. "),
    ],
    "child-max-turns": [
        ("completed", "end_turn", "The child has reported."),
        ("max-turns", "completed", "I write the report now."),
    ],
    "child-of-child": [
        ("completed", "end_turn", "The child has reported."),
        ("completed", "completed", "The child has reported."),
        ("completed", "completed", TEXT),
    ],
    "child-refusal": [("completed", "end_turn", "The child has reported."), ("refusal", "refusal", "I look it up.")],
    "empty": [("completed", "end_turn", None)],
    "http-400": [("error", "unknown", "I look it up.")],
    "http-500": [("error", "server_error", "I look it up.")],
    "interrupted": [("aborted", "aborted_streaming", "So far I know")],
    "killed": [("error", "SIGKILL", "So far I know")],
    "max-tokens": [("max-tokens", "max_tokens", "Fourth piece. ")],
    "max-tokens-in-tool": [("completed", "end_turn", "I write the report now.")],
    "max-tokens-once": [("completed", "end_turn", "The rest.")],
    "max-turns": [("max-turns", "max_turns", "I look it up.")],
    "parallel-tools": [("completed", "end_turn", TEXT)],
    "refusal": [("refusal", "refusal", "I look it up.")],
    "text": [("completed", "end_turn", TEXT)],
    "thinking-then-text": [("completed", "end_turn", TEXT)],
    "tool-then-empty": [("completed", "end_turn", "I look it up.")],
    "two-blocks": [("completed", "end_turn", "First block.Second block.")],
    "two-children": [
        ("completed", "end_turn", "Both are back."),
        ("completed", "completed", "From one."),
        ("completed", "completed", "From two."),
    ],
    "whitespace": [("completed", "end_turn", " \n\t \n\t")],
}
NOT_ON_DISK = {
    "empty": "an empty turn leaves no line, so nothing says that the run ended",
    "killed": "what was streaming when the CLI died is not saved",
    "max-tokens-in-tool": "an empty turn leaves no line",
    "max-turns": "the limit is in the result record only",
    "tool-then-empty": "an empty turn leaves no line",
    "whitespace": "blank blocks are on disk, and not on the wire",
}
"""Recordings whose session file cannot give the outcome, and why."""


def wire(name: str) -> list[dict[str, object]]:
    """The records of one recording."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_bytes().splitlines()]


def events_of_wire(name: str) -> list[Event]:
    """The events of one recording."""
    normaliser = claude.Normaliser()
    events = [event for record in wire(name) for event in normaliser.push(record)]
    return events + normaliser.close(exit_status=KILLED if name == "killed" else 0)


def events_of_disk(name: str) -> list[Event]:
    """The events of the session that belongs to a recording."""
    (path,) = (FOLDER / f"{name}.session").glob("*.jsonl")
    return [event for batch in claude.events_of(path) for event in batch]


def outcomes(events: Iterable[Event], policy: Policy = CANONICAL) -> dict[str, Outcome]:
    """The outcome of each run, in the order in which they began."""
    folds: dict[str, RunFold] = {}
    for event in events:
        folds.setdefault(event.run, RunFold(policy)).push(event)
    return {run: fold.outcome() for run, fold in folds.items()}


def test_every_recording_has_an_expectation() -> None:
    """No recording is there for nothing."""
    assert sorted(WIRE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_wire(name: str) -> None:
    """Stop reason, raw word and text of every run."""
    found = outcomes(events_of_wire(name)).values()
    assert WIRE[name] == [(outcome.stop_reason, outcome.raw_stop_reason, outcome.text) for outcome in found]


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(NOT_ON_DISK)))
def test_disk_agrees_with_wire(name: str) -> None:
    """The session file gives the same digest for every run, by the calls that started them."""
    live, disk = outcomes(events_of_wire(name)), outcomes(events_of_disk(name))
    children = sorted(run for run in live if run != "main")
    assert children == sorted(disk)[-len(children) :] if children else len(disk) == 1
    assert sorted(outcome.digest for outcome in live.values()) == sorted(outcome.digest for outcome in disk.values())


@pytest.mark.parametrize("name", sorted(set(NOT_ON_DISK) - {"killed", "whitespace"}))
def test_disk_keeps_the_text(name: str) -> None:
    """Where the disk does not tell the end, it still tells the text, and does not pretend to know."""
    (live,), (disk,) = outcomes(events_of_wire(name)).values(), outcomes(events_of_disk(name)).values()
    assert (live.text, "error", "unknown") == (disk.text, disk.stop_reason, disk.provenance)


@pytest.mark.parametrize("name", NAMES)
def test_one_start_first_and_one_end_last(name: str) -> None:
    """Every run begins with its start and ends with its end, and has one of each."""
    for events in (events_of_wire(name), events_of_disk(name) if (FOLDER / f"{name}.session").exists() else []):
        for run in {event.run for event in events}:
            kinds = [type(event) for event in events if event.run == run]
            assert (RunStarted, RunEnded) == (kinds[0], kinds[-1])
            assert (1, 1) == (kinds.count(RunStarted), kinds.count(RunEnded))


@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere(name: str) -> None:
    """A stream that breaks off after any record ends every run that it began, once, and loses no finished block."""
    records = wire(name)
    for cut in range(len(records) + 1):
        normaliser = claude.Normaliser()
        events = [event for record in records[:cut] for event in normaliser.push(record)]
        before = outcomes(events)
        events += normaliser.close(exit_status=KILLED)
        assert [] == normaliser.close()
        starts = [event.run for event in events if type(event) is RunStarted]
        ends = [event.run for event in events if type(event) is RunEnded]
        assert sorted(starts) == sorted(ends)
        for run, outcome in outcomes(events).items():
            assert outcome.output is not None or before.get(run, outcome).output is None


@pytest.mark.parametrize("name", NAMES)
def test_deltas_belong_to_a_begun_message(name: str) -> None:
    """Every delta names a message that was begun, and no message has more text than was streamed for it."""
    events = events_of_wire(name)
    begun = {event.message for event in events if type(event) is MessageStarted}
    streamed: dict[str | None, list[str]] = {}
    for event in events:
        if type(event) is TextDelta:
            assert event.message in begun
            streamed.setdefault(event.message, []).append(event.text)
    for event in events:
        if type(event) is Message and event.message in begun:
            texts = [block.text for block in event.content if block.__class__.__name__ == "Text"]
            assert "".join(streamed.get(event.message, [])).startswith("".join(texts))


def test_replies_cut_at_the_limit_are_joined() -> None:
    """For people who want the answer, the pieces of a reply cut at the limit are one, live and on disk."""
    for events in (events_of_wire("max-tokens-once"), events_of_disk("max-tokens-once")):
        (outcome,) = outcomes(events, ANSWER).values()
        assert ("First piece of a long answer. The rest.", 2) == (outcome.text, outcome.pieces)


def test_parents() -> None:
    """A child's child has the child as parent, and every child names its call and its kind."""
    for events in (events_of_wire("child-of-child"), events_of_disk("child-of-child")):
        root, child, grandchild = [event for event in events if type(event) is RunStarted]
        assert (None, root.run, child.run) == (root.parent, child.parent, grandchild.parent)
        assert ["general-purpose"] * 2 == [child.agent, grandchild.agent]
        assert [child.run, grandchild.run] == [child.call, grandchild.call]


def test_child_ends_before_its_result() -> None:
    """A child in the foreground has ended when its parent is told."""
    for events in (events_of_wire("child"), events_of_disk("child")):
        kinds = [
            type(e) for e in events if type(e) is ToolResult or (type(e) is RunEnded and e.run.startswith("toolu"))
        ]
        assert [RunEnded, ToolResult] == kinds


def test_native_report_and_failure_are_apart() -> None:
    """A child's report is terminal text; what the harness says about a failure is diagnostic."""
    ends = {name: events_of_wire(name) for name in ("child", "child-max-tokens", "child-max-turns")}
    children = {name: next(e for e in events if type(e) is RunEnded) for name, events in ends.items()}
    assert ("Second block.", None) == (children["child"].terminal, children["child"].diagnostic)
    for name in ("child-max-tokens", "child-max-turns"):
        assert None is children[name].terminal
        assert "words of the harness" in (children[name].diagnostic or "")


def test_usage_of_two_turns_is_added_up() -> None:
    """A result record counts its own turn only: two of them make the run's usage."""
    events = events_of_wire("background")
    results = [record["usage"] for record in wire("background") if record["type"] == "result"]
    (reported,) = [event.usage for event in events if event.__class__.__name__ == "UsageReported"]
    assert sum(usage["input_tokens"] for usage in results) == reported.input_tokens  # type: ignore[index]  # JSON


def test_a_childs_pieces_are_joined_live_as_from_disk() -> None:
    """The live stream has no stop reasons for a child's pieces; the error that gave the reply up proves them."""
    outcomes = []
    for events in (events_of_wire("child-max-tokens"), events_of_disk("child-max-tokens")):
        child = next(event.run for event in events if type(event) is RunStarted and event.parent is not None)
        fold = RunFold(ANSWER)
        for event in events:
            if event.run == child:
                fold.push(event)
        outcomes.append(fold.outcome())
    live, disk = outcomes
    assert (4, True) == (live.pieces, live.partial)
    assert disk.digest == live.digest
