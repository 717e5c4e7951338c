"""What facts are read by, which is data: words, relations, expressions and patterns."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

SURE, UNSURE = 0.9, 0.6
"""How surely words say something that do not doubt it, and that do."""

_NAMED = re.compile(r"\{([A-Za-z]+)(?:\.([a-z]+))?\}")
_VALUE = re.compile(r"\{(?P<kind>[a-z]+)(?::(?P<group>[a-z]+))?\}")
_GROUP = re.compile(r"\?P<\w+>")
_CAPITAL = re.compile(r"\\.|[A-Z]")
_BREAK = re.compile(r"\n *")

TAIL = 16
"""More characters than `reported` fits, and than one of the words that `trailing` fits. Both end
with the text, and are looked for in no more of it."""


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
        lasting: Whether it outlasts whom it is of; of a role: whom it names.
        many: Whether people have so many that whom they are of alone says too little.
        gender: Of a role: which pronouns may stand for it; "" for any other relation.
    """

    name: str
    single: bool = False
    value: str = ""
    text: str = "{subject}'s {relation}: {value}"
    asks: tuple[str, ...] = ()
    opposes: str = ""
    lasting: bool = False
    many: bool = False
    gender: str = ""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All that the data files say of words.

    Attributes:
        relations: By name; roles are among them.
        roles: The role of each word for one, in singular and plural.
        aliases: Another word for a word.
        counts: The numbers of words.
        gerunds: Verbs by the form with `ing`.
        words: Lists of words, by section and key.
        asked: The relations that a word of a question asks for.
    """

    relations: dict[str, Relation]
    roles: dict[str, str]
    aliases: dict[str, str]
    counts: dict[str, int]
    gerunds: dict[str, str]
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


@dataclass(frozen=True, slots=True)
class Grammar:
    """What ``grammar.toml`` says beside its expressions.

    Attributes:
        kinds: The kinds of values that one expression knows; `{0}` is the name of the group.
        short: Fits where any of `short_forms` does: hardly a clause holds one.
        short_forms: What is written short, and how it is read.
    """

    kinds: Mapping[str, str]
    short: re.Pattern[str]
    short_forms: tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One entry of ``patterns.toml``, where each field is explained."""

    name: str
    match: re.Pattern[str]
    values: tuple[tuple[str, str], ...]
    finds: str
    misses: str
    relation: str = ""
    denied: str = ""
    subject: str = ""
    tense: str = "present"
    also: str = ""
    also_status: bool = False
    proper: bool = False
    capital: bool = False
    profession: bool = False
    correction: bool = False
    dated: bool = False
    ends: bool = False
    over: bool = False
    sure: float = SURE
    until: str = ""
    prefix: str = ""
    keeps_time: bool = field(init=False, default=False)
    """Whether a time among the words is the value itself."""

    def __post_init__(self) -> None:
        """Look once: each pattern is asked by every sentence."""
        keeps = self.tense == "routine" or any(kind == "date" for kind, _ in self.values)
        object.__setattr__(self, "keeps_time", keeps)


def _read(file: str) -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))


# -- words ---------------------------------------------------------------------------


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
    words = _read("words.toml")
    groups, forms, families = words.pop("roles"), words.pop("forms"), words.pop("families")
    aliases, counts, gerunds = words.pop("aliases"), words.pop("counts"), words.pop("gerunds")
    relations = {
        row["name"]: Relation(**(row | {"asks": tuple(row.get("asks", ()))}))
        for row in _read("relations.toml")["relation"]
    }
    roles: dict[str, str] = {}
    for group in groups:
        kind = {"value": group["kind"], "gender": group["gender"]}
        more = {name: group.get(name, False) for name in ("single", "lasting")}
        for word in group["words"]:
            name = aliases.get(word, word)
            roles[word] = roles[f"{word}s"] = name
            role = Relation(name=name, **kind, **more)
            relations.setdefault(name, role)
    for topic in words["work"]["topics"]:
        relations[topic] = Relation(name=topic, single=True, asks=(topic,))
    roles |= {form: aliases.get(one, one) for form, one in forms.items()}
    asked = _asked(relations, roles, families)
    return Vocabulary(relations, roles, aliases, counts, gerunds, words, asked)


def _asked(
    relations: Mapping[str, Relation],
    roles: Mapping[str, str],
    families: Mapping[str, Iterable[str]],
) -> dict[str, tuple[str, ...]]:
    asked: dict[str, dict[str, None]] = {}
    for relation in relations.values():
        for word in relation.asks:
            asked.setdefault(word, {})[relation.name] = None
    for word, role in roles.items():
        asked.setdefault(word, {})[role] = None
    pets = [one.name for one in relations.values() if one.value == "pet"]
    every = dict.fromkeys(("pet", "pets", "animal", "animals"), pets)
    for word, names in {**every, **families}.items():
        asked.setdefault(word, {}).update(dict.fromkeys(names))
    return {word: tuple(names) for word, names in asked.items()}


# -- expressions -----------------------------------------------------------------------


def _any_of(words: Iterable[str]) -> str:
    """Return a group for a regular expression that fits `words`, longest first.

    They stand by their first letters, since alternatives are tried one by one.
    """
    rests: dict[str, list[str]] = {}
    for word in sorted(words, key=len, reverse=True):
        rests.setdefault(_literal(word[0]), []).append(_literal(word[1:]))
    ways = [f"{first}(?:{'|'.join(rest)})" for first, rest in rests.items()]
    return f"(?:{'|'.join(ways)})"


def _literal(text: str) -> str:
    return re.escape(text).replace("'", "['’]")


@cache
def _rows() -> dict[str, Any]:
    return _read("grammar.toml")


def _written(text: str) -> str:
    """Return an expression with what it names in its place."""
    return _NAMED.sub(_named, _BREAK.sub("", text))


def _named(match: re.Match[str]) -> str:
    name, key = match[1], match[2]
    known = vocabulary()
    if key:
        return _any_of(known.words[name][key])
    if name in ("roles", "counts"):
        return _any_of(known.roles if name == "roles" else known.counts)
    return _written(_rows()["parts"][name])


class _Expressions(dict[str, re.Pattern[str]]):
    """The expressions of ``grammar.toml`` by name, compiled when the first one is asked for.

    That takes as long as a plugin takes to start, and who talks to nobody needs none.
    """

    def __missing__(self, name: str) -> re.Pattern[str]:
        """Compile all of them."""
        for flags, rows in ((re.IGNORECASE, _rows()["folded"]), (0, _rows()["exact"])):
            self.update({key: re.compile(_written(text), flags) for key, text in rows.items()})
        return dict(self)[name]


EXPRESSIONS = _Expressions()


def may_hold(name: str, text: str) -> bool:
    """Whether `text` may hold what an expression looks for; False is certain.

    Args:
        name: The expression that says so of texts in small letters.
        text: Any text; of letters beyond ASCII some have two small forms, so nothing is said.
    """
    return not text.isascii() or EXPRESSIONS[name].search(text.lower()) is not None


@cache
def grammar() -> Grammar:
    """Return the rest of the grammar; it is read once."""
    rows = _rows()
    forms = [(re.compile(short, re.IGNORECASE), whole) for short, whole in rows["short_forms"]]
    any_short = re.compile("|".join(short for short, _ in rows["short_forms"]), re.IGNORECASE)
    kinds = {name: _BREAK.sub("", text) for name, text in rows["kinds"].items()}
    return Grammar(kinds, any_short, tuple(forms))


# -- patterns ----------------------------------------------------------------------------


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return the patterns, in the order in which they are tried; they are read once."""
    return tuple(_pattern(row) for row in _read("patterns.toml")["pattern"])


@cache
def _any_pattern(flags: re.RegexFlag) -> re.Pattern[str]:
    each = (_GROUP.sub("?:", one.match.pattern) for one in patterns())
    return re.compile("|".join(_CAPITAL.sub(_small, one) for one in each), flags)


def _small(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else match[0].lower()


def fits_any(text: str) -> bool:
    """Whether any pattern fits the whole of `text`: most texts fit none.

    That is asked once and not by each of them, and with regard to case, where that is the same:
    then those that begin with another letter are passed over at once.
    """
    if text.isascii():
        return _any_pattern(re.NOFLAG).fullmatch(text.lower()) is not None
    return _any_pattern(re.IGNORECASE).fullmatch(text) is not None


def _pattern(row: dict[str, Any]) -> Pattern:
    values: list[tuple[str, str]] = []
    kinds = grammar().kinds

    def written(match: re.Match[str]) -> str:
        kind, group = match["kind"], match["group"] or match["kind"]
        if kind == "a":
            return "(?:an|a|the|one)"
        if kind == "role":
            return rf"(?:[\w-]+ ){{0,2}}?(?P<role>{_any_of(vocabulary().roles)})"
        if kind == "topic":
            return f"(?P<topic>{_any_of(vocabulary().words['work']['topics'])})"
        values.append((kind, group))
        return kinds[kind].replace("{0}", group) if kind in kinds else rf"(?P<{group}>.{{1,160}}?)"

    text = _VALUE.sub(written, row["match"])
    return Pattern(
        **(row | {"match": re.compile(f"(?:{text})", re.IGNORECASE), "values": tuple(values)})
    )
