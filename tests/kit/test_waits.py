"""How long the other side asks to wait: read in one way, and bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate import ChannelError, EmbeddingError
from hookgate.core.domain.errors import ProviderError, wait_of
from hookgate.kit.durations import retry_after

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "30"}, 30.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "99999999"}, 86_400.0),
        ({"retry-after": "9" * 400}, 86_400.0),
        ({"retry-after": "9" * 4000}, 86_400.0),
        ({"retry-after": "-" + "9" * 400}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 86_400.0),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "1e3"}, None),
        ({"retry-after": "\u0663\u0660"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:45 GMT"}, 45.0),
        ({"retry-after": "Sat, 21 Nov 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:45"}, 45.0),
        ({"retry-after": "Sat, 99 Nov 2026 10:00:45 GMT"}, None),
        (
            {
                "retry-after": "Sat, 21 Nov 2020 10:00:45 GMT",
                "date": "Sat, 21 Nov 2020 10:00:00 GMT",
            },
            45.0,
        ),
        ({"retry-after": "30", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "30", "retry-after-ms": "x"}, 30.0),
    ],
)
def test_the_wait_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, NOW) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_breaks_the_reading_of_the_wait(value: str, date: str) -> None:
    found = retry_after({"retry-after": value, "date": date, "retry-after-ms": date}, NOW)
    assert found is None or 0 <= found <= 86_400


@given(st.datetimes(min_value=datetime(2002, 1, 1)), st.integers(-(10**9), 10**9))
def test_a_date_is_read_as_the_seconds_until_then(now: datetime, seconds: int) -> None:
    now = now.replace(tzinfo=UTC, microsecond=0)
    try:
        at = now + timedelta(seconds=seconds)
    except OverflowError:
        return
    found = retry_after({"retry-after": format_datetime(at, usegmt=True)}, now)
    assert found == min(max(seconds, 0), 86_400)


@given(st.integers(min_value=-(10**500), max_value=10**500))
def test_seconds_of_any_size_are_bounded_as_numbers_and_as_text(seconds: int) -> None:
    right = min(max(seconds, 0), 86_400)
    assert wait_of(seconds) == right
    assert wait_of(str(seconds)) == right


@given(st.one_of(st.none(), st.booleans(), st.floats(), st.text(), st.lists(st.integers())))
def test_what_is_no_wait_is_none_and_what_is_one_is_bounded(value: object) -> None:
    found = wait_of(value)
    assert found is None or (type(found) is float and 0 <= found <= 86_400)


@pytest.mark.parametrize("asked", [float("inf"), 10**400, 86_401])
def test_no_error_asks_for_more_than_a_day(asked: float) -> None:
    made = (
        ChannelError("busy", retry_after=asked),
        EmbeddingError("busy", retry_after=asked),
        ProviderError("rate_limited", "busy", retry_after=asked),
    )
    assert [error.retry_after for error in made] == [86_400.0] * 3
