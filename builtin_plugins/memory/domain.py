"""What memory is about: who may read a row, what was said, and what a search finds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from hookgate import CLEAN, Taint

Scope: TypeAlias = str
"""Whose a row is: ``session:KEY``, ``peer:CHANNEL:ACCOUNT:PEER``, ``agent:NAME`` or
``shared:NAME``. Every row has one, and every query names those that it may read."""

SCOPES = ("session", "peer", "agent", "shared")
"""What a scope may begin with."""

Kind: TypeAlias = Literal["turn", "fact", "note"]

USER = "user"
ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """One message, as memory takes it in.

    Attributes:
        id: The message's id.
        scope: Whose it is to be kept as.
        session: The session that it was said in, as text.
        turn: The turn that it belongs to.
        at: When, in UTC.
        speaker: `USER`, `ASSISTANT`, or the name of somebody else who took part.
        text: What was said: no block, no result of a tool, nothing that was recalled.
        taint: Where untrusted text in it came from.
        provenance: How it had come in.
    """

    id: str
    scope: Scope
    session: str
    turn: str
    at: datetime
    speaker: str
    text: str
    taint: Taint = CLEAN
    provenance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that a search found.

    Attributes:
        id: The row's id.
        kind: What it is.
        text: What it says, understandable by itself.
        at: When it was said, in UTC.
        score: How well it answers; compares among the hits of one search of one kind.
        why: Why it was found, one reason each: ``names Luna``, ``word: dog``.
        scope: Whose it is.
        taint: Where untrusted text in it came from.
        provenance: How it had come in.
        session: The session that it was said in, as text.
        turn: The turn that it was said in.
        speaker: Who said it, of a turn; see `Utterance.speaker`.
    """

    id: str
    kind: Kind
    text: str
    at: datetime
    score: float
    why: tuple[str, ...]
    scope: Scope
    taint: Taint = CLEAN
    provenance: str = ""
    session: str = ""
    turn: str = ""
    speaker: str = ""


def check_scope(scope: str) -> Scope:
    """Return `scope` if it is one.

    Raises:
        ValueError: It does not begin with one of `SCOPES` and a colon, or names nobody.
    """
    kind, colon, name = scope.partition(":")
    if kind not in SCOPES or not colon or not name:
        expected = ", ".join(f"`{one}:NAME`" for one in SCOPES)
        raise ValueError(f"found scope {scope!r}, expected one of {expected}")
    return scope
