"""The turns that the dashboard keeps: which, for whom, and what they cost while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.script import Script, Scripted, Tools, call, echo_tool, gateway, say, until

from hookgate import (
    Address,
    Claim,
    Gateway,
    Origin,
    Principal,
    Provenance,
    Tool,
    ToolCall,
    Turn,
    TurnRequest,
    Verdict,
    WireError,
    hookimpl,
)
from hookgate.builtin_plugins.dashboard import turns
from hookgate.builtin_plugins.dashboard.plugin import Plugin
from hookgate.clients import call_operation

OWNER = Principal.owner()
ANN = Principal(id="ann", scopes=frozenset(("chat", "read")), bindings=(Claim(peer="ann"),))
SAID = "the secret of the message"


class Guard:
    """Denies the tool `no`."""

    name = "guard"

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        return Verdict.deny("not that one") if call.name == "no" else Verdict.allow()


def gate_of(*said: Any, tools: Sequence[Tool] = ()) -> Gateway:
    bench = Tools(echo_tool(), echo_tool("no"), *tools)
    return gateway(Scripted(Script(*said)), Guard(), bench, Plugin())


async def talk(gate: Gateway, peer: str = "ann", text: str = SAID) -> Turn:
    origin = Origin(provenance=Provenance.EXTERNAL_USER, path="test")
    request = TurnRequest(content=text, address=Address(peer=peer))
    return await gate.host.start_turn(OWNER, origin, request).wait()


async def ask(gate: Gateway, name: str, who: Principal = OWNER, **params: Any) -> Any:
    return await call_operation(gate.host, who, name, params, path="test")


async def ids(gate: Gateway, who: Principal = OWNER, **params: Any) -> list[str]:
    return [row.id for row in (await ask(gate, "turn.list", who, **params)).turns]


def two_calls() -> list[Any]:
    return [call(("1", "echo", {"text": SAID}), ("2", "no", {"text": SAID})), say(SAID)]


async def test_the_last_turns_are_listed_by_filters_and_cursor() -> None:
    async with gate_of(*two_calls(), say("hello"), say("hello")) as gate:
        first = await talk(gate)
        second = await talk(gate, "bob")
        third = await talk(gate)
        wanted: dict[str, tuple[Mapping[str, Any], list[Turn]]] = {
            "all": ({}, [third, second, first]),
            "session": ({"session": str(second.session)}, [second]),
            "denied": ({"denied": True}, [first]),
            "plugin": ({"plugin": "guard"}, [first]),
            "not denied": ({"denied": False}, [third, second]),
            "ending": ({"ending": "failed"}, []),
            "agent": ({"agent": "nobody"}, []),
            "slower": ({"slower": 1e9}, []),
        }
        for name, (params, expected) in wanted.items():
            assert await ids(gate, **params) == [turn.id for turn in expected], name
        page = await ask(gate, "turn.list", limit=2)
        rest = await ask(gate, "turn.list", limit=2, before=page.next)
        (row,) = rest.turns
        assert ([one.id for one in page.turns], row.id) == ([third.id, second.id], first.id)
        assert rest.next == ""
    assert (row.tools, row.denied, row.ending) == (("no", "echo"), 1, "done")


async def test_a_turn_is_shown_as_a_waterfall_without_what_was_said() -> None:
    async with gate_of(*two_calls()) as gate:
        await ids(gate)
        await until(lambda: gate.host.hooks.spans is not None)
        turn = await talk(gate)
        shown = await ask(gate, "turn.show", id=turn.id)
    assert SAID not in shown.model_dump_json()
    kinds = {(row.kind, row.name) for row in shown.rows}
    assert {("model", "model"), ("tool", "echo"), ("hook", "before_tool_call")} <= kinds
    told = {row.name: row.said for row in shown.rows if row.kind == "tool"}
    assert told["echo"] == "done"
    assert [(one.name, one.effect, one.by) for one in shown.calls if one.status == "denied"] == [
        ("no", "deny", "guard")
    ]
    assert "not that one" in [one.reason for one in shown.calls]


async def test_what_a_model_makes_up_for_a_name_is_not_kept_in_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = "z" * 100_000
    said = [call((long, long, {}), ("2", "no", {"text": ""})), say("sorry")]
    async with gate_of(*said, *said) as gate:
        await ids(gate)
        await until(lambda: gate.host.hooks.spans is not None)
        first = await talk(gate)
        shown = await ask(gate, "turn.show", id=first.id)
        assert [len(one.name) for one in shown.calls] == [turns.MOST_CHARS, 2]
        assert {len(row.name) for row in shown.rows if row.kind == "tool"} == {turns.MOST_CHARS, 2}
        assert len(shown.model_dump_json()) < 10_000
        # Turns with many calls take the place of more than one.
        monkeypatch.setattr(turns, "MOST_CALLS", 3)
        second = await talk(gate)
        assert await ids(gate) == [second.id]


async def test_hooks_are_timed_while_somebody_looks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOKED", 0.0)
    async with gate_of(say("hello"), say("hello")) as gate:
        turn = await talk(gate)
        assert gate.host.hooks.spans is None
        assert (await ask(gate, "turn.show", id=turn.id)).rows == ()
        await until(lambda: not gate.host.events.watched)
        assert gate.host.hooks.spans is None


async def test_one_sees_the_turns_of_ones_own_addresses_and_no_hooks() -> None:
    async with gate_of(say("hello"), say("hello")) as gate:
        await ids(gate)
        await until(lambda: gate.host.hooks.spans is not None)
        mine, other = await talk(gate, "ann"), await talk(gate, "bob")
        assert await ids(gate, ANN) == [mine.id]
        shown = await ask(gate, "turn.show", ANN, id=mine.id)
        assert {row.kind for row in shown.rows} == {"context", "model"}
        for hidden in (other.id, "turn_gone"):
            with pytest.raises(WireError, match="none of the last 2,000 of this gateway"):
                await ask(gate, "turn.show", ANN, id=hidden)


async def test_running_turns_are_there_and_the_oldest_ones_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MOST", 2)
    monkeypatch.setattr(turns, "MOST_TOLD", 1)
    go = asyncio.Event()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await go.wait()
        return "at last"

    said = [say("one"), say("two"), say("three"), call(("1", "hold", {"text": ""})), say("four")]
    async with gate_of(*said, tools=(echo_tool("hold", run=run),)) as gate:
        await ids(gate)
        await until(lambda: gate.host.hooks.spans is not None)
        ended = [await talk(gate) for _ in range(3)]
        task = asyncio.create_task(talk(gate))
        await until(lambda: bool(gate.host.running()))
        (running,) = await ids(gate, ending="running")
        assert await ids(gate) == [running, ended[2].id, ended[1].id]
        go.set()
        assert (await task).id == running
        assert await ids(gate) == [running, ended[2].id]
        assert len((await ask(gate, "turn.show", id=running)).rows) <= 1
