"""Why an epoch ended: the turn that counts, and its stop reason."""

import pytest

from lastsay.backends.dsh._work import ConsumedWork


def worked(*turns):
    """Turns as (steps, claims input, end of the turn)."""
    work = ConsumedWork()
    for number, (steps, claims, kind) in enumerate(turns, 1):
        work.turn_started(number)
        if claims:
            work.inbox_spliced({"removedCount": 1, "inserted": []})
        for _ in range(steps):
            work.step_started(number)
        if kind is not None:
            work.turn_ended(number, {"kind": kind})
    return work


@pytest.mark.parametrize(
    ("kind", "reason", "provenance"),
    [
        ("completed", "completed", "reported"),
        ("max-tokens", "max-tokens", "reported"),
        ("aborted", "aborted", "reported"),
        ("blocked", "refusal", "reported"),
        ("error", "error", "reported"),
        ("interrupted", "error", "recovered"),
        ("forked", "forked", "reported"),
    ],
)
def test_the_end_of_a_turn_that_ran_maps_by_the_table(kind, reason, provenance):
    """One stop reason per end; an unknown word passes through."""
    assert (reason, kind, provenance) == worked((1, True, kind)).stop()[:3]


@pytest.mark.parametrize(
    ("last", "reason"),
    [((0, True, "completed"), "max-tokens"), ((0, False, "error"), "max-tokens"), ((0, True, "error"), "error")],
)
def test_a_turn_without_a_step_counts_only_if_it_failed_over_claimed_input(last, reason):
    """An empty turn after a real one does not speak for the epoch; a claim that failed does."""
    assert reason == worked((2, True, "max-tokens"), last).stop()[0]


def test_accepted_input_that_was_cancelled_makes_a_completed_epoch_an_aborted_one():
    """Dropped with nothing in its place, after the turn that counts."""
    work = worked((1, True, "completed"))
    work.inbox_spliced({"removedCount": 1, "outcome": "canceled", "inserted": [{}]})
    assert "completed" == work.stop()[0]
    work.inbox_spliced({"removedCount": 1, "outcome": "canceled", "inserted": []})
    assert ("aborted", "recovered") == (work.stop()[0], work.stop()[2])


def test_an_open_turn_or_none_says_nothing():
    """Without an end that counts there is no stop reason to report."""
    assert worked((1, True, None)).stop() is None
    assert worked().stop() is None


@pytest.mark.parametrize(
    ("turns", "said", "reason"),
    [
        ((), "aborted", "aborted"),
        (((1, True, None),), "aborted", "aborted"),
        (((1, True, "completed"),), "error", "error"),
        (((1, True, "interrupted"),), "aborted", "aborted"),
        (((1, True, "max-tokens"),), "completed", "max-tokens"),
        (((1, True, "error"),), "completed", "error"),
    ],
)
def test_the_harness_own_end_decides_only_where_the_turns_do_not(turns, said, reason):
    """No turn end, a repaired one, a failure that turns cannot show; never a success against the turns."""
    assert reason == worked(*turns).stop(said)[0]


def test_the_diagnostic_names_code_status_and_message():
    """An error's facts, in one line."""
    work = worked((1, True, None))
    work.turn_ended(1, {"kind": "error", "error": {"code": "RATE_LIMIT", "status": 429, "message": "slow down"}})
    assert "RATE_LIMIT 429: slow down" == work.stop()[3]
