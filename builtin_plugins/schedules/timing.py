"""When a schedule is due: a line of cron in a time zone, or a length of time.

Lines of cron are read by cronsim, which goes by Debian's cron. Where clocks are put forward, a run
at a fixed time that does not exist comes when the gap is over; where they are put back, one at a
time that comes twice is due at the first. A line whose minute or hour begins with ``*`` is due
whenever the clock on the wall fits, in both hours, and not at all in a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hookgate.kit.durations import told

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CHANGE = timedelta(hours=3)
"""No change of clocks is larger, and none comes so soon after another one."""
SPANS = (timedelta(hours=1), timedelta(days=1), timedelta(days=32), timedelta(days=366))


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        ValueError: There is none of this name.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        # A folder of the database, such as `Europe`, is an OSError.
        raise ValueError(
            f"found the time zone {name[:80]!r}, expected `UTC` or a name of the IANA database "
            "such as `Europe/Berlin` (where the system has no such database: install tzdata)"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When something is due. All times that come out are in UTC.

    Attributes:
        cron: A line of cron with five fields; "" where `every` is given.
        every: The time between two runs, counted from 1970.
        zone: The time zone of `cron`.
    """

    cron: str = ""
    every: timedelta | None = None
    zone: str = "UTC"

    def __str__(self) -> str:
        if self.every is not None:
            return f"every {told(self.every.total_seconds())}"
        return f"{self.cron} ({self.zone})"

    def check(self) -> None:
        """Refuse what is never due.

        Raises:
            ValueError: There is no such zone, or the line is none, or no day fits it.
        """
        zone_of(self.zone)
        if self.every is not None:
            return
        fields = len(self.cron.split())
        if fields != 5:
            raise ValueError(
                f"found {self.cron[:80]!r} with {fields} fields, expected five: minute, hour, "
                "day of the month, month, day of the week (for seconds there is `every`)"
            )
        from cronsim import CronSimError

        try:
            due = self.after(EPOCH)
        except CronSimError as error:
            raise ValueError(
                f"found {self.cron[:80]!r}: {str(error).lower()}, expected a line of cron such "
                "as `0 8 * * 1-5`"
            ) from None
        if due is None:
            raise ValueError(f"found {self.cron[:80]!r}, which no day fits")

    def after(self, moment: datetime) -> datetime | None:
        """Return the first time after `moment` that it is due; None for never."""
        if self.every is not None:
            return EPOCH + ((moment - EPOCH) // self.every + 1) * self.every
        local = moment.astimezone(zone_of(self.zone))
        minute, hour = self.cron.split()[:2]
        if minute.startswith("*") or hour.startswith("*"):
            return self._fitting(local)
        # In the second of two hours of one name the first one's times come again.
        found = (due.astimezone(UTC) for due in self._by_cron(local))
        return next((due for due in found if due > moment), None)

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Yield the times after `after` up to `until`."""
        due = self.after(after)
        while due is not None and due <= until:
            yield due
            due = self.after(due)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last time after `after` up to `until`; None where there is none."""
        for span in (*SPANS, until - after):
            start = max(after, until - span)
            if found := deque(self.between(start, until), maxlen=1):
                return found[0]
            if start == after:
                break
        return None

    def _by_cron(self, moment: datetime) -> Iterator[datetime]:
        # Who has no schedule never loads it.
        from cronsim import CronSim

        return CronSim(self.cron, moment)

    def _fitting(self, local: datetime) -> datetime | None:
        """Return the first time after `local` at which the clock on the wall fits.

        cronsim is asked for times of clocks that never change. Near a change it is looked minute
        by minute: by itself it passes over times where clocks change by half an hour.
        """
        zone = local.tzinfo
        begin = local.astimezone(UTC).replace(second=0, microsecond=0)
        if not _changes(local):
            wall = next(self._by_cron(local.replace(tzinfo=None)), None)
            if wall is None:
                return None
            due = wall.replace(tzinfo=zone)
            if not _changes(due):
                return due.astimezone(UTC)
            begin = max(begin, due.astimezone(UTC) - CHANGE)
        wall = begin.astimezone(zone).replace(tzinfo=None)
        near = self._by_cron(wall - CHANGE)
        fitting = set(takewhile((wall + 3 * CHANGE).__gt__, near))
        end = begin + 2 * CHANGE
        while begin < end:
            begin += MINUTE
            if begin.astimezone(zone).replace(tzinfo=None) in fitting:
                return begin
        return self._fitting(end.astimezone(zone))


def _changes(moment: datetime) -> bool:
    """Whether the clocks are changed within three hours of `moment`."""
    return (moment - CHANGE).utcoffset() != (moment + CHANGE).utcoffset()
