"""What memory is about: what was said, what was noted, and what a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate import CLEAN, OperationModel, Taint

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.scopes import Scope

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


@dataclass(slots=True, kw_only=True)
class Aside:
    """What a search for the message of a turn tells beside what it finds.

    Attributes:
        orders: What people have asked for once and for all; it is not found besides.
        near: How near to the message the nearest turn came, where that is below the floor of
            relevance, so that no turns are found.
    """

    orders: list[Hit] = field(default_factory=list)
    near: float | None = None


class FullError(ValueError):
    """The scope holds as many notes as it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something to remember.

    Attributes:
        id: Unique.
        scope: Whose it is.
        text: What it says.
        taint: Where untrusted text came from in what led to it.
        provenance: How the turn that wrote it had come in.
        session: The session that wrote it.
        turn: The turn that wrote it.
        created: When it was last said, in UTC.
    """

    id: str
    scope: str
    text: str
    taint: Taint = CLEAN
    provenance: str = ""
    session: str = ""
    turn: str = ""
    created: datetime


class Forgotten(OperationModel):
    """What is gone."""

    facts: int
    """Facts and notes."""
    pieces: int
    """Pieces of what was said."""
    check: bool = False
    """Whether it is still there: it was only asked what would go."""


class Imported(OperationModel):
    """What became of rows."""

    new: int
    """How many were added."""
    known: int
    """How many were there already."""
