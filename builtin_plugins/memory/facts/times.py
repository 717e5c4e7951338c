"""Times in words: `since last May`, `two years ago`, `next Friday`, by the time of the message."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from hookgate.builtin_plugins.memory.facts.grammar import EXPRESSIONS, may_hold, vocabulary

Precision: TypeAlias = Literal["year", "month", "day"]

_KNOWN = vocabulary()
_MONTHS, _DAYS = _KNOWN.words["times"]["months"], _KNOWN.words["times"]["days"]
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_HOLIDAYS = {"christmas": (12, 25), "new year": (1, 1), "new year's": (1, 1), "halloween": (10, 31)}


@dataclass(frozen=True, slots=True)
class When:
    """A time that a statement names.

    Attributes:
        kind: `at` that time; `since` or `until` it; `for` so long, which begins at it; `between`.
        start: When it begins, in UTC.
        precision: How exactly that was said.
        end: Where `kind` is `between`: when it ends.
        span: Where in the text the words stand.
    """

    kind: Literal["at", "since", "until", "for", "between"]
    start: datetime
    precision: Precision
    span: tuple[int, int]
    end: datetime | None = None

    @property
    def words(self) -> str:
        """The start, as exactly as it was said: `2019`, `2019-05`, `2019-05-17`."""
        return self.start.strftime(
            {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}[self.precision]
        )


def is_date(text: str) -> bool:
    """Whether `text` is a date and nothing else."""
    return EXPRESSIONS["date"].fullmatch(text.strip(" .")) is not None


def find_time(text: str, at: datetime, *, ahead: bool = False) -> When | None:
    """Return the last time that `text` names; None where it names none.

    Args:
        text: A statement.
        at: When it was said.
        ahead: Whether a time that could be the last or the next one of its name is the next.
    """
    found: When | None = None
    if not may_hold("may_be_time", text):
        return None
    for match in EXPRESSIONS["time"].finditer(text):
        # `May` and `fall`, `march` alone are verbs more often than not.
        if (
            match["month"]
            and match["month"].casefold() == match[0].casefold()
            and not _stands(match)
        ):
            continue
        if match["season"] and match[0].casefold() == match["season"].casefold():
            continue
        try:
            found = _when(match, at, ahead) or found
        except (OverflowError, ValueError):
            continue  # a year 0 or a 31st of February is no time
    return found


def _stands(match: re.Match[str]) -> bool:
    """Whether a month without a word before it is one: written with a capital letter and alone."""
    return match["month"][0].isupper() and len(match["month"]) > 3 and match.start() > 0


def _when(match: re.Match[str], at: datetime, ahead: bool) -> When | None:
    span = match.span()
    if match["length"]:
        start, precision = _shift(at, match["length"], match["length_unit"], -1)
        return When("for", start, precision, span)
    if match["begin"]:
        begin, end = int(match["begin"]), int(match["end"])
        return When("between", _year(begin), "year", span, _year(end + 1))
    kind = (match["kind"] or "at").casefold()
    ahead = (ahead or kind in {"until", "till"}) and kind != "since"
    moment = _moment(match, at, ahead)
    if moment is None:
        return None
    named = {"since": "since", "as of": "since", "starting": "since", "from": "since"}
    ended = {"until": "until", "till": "until"}
    return When((named | ended).get(kind, "at"), *moment, span)  # type: ignore[arg-type]


def _moment(match: re.Match[str], at: datetime, ahead: bool) -> tuple[datetime, Precision] | None:
    groups = match.groupdict()
    if groups["day"]:
        days = {"yesterday": -1, "tomorrow": 1, "the day after tomorrow": 2}
        days["the day before yesterday"] = -2
        return _midnight(at) + timedelta(days=days.get(groups["day"].casefold(), 0)), "day"
    if groups["iso"]:
        return datetime.fromisoformat(groups["iso"]).replace(tzinfo=UTC), "day"
    if groups["date"]:
        return _date(groups["date"], groups["date_year"], at, ahead)
    if groups["ago"]:
        return _shift(at, groups["ago"], groups["ago_unit"], -1)
    if groups["ahead"]:
        return _shift(at, groups["ahead"], groups["ahead_unit"], 1)
    if groups["turn"]:
        return _turned(groups["turn"].casefold(), groups["turned"].casefold(), at, ahead)
    if groups["month"]:
        number = _number_of_month(groups["month"])
        return _nearest(number, 1, at, ahead, groups["month_year"]), "month"
    return _named(groups, at, ahead)


def _named(groups: dict[str, str], at: datetime, ahead: bool) -> tuple[datetime, Precision] | None:
    if groups["season"]:
        month = _SEASONS[groups["season"].casefold()]
        return _nearest(month, 1, at, ahead, groups["season_year"]), "month"
    if groups["weekday"]:
        return _weekday(groups["weekday"].casefold(), at, ahead), "day"
    if groups["holiday"]:
        return _nearest(*_HOLIDAYS[groups["holiday"].casefold()], at, ahead), "day"
    if groups["year"]:
        return _year(int(groups["year"])), "year"
    return None


def _midnight(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def _number_of_month(word: str) -> int:
    short = word.casefold()[:3]
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(short))


def _nearest(month: int, day: int, at: datetime, ahead: bool, year: str | None = None) -> datetime:
    """Return a day of the year that was said, or else the latest, or the next one."""
    if year:
        return datetime(int(year), month, day, tzinfo=UTC)
    found = datetime(at.year, month, day, tzinfo=UTC)
    today = _midnight(at)
    if ahead and found < today.replace(day=1):
        return found.replace(year=at.year + 1)
    if not ahead and found > today:
        return found.replace(year=at.year - 1)
    return found


def _date(
    words: str, year: str | None, at: datetime, ahead: bool
) -> tuple[datetime, Precision] | None:
    day, month = re.search(r"\d+", words), EXPRESSIONS["month"].search(words)
    if day is None or month is None:
        return None
    return _nearest(_number_of_month(month[0]), int(day[0]), at, ahead, year), "day"


def _weekday(word: str, at: datetime, ahead: bool) -> datetime:
    today = _midnight(at)
    gap = (_DAYS.index(word) - today.weekday()) % 7
    if ahead:
        return today + timedelta(days=gap or 7)
    return today - timedelta(days=(7 - gap) % 7 or 7)


def _turned(turn: str, word: str, at: datetime, ahead: bool) -> tuple[datetime, Precision] | None:
    today = _midnight(at)
    step = {"last": -1, "this past": -1, "this": 0}.get(turn, 1)
    if word in _DAYS:
        return _weekday(word, at, step >= 0), "day"
    if word.startswith("week"):
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
        return monday + timedelta(days=5 if word == "weekend" else 0), "day"
    if word == "night":
        return today + timedelta(days=step), "day"
    if word == "month":
        return _months(today.replace(day=1), step), "month"
    if word == "year":
        return _year(today.year + step), "year"
    if word == "christmas":
        return _nearest(12, 25, at, step >= 0), "day"
    month = _SEASONS.get(word) or _number_of_month(word)
    if step == 0:
        return datetime(today.year, month, 1, tzinfo=UTC), "month"
    found = _nearest(month, 1, at, step > 0)
    if step < 0 and (found.year, found.month) == (today.year, today.month):
        found = found.replace(year=found.year - 1)
    return found, "month"


def _months(start: datetime, count: int) -> datetime:
    month = start.year * 12 + start.month - 1 + count
    year, number = divmod(month, 12)
    day = min(start.day, monthrange(year, number + 1)[1])
    return start.replace(year=year, month=number + 1, day=day)


def _shift(at: datetime, count: str, unit: str, sign: int) -> tuple[datetime, Precision]:
    word = count.casefold()
    number = sign * (int(word) if word.isdigit() else _KNOWN.counts[word])
    today, unit = _midnight(at), unit.casefold().rstrip("s")
    if unit == "day":
        return today + timedelta(days=number), "day"
    if unit == "week":
        return today + timedelta(weeks=number), "day"
    if unit == "month":
        return _months(today, number).replace(day=1), "month"
    return _year(today.year + number * (10 if unit == "decade" else 1)), "year"
