"""How long the other side asks to wait before the next attempt: read in one way, and bounded."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_SECONDS", "retry_after", "wait_of"]

MOST_SECONDS = 86_400.0
"""The longest wait that is believed: a day."""

_SECONDS = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_LONGEST = 4096
"""Characters of a header that are read."""


def wait_of(value: object) -> float | None:
    """Return seconds that somebody asks to wait, from 0 to a day; None where they are none.

    Args:
        value: A number, or the text of one, of whatever size.
    """
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _LONGEST or not _SECONDS.fullmatch(text):
            return None
        value = float(text)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # Compared before it is converted: an integer may be longer than any float. NaN is no wait.
    return float(min(max(value, 0.0), MOST_SECONDS)) if value == value else None


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
