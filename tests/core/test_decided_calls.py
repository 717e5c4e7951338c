"""Every call that was decided on comes to an end, wherever its turn is cancelled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.examples import sampled
from tests.support.script import (
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    until,
)
from tests.support.stored import CLIENT, OWNER, USER

from hookgate.core.domain.errors import TurnCancelledError
from hookgate.core.domain.messages import ToolResultPart
from hookgate.core.domain.tools import Ask, Decision, ToolCall, ToolResult, Verdict
from hookgate.core.domain.turn import Address, Turn, TurnRequest
from hookgate.hookspecs import hookimpl

MOST = 4000
"""Steps of the event loop within which a turn of this file ends by itself."""


class Waits:
    """Waits in each hook of a call, asks about one of them and rewrites another."""

    name = "waits"

    @hookimpl
    async def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        await asyncio.sleep(0)
        if call.arguments.get("text") == "ask":
            return Verdict.ask(Ask(title="?"))
        if call.arguments.get("text") == "rewrite":
            return Verdict.rewrite({"text": "rewritten"})
        return Verdict.deny("no") if call.arguments.get("text") == "deny" else Verdict.allow()

    @hookimpl
    async def resolve_ask(self, turn: Turn) -> Decision:
        await asyncio.sleep(0)
        return Decision.allow()

    @hookimpl
    async def tool_decided(self, turn: Turn) -> None:
        await asyncio.sleep(0)

    @hookimpl
    async def after_tool_call(self, turn: Turn) -> None:
        await asyncio.sleep(0)

    @hookimpl
    async def tool_finished(self, turn: Turn) -> None:
        await asyncio.sleep(0)


class Ends(Recorder):
    """Counts, by turn and call, what was decided and what is over."""

    name = "ends"

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, tuple[Counter[str], Counter[str]]] = {}

    def _counted(self, turn: Turn) -> tuple[Counter[str], Counter[str]]:
        return self.of.setdefault(turn.id, (Counter(), Counter()))

    @hookimpl(trylast=True)
    def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        self._counted(turn)[0][call.digest] += 1

    @hookimpl(trylast=True)
    def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
        self._counted(turn)[1][call.digest] += 1


async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return str(arguments["text"])


TEXTS = {
    "side by side": ["1", "2", "ask", "rewrite", "5"],
    "one": ["1"],
    "with a denial": ["1", "deny", "3"],
}


@pytest.mark.parametrize("impatient", sampled([1, 2]), ids=["once", "twice"])
@pytest.mark.parametrize("clients", [0, 1], ids=["", "with a client's"])
@pytest.mark.parametrize("shape", TEXTS)
async def test_a_turn_cancelled_at_any_moment_leaves_no_decided_call_open(
    shape: str, clients: int, impatient: int
) -> None:
    ends = Ends()
    uses = [(f"c{number}", "echo", {"text": text}) for number, text in enumerate(TEXTS[shape])]
    uses += [(f"client{number}", "on_client", {}) for number in range(clients)]
    script = Script()
    parts = (Scripted(script), Tools(echo_tool(run=run)), Waits(), ends)
    async with gateway(*parts, turn={"tool_concurrency": 2, "answerers": ["waits"]}) as gate:
        ends.of.clear()
        turn = None
        for steps in range(MOST):
            script.steps[:] = [call(*uses), say("ok")]
            address = Address(peer=f"p{steps}")
            request = TurnRequest(content="go", address=address, client_tools=(CLIENT,))
            handle = gate.host.start_turn(OWNER, USER, request)
            for _ in range(steps):
                if handle.task.done():
                    break
                await asyncio.sleep(0)
            for _ in range(impatient):
                handle.cancel("a test wants it")
                await asyncio.sleep(0)
            try:
                turn = await handle.wait()
            except (TurnCancelledError, asyncio.CancelledError):
                continue
            decided, finished = ends.of.get(turn.id, (Counter(), Counter()))
            assert set(decided.values()) <= {1}
            released = {item for item in decided if item not in finished}
            if turn.ending == "awaiting_client":
                assert len(released) == clients
            elif turn.ending == "cancelled" and not turn.messages[-1].tool_uses:
                assert decided == finished, steps
            if turn.ending != "cancelled":
                break
    assert turn is not None
    assert turn.ending in ("done", "awaiting_client"), "the loop ends with a turn that ended"


async def test_a_call_cancelled_at_any_moment_is_over_once_decided() -> None:
    ends = Ends()
    parts = (Scripted(Script()), Tools(echo_tool(run=run)), Waits(), ends)
    async with gateway(*parts) as gate:
        ends.of.clear()
        for steps in range(MOST):
            address = Address(peer=f"p{steps}")
            work = gate.host.call_tool(OWNER, USER, address, "echo", {"text": "rewrite"})
            task = asyncio.create_task(work)
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: not gate.host.running())
        assert task.result().result.content == "rewritten"
    assert sum(bool(decided) for decided, _ in ends.of.values()) > 3
    for decided, finished in ends.of.values():
        assert decided == finished


async def test_calls_that_wait_for_a_place_are_over_when_their_turn_is_cancelled() -> None:
    ends, began, release = Ends(), asyncio.Event(), asyncio.Event()

    async def held(turn: Turn, arguments: Mapping[str, Any]) -> str:
        began.set()
        await release.wait()
        return "ran"

    uses = [(f"c{number}", "echo", {"text": str(number)}) for number in range(20)]
    script = Script(call(*uses))
    parts = (Scripted(script), Tools(echo_tool(run=held)), Waits(), ends)
    async with gateway(*parts, turn={"tool_concurrency": 4}) as gate:
        ends.of.clear()
        handle = gate.host.start_turn(OWNER, USER, TurnRequest(content="go"))
        await began.wait()
        handle.cancel("enough")
        turn = await handle.wait()
    assert turn.ending == "cancelled"
    decided, finished = ends.of[turn.id]
    assert decided == finished
    assert len(turn.calls) == len(decided) == 20
    assert {item.result.status for item in turn.calls} == {"cancelled"}
    results = turn.messages[-1].parts
    assert len([part for part in results if isinstance(part, ToolResultPart)]) == 20
