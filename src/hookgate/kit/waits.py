"""How long an answer asks to wait before the next attempt: read in one way, and bounded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hookgate.core.domain.errors import wait_of

__all__ = ["retry_after"]

_LONGEST = 4096
"""Characters of a date that are read."""


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a response asks to wait, at most a day; None where it asks for none.

    ``Retry-After`` holds seconds or a date (RFC 9110, section 10.2.3); OpenAI sends
    ``retry-after-ms`` beside it, which is finer. A date is compared with the response's own
    clock where it names that.

    Args:
        headers: The headers of the response; their names in small letters, or of any case where
            the mapping does not mind.
        now: The time, in UTC.
    """
    finer = wait_of(headers.get("retry-after-ms", ""))
    if finer is not None:
        return finer / 1000
    value = headers.get("retry-after", "")
    if (seconds := wait_of(value)) is not None:
        return seconds
    if (at := _date(value)) is None:
        return None
    return wait_of((at - (_date(headers.get("date", "")) or now)).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text[:_LONGEST])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
