"""Calls without a model side by side in one session, where they only look.

What neither sends, writes, runs with raised rights nor makes something act leaves nothing for
another one to meet, and nobody has its result before the session is tainted with it. So it shares
the lane with its like; turns, and calls of all other tools, have it alone. What such a tool calls
within its turn runs in the lane as it is shared, so nothing that acts may be called there: one
that calls it does not only look, and says what is not so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate.core.domain.events import Event
from hookgate.core.domain.ports import LANES, Lease
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Fence, SessionKey, Turn, TurnKey
from hookgate.core.hooks.tasks import finish

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from hookgate.core.host import Host

ACTS = (
    "writes_persistent_state",
    "sends_externally",
    "executes_privileged",
    "creates_autonomous_actions",
)
"""What a tool does not do that shares a lane: it says of each that it does not."""


SHARED: TurnKey[bool] = TurnKey("shared lane")
"""Stands in a turn that shares the lane of its session with others."""


def only_looks(tool: Tool | None) -> bool:
    """Whether a tool says that it does nothing but look."""
    return tool is not None and all(tool.flags.get(name) is False for name in ACTS)


@dataclass(slots=True)
class _NoLane:
    """What a turn holds that waits for nobody, and for which nobody waits."""

    fence: Fence

    def check(self, connection: Connection) -> None:
        """Do nothing: no lane is lost that was not taken."""
        del connection


class _Party:
    """Those that share a lane now."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence
        self.count = 1
        self.empty = asyncio.Event()

    def leave(self) -> None:
        self.count -= 1
        if not self.count:
            self.empty.set()


class SessionLanes:
    """The lanes of sessions, as turns and calls take them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._parties: dict[SessionKey, _Party] = {}

    def alone(self, turn: Turn) -> AbstractAsyncContextManager[Lease]:
        """Wait for the lane of a turn's session and hold it; one that keeps nothing needs none."""
        if turn.ephemeral:
            return nullcontext(_NoLane(turn.fence))
        lanes = self._host[LANES]
        if ahead := lanes.ahead(turn.session):
            # Its client does not know the turn yet, and may want to cancel it.
            turn.emit(Event("queued", {"turn": turn.id, "before": ahead}, scope="chat"))
        return lanes.hold(turn.session, turn)

    @asynccontextmanager
    async def shared(self, turn: Turn) -> AsyncIterator[Fence]:
        """Hold the lane together with others of that kind.

        One comes in where nobody waits for the lane, so that who does has it next.
        """
        session = turn.session
        party, most = self._parties.get(session), self._host.settings.turn.tool_concurrency
        if party is not None and party.count < most and self._host[LANES].ahead(session) == 1:
            party.count += 1
            try:
                yield party.fence
            finally:
                party.leave()
            return
        async with self.alone(turn) as lease:
            party = self._parties[session] = _Party(lease.fence)
            try:
                yield lease.fence
            finally:
                # Nobody comes in behind it; it has the lane until the last one has left.
                del self._parties[session]
                party.leave()
                if party.count:
                    await finish(_emptied(party))


async def _emptied(party: _Party) -> None:
    await party.empty.wait()
