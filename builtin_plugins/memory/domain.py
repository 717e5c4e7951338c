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
class Passage:
    """A text, whose it is, and where it came from.

    Attributes:
        id: The id of the message or of the row.
        scope: Whose it is.
        text: What it says, understandable by itself.
        session: The session that it was said in, as text.
        turn: The turn that it was said in.
        taint: Where untrusted text came from in it, and in what led to it.
        provenance: How the turn had come in.
    """

    id: str
    scope: Scope
    text: str
    session: str = ""
    turn: str = ""
    taint: Taint = CLEAN
    provenance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance(Passage):
    """One message, as memory takes it in: no block, no result of a tool, nothing recalled.

    Attributes:
        at: When, in UTC.
        speaker: `USER`, `ASSISTANT`, or the name of somebody else who took part.
    """

    at: datetime
    speaker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Passage):
    """Something that a search found.

    Attributes:
        kind: What it is.
        at: When it was said, in UTC.
        score: How well it answers; compares among the hits of one search of one kind.
        why: Why it was found, one reason each: ``names Luna``, ``word: dog``.
        speaker: Who said it, of a turn; see `Utterance.speaker`.
    """

    kind: Kind
    at: datetime
    score: float
    why: tuple[str, ...]
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
class Note(Passage):
    """Something to remember.

    Attributes:
        created: When it was last said, in UTC.
    """

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
