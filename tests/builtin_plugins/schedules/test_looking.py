"""What one look at the clock finds to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.schedules.settings import JobSettings
from hookgate.builtin_plugins.schedules.timing import COUNTED, Missed, Timing, look, spread

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def job(**more: Any) -> JobSettings:
    return JobSettings.model_validate({"every": "1h", "text": "hello", **more})


def test_what_is_due_begins_and_what_is_not_waits() -> None:
    found = look(job(), "seed", NOON, NOON + HOUR)
    assert (found.due, found.missed, found.late) == (NOON + HOUR, None, False)
    assert (found.cursor, found.wake) == (NOON + HOUR, NOON + 2 * HOUR)
    found = look(job(), "seed", NOON, NOON + HOUR / 2)
    assert (found.due, found.missed, found.cursor) == (None, None, NOON)
    assert found.wake == NOON + HOUR


def test_what_nobody_has_begun_in_time_is_missed() -> None:
    late = NOON + 3 * HOUR + timedelta(seconds=61)
    found = look(job(), "seed", NOON, late)
    assert found.missed == Missed(first=NOON + HOUR, last=NOON + 3 * HOUR, count=3)
    assert (found.due, found.cursor) == (None, NOON + 3 * HOUR)
    assert str(found.missed) == "3 runs from 2026-03-01 13:00:00 to 2026-03-01 15:00:00 UTC"
    # Within the grace, the last one is none of them.
    found = look(job(grace="2m"), "seed", NOON, late)
    assert (found.due, found.late) == (NOON + 3 * HOUR, False)
    assert found.missed is not None
    assert found.missed.count == 2


def test_of_those_that_were_missed_the_last_is_made_up_for_once() -> None:
    found = look(job(missed="once"), "seed", NOON, NOON + 3.5 * HOUR)
    assert (found.due, found.late) == (NOON + 3 * HOUR, True)
    assert found.missed is not None
    assert (found.missed.count, found.missed.last) == (2, NOON + 2 * HOUR)
    assert look(job(missed="once"), "seed", found.cursor, NOON + 3.6 * HOUR).due is None


def test_a_clock_that_was_put_back_makes_nothing_due_twice() -> None:
    found = look(job(), "seed", NOON, NOON - 5 * HOUR)
    assert (found.due, found.missed, found.cursor) == (None, None, NOON)
    # The first time that is not settled yet.
    assert found.wake == NOON + HOUR


def test_of_very_many_it_is_said_that_there_were_more() -> None:
    found = look(job(every="1m", missed="once"), "seed", NOON, NOON + timedelta(days=2, seconds=99))
    assert found.missed is not None
    assert (found.missed.more, found.missed.count) == (True, COUNTED - 1)
    assert found.due == NOON + timedelta(days=2, minutes=1)
    assert str(found.missed).startswith("more than 999 runs from ")


@given(st.floats(0, 86_400), st.text(max_size=9), st.integers(0, 500))
def test_chance_never_reaches_the_next_run(jitter: float, seed: str, number: int) -> None:
    timing = Timing(every=timedelta(minutes=10))
    planned = NOON + number * timedelta(minutes=10)
    waits = spread(timing, jitter, seed, planned)
    assert timedelta() <= waits <= timedelta(seconds=min(jitter, 300))
    assert spread(timing, jitter, seed, planned) == waits


def test_a_run_waits_for_its_chance() -> None:
    one = job(jitter="10m")
    begins = NOON + HOUR + spread(one.timing, 600, "seed", NOON + HOUR)
    assert begins > NOON + HOUR
    found = look(one, "seed", NOON, NOON + HOUR)
    assert (found.due, found.cursor, found.wake) == (None, NOON, begins)
    assert look(one, "seed", NOON, begins).due == NOON + HOUR
