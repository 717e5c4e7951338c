"""What of a capability is searched: the text for its vectors, and its weighted words."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.discovery.words import human_name, words_of

if TYPE_CHECKING:
    from hookgate.core.descriptors import Capability

__all__ = ["FORMAT", "digest_of", "sentences_of", "text_of", "weights_of"]

FORMAT = 1
"""Grows with each change of how texts and words are made: a saved index of another number is
made anew."""

TEXT_CHARS = 1200
"""The longest text for a vector: about 300 tokens."""

PARAMETERS = 40
"""Parameters that count; the others of a longer list are passed over."""

SENTENCES = 6
"""Sentences of a description that get a vector of their own at most."""

NAME, DESCRIPTION, CATEGORY, TAG, PARAMETER, PARAMETER_TEXT = 2.0, 1.0, 0.5, 0.25, 0.7, 0.9
"""How much a word counts where it stands. Found by coordinate ascent on the mean of Recall@5
and NDCG@5 over five public sets; `benchmarks/retrieval.py` measures them."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|;\s+")


def text_of(row: Capability) -> str:
    """Return the text that is embedded for `row`.

    Name, description, category, tags, names of parameters and required tools: what a person
    would say who wants it. Never the schema, the content or the names of secrets.
    """
    name, shown = human_name(row.name), human_name(row.display_name)
    if shown and shown.casefold() != name.casefold():
        name = f"{name} ({shown})"
    parts = [f"{name}. {row.description}".strip()]
    if row.category:
        parts.append(f"Category: {row.category}")
    if row.tags:
        parts.append(f"Use cases: {', '.join(row.tags)}")
    if row.parameters:
        names = (human_name(parameter) for parameter in row.parameters[:PARAMETERS])
        parts.append(f"Parameters: {', '.join(names)}")
    if row.required_tools:
        parts.append(f"Requires: {', '.join(map(human_name, row.required_tools))}")
    return ". ".join(parts)[:TEXT_CHARS]


def sentences_of(row: Capability) -> list[str]:
    """Return the sentences of a description, each behind the name; none where it has only one.

    The vector of a long description is the mean of all that it says; a message is about one
    of these things.
    """
    sentences = [piece.strip() for piece in _SENTENCE.split(row.description)]
    sentences = [piece for piece in sentences if len(piece.split()) >= 3][:SENTENCES]
    if len(sentences) < 2:
        return []
    name = human_name(row.name)
    return [f"{name}: {sentence}"[:TEXT_CHARS] for sentence in sentences]


def weights_of(row: Capability) -> Counter[str]:
    """Return the words of `row` with the sum of their weights."""
    weights: Counter[str] = Counter()

    def add(text: str, weight: float, *, common: bool = False) -> None:
        for word in words_of(text, common=common):
            weights[word] += weight  # type: ignore[assignment]  # Counter holds any number

    add(row.name, NAME, common=True)
    fresh = " ".join(_new_words(row.display_name, row.name))
    add(fresh, NAME, common=True)
    add(row.description, DESCRIPTION)
    add(row.category, CATEGORY)
    add(" ".join(row.tags), TAG)
    add(" ".join(row.parameters[:PARAMETERS]), PARAMETER)
    add(" ".join(row.parameter_texts[:PARAMETERS]), PARAMETER_TEXT)
    return weights


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
