"""A tool call without a model: admitted, judged, asked, recorded and tainted as any other.

It runs in the lane of its session, so no turn runs beside it. It begins with what the session
is tainted with, and what it brings back taints the session before anybody sees it: that
something was fetched in one call is known when the next one would send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StoreError
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.tools import ToolResult
from hookgate.core.turn.tools.offering import usable_tools

if TYPE_CHECKING:
    from hookgate.core.domain.messages import ToolUse
    from hookgate.core.domain.turn import Turn
    from hookgate.core.host import Host
    from hookgate.core.turn.loop import Loop


async def call_directly(host: Host, loop: Loop, turn: Turn, use: ToolUse) -> None:
    """Judge and run `use` in `turn`, which holds its lane and asks no model.

    What it came to stands in ``turn.calls``.

    Raises:
        RefusedError: A plugin refused it before it was judged.
        HookError: A required hook failed.
        StoreError: What the session is tainted with cannot be read.
    """
    conversations = host[CONVERSATIONS]
    turns = max(turn.plan.history_turns, 1)
    known = await conversations.taint(turn.session, turns=turns)
    turn.extra_taint |= known
    await loop.admit(turn)
    turn.offered = {tool.name: tool for tool in await usable_tools(host, turn)}

    async def keep(result: ToolResult) -> ToolResult:
        # What came with the arguments, and what a turn nested in the call has read.
        fresh = result.taint | (turn.extra_taint - known)
        if not fresh:
            return result
        try:
            await conversations.add_taint(turn.session, fresh, fence=turn.fence)
        except StoreError as error:
            return ToolResult.error(
                f"the tool has run, and its result is not handed out: {error}; that the session "
                "has read it could not be kept"
            )
        return result

    judged = await loop.calls.judge(turn, use, index=0)
    await loop.calls.run(turn, judged, keep=keep)
