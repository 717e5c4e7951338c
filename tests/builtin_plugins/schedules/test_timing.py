"""When a schedule is due, daylight-saving changes included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.examples import sampled

from hookgate.builtin_plugins.schedules.settings import JobSettings
from hookgate.builtin_plugins.schedules.timing import Timing

CHANGES = {
    ("Europe/Berlin", "2026-03-29"): "forward",
    ("Europe/Berlin", "2026-10-25"): "back",
    ("America/New_York", "2026-03-08"): "forward",
    ("America/New_York", "2026-11-01"): "back",
    ("Australia/Lord_Howe", "2026-10-04"): "forward",
    ("Australia/Lord_Howe", "2026-04-05"): "back",
}


def on(day: str, timing: Timing) -> list[str]:
    """When something is due on a day of its zone, as its clocks show it."""
    zone = ZoneInfo(timing.zone)
    begin = datetime.fromisoformat(day).replace(tzinfo=zone)
    end = (begin + timedelta(days=1)).astimezone(UTC)
    due = timing.between(begin.astimezone(UTC) - timedelta(seconds=1), end - timedelta(seconds=1))
    return [one.astimezone(zone).strftime("%H:%M %z") for one in due]


@pytest.mark.parametrize(
    ("day", "zone", "cron", "due"),
    [
        # The hour from two to three is not there: it comes as soon as the gap is over.
        ("2026-03-29", "Europe/Berlin", "30 2 * * *", ["03:00 +0200"]),
        ("2026-03-08", "America/New_York", "30 2 * * *", ["03:00 -0400"]),
        ("2026-10-04", "Australia/Lord_Howe", "15 2 * * *", ["02:30 +1100"]),
        # It is there twice: the first counts.
        ("2026-10-25", "Europe/Berlin", "30 2 * * *", ["02:30 +0200"]),
        ("2026-11-01", "America/New_York", "30 1 * * *", ["01:30 -0400"]),
        ("2026-04-05", "Australia/Lord_Howe", "45 1 * * *", ["01:45 +1100"]),
        # What is due as often as the clock fits has both hours, and none of the gap.
        ("2026-10-25", "Europe/Berlin", "*/30 2 * * *", ["02:00 +0200", "02:30 +0200",
                                                         "02:00 +0100", "02:30 +0100"]),
        ("2026-03-29", "Europe/Berlin", "*/30 2 * * *", []),
        ("2026-04-05", "Australia/Lord_Howe", "*/15 2 * * *", ["02:00 +1030", "02:15 +1030",
                                                               "02:30 +1030", "02:45 +1030"]),
        ("2026-10-04", "Australia/Lord_Howe", "*/15 2 * * *", ["02:30 +1100", "02:45 +1100"]),
    ],
)  # fmt: skip
def test_changes_of_clocks(day: str, zone: str, cron: str, due: list[str]) -> None:
    assert on(day, Timing(cron=cron, zone=zone)) == due


@pytest.mark.parametrize(("place", "change"), sampled(CHANGES.items(), every=3))
@pytest.mark.parametrize("cron", ["*/10 * * * *", "0 */2 * * *", "*/7 1-3 * * *", "* 2 * * *"])
def test_what_fits_the_clock_is_due_in_every_such_minute(
    place: tuple[str, str], change: str, cron: str
) -> None:
    zone, day = place
    fits = Timing(cron=cron)  # in UTC, whose clocks never change
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=12)
    found = list(Timing(cron=cron, zone=zone).between(begin, begin + timedelta(days=1)))
    expected = []
    for number in range(1, 1440 + 1):
        moment = begin + timedelta(minutes=number)
        wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)
        if fits.after(wall - timedelta(minutes=1)) == wall:
            expected.append(moment)
    assert found == expected, change


@pytest.mark.parametrize(("zone", "day"), sampled(CHANGES, every=3))
@given(
    st.sampled_from(["30 2 * * *", "45 1 * * *", "15 1,2,3 * * *", "*/20 1-3 * * *"]),
    st.integers(1, 1200),
)
def test_wherever_one_looks_from_the_same_times_are_due(
    zone: str, day: str, cron: str, offset: int
) -> None:
    timing = Timing(cron=cron, zone=zone)
    begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(hours=12)
    end = begin + timedelta(days=1)
    whole = list(timing.between(begin, end))
    edges = [begin + timedelta(seconds=offset + 1200 * number) for number in range(71)]
    pairs = pairwise([begin, *edges, end])
    parts = [due for one, other in pairs for due in timing.between(one, other)]
    assert parts == whole == sorted(set(whole))
    assert timing.last(begin, end) == (whole[-1] if whole else None)


def test_a_length_of_time_is_counted_from_the_same_moment_everywhere() -> None:
    timing = Timing(every=timedelta(minutes=90))
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    due = timing.after(noon)
    assert due is not None
    assert (due - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(minutes=90) == timedelta()
    assert list(timing.between(noon, noon + timedelta(hours=3))) == [
        due,
        due + timedelta(hours=1.5),
    ]
    assert timing.after(due) == due + timedelta(hours=1.5)


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({}, "either `cron` or `every`"),
        ({"cron": "* * * * *", "every": "1h"}, "either `cron` or `every`"),
        ({"cron": "* * * *"}, "with 4 fields, expected five"),
        ({"cron": "*/5 * * * * *"}, "for seconds there is `every`"),
        ({"cron": "61 * * * *"}, "bad minute, expected a line of cron"),
        ({"cron": "@daily"}, "expected five"),
        ({"cron": "0 0 31 2 *"}, "bad day-of-month"),
        ({"cron": "* * */20 * 1L"}, "which no day fits"),
        ({"cron": "0 8 * * *", "zone": "Europe/Berlim"}, "a name of the IANA database"),
        ({"cron": "0 8 * * *", "zone": "Europe"}, "a name of the IANA database"),
        ({"every": "often"}, "expected 90s, 10m, 2h or 7d"),
        ({"every": "0s"}, "greater than or equal to 1"),
    ],
)
def test_what_is_never_due_is_refused(given_: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        JobSettings.model_validate({"text": "hello", **given_})
