"""The live adapter against a stand-in that speaks the protocol: starts, ends, cuts and cancellations."""

import importlib
import json
import sys
from pathlib import Path

import anyio
import pytest

from lastsay.backends import dsh
from lastsay.errors import MissingExtraError, SourceError, UsageError
from lastsay.events import EpochStarted, Fault, Notice, RunEnded, RunStarted
from lastsay.run import collect, open_run
from lastsay.testing._backends import check_backend

FAKE = str(Path(__file__).with_name("fake_harness.py"))


def harness(tmp_path, *modes, prompts=("Go.",), **options):
    """A stream from the stand-in."""
    return dsh.stream(*prompts, home=tmp_path, cwd=tmp_path, command=[sys.executable, FAKE, *modes], **options)


@pytest.mark.asyncio
@pytest.mark.parametrize("modes", [(), ("no-wait",), ("ask",), ("noise",)])
async def test_a_prompt_is_answered_whatever_the_harness_can_and_does(modes, tmp_path):
    """With `session/wait` and without, with a request of its own, and with noise between the frames."""
    outcome = await collect(harness(tmp_path, *modes))
    assert ("Answer 1.", "completed", "reported") == (outcome.text, outcome.stop_reason, outcome.provenance)
    assert (1 if "noise" in modes else 0) == outcome.counts.faults


@pytest.mark.asyncio
@pytest.mark.parametrize("modes", [(), ("no-wait",)])
async def test_each_follow_up_is_an_epoch_of_the_same_run(modes, tmp_path):
    """Two prompts: one run, two activations."""
    async with open_run(harness(tmp_path, *modes, prompts=("One.", "Two."))) as run:
        events = [event async for event in run]
    assert ["Answer 1.", "Answer 2."] == [activation.outcome.text for activation in run.activations]
    assert [1, 1, 2] == [sum(type(e) is kind for e in events) for kind in (RunStarted, EpochStarted, RunEnded)]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("mode", "message"),
    [("refuse", "refused initialize.*no such model"), ("exit", "ended with status 1; it said: no home here")],
)
async def test_a_harness_that_does_not_start_raises_on_entry(mode, message, tmp_path):
    """The message says what it said."""
    with pytest.raises(SourceError, match=message):
        await collect(harness(tmp_path, mode))


@pytest.mark.asyncio
async def test_a_program_that_does_not_exist_raises_on_entry(tmp_path):
    """Named, as a source that cannot be started."""
    with pytest.raises(SourceError, match="no-such-dsh"):
        await collect(dsh.stream("Go.", home=tmp_path, command=["/no-such-dsh"]))


@pytest.mark.asyncio
async def test_a_refused_prompt_is_an_outcome(tmp_path):
    """Not an exception: the run ends in error."""
    outcome = await collect(harness(tmp_path, "refuse-prompt"))
    assert ("error", "session/prompt: no such session") == (outcome.stop_reason, outcome.diagnostic)


@pytest.mark.asyncio
@pytest.mark.parametrize("deaf", [(), ("deaf",)], ids=["answers", "deaf"])
async def test_a_cancelled_run_is_completed_from_its_log(deaf, tmp_path, monkeypatch):
    """What was being streamed comes from the log; aborted, also when the harness ignores the shutdown."""
    monkeypatch.setattr(dsh._live, "_SHUTDOWN_WITHIN", 0.2)
    cancel = anyio.Event()
    async with open_run(harness(tmp_path, "hang", *deaf, cancel=cancel)) as run:
        async for event in run:
            if type(event) is Notice and event.kind == "step/start":
                cancel.set()
    outcome = run.outcome
    assert ("so far", "aborted", "reported", True) == (
        outcome.text,
        outcome.stop_reason,
        outcome.provenance,
        outcome.partial,
    )


@pytest.mark.asyncio
async def test_a_cancel_that_nobody_set_changes_nothing(tmp_path):
    """The run ends by itself."""
    outcome = await collect(harness(tmp_path, "no-wait", cancel=anyio.Event()))
    assert ("Answer 1.", "completed") == (outcome.text, outcome.stop_reason)


@pytest.mark.asyncio
async def test_a_killed_harness_is_an_error_with_what_its_log_has(tmp_path):
    """Exit status, what it said on its standard error, and the text that reached the log."""
    async with open_run(harness(tmp_path, "kill", prompts=("One.", "Two."))) as run:
        events = [event async for event in run]
    ended = events[-1]
    assert (RunEnded, "error", "unknown", -9) == (type(ended), ended.stop_reason, ended.provenance, ended.exit_status)
    assert ["process_exited"] == [event.kind for event in events if type(event) is Fault]
    assert ["about to die"] == [event.raw for event in events if type(event) is Notice and event.kind == "stderr"]
    assert "so far" == run.outcome.text


@pytest.mark.asyncio
async def test_a_harness_that_closes_its_output_is_an_error_too(tmp_path):
    """It still runs, and says no more: it is ended, and that is not a cancellation."""
    async with open_run(harness(tmp_path, "close")) as run:
        events = [event async for event in run]
    assert ("error", "unknown", None) == (run.outcome.stop_reason, run.outcome.provenance, events[-1].exit_status)
    assert ["process_exited"] == [event.kind for event in events if type(event) is Fault]


@pytest.mark.asyncio
async def test_a_harness_that_never_answers_raises_on_entry(tmp_path, monkeypatch):
    """The wait is bounded."""
    monkeypatch.setattr(dsh._live, "_READY_WITHIN", 0.3)
    with pytest.raises(SourceError, match="did not answer initialize"):
        await collect(harness(tmp_path, "mute"))


@pytest.mark.asyncio
async def test_a_session_can_be_gone_on_with(tmp_path):
    """It is restored before the prompt, which may be blocks."""
    blocks = [{"type": "text", "text": "Go on."}]
    outcome = await collect(harness(tmp_path, prompts=(blocks,), session="s", resume=True))
    assert ("Answer 1.", "completed") == (outcome.text, outcome.stop_reason)


@pytest.mark.asyncio
async def test_a_log_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    """The run ends all the same."""

    class Unreadable(dsh._live.PlainBytes):
        def push(self, data):
            raise MissingExtraError("zstd", "reading a compressed log")

    monkeypatch.setattr(dsh._live, "PlainBytes", Unreadable)
    async with open_run(harness(tmp_path, "kill")) as run:
        events = [event async for event in run]
    assert ["unread_log", "process_exited"] == [event.kind for event in events if type(event) is Fault]
    assert ("error", {}) == (run.outcome.stop_reason, dict(run.children))


@pytest.mark.asyncio
async def test_the_home_folder_has_no_default(monkeypatch):
    """Without it nothing is started; the environment's is taken."""
    monkeypatch.delenv("DSH_HOME", raising=False)
    with pytest.raises(UsageError, match="home"):
        await collect(dsh.stream("Go.", command=[sys.executable, FAKE]))


@pytest.mark.asyncio
async def test_the_harness_is_found_where_it_is_installed_or_the_extra_is_named(monkeypatch, tmp_path):
    """The SDK's own runtime, else `dsh` on the path, else the error says what to install."""

    class Runtime:
        @staticmethod
        def resolve_bundled_launch_args():
            return (sys.executable, FAKE)

    real = importlib.import_module

    def found(name, package=None):
        return Runtime if name == "deepseek_harness_runtime" else real(name, package)

    def missing(name, package=None):
        if name == "deepseek_harness_runtime":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", found)
    assert "Answer 1." == (await collect(dsh.stream("Go.", home=tmp_path))).text
    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"lastsay\[dsh\]"):
        await collect(dsh.stream("Go.", home=tmp_path))
    script = tmp_path / "dsh"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    script.chmod(0o755)
    assert "Answer 1." == (await collect(dsh.stream("Go.", home=tmp_path))).text


@pytest.mark.asyncio
async def test_the_adapter_keeps_the_contract_of_a_backend(tmp_path):
    """The shipped checks."""
    await check_backend(lambda: harness(tmp_path))


def one_of_each(rows):
    """The first row of every kind."""
    kinds = {}
    for row in rows:
        event = row.get("params", {}).get("event", row)
        kinds.setdefault((row.get("method"), event.get("type")), row)
    return list(kinds.values())


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "name",
    ["0.1.1rc1/text.wire", "0.2.1rc2/interrupted-child.wire", "0.1.1rc1/text.0.session", "0.1.5rc1/fork.0.session"],
)
async def test_the_normalisers_are_total(name, recorded):
    """Real frames and log lines, one of each kind, bent in every place: nothing is raised, one end per epoch."""
    rows = [json.loads(line) for line in (recorded / f"{name}.jsonl").read_text().splitlines()]
    wire = name.endswith("wire")
    normaliser = dsh.WireNormaliser if wire else dsh.LogNormaliser
    frames = one_of_each([row["frame"] for row in rows] if wire else rows)
    others = ("complete", "speaks", "again", "kept", "unused", "left_early", "cancelled")
    assert ("total",) == await check_backend(
        lambda: harness(recorded), normaliser=normaliser, frames=frames, skip=others
    )
