"""The code by which a question is answered, and the forms in which an answer comes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from hookgate import Choice, ReceivedMessage

LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without those that are taken for one another."""

DIGITS = 8
WHOLE = 12
SHOWN = 4
"""So much of a code people write; buttons carry all of it."""

PREFIX = "hookgate"

DECISIONS = {"allow": "allow-once", "always": "allow-always", "deny": "deny"}
LABELS = {"allow-once": "Allow once", "allow-always": "Allow always", "deny": "Deny"}

_TEXT = re.compile(r"\s*(allow|always|deny)\s+([2-9][2-9A-HJ-NP-Z]{3,11})\s*", re.IGNORECASE)
_DATA = re.compile(rf"{PREFIX}:([a-z-]{{4,12}}):([2-9A-HJ-NP-Z]{{12}})")


def code_of(question_id: str, digest: str) -> str:
    """Return the code of a question: 12 letters and digits, a digit first.

    It follows from the question and from all that an answer is bound to, so that any gateway on
    the store knows it, and a code never stands for another call.
    """
    number = int.from_bytes(hashlib.sha256(f"{question_id}\n{digest}".encode()).digest())
    code = LETTERS[number % DIGITS]
    for _ in range(WHOLE - 1):
        number //= len(LETTERS)
        code += LETTERS[number % len(LETTERS)]
    return code


def choices_of(code: str, offered: Sequence[str]) -> tuple[Choice, ...]:
    """Return the buttons that answer a question."""
    return tuple(
        Choice(LABELS.get(decision, decision), f"{PREFIX}:{decision}:{code}")
        for decision in offered
    )


def words_of(code: str, offered: Sequence[str]) -> str:
    """Return what an approver writes who sees no buttons."""
    words = [f"{word} {code[:SHOWN]}" for word, one in DECISIONS.items() if one in offered]
    return ", ".join(f"`{text}`" for text in words)


def read_answer(message: ReceivedMessage) -> tuple[str, str] | None:
    """Return decision and code of a message that answers a question; None where it does not."""
    if message.choice:
        found = _DATA.fullmatch(message.choice)
        return None if found is None else (found[1], found[2])
    found = _TEXT.fullmatch(message.content)
    return None if found is None else (DECISIONS[found[1].lower()], found[2].upper())
