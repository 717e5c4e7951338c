"""When a schedule is due, and what is to be done about it at one moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from random import Random
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hookgate.kit.durations import told

if TYPE_CHECKING:
    from hookgate.builtin_plugins.schedules.settings import JobSettings

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


# -- looking ---------------------------------------------------------------------

# What is to be done about a schedule at one moment: plain arithmetic, without store or turns.

MADE_UP = "it was missed, and is made up for"

COUNTED = 1000
"""So many missed runs are counted at one time; of more it is said that there were more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Runs in a row that nobody has begun in time.

    Attributes:
        first: When the first was due.
        last: When the last was due.
        count: How many they are.
        more: Whether there were more than were counted.
    """

    first: datetime
    last: datetime
    count: int
    more: bool = False

    def __str__(self) -> str:
        if self.count == 1:
            return f"the run of {self.last:%Y-%m-%d %H:%M:%S} UTC"
        many = f"more than {self.count}" if self.more else str(self.count)
        return (
            f"{many} runs from {self.first:%Y-%m-%d %H:%M:%S} to {self.last:%Y-%m-%d %H:%M:%S} UTC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a schedule needs now.

    Attributes:
        missed: What is to be said to be missed.
        due: The run that is to begin now, by the time for which it was planned.
        late: Whether that is one that was missed and is made up for.
        cursor: Up to here everything is settled once that is done.
        wake: When to look again; None for never.
    """

    missed: Missed | None
    due: datetime | None
    late: bool
    cursor: datetime
    wake: datetime | None


def spread(timing: Timing, jitter: float, seed: str, planned: datetime) -> timedelta:
    """Return by how much a run begins later than planned: less than half of the way to the next.

    Args:
        timing: When it is due.
        jitter: The most, in seconds.
        seed: Whose chance it is: the same seed has the same for a run, however often it is asked.
        planned: The run.
    """
    if not jitter:
        return timedelta()
    most = timedelta(seconds=jitter)
    if (after := timing.after(planned)) is not None:
        most = min(most, (after - planned) / 2)
    return most * Random(f"{seed} {planned.isoformat()}").random()


def look(job: JobSettings, seed: str, cursor: datetime, now: datetime) -> Look:
    """Say what a schedule needs at `now`, where everything up to `cursor` is settled.

    Args:
        job: The schedule.
        seed: See `spread`.
        cursor: Up to here everything is settled. It may lie ahead of `now`, where the clock has
            been put back: then nothing is due before.
        now: The time.
    """
    timing, due, late = job.timing, None, False
    times = list(islice(timing.between(cursor, now), COUNTED + 1))
    more = len(times) > COUNTED
    if more:
        last = timing.last(cursor, now)
        times = [*times[: COUNTED - 1], times[-1] if last is None else last]
    wake = None
    if times:
        begins = times[-1] + spread(timing, job.jitter, seed, times[-1])
        if begins > now:
            wake = begins
            times.pop()
        elif now - begins <= timedelta(seconds=job.grace):
            due = times.pop()
        elif job.missed == "once":
            due, late = times.pop(), True
    missed = None
    if times:
        missed = Missed(first=times[0], last=times[-1], count=len(times), more=more)
    settled = due or (times[-1] if times else cursor)
    if wake is None and (after := timing.after(max(settled, now))) is not None:
        wake = after + spread(timing, job.jitter, seed, after)
    return Look(missed=missed, due=due, late=late, cursor=settled, wake=wake)
