"""`StandingBlocks`: what stays where it stood, so that a request begins as the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.turn.context import Stood

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hookgate.core.domain.turn import SessionKey, Turn
    from hookgate.core.host import Host
    from hookgate.core.turn.context import Block

MOST_SESSIONS = 1024
"""Sessions whose blocks are kept: those that spoke last. Each has what one request has room for."""


class StandingBlocks:
    """What messages of sessions brought that stays in front of them, by the messages' ids.

    It is kept in this process alone: behind a restart, or at another gateway, a session begins
    anew, and so it does where its history does, since all of it is read anew then anyway. No turn
    is shown what the plugin that brought it does not let that turn read.
    """

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, tuple[str, dict[str, Stood]]] = {}
        """The first message that each request began with, and what stands behind it."""

    def of(self, host: Host, turn: Turn) -> Mapping[str, Stood]:
        """Return what stands in front of messages of a turn's history; forget all else of it."""
        begun, kept = self._sessions.pop(turn.session, ("", {}))
        if not turn.history or turn.history[0].id != begun:
            return {}
        left: dict[str, Stood] = {}
        for message in turn.history:
            if (one := kept.get(message.id)) is None:
                continue
            blocks = [block for block in one.blocks if _may_stay(host, turn, block)]
            if len(blocks) == len(one.blocks):
                left[message.id] = one
            elif blocks:
                left[message.id] = Stood.of(blocks, message.turn)
        return left

    def keep(self, turn: Turn, standing: Mapping[str, Stood], fresh: Sequence[Block]) -> None:
        """Keep what stands in a turn's session, and what its message brought."""
        kept = dict(standing)
        if fresh:
            kept[turn.message.id] = Stood.of(fresh, turn.id)
        if not kept:
            return
        self._sessions[turn.session] = (*turn.history, turn.message)[0].id, kept
        if len(self._sessions) > MOST_SESSIONS:
            self.forget(next(iter(self._sessions)))

    def forget(self, session: SessionKey) -> None:
        """Have nothing stand in a session."""
        self._sessions.pop(session, None)


def _may_stay(host: Host, turn: Turn, block: Block) -> bool:
    """Whether the plugin that brought a block says that a turn may be shown it."""
    try:
        return block.stays is not None and block.stays(turn) is True
    except Exception as error:
        told = {"plugin": block.plugin, "kind": block.kind, "turn": turn.id}
        host.log.warning("a block that stood is dropped: its plugin fails", **told, exc_info=error)
        return False
