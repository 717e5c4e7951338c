"""What is to be done about a schedule at one moment: plain arithmetic, without store or turns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.builtin_plugins.schedules.settings import JobSettings
    from hookgate.builtin_plugins.schedules.timing import Timing

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
