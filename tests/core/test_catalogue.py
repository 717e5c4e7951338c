from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.script import Script, Scripted, Tools, echo_tool, gateway, say

from hookgate.core.catalogue import capability_rows, described
from hookgate.core.descriptors import Capability, CapabilityDetail, Card, Flags
from hookgate.core.errors import HookgateError, StartError, ToolDefinitionError
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


async def test_a_cards_row_shows_its_text_to_people() -> None:
    class Cards:
        name = "brings"

        @hookimpl
        def list_cards(self, host: Any) -> list[Card]:
            return [Card(id="a", text="All about a.")]

    async with gateway(Scripted(Script(say("ok"))), Cards()) as gate:
        row = capability_rows(gate.host)["card:a"]
    assert row.load is not None
    assert row.load().content == "All about a."


# -- what is said of tools and channels ----------------------------------------------


async def test_what_is_said_of_a_tool_is_merged_into_its_row() -> None:
    script = Script(say("ok"))
    async with gateway(Scripted(script), Tools(echo_tool("echo"))) as gate:
        plain = capability_rows(gate.host)["tool:echo"]
        said = Capability(
            id="tool:echo",
            kind="tool",
            name="other",
            display_name="Echo",
            description="Say it again, word for word.",
            category="text",
            tags=("repeat",),
            parameters=("nothing",),
            required_secrets=("ECHO_KEY",),
            has_side_effects=not plain.has_side_effects,
            flags=Flags(executes_privileged=True),
            available=False,
            load=lambda: CapabilityDetail(schema={"type": "array"}, content="How to echo."),
        )
        gate.host.descriptions.apply("files", [said])
        row = (await gate.chat("hi")).snapshot.capabilities.get("tool:echo")
        assert row is not None
        assert row.name == "echo"
        assert (row.display_name, row.description) == ("Echo", "Say it again, word for word.")
        assert (row.category, row.tags[0]) == ("text", "repeat")
        assert row.required_secrets == ("ECHO_KEY",)
        assert (row.parameters, row.flags) == (plain.parameters, plain.flags)
        assert row.has_side_effects == plain.has_side_effects
        assert not row.available
        assert row.load is not None
        tool = gate.host.tools.view()["echo"]
        assert row.load() == CapabilityDetail(schema=tool.schema, content="How to echo.")
        gate.host.descriptions.replace("files", [])
        assert capability_rows(gate.host)["tool:echo"] == plain


def test_one_that_is_not_available_keeps_saying_why() -> None:
    own = Capability(id="tool:a", kind="tool", name="a", description="Set x.", available=False)
    said = Capability(id="tool:a", kind="tool", name="a", description="Fetch.", category="web")
    assert described(own, said).description == "Set x."
    assert described(own, said).category == "web"


def test_a_description_that_cannot_be_read_does_not_cost_the_schema() -> None:
    def unreadable() -> CapabilityDetail:
        raise HookgateError("gone")

    own = Capability(
        id="tool:a", kind="tool", name="a", load=lambda: CapabilityDetail(schema={"a": 1})
    )
    row = described(own, Capability(id="tool:a", kind="tool", name="a", load=unreadable))
    assert row.load is not None
    assert row.load() == CapabilityDetail(schema={"a": 1})


@pytest.mark.parametrize("what", ["capability", "card"])
async def test_an_id_that_two_plugins_bring_is_the_first_ones_and_said(what: str) -> None:
    class Rows:
        def __init__(self, name: str) -> None:
            self.name = name
            self.rows = [True]

        @hookimpl
        def list_capabilities(self, host: Any) -> list[Capability]:
            wanted = self.rows if what == "capability" else []
            return [
                Capability(id="a", kind="skill", name="a", source_ref=self.name) for _ in wanted
            ]

        @hookimpl
        def list_cards(self, host: Any) -> list[Card]:
            return [Card(id="a", text="text") for _ in (self.rows if what == "card" else [])]

    one, other = Rows("one"), Rows("other")
    async with gateway(Scripted(Script(say("ok"))), one, other) as gate:
        registry = gate.host.capabilities if what == "capability" else gate.host.cards
        owner = registry.source_of("a")
        loser = other if owner == "one" else one
        part = f"{what} a of {loser.name}"
        assert gate.host.degraded[part] == f"{owner} brings one of this id: rename one of the two"
        loser.rows = []
        await gate.reload()
        assert gate.host.degraded == {}
