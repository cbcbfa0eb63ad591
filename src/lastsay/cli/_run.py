"""``lastsay run``: run a child agent, and print what it finally said."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import anyio
import click

from lastsay.cli import _run_acp
from lastsay.cli._status import INTERRUPTED, status_of
from lastsay.errors import UsageError
from lastsay.events import COMPLETED, Event, RunStarted, TextDelta, encode_many
from lastsay.fold import POLICIES, Policy, policy_named
from lastsay.logs import FoldedRun

if TYPE_CHECKING:
    from lastsay.operators import Stream
    from lastsay.run import Activation, Run

__all__ = ("command",)


def _claude(prompt: str, given: Mapping[str, Any]) -> "Stream":
    from lastsay.backends import claude

    if given.get("program"):
        raise UsageError("claude takes no command: quote the prompt, and leave out what stands after it")
    try:
        from claude_agent_sdk import ClaudeAgentOptions
    except ImportError:
        return claude.stream(prompt)  # which says what is missing
    fields: dict[str, Any] = {
        "model": given["model"],
        "cwd": given["cwd"],
        "max_turns": given["max_turns"],
        "permission_mode": given["permission_mode"],
        "allowed_tools": list(given["allow"]),
        "stderr": _unheard,
    }
    if given["tool"]:
        fields["tools"] = list(given["tool"])
    return claude.stream(prompt, ClaudeAgentOptions(**fields))


def _unheard(line: str) -> None:
    """Its end is in the diagnostic of a run that failed."""


_BACKENDS: Final[Mapping[str, Callable[[str, Mapping[str, Any]], "Stream"]]] = {
    "acp": _run_acp.stream,
    "claude": _claude,
}
"""A new backend is one function that makes its stream of the options, and one entry here."""


@click.command("run")
@click.argument("backend", type=click.Choice(sorted(_BACKENDS)))
@click.argument("prompt")
@click.argument("program", metavar="[-- COMMAND...]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each run, one a line; the root comes last.")
@click.option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Write all events to this file.")
@click.option(
    "--policy",
    "policy_name",
    type=click.Choice(sorted(POLICIES)),
    default="canonical",
    help="The rule that selects the output.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds until the child is cancelled.")
@click.option("--model", help="The model, as the harness names it.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The child's working directory.",
)
@click.option("--tool", multiple=True, help="A tool that the child has, not the harness's own; may be repeated.")
@click.option("--allow", multiple=True, metavar="RULE", help="A tool that needs no permission; may be repeated.")
@click.option("--max-turns", type=click.IntRange(min=1), help="Turns after which the harness stops.")
@click.option(
    "--permission-mode",
    type=click.Choice(["default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
    help="What the harness does about permissions.",
)
def command(
    backend: str,
    prompt: str,
    *,
    as_json: bool,
    record: Path | None,
    policy_name: str,
    timeout: float | None,
    **given: Any,
) -> int:
    """Run a child agent and print what it finally said.

    BACKEND is the harness; PROMPT is the task, or - for standard input. The backend acp runs any agent that speaks the
    Agent Client Protocol: its COMMAND stands after --, and it is denied what it asks permission for unless
    --permission-mode is bypassPermissions. While the child works, its text is shown on
    standard error if that is a terminal; standard output gets the final text only. A diagnostic goes to standard error.

    Exit status, by stop reason: 0 completed, 3 max-tokens, 4 refusal, 5 aborted, 6 error or unknown; 130 after Ctrl-C,
    when the text so far is printed all the same.
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    stream = _BACKENDS[backend](text, given)
    opened = record.open("wb") if record is not None else nullcontext(None)
    with opened as sink, _live() as live:
        reading = _Reading(stream, policy_named(policy_name), timeout, sink, live)
        interrupted = False
        try:
            anyio.run(reading.read)
        except KeyboardInterrupt:  # by then the run is settled, and its source closed
            interrupted = True
    status = _report(reading.run, as_json=as_json) if reading.run is not None else 0
    return INTERRUPTED if interrupted else status


class _Reading:
    """Reads one run to its end, whatever ends it."""

    def __init__(
        self,
        stream: "Stream",
        policy: Policy,
        timeout: float | None,
        sink: BinaryIO | None,
        show: Callable[[str], None] | None,
    ) -> None:
        self._stream, self._policy, self._timeout = stream, policy, timeout
        self._sink, self._show = sink, show
        self.run: Run | None = None  # None: it was never opened

    async def read(self) -> None:
        """Read to the end, or to the time limit."""
        from lastsay.run import open_run

        with anyio.move_on_after(self._timeout):
            async with open_run(self._stream, policy=self._policy) as run:
                self.run = run
                async for batch in run.batches():
                    self._take(batch)

    def _take(self, batch: list[Event]) -> None:
        if self._sink is not None:
            self._sink.write(encode_many(batch))
            self._sink.flush()
        if self._show is not None:
            for event in batch:
                if type(event) is TextDelta:
                    self._show(event.text)
                elif type(event) is RunStarted and event.parent is not None:
                    self._show(f"\n[{event.agent or event.run} starts]\n")


def _live() -> AbstractContextManager[Callable[[str], None] | None]:
    """Shows the newest lines of the streamed text on a terminal, and takes them away at the end."""
    if not sys.stderr.isatty():
        return nullcontext(None)
    from lastsay.cli._live import Live

    return Live()


def _report(run: "Run", *, as_json: bool) -> int:
    outcome = run.outcome
    if as_json:
        for activation in sorted(run.activations, key=lambda activation: activation is run.root):
            click.echo(json.dumps(_folded(activation).as_json()))
        return status_of(outcome.stop_reason)
    if outcome.text:
        click.echo(outcome.text)
    if outcome.stop_reason != COMPLETED:
        evidence = f" ({', '.join(outcome.evidence)})" if outcome.evidence else ""
        diagnostic = f": {outcome.diagnostic}" if outcome.diagnostic else ""
        click.echo(f"lastsay: {outcome.stop_reason}{evidence}{diagnostic}", err=True)
    return status_of(outcome.stop_reason)


def _folded(activation: "Activation") -> FoldedRun:
    start, outcome = activation.start, activation.outcome
    assert outcome is not None
    return FoldedRun(start.run, start.parent, start.agent, outcome)
