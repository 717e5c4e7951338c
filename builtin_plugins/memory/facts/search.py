"""Finding facts: from whom a question names, along what they are to one another, and by words.

Every query names the scopes that it reads, and every one of them is bounded: a scope of a million
facts costs a search as much as one of a thousand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Literal

from sqlalchemy import ColumnElement, Connection, Text, bindparam, or_, select

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER, Hit
from hookgate.builtin_plugins.memory.facts.clauses import STANDING
from hookgate.builtin_plugins.memory.facts.grammar import key_of, vocabulary
from hookgate.builtin_plugins.memory.facts.learner import kind_of_value
from hookgate.builtin_plugins.memory.facts.rows import Row, current, held_at, hit_of, iso, of_scope
from hookgate.builtin_plugins.memory.recall.words import terms_of
from hookgate.builtin_plugins.memory.tables import FACTS, WORDS
from hookgate.kit.records.statements import Prepared, PreparedIn

MAX_QUERY = 2000
"""Characters of a message that are looked at."""

MAX_WORDS = 16
"""Words of it that are looked for."""

PER_WORD = 128
"""Facts of one word that are looked at: the latest."""

PER_STEP = 32
"""Facts that one name, relation or step of the walk brings."""

MAX_TOKENS = 48
MAX_NAMES = 32
MAX_RELATIONS = 32
MAX_REACHED = 16
"""Words, names, relations and steps that one question leads to at most."""

MOST_STANDING = 8
"""Standing orders of a scope that hold at a time: the latest."""

HOPS = 2
"""How far the walk goes: my dog, Luna, what is known of her."""

_TOKEN = re.compile(r"[\w'’.-]*\w")
_FIRST = re.compile(r"\b(?:i|me|my|mine|we|us|our|ours)\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:used to|before|previous(?:ly)?|former(?:ly)?|past|earlier|back then|did i|was i|"
    r"were we|once|ever|history|originally|old)\b",
    re.IGNORECASE,
)

ASKED, NAMED, NEXT, WORD, OWN = 3.0, 2.5, 1.0, 1.0, 0.5
"""What a reason weighs: the relation that is asked for, the one that is named, who is one step
further, a word, and what is the asker's own."""


@dataclass(slots=True)
class _Found:
    row: Row
    score: float = 0.0
    why: dict[str, None] = field(default_factory=dict)
    telling: bool = False

    @property
    def answers(self) -> bool:
        """Whether more than whom it is about speaks for it, or there are few of its kind."""
        row = self.row
        return self.telling or row.kind == "note" or not vocabulary().relation(row.relation).many


Mode = Literal["now", "past", "as_of"]
"""What may be found: what holds, also what has ended, or what held at a time."""


def _when(mode: Mode) -> ColumnElement[bool]:
    at = bindparam("at", type_=Text)
    if mode == "as_of":
        return held_at(at)
    if mode == "past":
        ending = FACTS.c.ending
        return or_(FACTS.c.superseded.is_(None), ending == "changed", ending == "over")
    return current(at)


@cache
def _found_by(by: Literal["subject", "object", "relation"], mode: Mode) -> Prepared:
    columns = FACTS.c
    query = select(FACTS).where(columns.scope == bindparam("of"), _when(mode))
    if by == "relation":
        query = query.where(columns.subject == USER, columns.relation == bindparam("key"))
    else:
        query = query.where(columns[by] == bindparam("key"), columns.kind == "fact")
    return Prepared(query.order_by(columns.number.desc()).limit(bindparam("most")))


@cache
def _numbered(mode: Mode) -> PreparedIn:
    mine = of_scope(FACTS.c.scope, bindparam("of", type_=Text))
    return PreparedIn(select(FACTS).where(mine, _when(mode)), FACTS.c.number)


_STANDING = Prepared(
    select(FACTS)
    .where(
        FACTS.c.scope == bindparam("of"),
        FACTS.c.subject == USER,
        or_(*(FACTS.c.relation == one for one in STANDING)),
        current(bindparam("at", type_=Text)),
        FACTS.c.speaker != ASSISTANT,
        FACTS.c.taint == "[]",
    )
    .order_by(FACTS.c.number.desc())
    .limit(MOST_STANDING)
)

_POSTINGS = Prepared(
    select(WORDS.c.fact)
    .where(WORDS.c.scope == bindparam("of"), WORDS.c.word == bindparam("word"))
    .order_by(WORDS.c.fact.desc())
    .limit(PER_WORD)
)


class _Search:
    def __init__(
        self, connection: Connection, scopes: Sequence[str], mode: Mode, at: datetime
    ) -> None:
        self._connection = connection
        self._scopes = list(dict.fromkeys(scopes))
        self._mode: Mode = mode
        self._at = iso(at)
        self.found: dict[int, _Found] = {}

    def _rows(
        self,
        by: Literal["subject", "object", "relation"],
        keys: Iterable[str],
        limit: int = PER_STEP,
    ) -> Iterator[Row]:
        """Yield the latest rows of each key and scope."""
        query = _found_by(by, self._mode)
        for key in keys:
            for scope in self._scopes:
                yield from query.rows(self._connection, of=scope, key=key, at=self._at, most=limit)

    def _add(self, row: Row, score: float, why: str, *, telling: bool = False) -> None:
        found = self.found.setdefault(row.number, _Found(row))
        found.telling |= telling
        if why not in found.why:
            found.why[why] = None
            found.score += score

    def walk(self, query: str) -> None:
        """Start where the question names somebody, and go on to whom they are tied."""
        tokens = _TOKEN.findall(query)[:MAX_TOKENS]
        reached: dict[str, str] = {}
        asked = _asked_relations(tokens)
        self._asked(asked, reached, own=_FIRST.search(query) is not None)
        self._named(tokens, reached)
        told = {USER}
        for _ in range(HOPS):
            keys = {key: name for key, name in reached.items() if key not in told}
            if not keys:
                break
            some = list(keys)[:MAX_REACHED]
            told.update(keys)
            reached = {}
            about = self._rows("subject", some)
            tied = self._rows("object", some, limit=PER_STEP // 4)
            for row in (*about, *tied):
                name = keys.get(row.subject) or keys.get(row.object) or row.subject_name
                self._add(row, NEXT, f"about {name}")
                self._reach(row, reached)

        for found in self.found.values():
            row = found.row
            if row.subject != USER and row.relation in asked:
                word = asked[row.relation]
                self._add(row, ASKED / 2, f"asks for: {word}", telling=bool(terms_of(word)))

    def _asked(self, asked: Mapping[str, str], reached: dict[str, str], *, own: bool) -> None:
        """Find what is asked of the asker: `my dog`, `where do I live`."""
        for relation in list(asked)[:MAX_RELATIONS]:
            role = vocabulary().is_role(relation)
            score = ASKED if role or kind_of_value(relation) else WORD + OWN
            for row in self._rows("relation", [relation]):
                self._add(row, score, f"asks for: {asked[relation]}", telling=own)
                if role:
                    self._reach(row, reached)
            if role:
                reached.setdefault(f"{USER}/{relation}", f"the user's {relation}")

    def _named(self, tokens: Sequence[str], reached: dict[str, str]) -> None:
        names = _names_in(tokens)
        for row in self._rows("subject", names):
            self._add(row, NAMED, f"names {row.subject_name}")
            reached.setdefault(row.subject, row.subject_name)
            self._reach(row, reached)
        for row in self._rows("object", names):
            self._add(row, NAMED, f"names {row.value}")
            self._reach(row, reached)

    def _reach(self, row: Row, reached: dict[str, str]) -> None:
        """Note whom a fact leads to: by its name, and by what they are to its subject."""
        if vocabulary().is_role(row.relation):
            reached.setdefault(row.object, row.value or row.relation)
            reached.setdefault(f"{row.subject}/{row.relation}", row.value or row.relation)

    def words(self, query: str) -> None:
        """Find facts and notes that hold words of the question; a rare word says more."""
        for scope in self._scopes:
            scores: dict[int, float] = {}
            why: dict[int, list[str]] = {}
            for word in list(dict.fromkeys(terms_of(query)))[:MAX_WORDS]:
                found = _POSTINGS.rows(self._connection, of=scope, word=word)
                numbers = [row.fact for row in found]
                weight = WORD / (1.0 + math.log1p(len(numbers)) / 4)
                for number in numbers:
                    scores[number] = scores.get(number, 0.0) + weight
                    why.setdefault(number, []).append(word)
            best = sorted(scores, key=lambda number: (-scores[number], -number))[:PER_STEP]
            if not best:
                continue
            numbered = _numbered(self._mode)
            for row in numbered.rows(self._connection, best, of=scope, at=self._at):
                named = set(terms_of(row.subject_name))
                for word in why[row.number]:
                    score = scores[row.number] / len(why[row.number])
                    self._add(row, score, f"word: {word}", telling=word not in named)


def _asked_relations(tokens: Sequence[str]) -> dict[str, str]:
    """Return the relations that a question asks for, each with the word that does."""
    words = list(
        dict.fromkeys(token.casefold().removesuffix("'s").removesuffix("’s") for token in tokens)
    )
    pairs = [f"{one} {other}" for one, other in pairwise(words)]
    asked: dict[str, str] = {}
    for word in (*pairs, *words):
        if word.startswith(("favourite ", "favorite ")):
            topic = word.partition(" ")[2].replace("color", "colour")
            asked.setdefault(f"favourite {topic}", word)
        for relation in vocabulary().asked.get(word, ()):
            asked.setdefault(relation, word)
    return asked


def _names_in(tokens: Sequence[str]) -> list[str]:
    """Return what in a question may be the name of somebody: up to three words that follow."""
    plain = [re.sub(r"['’]s$", "", token) for token in tokens]
    says = [bool(terms_of(token)) for token in plain]
    keys: dict[str, None] = {}
    for begin in range(len(plain)):
        for end in range(begin + 1, min(begin + 3, len(plain)) + 1):
            if not says[end - 1]:
                break
            key = key_of(" ".join(plain[begin:end]))
            if len(key) > 1 and key != USER and not vocabulary().is_role(key):
                keys.setdefault(key)
    return list(keys)[:MAX_NAMES]


def standing(connection: Connection, scopes: Sequence[str], *, at: datetime) -> list[Hit]:
    """Return what people have asked for once and for all, whatever a message is about."""
    rows = [row for scope in scopes for row in _STANDING.rows(connection, of=scope, at=iso(at))]
    return [hit_of(row, ASKED, ("holds for every answer",)) for row in rows]


def search(
    connection: Connection,
    scopes: Sequence[str],
    query: str,
    *,
    at: datetime,
    as_of: datetime | None,
    limit: int,
    telling: bool = False,
) -> list[Hit]:
    """Return the facts and notes of `scopes` that a message is about, the best first.

    Args:
        connection: Of the caller's transaction.
        scopes: Whose rows may be read; no other is.
        query: The message.
        at: Now, in UTC.
        as_of: The time for which is asked; None for now. What has ended is then found too where
            the words ask for the past.
        limit: How many at most.
        telling: Whether those are left out of which people have many, such as what they like or
            did, where nothing but whom they are about speaks for them.
    """
    if not scopes or limit < 1:
        return []
    query = query[:MAX_QUERY]
    mode: Mode = "now"
    if as_of is not None:
        mode = "as_of"
    elif _PAST.search(query):
        mode = "past"
    found = _Search(connection, scopes, mode, as_of or at)
    found.walk(query)
    found.words(query)
    ranked = sorted(
        found.found.values(),
        key=lambda one: (-one.score * (0.5 + one.row.confidence / 2), -one.row.number),
    )
    if telling:
        ranked = [one for one in ranked if one.answers]
    return [hit_of(one.row, one.score, tuple(one.why)) for one in ranked[:limit]]
