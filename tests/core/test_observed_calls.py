"""Calls of a client's tools that are decided on and recorded alone, and released all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.script import Recorder, Script, Scripted, Tools, call, echo_tool, gateway, say

from hookgate import (
    Ask,
    Decision,
    Effect,
    Event,
    Origin,
    Principal,
    Provenance,
    Tool,
    ToolCall,
    ToolResultPart,
    Turn,
    TurnRequest,
    Verdict,
    hookimpl,
)

OWNER = Principal.owner("client")
HTTP = Origin(provenance=Provenance.EXTERNAL_USER, path="mine")
BASH = Tool(name="Bash", description="runs", schema={"type": "object"}, owner="client")
LIST = ("c1", "Bash", {"command": "ls"})


class Judge:
    """Gives one verdict on each call, keeps what was decided, and is never to be asked."""

    name = "policy"

    def __init__(self, verdict: Verdict | Exception, late: str = "") -> None:
        self.verdict, self.late = verdict, late
        self.decided: list[tuple[ToolCall, Decision]] = []

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return replace(self.verdict, recheck=lambda turn, call: self.late)

    @hookimpl
    def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        raise AssertionError("nobody is asked about a call that is only observed")

    @hookimpl
    def tool_decided(self, turn: Turn, call: ToolCall, decision: Decision) -> None:
        self.decided.append((call, decision))


def asking(gate: Any, *, sink: Any = None, **more: Any) -> Any:
    request = TurnRequest(content="go", client_tools=(BASH,), observe=True, **more)
    return gate.host.start_turn(OWNER, HTTP, request, sink=sink).wait()


VERDICTS: list[tuple[Verdict | Exception, str, str]] = [
    (Verdict.allow(reason="fine"), "allow", "fine"),
    (Verdict.deny("no shell", rule="r1"), "deny", "no shell"),
    (Verdict.ask(Ask(title="May it list?")), "ask", "May it list?"),
    (Verdict.rewrite({"command": "pwd"}, reason="softened"), "rewrite", "softened"),
    (RuntimeError("broken"), "deny", "policy failed"),
]


@pytest.mark.parametrize(("verdict", "would", "why"), VERDICTS)
@pytest.mark.parametrize("verbatim", [False, True])
async def test_whatever_is_decided_is_on_record_and_the_call_goes_out_as_it_was_made(
    verdict: Verdict | Exception, would: str, why: str, verbatim: bool
) -> None:
    judge, told = Judge(verdict), list[Event]()
    script = Script(call(LIST), say("asked again"))
    async with gateway(Scripted(script), judge) as gate:
        more: Mapping[str, Any] = {"verbatim": True, "ephemeral": True} if verbatim else {}
        turn = await asking(gate, sink=told.append, **more)
    ((judged, decision),) = judge.decided
    assert (decision.effect, decision.would) == (Effect.ALLOW, would)
    assert why in decision.reason
    assert judged.arguments == {"command": "ls"}
    assert (turn.ending, [use.input for use in turn.pending]) == (
        "awaiting_client",
        [{"command": "ls"}],
    )
    assert [event.data["name"] for event in told if event.type == "tool_use"] == ["Bash"]
    assert not [event for event in told if event.type == "approval"]
    assert len(script.requests) == 1


async def test_what_no_longer_stands_when_it_is_released_stops_nothing_either() -> None:
    judge = Judge(Verdict.allow(), late="others were allowed meanwhile")
    async with gateway(Scripted(Script(call(LIST))), judge) as gate:
        turn = await asking(gate)
    assert turn.ending == "awaiting_client"


async def test_a_tool_of_the_gateways_own_is_held_to_what_was_decided() -> None:
    """And the client's call of the same message goes back with it, as it always does."""
    judge, seen = Judge(Verdict.deny("no")), Recorder()
    both = call(LIST, ("c2", "echo", {"text": "x"}))
    async with gateway(Scripted(Script(both, say("ok"))), judge, seen, Tools(echo_tool())) as gate:
        turn = await asking(gate)
    assert {one.tool.name: told.would for one, told in judge.decided} == {
        "Bash": "deny",
        "echo": "",
    }
    assert turn.ending == "done"
    assert [(one.call.name, one.result.status) for one in turn.calls] == [
        ("Bash", "denied"),
        ("echo", "denied"),
    ]


async def test_what_cannot_be_recorded_is_not_released() -> None:
    class Broken:
        name = "broken"

        @hookimpl
        def tool_decided(self, turn: Turn) -> None:
            raise OSError("disk full")

    script = Script(call(LIST), say("asked again"))
    async with gateway(Scripted(script), Judge(Verdict.allow()), Broken()) as gate:
        turn = await asking(gate)
    assert (turn.ending, turn.answer) == ("done", "asked again")
    assert "could not be recorded" in script.requests[1].messages[-1].tool_results[0].text


async def test_its_result_taints_as_that_of_any_other_call() -> None:
    script = Script(call(LIST), say("read"))
    async with gateway(Scripted(script), Judge(Verdict.deny("no"))) as gate:
        await asking(gate)
        brought = ToolResultPart(tool_use_id="c1", content="a.txt")
        request = TurnRequest(
            content="", client_tools=(BASH,), tool_results=(brought,), observe=True
        )
        turn = await gate.host.start_turn(OWNER, HTTP, request).wait()
    assert turn.answer == "read"
    assert script.requests[1].messages[-1].taint == {"tool:Bash"}


async def test_without_it_nothing_of_this_holds() -> None:
    judge = Judge(Verdict.deny("no"))
    async with gateway(Scripted(Script(call(LIST), say("ok"))), judge) as gate:
        request = TurnRequest(content="go", client_tools=(BASH,))
        turn = await gate.host.start_turn(OWNER, HTTP, request).wait()
    assert (turn.ending, judge.decided[0][1].would) == ("done", "")
