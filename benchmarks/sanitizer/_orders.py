"""Made-up orders, to train the sanitizer's model on: see ``orders.toml`` and ``steps.toml``."""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

GRAMMAR = Path(__file__).with_name("orders.toml")
STEPS_OF_GUIDES = Path(__file__).with_name("steps.toml")
FOREIGN = 0.2
"""The share of orders in another language than English."""
MISSPELT = 0.6
"""The share of orders with a typo in every third word."""
CAPITAL = 0.8

_PART = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiouAEIOU])")


def orders(count: int, seed: int, made_of: Path = GRAMMAR) -> list[str]:
    """Return `count` orders, always the same ones for a seed."""
    grammar = tomllib.loads(made_of.read_text(encoding="utf-8"))
    chance = random.Random(seed)
    return [_order(grammar, chance) for _ in range(count)]


def _order(grammar: Mapping[str, Any], chance: random.Random) -> str:
    parts, patterns = [grammar["parts"]], grammar["patterns"]
    languages = grammar.get("languages")
    if languages and chance.random() < FOREIGN:
        parts.insert(0, languages["parts"][chance.choice(sorted(languages["parts"]))])
        patterns = languages["patterns"]
    text = _expanded(chance.choice(patterns), parts, chance)
    if chance.random() < CAPITAL:
        text = text[0].upper() + text[1:]
    return misspelt_at_times(text, chance)


def _expanded(
    pattern: str, parts: Sequence[Mapping[str, Sequence[str]]], chance: random.Random
) -> str:
    def chosen(found: re.Match[str]) -> str:
        name = found[1]
        return chance.choice(next(known[name] for known in parts if name in known))

    while _PART.search(pattern):
        pattern = _PART.sub(chosen, pattern)
    text = " ".join(pattern.split()).replace(" .", ".").replace(" ,", ",").replace("..", ".")
    return _ARTICLE.sub(r"\1n ", text)


def misspelt_at_times(text: str, chance: random.Random) -> str:
    """Return `text` with typos in its words, or as it is."""
    return misspelt(text, chance) if chance.random() < MISSPELT else text


def misspelt(text: str, chance: random.Random, share: float = 1 / 3) -> str:
    """Return `text` with a typo in that share of its words: letters swapped, lost or added."""
    words = text.split(" ")
    for number, word in enumerate(words):
        if len(word) > 3 and chance.random() < share:
            at, kind = chance.randrange(len(word) - 1), chance.randrange(3)
            added = chance.choice(string.ascii_lowercase)
            words[number] = (
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                word[:at] + word[at + 1 :],
                word[:at] + added + word[at:],
            )[kind]
    return " ".join(words)
