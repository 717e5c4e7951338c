"""Turns that have used tools, for the tests of what they teach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builtin_plugins.turns import make_turn

from hookgate.core.domain.descriptors import Selection
from hookgate.core.domain.messages import Message, ToolUse, new_id
from hookgate.core.domain.tools import Decision, Tool, ToolCall, ToolResult
from hookgate.core.domain.turn import FinishedCall, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hookgate.core.domain.turn import Turn

SUCCESS = Outcome(status="success", score=0.9)


def use(
    name: str, result: ToolResult | None = None, *, call_id: str = "", **tool: Any
) -> FinishedCall:
    made = Tool(name=name, description="Act.", schema={"type": "object"}, **tool)
    call = ToolCall(id=call_id or new_id("call"), tool=made, arguments={})
    return FinishedCall(call, Decision.allow("may"), result or ToolResult(content="done"))


def finished(turn: Turn, *calls: FinishedCall, taint: Iterable[str] = ()) -> Turn:
    """Add a round of `calls` to `turn`, asked for when it had read what `taint` says."""
    turn.messages.append(
        Message(
            role="assistant",
            parts=tuple(
                ToolUse(id=done.call.id, name=done.call.tool.name, input={}) for done in calls
            ),
            taint=frozenset(taint),
        )
    )
    turn.calls.extend(calls)
    return turn


def selected(turn: Turn, *names: str) -> Turn:
    turn.selections = {f"tool:{name}": Selection(id=f"tool:{name}", score=0.5) for name in names}
    return turn


def taught(text: str, *names: str, **more: Any) -> Turn:
    """Return a turn in which the tools `names` were selected and called without an error."""
    turn = selected(make_turn(text, **more), *names)
    return finished(turn, *(use(name) for name in names))
