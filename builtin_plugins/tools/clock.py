"""The time, in any time zone."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones


def describe_time(now: datetime, timezone: str) -> dict[str, str | int]:
    """Return `now` as it reads in `timezone`.

    Args:
        now: An aware time.
        timezone: A name of the IANA database, such as ``Europe/Oslo``, or ``UTC``.

    Returns:
        ``time`` (ISO 8601), ``weekday``, ``timezone`` and ``unix`` (seconds since 1970).

    Raises:
        ValueError: There is no such time zone.
    """
    local = now.astimezone(_zone(timezone))
    return {
        "time": local.isoformat(timespec="seconds"),
        "weekday": local.strftime("%A"),
        "timezone": timezone,
        "unix": int(now.timestamp()),
    }


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        # Known without a time-zone database, which small images lack.
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A folder of the database, such as `Europe`, is an OSError.
        known = available_timezones()
        near = difflib.get_close_matches(name, known, n=3) or sorted(
            zone for zone in known if zone.casefold().endswith(f"/{name.casefold()}")
        )
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"found the time zone {name[:80]!r}: expected UTC or a name such as Europe/Oslo{hint}"
        ) from None
