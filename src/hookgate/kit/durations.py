"""Lengths of time: as people write them (``90s``, ``10m``, ``2h``, ``7d``), and as servers ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from hookgate.core.domain.errors import wait_of

__all__ = ["FORMS", "Days", "Seconds", "moment", "retry_after", "seconds_of", "time_of", "told"]

FORMS = "90s, 10m, 2h or 7d"
"""How messages say what is expected."""

DAY = 86_400.0

_LONGEST = 4096
"""Characters of a date that are read."""

_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}


def seconds_of(text: str) -> float:
    """Return how many seconds `text` is.

    Raises:
        ValueError: It is none of the forms.
    """
    if found := _FORM.fullmatch(text.strip()):
        return float(found[1]) * _UNITS[found[2]]
    raise ValueError(f"found {text[:40]!r}, expected {FORMS}")


def time_of(text: str) -> datetime:
    """Return a time of ISO 8601 in UTC; without a zone it is in UTC, as all times that are shown.

    Raises:
        ValueError: It is none, or none that UTC can hold.
    """
    at = datetime.fromisoformat(text)
    try:
        return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"found {text!r}, which UTC cannot hold") from error


def moment(text: str, now: datetime) -> datetime:
    """Return a time that is written as ``2024-02-29T12:00``, or as ``7d`` for so long ago.

    Raises:
        ValueError: It is written otherwise.
    """
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(now.timestamp() - seconds_of(text), UTC)
    try:
        return time_of(text)
    except ValueError:
        raise ValueError(
            f"found {text!r}, expected a time such as 2024-02-29T12:00, or {FORMS}"
        ) from None


def told(seconds: float) -> str:
    """Return a length of time in its largest whole unit, such as ``10m``."""
    for unit, size in reversed(_UNITS.items()):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _in_seconds(value: Any) -> Any:
    return seconds_of(value) if isinstance(value, str) else value


def _in_days(value: Any) -> Any:
    return seconds_of(value) / DAY if isinstance(value, str) else value


Seconds: TypeAlias = Annotated[float, BeforeValidator(_in_seconds)]
"""A setting in seconds: a number of them, or a text such as ``10m``."""

Days: TypeAlias = Annotated[float, BeforeValidator(_in_days)]
"""A setting in days: a number of them, or a text such as ``36h``."""


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
