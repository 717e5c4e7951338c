"""The turns that the dashboard keeps: which, for whom, and what they cost while nobody looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import (
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    settings,
    until,
)

from hookgate import (
    Address,
    Claim,
    Gateway,
    Origin,
    Principal,
    Provenance,
    StoreError,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    TurnRequest,
    Verdict,
    WireError,
    hookimpl,
)
from hookgate.builtin_plugins.dashboard import keeper
from hookgate.builtin_plugins.dashboard.plugin import Plugin
from hookgate.clients import call_operation
from hookgate.kit.testing.gateway import TurnedClock, started

OWNER = Principal.owner()
ANN = Principal(id="ann", scopes=frozenset(("chat", "read")), bindings=(Claim(peer="ann"),))
SAID = "the secret of the message"


class Guard:
    """Denies the tool `no`."""

    name = "guard"

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        return Verdict.deny("not that one") if call.name == "no" else Verdict.allow()


def gate_of(
    *said: Any, tools: Sequence[Tool] = (), home: Path | None = None, **sections: Any
) -> Gateway:
    bench = Tools(echo_tool(), echo_tool("no"), *tools)
    plugins = (Scripted(Script(*said)), Guard(), bench, Plugin())
    if home is None:
        return gateway(*plugins)
    config = settings(home, **sections)
    return Gateway(config, builtin=("control", "storage"), plugins=plugins)


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
        await ids(gate, hooks=True)
        await until(lambda: gate.host.hooks.spans is not None)
        turn = await talk(gate)
        shown = await ask(gate, "turn.show", id=turn.id)
        (kept,) = keeper_of(gate).here()
    assert SAID not in shown.model_dump_json()
    assert SAID not in kept.model_dump_json()
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
    said = [call((long, long, {}), ("\ud800\0", "no", {"text": ""})), say("sorry")]
    async with gate_of(*said) as gate:
        first = await talk(gate)
        monkeypatch.setattr(keeper, "MOST_CALLS", 1)
        shown = await ask(gate, "turn.show", id=first.id)
        assert ([len(one.name) for one in shown.calls], shown.called) == ([keeper.MOST_CHARS], 2)
        assert shown.denied == 1
        assert {len(row.name) for row in shown.rows if row.kind == "tool"} == {keeper.MOST_CHARS, 2}
        assert len(shown.model_dump_json()) < 10_000


async def test_hooks_are_timed_while_somebody_looks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOOKED", 0.3)
    async with gate_of(say("hello"), say("hello")) as gate:
        turn = await talk(gate)
        await ids(gate)
        await ids(gate, ANN, hooks=True)
        assert (await ask(gate, "turn.show", ANN, id=turn.id)).hooked is False
        assert keeper_of(gate)._looker is None
        shown = await ask(gate, "turn.show", id=turn.id)
        assert [row.kind for row in shown.rows] == ["context", "model"]
        await until(lambda: gate.host.hooks.spans is not None)
        await until(lambda: gate.host.hooks.spans is None)


async def test_one_sees_the_turns_of_ones_own_addresses_and_no_hooks() -> None:
    async with gate_of(say("hello"), say("hello")) as gate:
        await ids(gate, hooks=True)
        await until(lambda: gate.host.hooks.spans is not None)
        mine, other = await talk(gate, "ann"), await talk(gate, "bob")
        assert await ids(gate, ANN) == [mine.id]
        shown = await ask(gate, "turn.show", ANN, id=mine.id)
        assert {row.kind for row in shown.rows} == {"context", "model"}
        for hidden in (other.id, "turn_gone"):
            with pytest.raises(WireError, match="none of the last 2,000 that you"):
                await ask(gate, "turn.show", ANN, id=hidden)


async def test_running_turns_are_there_and_the_oldest_ones_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(keeper, "MOST", 2)
    monkeypatch.setattr(keeper, "TRIMMED", 1)
    monkeypatch.setattr(keeper, "MOST_TOLD", 1)
    go = asyncio.Event()

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await go.wait()
        return "at last"

    said = [say("one"), say("two"), say("three"), call(("1", "hold", {"text": ""})), say("four")]
    async with gate_of(*said, tools=(echo_tool("hold", run=run),)) as gate:
        ended = [await talk(gate) for _ in range(3)]
        await written(gate)
        task = asyncio.create_task(talk(gate))
        await until(lambda: bool(gate.host.running()))
        (running,) = await ids(gate, ending="running")
        assert await ids(gate) == [running, ended[2].id, ended[1].id]
        go.set()
        assert (await task).id == running
        await written(gate)
        assert await ids(gate) == [running, ended[2].id]
        assert len((await ask(gate, "turn.show", id=running)).rows) <= 1


async def written(gate: Gateway) -> None:
    """Have all that has ended written."""
    assert await keeper_of(gate)._flush(every=True)


def keeper_of(gate: Gateway) -> keeper.TurnKeeper:
    plugin = gate.plugins.get("dashboard")
    assert isinstance(plugin, Plugin) and plugin._keeper is not None
    return plugin._keeper


async def test_turns_outlive_a_restart_with_all_that_is_known_of_them(tmp_path: Path) -> None:
    async with gate_of(*two_calls(), say("hello"), home=tmp_path) as gate:
        first, second = await talk(gate), await talk(gate, "bob")
        before = await ask(gate, "turn.show", id=first.id)
    async with gate_of(home=tmp_path) as gate:
        assert await ids(gate) == [second.id, first.id]
        assert await ids(gate, ANN) == [first.id]
        assert await ask(gate, "turn.show", id=first.id) == before
        for params, expected in (
            ({"session": str(second.session)}, [second.id]),
            ({"denied": True, "plugin": "guard"}, [first.id]),
            ({"denied": False}, [second.id]),
            ({"plugin": "%"}, []),
            ({"plugin": "GUARD"}, []),
            ({"slower": 1e9}, []),
            ({"ending": "running"}, []),
            ({"tainted": True, "agent": "main"}, []),
            ({"root": first.id}, [first.id]),
        ):
            assert await ids(gate, **params) == expected, params
        page = await ask(gate, "turn.list", limit=1)
        assert await ids(gate, before=page.next) == [first.id]


@pytest.mark.slow
async def test_turns_of_another_gateway_on_the_store_are_listed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "MOST", 2)
    monkeypatch.setattr(keeper, "TRIMMED", 1)
    shared = {"storage": {"url": url}}
    said = call(("\0\ud800", "no", {"text": ""})), say("no"), say("hello")
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(gate_of(*said, home=tmp_path / name, plugin=shared))
            for name in ("one", "other")
        ]
        turn = await talk(one)
        await written(one)
        mine = await talk(other, "bob")
        for _ in range(2):
            assert await ids(other) == [mine.id, turn.id]
            assert await ids(other, ANN) == [turn.id]
            assert await ids(other, denied=True, plugin="guard", before="9") == [mine.id, turn.id]
            assert await ids(other, plugin="GUARD") == []
            await written(other)
        shown = await ask(other, "turn.show", id=turn.id)
        assert shown == await ask(one, "turn.show", id=turn.id)
        last = await talk(one)
        await written(one)
        assert await ids(other) == [last.id, mine.id]


async def test_what_is_being_written_is_not_written_again(tmp_path: Path) -> None:
    async with gate_of(say("hello"), home=tmp_path) as gate:
        turn = await talk(gate)
        await asyncio.gather(written(gate), written(gate))
        assert [row.id for row in await keeper_of(gate)._records.all()] == [turn.id]


async def test_secrets_are_masked_before_they_are_kept(tmp_path: Path) -> None:
    secret = "sk-very-secret-value-0123456789"

    async with gate_of(call((secret, secret, {})), say("x"), home=tmp_path) as gate:
        gate.host.secrets.register(secret)
        turn = await talk(gate)
        shown = await ask(gate, "turn.show", id=turn.id)
        await written(gate)
        kept = await ask(gate, "turn.show", id=turn.id)
        assert secret not in shown.model_dump_json()
        assert shown.calls == kept.calls
        rows = await keeper_of(gate)._records.all()
        assert [row.id for row in rows] == [turn.id]
        assert secret not in rows[0].model_dump_json()


async def test_a_call_says_whose_text_was_read_before_it_and_what_it_brought() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(content="from afar", taint=frozenset(("web:example.org",)))

    fetch = echo_tool("fetch", run=run)
    said = [
        call(("1", "fetch", {"text": ""})),
        call(("2", "echo", {"text": "a"}), ("3", "no", {"text": "b"})),
        say("done"),
    ]
    async with gate_of(*said, tools=(fetch,)) as gate:
        turn = await talk(gate)
        shown = await ask(gate, "turn.show", id=turn.id)
    way = {one.id: (one.read, one.brought) for one in shown.calls}
    assert way["1"] == ((), ("web:example.org",))
    assert way["2"][0] == way["3"][0] == ("web:example.org",)


async def test_a_turn_is_shown_with_those_nested_in_it() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return (await gate.host.nested_turn(turn, "within")).answer

    ask_other = echo_tool("ask_other", run=run)
    said = [call(("1", "ask_other", {"text": ""})), say("inner"), say("outer")]
    async with gate_of(*said, tools=(ask_other,)) as gate:
        outer = await talk(gate)
        (inner,) = await ids(gate, root=outer.id, limit=1)
        shown = await ask(gate, "turn.show", id=outer.id)
        alone = await ask(gate, "turn.show", id=inner)
        assert await ids(gate, ANN, root=outer.id) == [inner, outer.id]
    assert [(one.id, one.parent) for one in shown.tree] == [(outer.id, ""), (inner, outer.id)]
    assert alone.tree == shown.tree
    assert {row.turn for row in shown.rows} == {outer.id, inner}
    assert {row.turn for row in alone.rows} == {inner}
    places = [row.at_ms for row in shown.rows]
    assert places == sorted(places) and places[0] == 0


async def test_what_cannot_be_written_is_said_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with gate_of(say("hello"), home=tmp_path) as gate:
        turn = await talk(gate)

        async def fails(*_: Any) -> None:
            raise StoreError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(keeper_of(gate)._tables, "keep", fails)
            assert not await keeper_of(gate)._flush(every=True)
            assert "the disk is full" in gate.host.degraded["dashboard.turns"]
            assert await ids(gate) == [turn.id]
        await written(gate)
        assert "dashboard.turns" not in gate.host.degraded


async def test_what_is_being_written_at_the_end_is_written_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(keeper, "BATCH_SECONDS", 0.0)
    async with gate_of(say("hello"), home=tmp_path) as gate:
        begun, keep = asyncio.Event(), keeper_of(gate)._tables.keep

        async def kept(*given: Any) -> None:
            begun.set()
            await keep(*given)

        monkeypatch.setattr(keeper_of(gate)._tables, "keep", kept)
        turn = await talk(gate)
        await begun.wait()
        await keeper_of(gate).close()
        assert await ids(gate) == [turn.id]


async def test_sums_say_how_the_last_minutes_went_to_whom_they_may() -> None:
    async with gate_of(say("hello"), *two_calls(), say("hello")) as gate:
        await talk(gate)
        await talk(gate)
        await talk(gate, "bob")
        sums = await ask(gate, "turn.sums", minutes=10)
        assert (sums.turns, sums.a_minute, sums.running, sums.failed) == (3, 0.3, 0, 0)
        assert 0 < sums.median_ms <= sums.p95_ms
        assert (await ask(gate, "turn.sums", ANN)).turns == 2


async def test_turns_are_found_by_how_long_they_are_said_to_have_taken(tmp_path: Path) -> None:
    clock = TurnedClock()

    class Slow:
        name = "slow"

        @hookimpl
        def before_context_build(self, turn: Turn) -> None:
            clock.turn(milliseconds=99.96)

    model = Script(say("hello"))
    around = ("control", "storage", "dashboard")
    async with started(Slow(), home=tmp_path, model=model, clock=clock, only=around) as gate:
        turn = await talk(gate)
        sums = await ask(gate, "turn.sums")
        (row,) = (await ask(gate, "turn.list")).turns
        for took in (sums.median_ms, sums.p95_ms, row.milliseconds):
            assert took == 99.9
            assert await ids(gate, slower=took) == [turn.id]


async def test_sums_are_the_same_once_turns_are_written(tmp_path: Path) -> None:
    async with gate_of(say("hello"), home=tmp_path) as gate:
        await talk(gate)
        before = await ask(gate, "turn.sums")
    async with gate_of(home=tmp_path) as gate:
        after = await ask(gate, "turn.sums")
    assert (after.turns, after.p95_ms) == (before.turns, before.p95_ms) == (1, before.p95_ms)
