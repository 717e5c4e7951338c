"""What memory is about: what was said, what was noted, and what a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate import CLEAN, OperationModel, SessionKey, Taint
from hookgate.channels import is_guest_channel

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.settings import MemberSettings, MemorySettings

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


# -- whose memory it is ------------------------------------------------------------------------

Scope: TypeAlias = str
"""Whose a row is: ``session:KEY``, ``peer:CHANNEL:ACCOUNT:PEER``, ``agent:NAME`` or
``shared:NAME``. Every row has one, and every query names those that it may read."""

Width: TypeAlias = Literal["session", "peer", "agent"]

WIDTHS: tuple[Width, ...] = ("session", "peer", "agent")
"""From the narrowest on."""

SCOPES = (*WIDTHS, "shared")
"""What a scope may begin with."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """What a session may read.

    Attributes:
        kept: The scope of what is learned in it.
        read: All that it reads, that one among them.
    """

    kept: Scope
    read: tuple[Scope, ...]


def scope_of(session: SessionKey, width: Width) -> Scope:
    """Return the scope that what is remembered in a session belongs to."""
    if width == "agent":
        return f"agent:{session.agent}"
    if width == "peer":
        # Whom a stranger's channel names as its peer is nobody's peer elsewhere.
        channel = session.channel if is_guest_channel(session.channel) else ""
        return f"peer:{SessionKey(session.agent, channel, session.account, session.peer)}"
    return f"session:{session}"


def own_scopes(session: SessionKey) -> list[Scope]:
    """Return the scopes that rows of a session may have, whatever is set; shared ones aside."""
    return [scope_of(session, width) for width in WIDTHS]


def scopes_of(session: SessionKey, settings: MemorySettings) -> Scopes:
    """Return whose memory a session reads and adds to."""
    own = _own(session, settings.scope)
    if not settings.share:
        return own
    named = (session.agent, session.channel, session.account, session.peer)
    shared = [
        f"shared:{name}"
        for name, members in settings.share.items()
        if any(_is_one(member, named) for member in members)
    ]
    kept = shared[0] if shared else own.kept
    return Scopes(kept=kept, read=tuple(dict.fromkeys((kept, *own.read, *shared))))


@lru_cache(maxsize=4096)
def _own(session: SessionKey, width: Width) -> Scopes:
    """Return what a session reads where nothing is shared; a turn asks for it several times."""
    read = [scope_of(session, one) for one in WIDTHS[: WIDTHS.index(width) + 1]]
    return Scopes(kept=read[-1], read=(read[-1], *read[:-1]))


def _is_one(member: MemberSettings, named: tuple[str, str, str, str]) -> bool:
    """Whether `member` means a session; that of a stranger's channel, where it names such ones."""
    if is_guest_channel(named[1]) and not is_guest_channel(member.channel):
        return False
    meant = (member.agent, member.channel, member.account, member.peer)
    return all(map(fnmatchcase, named, meant))


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
