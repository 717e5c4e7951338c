from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.script import Script, Scripted, Tools, echo_tool, gateway, say

from hookgate.core.descriptors import Capability
from hookgate.core.errors import StartError, ToolDefinitionError
from hookgate.core.tools import Tool
from hookgate.hookspecs import hookimpl

BAD = {
    "name": replace(echo_tool(), name="no spaces"),
    "runner": replace(echo_tool(), run=None),
    "schema": replace(echo_tool(), schema={"type": "array"}),
    "remote": replace(echo_tool(), schema={"type": "object", "$ref": "https://example.com/x"}),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_tool_that_cannot_be_offered_is_named_and_the_others_are_there(what: str) -> None:
    good = echo_tool("good")
    async with gateway(Scripted(Script(say("ok"))), Tools(BAD[what], good)) as gate:
        assert set(gate.host.tools.view()) == {"good"}
        assert any(BAD[what].name in part for part in gate.host.degraded)


@pytest.mark.parametrize("what", BAD)
async def test_a_tool_that_comes_later_is_held_to_the_same(what: str) -> None:
    async with gateway(Scripted(Script(say("ok"))), Tools(echo_tool("good"))) as gate:
        with pytest.raises(ToolDefinitionError):
            gate.host.tools.apply("late", [echo_tool("fine"), BAD[what]])
        assert set(gate.host.tools.view()) == {"good"}
        gate.host.tools.apply("late", [echo_tool("fine")])
        assert gate.host.tools.view()["fine"].plugin == "late"


async def test_where_a_sandbox_is_required_only_sandboxed_tools_are_offered() -> None:
    tools = Tools(echo_tool("plain"), echo_tool("boxed", sandbox="wasm"))
    async with gateway(Scripted(Script(say("ok"))), tools, turn={"sandbox": "required"}) as gate:
        assert set(gate.host.tools.view()) == {"boxed"}
        with pytest.raises(ToolDefinitionError, match=r"turn\.sandbox"):
            gate.host.tools.apply("late", [echo_tool("sneaky")])


@pytest.mark.parametrize("plugins", [(("a", "a"),), (("a",), ("a",))])
async def test_two_tools_of_one_name_stop_the_start(plugins: tuple[tuple[str, ...], ...]) -> None:
    class Brings(Tools):
        def __init__(self, number: int, *tools: Tool) -> None:
            super().__init__(*tools)
            self.name = f"brings{number}"

    parts = [Brings(n, *map(echo_tool, names)) for n, names in enumerate(plugins)]
    with pytest.raises(StartError, match="'a'"):
        async with gateway(Scripted(Script(say("ok"))), *parts):
            raise AssertionError("it must not start")


async def test_a_turn_keeps_its_snapshot_and_the_next_one_sees_the_change() -> None:
    script = Script(say("ok"))

    class Changes:
        name = "changes"

        @hookimpl
        def before_context_build(self, turn: Any) -> None:
            if "later" not in gate.host.tools.view():
                gate.host.tools.apply("changes", [echo_tool("later")])

    async with gateway(Scripted(script), Changes(), Tools(echo_tool("first"))) as gate:
        await gate.chat("one")
        await gate.chat("two")
    offered = [[tool.name for tool in request.tools] for request in script.requests]
    assert offered == [["first"], ["first", "later"]]


async def test_a_source_that_fails_on_reload_keeps_its_last_good_rows_and_recovers() -> None:
    class Rows:
        name = "rows"
        works = True

        @hookimpl
        def list_capabilities(self, host: Any) -> list[Capability]:
            if not self.works:
                raise OSError("the folder is gone")
            return [Capability(id="skill:a", kind="skill", name="a")]

    rows = Rows()
    async with gateway(Scripted(Script(say("ok"))), rows) as gate:
        rows.works = False
        await gate.reload()
        assert "skill:a" in gate.host.capabilities.view()
        assert "the folder is gone" in gate.host.degraded["capabilities of rows"]
        rows.works = True
        await gate.reload()
        assert gate.host.degraded == {}
