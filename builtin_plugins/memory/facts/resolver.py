"""Whom a claim speaks of: names, roles and pronouns, by what is known in the scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER, Utterance
from hookgate.builtin_plugins.memory.facts.grammar import key_of, vocabulary
from hookgate.builtin_plugins.memory.facts.rows import Row, current, iso, rows_where
from hookgate.builtin_plugins.memory.tables import FACTS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate.builtin_plugins.memory.facts.clauses import Ref

RECENT = timedelta(minutes=30)
"""How long ago a thing was last spoken of for a pronoun of a later message to mean it."""

RECENT_FACTS = 8

_MEANS = {
    "she": {"f", "any"},
    "he": {"m", "any"},
    "they": {"f", "m", "any"},
    "it": {"any", "thing"},
}


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
            return None if self.said.speaker == ASSISTANT else self._speaker()
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
        if entity.key != self._speaker().key and entity.key != USER:
            self.mentioned.append(entity)

    def last_fact(self) -> Row | None:
        """Return the fact that was learned last in this session, if that is not long ago."""
        if self.facts:
            return self.facts[-1]
        found = self._recent()
        return found[0] if found else None

    def _speaker(self) -> Entity:
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
            own = self._speaker().key
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
