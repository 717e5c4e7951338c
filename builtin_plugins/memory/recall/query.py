"""What a message asks for, as far as finding turns goes. No model is asked."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER
from hookgate.builtin_plugins.memory.facts.grammar import vocabulary
from hookgate.builtin_plugins.memory.recall.index import Floats
from hookgate.builtin_plugins.memory.recall.words import fold, numbers_of, terms_of, terms_of_name

MAX_WORDS = 48
"""Different words of a query that are looked for; a longer message asks for many things."""

READ_CHARS = 4000
"""Characters of a query that are looked at."""

_MONTHS = vocabulary().words["times"]["months"]
_MONTH = "|".join(_MONTHS)
_DATE = re.compile(
    rf"\b(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<month>{_MONTH})"
    rf"|(?P<month2>{_MONTH})(?: (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b)?)"
    r"(?:,? (?:of )?(?P<year>\d{4}))?"
)
_RELATIVE = re.compile(r"\b(?:(yesterday|today)|(?:last|past) (week|month))\b")
# Behind any other word this is hardly ever the month.
_BEFORE_MAY = re.compile(r"\b(?:in|of|during|since|last) $")
_WHEN = re.compile(r"\b(?:when|what (?:date|day|month|year|time)|how long|which (?:month|year))\b")
_FIRST = re.compile(r"\b(?:i|me|my|mine|myself|we|our|us)\b")
_OWN = re.compile(
    r"(?:(?:and|but|so|hey|ok|well|then|do you (?:know|remember)|remind me),? )*"
    r"(?:what|where|when|who|which|how(?! (?:do|can|could|should))|do|did|have|had|am|was|is|are)"
    r"\b[^.!]*?\b(?:i|my|mine|our|ours|we)\b"
)
_SECOND = re.compile(r"\b(?:you|your|yours)\b")

DAYS_AFTER = 10
"""What happened on a day is spoken of on that day, and for some days after it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time that a query names. What was said within it counts in full, shortly after it less.

    Attributes:
        first: Where it begins, in UTC.
        last: Where it ends.
        until: Up to when it is still spoken of.
        said: The words that name it.
    """

    first: datetime
    last: datetime
    until: datetime
    said: str


@dataclass(frozen=True, slots=True)
class Query:
    """A message as turns are ranked for it.

    Attributes:
        words: The telling words, as stems, by their numbers.
        text: The message, folded.
        asks_when: Whether it asks for a time.
        asks_own: Whether it asks for something of whoever speaks: "where do I live?".
        spans: The times that it names.
        vector: Its vector, of length 1; None where there is no embedder.
        names: The vectors of the names that it holds: what is looked for is what it says
            about them.
    """

    words: dict[int, str]
    text: str
    asks_when: bool = False
    asks_own: bool = False
    spans: tuple[Span, ...] = ()
    vector: Floats | None = None
    names: tuple[Floats, ...] = ()

    def with_vectors(self, vector: Floats | None, names: tuple[Floats, ...]) -> Query:
        """Return the query with its vector, and those of the names in it."""
        return replace(self, vector=vector, names=names)


def read_query(text: str, now: datetime, speakers: Collection[str] = ()) -> Query:
    """Read a message.

    Args:
        text: The message.
        now: What "yesterday" is counted from, in UTC.
        speakers: The names of those who take part. A name says who has spoken, and is held by
            many turns for other reasons: it is no word to look for, unless there is no other.
    """
    folded = fold(text[:READ_CHARS])
    terms = list(dict.fromkeys(terms_of(folded)))
    named = {term for one in speakers for term in terms_of_name(one)}
    spans = tuple(spans_in(folded, now))
    dated = {term for span in spans for term in terms_of(span.said)}
    telling = [term for term in terms if term not in named]
    telling = [term for term in telling if term not in dated] or telling or terms
    return Query(
        words=dict(zip(numbers_of(telling[:MAX_WORDS]), telling, strict=False)),
        text=folded,
        asks_when=_WHEN.search(folded) is not None,
        asks_own=_OWN.match(folded.lstrip()) is not None,
        spans=spans,
    )


def speakers_in(query: str, speakers: Collection[str]) -> list[str]:
    """Return those of `speakers` that a folded query speaks of.

    A name stands for its bearer. Where none is named, the first person is the user's, and the
    second the assistant's.
    """
    if others := [one for one in speakers if one not in (USER, ASSISTANT)]:
        terms = set(terms_of(query, common=True))
        named = [one for one in others if terms.issuperset(terms_of(one, common=True) or [""])]
        if named:
            return named
    if _FIRST.search(query):
        return [one for one in speakers if one == USER]
    return [one for one in speakers if one == ASSISTANT and _SECOND.search(query)]


def spans_in(query: str, now: datetime) -> list[Span]:
    """Return the times that a folded query names: a day, a month, or one that is relative to now.

    Of a month or day without a year the latest one is meant that is not to come.
    """
    spans = [span for found in _DATE.finditer(query) if (span := _dated(found, now))]
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for found in _RELATIVE.finditer(query):
        match found[1] or found[2]:
            case "today":
                spans.append(_span(today, today, 0, found[0]))
            case "yesterday":
                spans.append(_span(today - timedelta(days=1), today - timedelta(1), 1, found[0]))
            case "week":
                spans.append(_span(today - timedelta(days=14), today, 0, found[0]))
            case _:
                spans.append(_span(today - timedelta(days=62), today, 0, found[0]))
    return spans


def _dated(found: re.Match[str], now: datetime) -> Span | None:
    name, day = found["month"] or found["month2"], found["day"] or found["day2"]
    by_itself = name == "may" and day is None and found["year"] is None
    if by_itself and not _BEFORE_MAY.search(found.string[: found.start()]):
        return None
    month = _MONTHS.index(name) + 1
    year = int(found["year"] or now.year)
    try:
        first = date(year, month, int(day or 1))
        if found["year"] is None and first > now.date():
            first = date(year - 1, month, int(day or 1))
    except ValueError:
        return None
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    if day is not None:
        return _span(begin, begin, DAYS_AFTER, found[0])
    next_month = (begin + timedelta(days=32)).replace(day=1)
    return _span(begin, next_month - timedelta(days=1), DAYS_AFTER, found[0])


def _span(first: datetime, last: datetime, after: int, said: str) -> Span:
    # A day more on both sides: people are not in UTC.
    day = timedelta(days=1)
    return Span(first - day, last + 2 * day, last + (2 + after) * day, said)
