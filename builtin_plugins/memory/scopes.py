"""Whose memory a session reads and adds to: the settings say so, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hookgate import SessionKey
from hookgate.builtin_plugins.memory.notes import scope_of
from hookgate.channels import is_guest_channel

if TYPE_CHECKING:
    from hookgate.builtin_plugins.memory.domain import Scope
    from hookgate.builtin_plugins.memory.settings import MemberSettings, MemorySettings


@dataclass(frozen=True, slots=True)
class Scopes:
    """What a session may read.

    Attributes:
        kept: The scope of what is learned in it.
        read: All that it reads, that one among them.
    """

    kept: Scope
    read: tuple[Scope, ...]


def scopes_of(session: SessionKey, settings: MemorySettings) -> Scopes:
    """Return whose memory a session reads and adds to."""
    own = {
        "session": scope_of(session, "session"),
        "peer": scope_of(session, "peer"),
        "agent": scope_of(session, "agent"),
    }
    read = [own["session"]]
    if settings.scope != "session":
        read.append(own["peer"])
    if settings.scope == "agent":
        read.append(own["agent"])
    named = (session.agent, session.channel, session.account, session.peer)
    shared = [
        f"shared:{name}"
        for name, members in settings.share.items()
        if any(_is_one(member, named) for member in members)
    ]
    kept = shared[0] if shared else own[settings.scope]
    return Scopes(kept=kept, read=tuple(dict.fromkeys((kept, *read, *shared))))


def _is_one(member: MemberSettings, named: tuple[str, str, str, str]) -> bool:
    """Whether `member` means a session; that of a stranger's channel, where it names such ones."""
    if is_guest_channel(named[1]) and not is_guest_channel(member.channel):
        return False
    meant = (member.agent, member.channel, member.account, member.peer)
    return all(map(fnmatchcase, named, meant))


def own_scopes(session: SessionKey) -> tuple[Scope, ...]:
    """Return the scopes that rows of a session may have, whatever is set; shared ones aside."""
    return (
        scope_of(session, "session"),
        scope_of(session, "peer"),
        scope_of(session, "agent"),
    )
