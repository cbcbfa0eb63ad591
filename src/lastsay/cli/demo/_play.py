"""Plays a scenario twice at the same time: on the bare SDK, and through lastsay with three consumers."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from lastsay.backends import claude
from lastsay.cli.demo._cases import READABLE, Case
from lastsay.cli.demo._native import kill_recorded, native_result
from lastsay.consumers import Consumer, DelegationResult, lifecycle, telemetry, tool_result
from lastsay.events import MAIN, TextDelta
from lastsay.fold import CANONICAL, Outcome, Policy
from lastsay.run import Run, open_run
from lastsay.testing import claude_offline_options
from lastsay.testing.model_server import ModelServer

__all__ = ("Shown", "play")

_LIMIT: Final = 60.0
"""Seconds for one scenario."""

_WRAPPER: Final = """#!/bin/sh
echo $$ > "$LASTSAY_DEMO_PID"
exec "$LASTSAY_DEMO_CLI" "$@"
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What one scenario came to, on both sides."""

    case: Case
    native: dict[str, Any]
    outcome: Outcome
    tool_result: DelegationResult
    end_event: dict[str, Any]
    span: dict[str, Any]

    @property
    def digests(self) -> tuple[str | None, ...]:
        """The digests that tool result, end event and span carry."""
        attributes = self.span.get("attributes", {})
        return self.tool_result.digest, self.end_event.get("digest"), attributes.get("lastsay.output.digest")

    @property
    def agreed(self) -> bool:
        """Whether all three consumers were told the same."""
        return set(self.digests) == {self.outcome.digest}

    @property
    def kept(self) -> bool:
        """Whether there is an agreed text that the harness's own result does not hold."""
        return bool(self.outcome.text) and (self.outcome.text or "") not in (self.native["text"] or "")

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "scenario": self.case.name,
            "native": self.native,
            "outcome": self.outcome.model_dump(mode="json"),
            "tool_result": self.tool_result.model_dump(mode="json"),
            "end_event": self.end_event,
            "span": self.span,
            "digests_equal": self.agreed,
        }


class _Told:
    """What the consumers were told, of all runs."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._ends: list[dict[str, Any]] = []
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.consumers: tuple[Consumer, ...] = (
            telemetry(tracer_provider=provider),
            lifecycle(on_end=self._ends.append),
        )

    def end_of(self, run: str) -> dict[str, Any]:
        return next((event for event in self._ends if event["id"] == run), {})

    def span_of(self, run_id: str) -> dict[str, Any]:
        for span in self._exporter.get_finished_spans():
            attributes = dict(span.attributes or {})
            if attributes.get("lastsay.run.id") == run_id:
                return {"name": span.name, "status": span.status.status_code.name, "attributes": attributes}
        return {}


async def play(case: Case, server: ModelServer, *, policy: Policy = CANONICAL) -> Shown:
    """Play one scenario on the real native CLI; needs claude-agent-sdk and opentelemetry-sdk.

    Args:
        case: the scenario.
        server: the scripted model.
        policy: the selection rule.

    Raises:
        SourceError: the CLI cannot be started.
        TimeoutError: the scenario did not end in time.
    """
    native: dict[str, Any] = {}
    with TemporaryDirectory(prefix="lastsay-demo-", ignore_cleanup_errors=True) as folder, anyio.fail_after(_LIMIT):
        sides = [_Side(case, server, Path(folder) / name) for name in ("native", "lastsay")]

        async def control() -> None:
            side = sides[0]
            native.update(await native_result(case, side.options, side.work, side.pid_file))

        async with anyio.create_task_group() as group:
            group.start_soon(control)
            told = _Told()
            run = await _through_lastsay(case, sides[1], told, policy)
    activation = next(iter(run.children.values()), run.root) if case.child else run.root
    assert activation is not None and activation.outcome is not None
    start, outcome = activation.start, activation.outcome
    return Shown(case, native, outcome, tool_result(outcome), told.end_of(start.run), told.span_of(start.run_id))


class _Side:
    """One of the two children: its folders and its options."""

    def __init__(self, case: Case, server: ModelServer, home: Path) -> None:
        home.mkdir()
        self.pid_file = home / "pid"
        fields: dict[str, Any] = {
            "tools": list(case.tools),
            "include_partial_messages": True,
            "max_turns": 12,
            "stderr": _quiet,  # else the SDK lets the CLI write onto our terminal
        }
        env: dict[str, str] = {}
        if case.disturb == "kill":
            fields["cli_path"], env = self._wrapped(home)
        fields["forward_subagent_text"] = True
        self.options = claude_offline_options(server.url, home, env=env, **fields)
        self.work = Path(str(self.options.cwd))
        (self.work / READABLE).write_text("Ferry: 07:00, north pier\n")

    def _wrapped(self, home: Path) -> tuple[str, dict[str, str]]:
        """The CLI behind a script that writes down its process id."""
        wrapper = home / "claude"
        wrapper.write_text(_WRAPPER)
        wrapper.chmod(0o700)
        return str(wrapper), {"LASTSAY_DEMO_CLI": _native_cli(), "LASTSAY_DEMO_PID": str(self.pid_file)}


def _quiet(line: str) -> None:
    """Nobody wants it."""


def _native_cli() -> str:
    import claude_agent_sdk

    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    return str(bundled) if bundled.exists() else shutil.which("claude") or "claude"


async def _through_lastsay(case: Case, side: _Side, told: _Told, policy: Policy) -> Run:
    stream = claude.stream(case.prompt(side.work), side.options)
    streamed: list[str] = []
    with anyio.CancelScope() as scope:
        async with open_run(stream, policy=policy, consumers=told.consumers) as run:
            disturbed = case.disturb is None
            async for event in run:
                if type(event) is TextDelta and event.run == MAIN:
                    streamed.append(event.text)
                if not disturbed and "".join(streamed) == case.streamed:
                    disturbed = True
                    if case.disturb == "kill":
                        with suppress(ProcessLookupError):
                            kill_recorded(side.pid_file)
                    else:
                        scope.cancel()
    return run
