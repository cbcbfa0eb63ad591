"""What the tests of this backend share: the recorded files, and a fold per run and epoch."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from lastsay.events import EpochStarted, Event
from lastsay.fold import CANONICAL, Outcome, Policy, RunFold

Epochs = dict[tuple[str, int], Outcome]


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of the recorded files."""
    return Path(__file__).parents[3] / "fixtures" / "dsh"


@pytest.fixture(scope="session")
def frames_of(recorded: Path) -> Callable[[str], list[dict[str, Any]]]:
    """The frames of a recorded file."""

    def frames(name: str) -> list[dict[str, Any]]:
        return [json.loads(line)["frame"] for line in (recorded / name).read_text().splitlines()]

    return frames


@pytest.fixture(scope="session")
def fold_epochs() -> Callable[..., Epochs]:
    """The outcome of every epoch of every run in a list of events."""

    def fold(events: Iterable[Event], policy: Policy = CANONICAL) -> Epochs:
        folds: dict[tuple[str, int], RunFold] = {}
        at: dict[str, int] = {}
        for event in events:
            if type(event) is EpochStarted:
                at[event.run] = event.epoch
            key = (event.run, at.get(event.run, 0))
            folds.setdefault(key, RunFold(policy)).push(event)
        return {key: run.outcome() for key, run in folds.items()}

    return fold
