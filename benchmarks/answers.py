"""What mocked models say: sentences as people get them, and no two answers the same."""

from __future__ import annotations

import random
from itertools import pairwise

OPENINGS = (
    "I have looked it up for you",
    "Here is what I found",
    "That is a good question",
    "As far as I can tell",
    "Let me go through it",
)
SENTENCES = (
    "The train from {place} leaves at {hour}:{minute} and takes about {number} hours.",
    "In {place} it is {number} degrees, and it stays dry until {day}.",
    "Anna's invoice number {number}{minute} was paid on {day}.",
    "The hotel near the harbour of {place} has a room for {number}{minute} crowns a night.",
    "Your table holds {number} rows now; the last one is of {day}.",
    "Nobody has answered the letter to {place} yet, so I would ask again on {day}.",
    "The report of {day} names {number} open points, two of which are yours.",
    "If you leave before {hour}:{minute}, the road to {place} is free.",
)
PLACES = ("Oslo", "Bergen", "Turin", "Vienna", "Porto", "Gdansk", "Leeds", "Basel")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

LAST = "Tell me if you need more."
"""Ends every whole answer."""


def answer(seed: str, length: int = 300) -> str:
    """Return an answer of about so many characters, the same for the same `seed`."""
    chance = random.Random(seed)
    said = f"{chance.choice(OPENINGS)}."
    while len(said) + len(LAST) < length:
        said += " " + chance.choice(SENTENCES).format(
            place=chance.choice(PLACES),
            hour=chance.randint(6, 22),
            minute=chance.randint(10, 59),
            number=chance.randint(2, 29),
            day=chance.choice(DAYS),
        )
    return f"{said} {LAST}"


def pieces(text: str, count: int) -> list[str]:
    """Return `text` in so many pieces, as a model streams it: whole words, of uneven lengths."""
    words = text.split(" ")
    cuts = [len(words) * place // count for place in range(count + 1)]
    parts = [" ".join(words[start:end]) for start, end in pairwise(cuts)]
    return [part if place == 0 else f" {part}" for place, part in enumerate(parts) if part]
