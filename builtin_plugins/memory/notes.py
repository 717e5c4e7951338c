"""Notes, their scopes, and how a query finds them.

A note belongs to one scope, and every way to it names that scope: there is no query that
could see two.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from hookgate import CLEAN, SessionKey, Taint
from hookgate.channels import is_guest_channel

MAX_WORDS = 16
"""Words of a query that are looked for."""

_WORD = re.compile(r"\w+")

_COMMON_WORDS = """
    a about an and are at be did do does for from had has have he her his how i in is it its
    me my of on or our she so that the their them they this to was we were what when where
    which who whose why will with you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""Words that nearly every note and every question has; they say nothing about either."""


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


def scope_of(session: SessionKey, width: Literal["session", "peer", "agent"]) -> str:
    """Return the scope that what is remembered in a session belongs to."""
    if width == "agent":
        return f"agent:{session.agent}"
    if width == "peer":
        # Whom a stranger's channel names as its peer is nobody's peer elsewhere.
        channel = session.channel if is_guest_channel(session.channel) else ""
        return f"peer:{SessionKey(session.agent, channel, session.account, session.peer)}"
    return f"session:{session}"


def fold(text: str) -> str:
    """Return `text` in the form in which notes and queries are compared."""
    return unicodedata.normalize("NFKC", text).casefold()


def words_of(query: str) -> list[str]:
    """Return the words to look for: folded, each once, without the common ones.

    Where a query has common words only, those are looked for.
    """
    words = list(dict.fromkeys(_WORD.findall(fold(query))))
    # What an apostrophe leaves over is no word; a single character beyond ASCII may be one.
    words = [word for word in words if len(word) > 1 or not word.isascii() or word.isdigit()]
    telling = [word for word in words if word not in _COMMON]
    return (telling or words)[:MAX_WORDS]


class ProcessNotes:
    """Keeps notes in the process, where there is no store. They end with it."""

    def __init__(self) -> None:
        self._scopes: dict[str, dict[str, Note]] = {}

    async def add(self, note: Note, *, limit: int) -> Note:
        """Keep `note`; return what is kept.

        A note that says the same as one of its scope takes that one's place: with its id,
        the later time, and the taint of both.

        Raises:
            FullError: The scope holds `limit` notes already.
        """
        kept = self._scopes.setdefault(note.scope, {})
        text = fold(note.text)
        for old in kept.values():
            if fold(old.text) == text:
                note = replace(note, id=old.id, taint=note.taint | old.taint)
                break
        else:
            if len(kept) >= limit:
                raise FullError(f"{limit} notes are kept already")
        # Put at the end: the order of the notes is that of their times.
        kept.pop(note.id, None)
        kept[note.id] = note
        return note

    async def search(self, scope: str, words: Sequence[str], *, limit: int) -> Sequence[Note]:
        """Return the notes of `scope` that hold most of `words`, of equals the newest first."""
        hits = []
        for note in reversed(self._scopes.get(scope, {}).values()):
            text = fold(note.text)
            count = sum(word in text for word in words)
            if count:
                hits.append((count, note))
        hits.sort(key=lambda hit: -hit[0])
        return [note for _, note in hits[:limit]]

    async def remove(self, scope: str, note_id: str) -> bool:
        """Remove a note of `scope`; return whether there was one."""
        return self._scopes.get(scope, {}).pop(note_id, None) is not None
