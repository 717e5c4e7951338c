"""What of a capability is searched: the text for its vectors, and its weighted words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass

from hookgate import Capability
from hookgate.builtin_plugins.discovery.index.words import human_name, words_of

FORMAT = 2
"""Grows with each change of how texts and words are made: a saved index of another number is
made anew."""

TEXT_CHARS = 1200
"""The longest text for a vector: 300 tokens, each started four characters being one."""

FACTS_CHARS = 600
"""What category, tags, parameters and requirements have of it at least: a description that is
too long for the rest is cut, and drives none of them out."""

JOINT = ". "
"""Stands between the parts of the text, behind a full stop too: without the second one the mean
of Recall@5 over five public sets is 0.002 lower."""

PARAMETERS = 40
"""Parameters that count; the others of a longer list are passed over. So with tags."""


@dataclass(frozen=True, slots=True)
class Fields:
    """How much a word counts where it stands.

    Found on five public sets together, and judged by leaving out each of them in turn and
    tuning on the others: ``benchmarks/retrieval.py --leave-one-out``. They make little
    difference, but for the text of parameters, without which three of the sets lose.
    """

    name: float = 2.0
    description: float = 1.0
    category: float = 0.5
    tag: float = 0.25
    parameter: float = 0.7
    parameter_text: float = 0.9


FIELDS = Fields()

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s+")

_EG = re.compile(r"\b(?:e\.\s?g\.|eg\.)", re.IGNORECASE)
_EXAMPLES = re.compile(r"\b(?:such as|for example|for instance|examples?:)[^()]*", re.IGNORECASE)
"""Examples, up to the end of their sentence or of their brackets."""


def text_of(row: Capability) -> str:
    """Return the text that is embedded for `row`.

    Name, description, category, tags, names of parameters and required tools: what a person
    would say who wants it. Never the schema, the content or the names of secrets.
    """
    name, shown = human_name(row.name), human_name(row.display_name)
    if shown and shown.casefold() != name.casefold():
        name = f"{name} ({shown})"
    said = f"{name}. {row.description}".strip()
    facts = _facts(row, max(FACTS_CHARS, TEXT_CHARS - len(said) - len(JOINT)))
    if not facts:
        return _cut(said, TEXT_CHARS)
    return _cut(said, TEXT_CHARS - len(facts) - len(JOINT)) + JOINT + facts


def _facts(row: Capability, room: int) -> str:
    """Return what is known of `row` beside its name and description, within `room`.

    Where it is too much, the longest list loses what stands at its end.
    """
    lists = {
        "Category": [row.category] if row.category else [],
        "Use cases": list(row.tags[:PARAMETERS]),
        "Parameters": [human_name(one) for one in row.parameters[:PARAMETERS]],
        "Requires": [human_name(one) for one in row.required_tools[:PARAMETERS]],
    }

    def written() -> str:
        return JOINT.join(f"{title}: {', '.join(said)}" for title, said in lists.items() if said)

    while len(written()) > room and max(map(len, lists.values())) > 1:
        max(lists.values(), key=_spare).pop()
    return _cut(written(), room)


def _spare(said: list[str]) -> int:
    """Return how long a list is, as far as it can be shortened."""
    return sum(map(len, said)) if len(said) > 1 else 0


def _cut(text: str, room: int) -> str:
    """Return what of `text` fits, up to the end of a word."""
    if len(text) <= room:
        return text
    head, _, _ = text[:room].rpartition(" ")
    return head or text[:room]


def weights_of(row: Capability, fields: Fields = FIELDS) -> Counter[str]:
    """Return the words of `row` with the sum of their weights."""
    weights: Counter[str] = Counter()

    def add(text: str, weight: float, *, common: bool = False) -> None:
        for word in words_of(text, common=common) if weight else ():
            weights[word] += weight  # type: ignore[assignment]  # Counter holds any number

    add(row.name, fields.name, common=True)
    fresh = " ".join(_new_words(row.display_name, row.name))
    add(fresh, fields.name, common=True)
    add(row.description, fields.description)
    add(row.category, fields.category)
    add(" ".join(row.tags), fields.tag)
    add(" ".join(row.parameters[:PARAMETERS]), fields.parameter)
    said = map(without_examples, row.parameter_texts[:PARAMETERS])
    add(" ".join(said), fields.parameter_text)
    return weights


def without_examples(text: str) -> str:
    """Return what a schema says of a parameter, without the values that it gives as examples.

    They are not what the parameter is for: a time zone "such as Europe/Oslo" does not make a
    clock fit what is asked about Oslo. Common words in examples ("evidence, for example blood
    or fibers") say what is meant, and stay.
    """
    sentences = _SENTENCE.split(_EG.sub("for example", text))
    return " ".join(_EXAMPLES.sub(_without_values, sentence) for sentence in sentences)


def _without_values(examples: re.Match[str]) -> str:
    return " ".join(word for word in examples.group().split() if not _is_value(word))


def _is_value(word: str) -> bool:
    """Whether `word` is a literal value or a name: it has a sign, a digit or a capital."""
    bare = word.strip(".,;:!?")
    return not bare.isalpha() or (bare[:1].isupper() and not bare.isupper())


def _new_words(text: str, known: str) -> list[str]:
    """Return the words of `text` that do not stand in `known`."""
    held = set(human_name(known).casefold().split())
    return [word for word in human_name(text).split() if word.casefold() not in held]


def digest_of(row: Capability) -> bytes:
    """Return 16 bytes that change with anything that is searched of `row`."""
    texts = (row.name, row.display_name, row.description, row.category)
    lists = (row.tags, row.parameters, row.parameter_texts, row.required_tools)
    # Python's own notation tells where each text ends, whatever stands in it.
    written = repr((texts, tuple(map(tuple, lists))))
    return hashlib.blake2b(written.encode(), digest_size=16).digest()
