"""The words and relations that facts are read by, which are data."""

from __future__ import annotations

import tomllib
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What a fact says of its subject.

    Attributes:
        name: Unique.
        single: Whether one value holds at a time.
        value: What the value names (`place`, `person`, ...); "" where facts are not about it.
        text: The fact in words, with `{subject}`, `{relation}` and `{value}`.
        asks: Words of a question that it answers.
        opposes: The relation that cannot hold of the same value.
        gender: Of a role: which pronouns may stand for it; "" for any other relation.
    """

    name: str
    single: bool = False
    value: str = ""
    text: str = "{subject}'s {relation}: {value}"
    asks: tuple[str, ...] = ()
    opposes: str = ""
    gender: str = ""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All that the data files say.

    Attributes:
        relations: By name; roles are among them.
        roles: The role of each word for one, in singular and plural.
        aliases: Another word for a word.
        words: Lists of words, by section and key.
        asked: The relations that a word of a question asks for.
    """

    relations: dict[str, Relation]
    roles: dict[str, str]
    aliases: dict[str, str]
    words: dict[str, dict[str, list[str]]] = field(repr=False)
    asked: dict[str, tuple[str, ...]] = field(repr=False)

    def relation(self, name: str) -> Relation:
        """Return a relation; `favourite colour` and its like are all of one kind."""
        found = self.relations.get(name)
        if found is None and name.startswith("favourite "):
            found = self.relations["favourite"]
        return found or Relation(name=name)

    def is_role(self, name: str) -> bool:
        """Whether a relation says what somebody or something is to somebody."""
        relation = self.relations.get(name)
        return relation is not None and relation.gender != ""


def key_of(name: str) -> str:
    """Return `name` as facts are compared: without case, width, articles or an alias."""
    folded = " ".join(unicodedata.normalize("NFKC", name).casefold().replace("’", "'").split())
    folded = folded.strip(".,;:!?\"'")
    known = vocabulary()
    folded = known.aliases.get(folded, folded)
    for article in ("the ", "a ", "an "):
        folded = folded.removeprefix(article)
    return known.aliases.get(folded, folded)


@cache
def vocabulary() -> Vocabulary:
    """Return the vocabulary; it is read once."""
    words = tomllib.loads((FOLDER / "words.toml").read_text(encoding="utf-8"))
    rows = tomllib.loads((FOLDER / "relations.toml").read_text(encoding="utf-8"))["relation"]
    groups = words.pop("roles")
    aliases, forms = words.pop("aliases"), words.pop("forms")
    relations = {row["name"]: _relation(row) for row in rows}
    roles: dict[str, str] = {}
    for group in groups:
        for word in group["words"]:
            name = aliases.get(word, word)
            roles[word] = roles[f"{word}s"] = name
            relations.setdefault(name, _role(name, group))
    roles |= {form: aliases.get(one, one) for form, one in forms.items()}
    return Vocabulary(relations, roles, aliases, words, _asked(relations, roles))


def _relation(row: dict[str, Any]) -> Relation:
    return Relation(**(row | {"asks": tuple(row.get("asks", ()))}))


def _role(name: str, group: dict[str, Any]) -> Relation:
    return Relation(
        name=name,
        single=group.get("single", False),
        value=group["kind"],
        gender=group["gender"],
    )


def _asked(relations: dict[str, Relation], roles: dict[str, str]) -> dict[str, tuple[str, ...]]:
    asked: dict[str, dict[str, None]] = {}
    for relation in relations.values():
        for word in relation.asks:
            asked.setdefault(word, {})[relation.name] = None
    for word, role in roles.items():
        asked.setdefault(word, {})[role] = None
    pets = [one.name for one in relations.values() if one.value == "pet"]
    for word, names in _FAMILIES.items():
        found = pets if word.startswith("pet") else names
        asked.setdefault(word, {}).update(dict.fromkeys(found))
    return {word: tuple(names) for word, names in asked.items()}


_FAMILIES: dict[str, tuple[str, ...]] = {
    "pet": (),
    "pets": (),
    "animal": (),
    "animals": (),
    "parents": ("mother", "father"),
    "siblings": ("sister", "brother"),
    "children": ("child", "son", "daughter"),
    "kids": ("child", "son", "daughter"),
    "grandparents": ("grandmother", "grandfather"),
    "family": ("wife", "husband", "mother", "father", "sister", "brother", "son", "daughter"),
    "married": ("spouse", "wife", "husband", "partner"),
    "spouse": ("wife", "husband", "partner"),
}
