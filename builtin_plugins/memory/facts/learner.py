"""From what was said to what is known, and of whom. Nothing that was known is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection

from hookgate import new_id
from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER, Utterance
from hookgate.builtin_plugins.memory.facts.clauses import ORDER, Assertion, Ref
from hookgate.builtin_plugins.memory.facts.extractor import extract
from hookgate.builtin_plugins.memory.facts.grammar import key_of, vocabulary
from hookgate.builtin_plugins.memory.facts.rows import (
    MOST_TRUST,
    Row,
    add_sources,
    close,
    current,
    insert_row,
    iso,
    render,
    rows_where,
    source_of,
    taint_text,
    trust_in,
    trust_of,
)
from hookgate.builtin_plugins.memory.tables import FACTS
from hookgate.wire import well_formed

ANSWER, TAINTED, GUESSED = 0.5, 0.75, 0.85
"""What remains of the confidence of a claim that the answer made, that untrusted text may have
made, and of somebody whom a pronoun means."""

MAX_ROWS = 64
"""Rows of one subject and relation that are compared with a new one."""

RECENT = timedelta(minutes=30)
"""How long ago a thing was last spoken of for a pronoun of a later message to mean it."""

RECENT_FACTS = 8

_MEANS = {
    "she": {"f", "any"},
    "he": {"m", "any"},
    "they": {"f", "m", "any"},
    "it": {"any", "thing"},
}


def learn(
    said: Sequence[Utterance], connection: Connection, *, redact: Callable[[str], str]
) -> bool:
    """Learn from messages, in their order, in the caller's transaction.

    Args:
        said: The messages.
        connection: Of the caller's transaction.
        redact: Masks every known secret; a message that holds one teaches nothing.

    Returns:
        Whether any of them claims anything.
    """
    taught = False
    for one in said:
        text = one.text
        if "\0" in text or well_formed(text) != text:
            continue
        claims = extract(text, one.at)
        if claims and redact(text) == text:
            take(one, claims, connection)
            taught = True
    return taught


def take(said: Utterance, claims: Sequence[Assertion], connection: Connection) -> None:
    """Learn what the patterns, or somebody else, have read in a message."""
    _Learning(said, connection).take(claims)


class _Learning:
    """Takes the claims of one message."""

    def __init__(self, said: Utterance, connection: Connection) -> None:
        self._said = said
        self._connection = connection
        self._resolver = Resolver(connection, said)
        self._trust = trust_of(said.speaker, bool(said.taint))
        self._at = iso(said.at)

    def take(self, claims: Sequence[Assertion]) -> None:
        """Take the claims in their order."""
        for claim in claims:
            if claim.subject.kind in {"last", "value"}:
                self._correct(claim)
                continue
            subject = self._resolver.find(claim.subject)
            if subject is None or (claim.pattern == ORDER and self._trust < MOST_TRUST):
                continue  # who else may have written it gives nobody's orders
            if self._said.speaker == ASSISTANT and (
                claim.correction or claim.over or claim.mode != "holds"
            ):
                continue
            if claim.relation == "@another":
                claim = replace(claim, relation=self._resolver.last_role(subject))
                if not claim.relation:
                    continue
            if claim.relation == "name":
                claim, subject = self._naming(claim, subject)
            self._resolver.mention(subject)
            self._take_one(claim, subject)

    def _naming(self, claim: Assertion, subject: Entity) -> tuple[Assertion, Entity]:
        """Return how it is said that an entity goes by a name: as whose it is, if that is known."""
        if "/" in subject.key:
            owner, _, role = subject.key.rpartition("/")
            return replace(claim, relation=role), Entity(owner, subject.name.rpartition("'s ")[0])
        columns = FACTS.c
        known = [
            row
            for row in self._rows(columns.object == subject.key, columns.kind == "fact")
            if vocabulary().is_role(row.relation)
        ]
        if not known or subject.key in {USER, key_of(self._said.speaker)}:
            return claim, subject
        row = known[0]
        changed = replace(
            claim, relation=row.relation, correction=True, instead_of=row.value or claim.instead_of
        )
        return changed, Entity(row.subject, row.subject_name)

    def _correct(self, claim: Assertion) -> None:
        """Take a correction that says a value alone: what was learned with another one, or last."""
        if self._said.speaker == ASSISTANT:
            return
        if claim.subject.kind == "value":
            wrong = self._wrong(claim.value)
            if wrong is not None:
                self._close([wrong], "corrected", None)
            return
        recent = self._resolver.latest_facts()
        if claim.instead_of:
            recent = [row for row in recent if row.object == key_of(claim.instead_of)]
        row = recent[0] if recent else None
        if row is None and claim.pattern != "it is":
            row = self._wrong(claim.instead_of)
        if row is None:
            return
        named = vocabulary().relation(row.relation).value or row.value[:1].isupper()
        if not claim.instead_of and not named and not claim.value[0].isdigit():
            return
        subject = Entity(row.subject, row.subject_name)
        corrected = replace(claim, relation=row.relation, instead_of=row.value)
        self._take_one(corrected, subject)

    def _wrong(self, value: str) -> Row | None:
        """Return the fact that has a value; `Ann was wrong` says nothing of who she is."""
        columns = FACTS.c
        rows = self._rows(
            columns.object == key_of(value), columns.kind == "fact", current(self._at)
        )
        meant = [
            row
            for row in rows
            if kind_of_value(row.relation) not in {"person", "pet"} and trust_in(row) <= self._trust
        ]
        own = [row for row in meant if row.subject == self._resolver.speaker().key]
        return next(iter(own or meant), None)

    def _take_one(self, claim: Assertion, subject: Entity) -> None:
        relation = vocabulary().relation(claim.relation)
        value_key = key_of(claim.value)
        if relation.gender and not value_key:
            value_key = f"{subject.key}/{claim.relation}"
        if value_key == subject.key or (claim.mode == "holds" and not value_key):
            return
        if claim.mode == "holds":
            self._hold(claim, subject, value_key)
        else:
            self._end(claim, subject, value_key if claim.value else "")

    # -- what holds ----------------------------------------------------------------

    def _hold(self, claim: Assertion, subject: Entity, value_key: str) -> None:
        columns = FACTS.c
        rows = self._rows(columns.subject == subject.key, columns.relation == claim.relation)
        ever = [row for row in rows if row.object == value_key]
        if self._trust < 2 and any(trust_in(row) > self._trust for row in ever):
            return  # the answer says again what the user has said, or what they have said ended
        now = [row for row in rows if self._is_current(row)]
        same = [row for row in now if row.object == value_key]
        if same and not self._differs(claim, same[0]):
            self._repeated(claim, same[0])
            return
        if not claim.value and now:
            return  # `I have a dog` says nothing new of a dog with a name
        wrong, past = self._conflicts(claim, subject, value_key, now)
        if any(trust_in(row) > self._trust for row in (*wrong, *past)):
            return
        if claim.pattern == "is which, as a correction" and not wrong:
            return
        self._close([row for row in now if not row.value], "confirmed", None)
        self._close(wrong, "corrected", None)
        self._close(past, "changed", claim.valid_from)
        if claim.ends_value:
            self._ended_by_move(claim, subject, now)
        since = None
        single = vocabulary().relation(claim.relation).single
        next_one = vocabulary().is_role(claim.relation) and not now
        if (single or next_one) and any(
            row.object != value_key and row.ending != "corrected" for row in rows
        ):
            since = self._at  # it took another one's place, which nobody has said before
        self._insert(claim, subject, value_key, None if claim.valid_from else since)
        if claim.over:
            self._over(subject, claim.valid_from)

    def _over(self, who: Entity, since: datetime | None) -> None:
        """End what holds of somebody who has died, or of something that was given up."""
        columns = FACTS.c
        about = self._rows(columns.subject == who.key, current(self._at))
        tied = self._rows(columns.object == who.key, current(self._at))
        ended = [
            row
            for row in (*about, *(row for row in tied if vocabulary().is_role(row.relation)))
            if not vocabulary().relation(row.relation).lasting and trust_in(row) <= self._trust
        ]
        self._close(ended, "changed", since)

    def _differs(self, claim: Assertion, row: Row) -> bool:
        """Whether a claim of a known value tells another time than is known."""
        if claim.valid_from is None or claim.relation not in {"plans", "event"}:
            return False
        return bool(iso(claim.valid_from) != row.valid_from)

    def _repeated(self, claim: Assertion, row: Row) -> None:
        self._resolver.facts.append(row)
        self._mention_value(row)
        later = claim.valid_from is not None and row.valid_from is None and bool(claim.dated)
        if self._trust > trust_in(row) or (later and self._trust == trust_in(row)):
            self._close([row], "confirmed", None)
            since = row.valid_from if claim.valid_from is None else iso(claim.valid_from)
            self._insert(claim, Entity(row.subject, row.subject_name), row.object, since)
        elif self._trust == trust_in(row):
            source = source_of(self._said, self._confidence(claim))
            add_sources(self._connection, row, [source], self._said.taint)

    def _conflicts(
        self, claim: Assertion, subject: Entity, value_key: str, now: Sequence[Row]
    ) -> tuple[list[Row], list[Row]]:
        """Return the rows that are wrong by a claim, and those that hold no more by it."""
        columns = FACTS.c
        relation = vocabulary().relation(claim.relation)
        past: list[Row] = []
        others = [row for row in now if row.object != value_key and row.value]
        wrong: list[Row] = []
        if relation.gender and self._trust >= 2:
            # What the answer took somebody's name for, now that they have said it.
            wrong = [row for row in others if trust_in(row) < 2]
        if claim.correction and self._said.speaker != ASSISTANT:
            corrected = self._corrected(claim, subject, value_key, others)
            wrong += [row for row in corrected if row not in wrong]
        elif relation.single and not (claim.valid_to and claim.valid_to <= self._said.at):
            past += [row for row in others if row not in wrong]
        if relation.single and claim.correction:
            wrong += [row for row in others if row not in wrong]
        if claim.relation == "plans":
            wrong += [row for row in now if row.object == value_key]
        if relation.opposes:
            past += self._rows(
                columns.subject == subject.key,
                columns.relation == relation.opposes,
                columns.object == value_key,
                current(self._at),
            )
        return wrong, past

    def _corrected(
        self, claim: Assertion, subject: Entity, value_key: str, others: Sequence[Row]
    ) -> list[Row]:
        """Return the rows that a correction means."""
        columns = FACTS.c
        if claim.instead_of:
            instead = key_of(claim.instead_of)
            return self._rows(
                columns.subject == subject.key, columns.object == instead, current(self._at)
            )
        if vocabulary().is_role(claim.relation):
            # `No, Luna is the cat`: whoever goes by this name was taken for something else.
            taken = [
                row
                for row in self._rows(
                    columns.subject == subject.key,
                    columns.object == value_key,
                    current(self._at),
                )
                if vocabulary().is_role(row.relation) and row.relation != claim.relation
            ]
            if taken or claim.pattern == "is which, as a correction":
                return taken
        last = self._resolver.last_fact()
        return [row for row in others if last is not None and row.number == last.number]

    def _ended_by_move(self, claim: Assertion, subject: Entity, now: Sequence[Row]) -> None:
        key = key_of(claim.ends_value)
        known = [row for row in now if row.object == key]
        if not key or known:
            self._close(known, "changed", claim.valid_from)
            return
        until = replace(claim, value=claim.ends_value, valid_from=None, dated="")
        self._insert(replace(until, valid_to=claim.valid_from or self._said.at), subject, key)

    # -- what does not -------------------------------------------------------------

    def _end(self, claim: Assertion, subject: Entity, value_key: str) -> None:
        columns = FACTS.c
        where = [columns.subject == subject.key, columns.relation == claim.relation]
        if value_key:
            where.append(columns.object == value_key)
        rows = self._rows(*where)
        now = [row for row in rows if self._is_current(row)]
        if any(trust_in(row) > self._trust for row in now):
            return
        if now:
            why = "corrected" if claim.mode == "never" else "changed"
            self._close(now, why, claim.valid_to)
        elif claim.mode == "ended" and claim.value and not claim.known and not rows:
            self._insert(claim, subject, value_key)

    # -- rows ----------------------------------------------------------------------

    def _rows(self, *where: ColumnElement[bool]) -> list[Row]:
        return rows_where(self._connection, [self._said.scope], *where, limit=MAX_ROWS)

    def _is_current(self, row: Row) -> bool:
        until: str | None = row.valid_to
        return row.superseded is None and (until is None or until > self._at)

    def _close(self, rows: Sequence[Row], why: str, until: datetime | None) -> None:
        # What begins later than it is said ends the other one then.
        close(
            self._connection,
            rows,
            why=why,
            at=self._at,
            until=self._at if until is None else iso(until),
            by=(self._said.id, self._said.turn, self._said.session),
        )

    def _confidence(self, claim: Assertion) -> float:
        sure = claim.confidence * (ANSWER if self._said.speaker == ASSISTANT else 1.0)
        sure *= GUESSED if claim.subject.kind == "pronoun" else 1.0
        return round(sure * (TAINTED if self._said.taint else 1.0), 4)

    def _insert(
        self, claim: Assertion, subject: Entity, value_key: str, since: str | None = None
    ) -> None:
        said = self._said
        values: dict[str, Any] = {
            "id": new_id("fact"),
            "scope": said.scope,
            "kind": "fact",
            "subject": subject.key,
            "subject_name": subject.name,
            "relation": claim.relation,
            "object": value_key,
            "value": claim.value,
            "text": render(subject.name, claim.relation, claim.value, claim.dated),
            "folded": "",
            "confidence": self._confidence(claim),
            "speaker": said.speaker,
            "provenance": said.provenance,
            "taint": taint_text(said.taint),
            "session": said.session,
            "turn": said.turn,
            "valid_from": since or (iso(claim.valid_from) if claim.valid_from else None),
            "valid_to": iso(claim.valid_to) if claim.valid_to else None,
            "learned": self._at,
        }
        source = source_of(said, self._confidence(claim))
        row = insert_row(self._connection, values, [source])
        self._resolver.facts.append(row)
        self._mention_value(row)

    def _mention_value(self, row: Row) -> None:
        relation = vocabulary().relation(row.relation)
        if relation.gender:
            name = (
                row.value
                or f"{'the user' if row.subject == USER else row.subject_name}'s {row.relation}"
            )
            self._resolver.mention(Entity(row.object, name, relation.gender))


# -- whom a claim speaks of --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something that facts are about.

    Attributes:
        key: As it is compared; `user/sister` for one without a name.
        name: As it is shown.
        gender: Which pronouns mean it; "" where that is not known.
    """

    key: str
    name: str
    gender: str = ""


@dataclass(slots=True)
class Resolver:
    """Finds whom the claims of one message speak of.

    Attributes:
        connection: Of the caller's transaction.
        said: The message.
        mentioned: What was spoken of, the latest last.
        facts: What was learned from this message, the latest last.
    """

    connection: Connection
    said: Utterance
    mentioned: list[Entity] = field(default_factory=list)
    facts: list[Row] = field(default_factory=list)
    _looked_back: bool = False

    def find(self, ref: Ref) -> Entity | None:
        """Return whom `ref` means; None where that is not known."""
        if ref.kind == "speaker":
            return None if self.said.speaker == ASSISTANT else self.speaker()
        if ref.kind == "listener":
            return Entity(USER, USER) if self.said.speaker == ASSISTANT else None
        if ref.kind == "name":
            return self.named(ref.text)
        if ref.kind == "pronoun":
            return self._meant(ref.text)
        owner = self.find(ref.owner) if ref.owner is not None else None
        return self._role(owner, ref.text) if owner is not None else None

    def named(self, name: str) -> Entity | None:
        """Return who goes by `name`, if anybody is known by it."""
        key = key_of(name)
        for one in reversed(self.mentioned):
            if one.key == key:
                return one
        columns, scopes = FACTS.c, [self.said.scope]
        for row in rows_where(self.connection, scopes, columns.object == key, limit=RECENT_FACTS):
            if row.relation == "name":
                return Entity(row.subject, row.subject_name)
            if row.ending != "corrected" and kind_of_value(row.relation) in {
                "person",
                "pet",
                "thing",
            }:
                gender = vocabulary().relation(row.relation).gender
                return Entity(key, row.value, gender)
        about = rows_where(
            self.connection, scopes, columns.subject == key, columns.kind == "fact", limit=1
        )
        return Entity(key, about[0].subject_name) if about else None

    def mention(self, entity: Entity) -> None:
        """Note that an entity was spoken of."""
        if entity.key != self.speaker().key and entity.key != USER:
            self.mentioned.append(entity)

    def last_fact(self) -> Row | None:
        """Return the fact that was learned last in this session, if that is not long ago."""
        return next(iter(self.facts[-1:] or self._recent()), None)

    def latest_facts(self) -> list[Row]:
        """Return what was learned in this session and not long ago, the latest first."""
        return [*reversed(self.facts), *self._recent()]

    def last_role(self, owner: Entity) -> str:
        """Return what that was to somebody which was spoken of last; "" where that is not known."""
        for one in reversed(self.mentioned):
            whose, _, role = one.key.rpartition("/")
            if whose == owner.key:
                return role
            columns = FACTS.c
            tied = (columns.subject == owner.key, columns.object == one.key)
            for row in rows_where(self.connection, [self.said.scope], *tied, limit=RECENT_FACTS):
                if vocabulary().is_role(row.relation):
                    return str(row.relation)
        return ""

    def speaker(self) -> Entity:
        """Return who said it."""
        if self.said.speaker in {USER, ASSISTANT}:
            return Entity(USER, USER)
        return Entity(key_of(self.said.speaker), self.said.speaker)

    def _recent(self) -> list[Row]:
        since = iso(self.said.at - RECENT)
        columns = FACTS.c
        return rows_where(
            self.connection,
            [self.said.scope],
            columns.session == self.said.session,
            columns.kind == "fact",
            columns.learned >= since,
            columns.superseded.is_(None),
            limit=RECENT_FACTS,
        )

    def _meant(self, pronoun: str) -> Entity | None:
        genders = _MEANS.get(pronoun)
        if genders is None:
            return None
        if not self._looked_back:
            self._looked_back = True
            before = [entity for row in reversed(self._recent()) for entity in entities_of(row)]
            own = self.speaker().key
            self.mentioned[:0] = [one for one in before if one.key not in {own, USER}]
        for one in reversed(self.mentioned):
            if one.gender in genders:
                return one
        return None

    def _role(self, owner: Entity, role: str) -> Entity:
        columns = FACTS.c
        gender = vocabulary().relation(role).gender
        rows = rows_where(
            self.connection,
            [self.said.scope],
            columns.subject == owner.key,
            columns.relation == role,
            columns.value != "",
            current(iso(self.said.at)),
            limit=RECENT_FACTS,
        )
        known = {row.object: row.value for row in rows}
        if len(known) == 1:
            ((key, name),) = known.items()
            return Entity(key, name, gender)
        for one in reversed(self.mentioned):
            if one.key in known:
                return one
        whose = "the user" if owner.key == USER else owner.name
        return Entity(f"{owner.key}/{role}", f"{whose}'s {role}", gender)


def kind_of_value(relation: str) -> str:
    """Return what the value of a relation names; "" where facts cannot be about it."""
    return vocabulary().relation(relation).value


def entities_of(row: Row) -> list[Entity]:
    """Return whom a fact is about, and whom its value names."""
    found = [Entity(row.subject, row.subject_name, _gender_of_key(row.subject))]
    if vocabulary().is_role(row.relation):
        gender = vocabulary().relation(row.relation).gender
        name = row.value or f"{row.subject_name}'s {row.relation}"
        found.append(Entity(row.object, name, gender))
    return found


def _gender_of_key(key: str) -> str:
    role = key.rpartition("/")[2] if "/" in key else ""
    return vocabulary().relation(role).gender if role else ""
