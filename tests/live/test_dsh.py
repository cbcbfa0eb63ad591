"""The real DeepSeek Harness, two versions of it, over its SDK protocol: live, from its logs, and by its own answer."""

import os
import signal
from collections import Counter
from pathlib import Path

import anyio
import pytest

from lastsay.backends import dsh
from lastsay.backends.dsh._blocks import blocks_of
from lastsay.events import EpochStarted, Fault, Notice, RunStarted
from lastsay.fold import RunFold
from lastsay.run import open_run
from lastsay.testing.model_server import CallTool, Say, Scenario, marker, model_server

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("0.2.1rc2", "0.1.5rc1")
ANSWER = "The harbour opens at six and the ferry leaves at seven."
CHILDREN = ("tool-then-text", "tool-then-cut", "whitespace", "http-400")


def parallel(arguments):
    """A parent that starts four children at once."""
    calls = [
        CallTool(
            "subagent",
            {"description": "a child", "prompt": f"Child {name}. {marker(name)}", "run_in_background": False},
        )
        for name in CHILDREN
    ]
    return (Say("I hand this over."), *calls), (Say("The children have reported."),)


def follow_up(child):
    """A parent that gives its child a second message, once it knows its id."""
    options = {"description": "a child", "prompt": f"Begin. {marker('text', text='First answer.')}"}
    again = CallTool("send_message", {"agent_id": child, "message": marker("tool-then-cut")})
    waits = (Say("I wait."),)
    first = CallTool("subagent", {**options, "run_in_background": True})
    return (Say("I hand this over."), first), waits, (Say("Once more."), again), waits, (Say("Both have come."),)


LOOK = CallTool("lookup", {"query": "the opening hours"})
CUT = CallTool("lookup", {"query": "the fares"}, cut=True)
SCENARIOS = (
    Scenario("tool-then-cut", "", ((Say("I look."), LOOK), (CUT,))),
    Scenario("parallel", "", parallel),
    Scenario("follow-up", "", follow_up("")),
)


@pytest.fixture(scope="module")
def server():
    """The scripted model."""
    with model_server(scenarios=SCENARIOS) as running:
        yield running


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory):
    """A HOME for all runs: each new one has 80 MB unpacked into it."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(params=VERSIONS)
def harness(request, server, shared_home, tmp_path):
    """Makes a stream of the real harness."""
    program = ROOT / f".venv-dsh-{request.param}" / "bin" / "dsh"
    assert program.is_file(), f"run scripts/install_dsh.py: {program} is missing"
    return Harness(request.param, program, server, shared_home, tmp_path)


class Harness:
    """One version, one working folder; every run has a home folder of its own."""

    def __init__(self, version, program, server, home, folder):
        self.version = version
        self.server = server
        self._program = program
        self._home = home
        self._folder = folder

    def home(self, name):
        """The harness's home folder of the run of that name."""
        return self._folder / name

    def stream(self, scenario, follow_up=None, **options):
        """The stream of one scenario."""
        home = self.home(scenario)
        home.mkdir()
        url = self.server.url
        env = {
            "HOME": str(self._home), "DEEPSEEK_API_KEY": "none", "DEEPSEEK_BASE_URL": url,
            "DEEPSEEK_SEARCH_BASE_URL": url, "DSH_TELEMETRY_MODE": "DISABLED", "DSH_TELEMETRY_OTLP_URL": url,
        }  # fmt: skip
        prompts = [f"Please do it. {marker(scenario)}", *([follow_up] if follow_up else [])]
        return dsh.stream(
            *prompts, home=home, cwd=self._folder, env=env, session="root",
            command=[str(self._program), "--profile", "sdk"], **options,
        )  # fmt: skip

    async def run(self, scenario, react=None, **options):
        """The finished run and its events."""
        async with open_run(self.stream(scenario, **options)) as run:
            events = []
            async for event in run:
                events.append(event)
                if react is not None:
                    react(event)
        return run, events

    async def run_all(self, *scenarios):
        """The finished runs of several scenarios, side by side: they wait more than they work."""
        runs = {}

        async def one(scenario):
            runs[scenario], _ = await self.run(scenario)

        unpacked = self._home / f"unpacked-{self.version}"
        if not unpacked.exists():  # two first runs at once unpack over each other, and one of them may die of SIGBUS
            await one(scenarios[0])
            unpacked.touch()
            scenarios = scenarios[1:]
        async with anyio.create_task_group() as tasks:
            for scenario in scenarios:
                tasks.start_soon(one, scenario)
        return runs

    async def asked(self, scenario):
        """Wait until the model has been streaming for a moment."""
        while not self.server.played(scenario):  # noqa: ASYNC110  (it is asked in another thread)
            await anyio.sleep(0.05)
        await anyio.sleep(1.0)

    def logged(self, scenario):
        """The digests of every session's epochs, from the logs."""
        found = {}
        for path in self.home(scenario).glob("sessions/*/*/session*.zstd"):
            folds = [RunFold()]
            for batch in dsh.events_of(path):
                for event in batch:
                    if type(event) is EpochStarted:
                        folds.append(RunFold())
                    folds[-1].push(event)
            tail = RunFold()
            for event in dsh.tail_of(path):
                tail.push(event)
            digests = [fold.outcome().digest for fold in folds]
            assert digests[-1] == tail.outcome().digest
            found[path.parent.name.replace("root", "main")] = digests
        return found


def live(run):
    """The digests of every run's epochs."""
    found = {}
    for activation in run.activations:
        found.setdefault(activation.start.run, []).append(activation.outcome.digest)
    return found


def told(events):
    """The harness's own answers: output and stop reason of every child epoch."""
    epochs, answers = Counter(), {}
    for event in events:
        if type(event) is Notice and event.kind == "subagent_finished":
            answer = (blocks_of(event.raw.get("lastAssistantMessage", [])), event.raw["stopReason"])
            answers[event.run, epochs[event.run]] = answer
            epochs[event.run] += 1
    return answers


def children_of(run):
    """Our answers, in the same form."""
    return {
        (activation.start.run, activation.start.epoch): (
            activation.outcome.output or (),
            activation.outcome.stop_reason,
        )
        for activation in run.activations
        if activation.start.run != "main"
    }


@pytest.mark.asyncio
async def test_a_run_has_the_outcome_that_its_log_has(harness):
    """Normal; text and tool, then max-tokens with a cut call; refused (an error in this harness); HTTP error."""
    runs = await harness.run_all("text", "tool-then-cut", "refusal-after-text", "http-400")
    assert {
        "text": (ANSWER, "completed"),
        "tool-then-cut": ("I look.", "max-tokens"),
        "refusal-after-text": ("I look it up.", "error"),
        "http-400": (None, "error"),
    } == {name: (run.outcome.text, run.outcome.stop_reason) for name, run in runs.items()}
    for name, run in runs.items():
        assert ("reported", 0) == (run.outcome.provenance, run.outcome.counts.faults)
        assert harness.logged(name) == live(run)


@pytest.mark.asyncio
async def test_runs_that_are_retried_keep_their_text(harness):
    """Text and tool, then an empty end; an empty answer; a dropped connection: each is retried, and ends in error."""
    runs = await harness.run_all("tool-then-empty", "empty", "cut-always")
    texts = {name: run.outcome.text for name, run in runs.items()}
    assert {"tool-then-empty": "I look it up.", "empty": None, "cut-always": ANSWER * 6} == texts
    assert {"error"} == {run.outcome.stop_reason for run in runs.values()}
    for name, run in runs.items():
        assert harness.logged(name) == live(run)


@pytest.mark.asyncio
async def test_a_run_cancelled_in_mid_stream_keeps_its_text(harness):
    """Shutdown, then the log: aborted, partial, and nothing is left running."""
    cancel = anyio.Event()
    finished = []
    async with anyio.create_task_group() as tasks:

        async def run_it():
            finished.append(await harness.run("hang", cancel=cancel))

        tasks.start_soon(run_it)
        await harness.asked("hang")
        cancel.set()
    ((run, _),) = finished
    assert ("So far I know that the harbour", "aborted", "reported", True) == (
        run.outcome.text,
        run.outcome.stop_reason,
        run.outcome.provenance,
        run.outcome.partial,
    )
    assert harness.logged("hang") == live(run)
    assert [] == processes_of(harness.home("hang"))
    harness.server.requests.clear()


@pytest.mark.asyncio
async def test_a_run_killed_in_mid_stream_is_an_error(harness):
    """SIGKILL: the stream is lost in this harness, wire and log alike; the end says so, with the exit status."""
    finished = []
    async with anyio.create_task_group() as tasks:

        async def run_it():
            finished.append(await harness.run("hang"))

        tasks.start_soon(run_it)
        await harness.asked("hang")
        for pid in processes_of(harness.home("hang")):
            os.kill(pid, signal.SIGKILL)
    ((run, events),) = finished
    assert ("error", "unknown", None) == (run.outcome.stop_reason, run.outcome.provenance, run.outcome.text)
    assert -signal.SIGKILL == events[-1].exit_status
    assert ["process_exited"] == [event.kind for event in events if type(event) is Fault]
    assert harness.logged("hang") == live(run)
    harness.server.requests.clear()


def processes_of(home):
    """The processes that were started with that home folder."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"DSH_HOME={home}".encode() in environ.read_bytes().split(b"\0"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.asyncio
async def test_four_parallel_children_agree_with_the_harness(harness):
    """Each child's output and stop reason are the harness's own; each is tied to the call that caused it."""
    run, events = await harness.run("parallel")
    assert 4 == len(run.children)
    assert told(events) == children_of(run)
    assert {"completed", "max-tokens", "error"} == {stop for _, stop in children_of(run).values()}
    assert 4 == len({event.call for event in events if type(event) is RunStarted and event.parent == "main"} - {None})
    assert harness.logged("parallel") == live(run)
    assert "The children have reported." == run.outcome.text


@pytest.mark.asyncio
async def test_a_continued_child_agrees_with_the_harness_in_each_epoch(harness):
    """A second message to a settled child: one run, two activations, two answers of its own."""

    def know_the_child(event):
        if type(event) is RunStarted and event.parent == "main":
            harness.server.register(Scenario("follow-up", "", follow_up(event.run)))

    run, events = await harness.run("follow-up", know_the_child)
    answers = told(events)
    assert ["completed", "max-tokens"] == [stop for _, stop in answers.values()]
    assert answers == children_of(run)
    assert harness.logged("follow-up") == live(run)


@pytest.mark.asyncio
async def test_two_prompts_are_two_epochs(harness):
    """A follow-up prompt of our own is sent when all is quiet."""
    run, _ = await harness.run("text", follow_up=marker("whitespace"))
    assert [(ANSWER, 0), (" \n\t", 1)] == [(a.outcome.text, a.outcome.epoch) for a in run.activations]
    assert harness.logged("text") == live(run)
