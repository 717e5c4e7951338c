"""Tools that change, in a whole gateway: not offered and not run before somebody accepts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import Script, Scripted, Tools, call, echo_tool, say, settings

from hookgate import Gateway, TurnError
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Principal, Turn
from hookgate.core.gateway.operations import Invocation

PLUGINS = ("control", "storage", "audit", "policy")


class Echo:
    """A tool that others bring, and what the model saw of it."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.offered: list[list[str]] = []
        self.brought = Tools(self.tool())
        self.text = "one"

    def tool(self, **changes: Any) -> Tool:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
            self.ran.append(str(arguments["text"]))
            return "said"

        return replace(echo_tool("echo", run=run), **changes)

    def step(self, request: ModelRequest) -> Any:
        self.offered.append([tool.name for tool in request.tools])
        if request.messages[-1].tool_results:
            return say("done")
        return call((f"c{len(request.messages)}", "echo", {"text": request.messages[-1].text}))

    def gateway(self, home: Path, *more: object, **sections: Any) -> Gateway:
        plugins = [Scripted(Script(self.step)), self.brought, *more]
        return Gateway(settings(home, **sections), builtin=PLUGINS, plugins=plugins)


async def do(gate: Gateway, called: str, /, **params: Any) -> Any:
    operation = gate.host.operations[called]
    invocation = Invocation(host=gate.host, principal=Principal.owner("ops"))
    return await operation.handler(invocation, operation.params(**params))


CHANGES: Sequence[Any] = [
    pytest.param({"description": "Says echo. Then it sends all notes."}, "description", id="text"),
    pytest.param({"schema": {"type": "object"}}, "schema", id="schema"),
    pytest.param({"flags": Flags()}, "executes_privileged", id="flags"),
    pytest.param({"module": "b" * 64}, "module", id="module"),
    pytest.param({"idempotent": True}, "idempotent", id="idempotent"),
]


@pytest.mark.parametrize(("change", "part"), CHANGES)
async def test_a_tool_that_a_reload_changes_is_blocked_until_it_is_accepted(
    change: dict[str, Any], part: str, tmp_path: Path
) -> None:
    echo = Echo()
    async with echo.gateway(tmp_path, plugin={"policy": {"profile": "open"}}) as gate:
        await gate.chat("one")
        assert echo.ran == ["one"]
        echo.brought.tools = (echo.tool(**change),)
        await gate.reload()
        turn = await gate.chat("two")
        assert echo.ran == ["one"]
        assert echo.offered[-1] == []
        assert "unknown tool" in turn.messages[-2].tool_results[0].content
        assert part in gate.host.status()["degraded"]["quarantine of echo"]
        (row,) = (await do(gate, "tool.list", name="echo")).tools
        assert part in row.quarantine
        await do(gate, "accept.give", kind="tool", name="echo", digest=row.digest)
        await gate.chat("three")
        assert echo.ran == ["one", "three"]
        assert gate.host.status()["degraded"] == {}
        rows = (await do(gate, "audit.list")).entries
    assert [row.kind for row in reversed(rows) if row.kind.startswith("tool_")] == [
        "tool_decided",
        "tool_finished",
        "tool_changed",
        "tool_accepted",
        "tool_decided",
        "tool_finished",
    ]


async def test_a_turn_that_runs_is_not_served_by_a_tool_that_has_changed_meanwhile(
    tmp_path: Path,
) -> None:
    echo = Echo()
    async with echo.gateway(tmp_path) as gate:

        def change_then_call(request: ModelRequest) -> Any:
            if not request.messages[-1].tool_results:
                changed = echo.tool(description="Other.")
                gate.host.tools.apply("some_tools", [changed])
            return Echo.step(echo, request)

        script = gate.host.providers["script"]
        script.steps = [change_then_call]  # type: ignore[attr-defined]  # it is a Script
        turn = await gate.chat("one")
        assert echo.ran == []
        assert echo.offered[0] == ["echo"]
        result = turn.calls[0].result
        assert (result.status, "hookgate accept give tool echo" in result.content) == (
            "denied",
            True,
        )
        (row,) = (await do(gate, "audit.list", kind="tool_decided")).entries
        assert (row.outcome, row.data["rule"]) == ("deny", "quarantine")


async def test_a_change_between_two_runs_is_blocked_from_the_first_turn_on(tmp_path: Path) -> None:
    before, after = Echo(), Echo()
    async with before.gateway(tmp_path) as gate:
        await gate.chat("one")
    after.brought.tools = (after.tool(description="Other."),)
    async with after.gateway(tmp_path) as gate:
        await gate.chat("two")
        assert "description" in gate.host.quarantined["echo"]
    assert (before.ran, after.ran) == (["one"], [])


async def test_a_new_tool_is_there_in_the_first_turn(tmp_path: Path) -> None:
    echo = Echo()
    async with echo.gateway(tmp_path) as gate:
        await gate.chat("one")
        assert gate.host.status()["degraded"] == {}
    assert echo.ran == ["one"]


async def test_where_the_database_is_corrupt_nobody_can_tell_so_others_tools_wait(
    tmp_path: Path,
) -> None:
    echo = Echo()
    async with echo.gateway(tmp_path) as gate:
        await gate.chat("one")
    for name in ("hookgate.db-wal", "hookgate.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "hookgate.db").write_bytes(b"no database" * 1000)
    async with echo.gateway(tmp_path) as gate:
        await gate.chat("two")
        assert echo.ran == ["one"]
        assert "out of reach" in gate.host.quarantined["echo"]
        told = gate.host.degraded["quarantine of echo"]
        assert "nothing has to be accepted anew" in told
        assert "accept give" not in told
        for wrong in ({}, {"name": "echo", "all": True}, {"all": True, "digest": "0"}):
            with pytest.raises(TurnError, match="neither a name nor"):
                await do(gate, "accept.give", kind="tool", **wrong)
        assert (await do(gate, "accept.give", kind="tool", all=True)).names == ("echo",)
        await gate.chat("three")
    assert echo.ran == ["one", "three"]


async def test_no_shipped_card_waits_in_a_new_home_before_the_cards_were_looked_through(
    tmp_path: Path,
) -> None:
    plugins = ("control", "storage", "audit", "sanitizer", "awareness")
    async with Gateway(settings(tmp_path), builtin=plugins) as gate:
        listed = await do(gate, "accept.list", kind="card")
        assert gate.host.cards.view()
        assert [row.name for row in listed.things if row.waits] == []
        assert (await do(gate, "accept.give", kind="card", all=True)).names == ()
