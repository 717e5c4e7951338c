from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from hookgate.kit.durations import Days, Seconds, moment, seconds_of, told


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800), ("1.5h", 5400), ("0.25s", 0.25)],
)
def test_a_length_of_time_is_read_and_told(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert seconds_of(told(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-1s", "1w", "10 m", "1e3s", "1h30m", "ten"])
def test_what_is_no_length_of_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="expected 90s, 10m, 2h or 7d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [("7d", "2024-02-22T12:00+00:00"), ("2024-02-29T01:00+02:00", "2024-02-28T23:00+00:00")],
)
def test_a_moment_is_a_time_or_so_long_ago(text: str, at: str) -> None:
    now = datetime(2024, 2, 29, 12, tzinfo=UTC)
    assert moment(text, now) == datetime.fromisoformat(at)


def test_a_moment_without_a_zone_is_in_utc_wherever_the_machine_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert moment("2024-02-29T12:00", datetime.now(UTC)) == datetime(
            2024, 2, 29, 12, tzinfo=UTC
        )
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "soon", "999999999d", "0001-01-01T00:00+14:00"])
def test_what_is_no_moment_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="expected a time such as 2024-02-29T12:00, or 90s"):
        moment(text, datetime(2024, 2, 29, 12, tzinfo=UTC))


def test_settings_take_numbers_as_well() -> None:
    seconds, days = TypeAdapter[float](Seconds), TypeAdapter[float](Days)
    assert [seconds.validate_python(one) for one in (120, 0.5, "2m")] == [120, 0.5, 120]
    assert [days.validate_python(one) for one in (30, "30d", "12h")] == [30, 30, 0.5]
    with pytest.raises(ValidationError, match="expected 90s"):
        seconds.validate_python("soon")
