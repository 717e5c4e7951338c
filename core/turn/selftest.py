"""The check at start that a tool call cannot slip past `before_tool_call`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hookgate import hookspecs
from hookgate.core.domain.errors import StartError
from hookgate.core.domain.events import HookSpan
from hookgate.core.domain.messages import Message, Provenance, ToolUse
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Tool, ToolResult
from hookgate.core.domain.turn import Address, Agent, Origin, Principal, SessionKey, Turn, TurnPlan
from hookgate.core.registry.snapshots import Snapshot
from hookgate.core.turn.tools.call import ToolCalls, odd_answerers

if TYPE_CHECKING:
    from hookgate.core.host import Host

TOOL = "hookgate_selftest"


async def check_that_policy_is_asked(host: Host, calls: ToolCalls, snapshot: Snapshot) -> None:
    """Judge a call of a made-up tool and see that every `before_tool_call` ran for it.

    Nothing is run and nothing is sent. A policy that denies, asks or fails here is fine:
    what is checked is that it was asked.

    Raises:
        StartError: An implementation was not called.
    """
    if odd := odd_answerers(host):
        host.standing("answerers").note("; ".join(odd))
    expected = {item.plugin for item in host.hooks.implementations(hookspecs.before_tool_call)}
    if not expected:
        host.log.warning("no plugin judges tool calls", default=host.settings.turn.default_verdict)
        return
    seen: set[str] = set()
    failed: set[str] = set()

    def note(span: HookSpan) -> None:
        if span.hook == hookspecs.before_tool_call.__name__:
            (failed if span.failed else seen).add(span.plugin)

    before, host.hooks.spans = host.hooks.spans, note
    try:
        await calls.verdict(_turn(snapshot), ToolUse(id="selftest", name=TOOL, input={}))
    finally:
        host.hooks.spans = before
    missed = expected - seen - failed
    if missed and not failed:
        raise StartError(
            f"self-test: before_tool_call of {', '.join(sorted(missed))} was not called for a "
            "tool call; tools would run unjudged, so the gateway does not start"
        )
    if failed:
        host.log.warning("before_tool_call fails in the self-test", plugins=sorted(failed))


async def _never(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
    raise AssertionError("the self-test's tool is judged and never run")


def _turn(snapshot: Snapshot) -> Turn:
    address = Address("internal", "core", "selftest")
    turn = Turn(
        session=SessionKey("selftest", "internal", "core", "selftest"),
        agent=Agent(name="selftest", models=()),
        address=address,
        principal=Principal(id="core"),
        origin=Origin(provenance=Provenance.INTERNAL_SYSTEM, path="selftest"),
        message=Message(role="user", parts=(Text("self-test"),)),
        snapshot=snapshot,
        plan=TurnPlan(),
    )
    tool = Tool(name=TOOL, description="", schema={"type": "object"}, run=_never, plugin="core")
    turn.offered = {TOOL: tool}
    return turn
