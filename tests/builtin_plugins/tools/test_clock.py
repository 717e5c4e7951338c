from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hookgate.builtin_plugins.tools.clock import describe_time

NOON = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def test_time_is_told_in_the_zone_that_was_asked_for() -> None:
    assert describe_time(NOON, "UTC") == {
        "time": "2024-02-29T12:00:00+00:00",
        "weekday": "Thursday",
        "timezone": "UTC",
        "unix": 1_709_208_000,
    }
    assert describe_time(NOON, "Asia/Tokyo")["time"] == "2024-02-29T21:00:00+09:00"
    assert describe_time(NOON, "Pacific/Kiritimati")["weekday"] == "Friday"


@pytest.mark.parametrize("name", ["Europe", "../../etc/passwd", "/etc/passwd", "", "Nowhere/Land"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected UTC or a name such as Europe/Oslo"):
        describe_time(NOON, name)


@pytest.mark.parametrize(
    ("name", "meant"), [("Europe/Olso", "Europe/Oslo"), ("tokyo", "Asia/Tokyo")]
)
def test_nearest_zone_is_named(name: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean .*{meant}"):
        describe_time(NOON, name)
