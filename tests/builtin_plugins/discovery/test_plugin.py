from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.builtin_plugins.turns import attach, make_host, make_turn

from hookgate.builtin_plugins.discovery.plugin import Plugin
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.core.domain.descriptors import Capability, Card, Rejected
from hookgate.core.domain.strict_json import compile_schema
from hookgate.core.domain.tools import Tool
from hookgate.core.host import QuarterTokens
from hookgate.core.registry.snapshots import CapabilityIndex
from hookgate.core.turn.context import ContextBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hookgate.core.domain.tools import ToolResult
    from hookgate.core.domain.turn import Turn


def row(name: str, description: str, kind: Any = "tool", **more: Any) -> Capability:
    more = {"whose": "own", **more}
    return Capability(id=f"{kind}:{name}", kind=kind, name=name, description=description, **more)


ROWS = [
    row("send_mail", "Send a mail to somebody.", category="communication"),
    row("read_mail", "Read the mail that came in.", category="communication"),
    row("old_mail", "Send a mail by the old way.", available=False),
    row("mailman", "How to run mail lists.", kind="skill", category="office"),
    row("smtp", "A channel for mail.", kind="channel", category="communication"),
    row("mail", "Be careful with mail.", kind="card"),
    row("weather", "Tell the forecast."),
    row("discover_capabilities", "Search for tools, mail too."),
]


def turn_of(text: str = "send a mail", **more: Any) -> Turn:
    tools = [
        Tool(name=item.name, description=item.description, schema={"type": "object"})
        for item in ROWS
        if item.kind == "tool" and item.available
    ]
    return make_turn(text, tools=tools, capabilities=ROWS, **more)


async def keep(card: Card) -> Card | Rejected:
    return card


def plugin_of(sanitize: Any = keep, **settings: Any) -> tuple[Plugin, Tool]:
    host = make_host()
    attach(host, sanitize=sanitize)
    plugin = Plugin(DiscoverySettings(watch=False, **settings))
    # Without an embedder, so that words alone count here.
    plugin._discoverer(host)
    made, _ = plugin.list_tools()
    return plugin, made


async def discover(made: Tool, turn: Turn, **arguments: Any) -> ToolResult:
    assert compile_schema(made.schema)(arguments) == []
    assert made.run is not None
    result = await made.run(turn, arguments)
    assert not isinstance(result, str)
    return result


def names(data: Mapping[str, Any]) -> list[str]:
    return [entry["name"] for entry in data["capabilities"]]


async def test_meta_tool_answers_in_its_documented_form() -> None:
    _, made = plugin_of()
    result = await discover(made, turn_of(), query="mail that came in")
    first = result.data["capabilities"][0]
    assert first | {"relevance": 0} == {
        "id": "tool:read_mail",
        "name": "read_mail",
        "kind": "tool",
        "description": "Read the mail that came in.",
        "category": "communication",
        "relevance": 0,
        "available": True,
    }
    assert 0 < first["relevance"] < 1
    # Seven that are no card, the meta-tool itself among them.
    assert result.data["totalIndexed"] == 7
    assert made.always_on
    assert not any(made.flags.to_json().values())


async def test_tools_that_are_found_and_available_are_revealed() -> None:
    _, made = plugin_of()
    result = await discover(made, turn_of(), query="mail")
    assert set(names(result.data)) == {"send_mail", "read_mail", "old_mail", "mailman", "smtp"}
    assert set(result.reveal) == {"send_mail", "read_mail"}


async def test_kind_and_category_narrow_the_search() -> None:
    _, made = plugin_of()
    skills = await discover(made, turn_of(), query="mail", kind="skill")
    assert names(skills.data) == ["mailman"]
    assert skills.reveal == ()
    office = await discover(made, turn_of(), query="mail", category="Communication")
    assert set(names(office.data)) == {"send_mail", "read_mail", "smtp"}
    assert names((await discover(made, turn_of(), query="mail", kind="card")).data) == []


async def test_withheld_capability_is_neither_shown_nor_revealed_nor_counted() -> None:
    _, made = plugin_of()
    turn = turn_of(withheld=frozenset({"tool:send_mail", "skill:mailman"}))
    result = await discover(made, turn, query="mail")
    assert set(names(result.data)) == {"read_mail", "old_mail", "smtp"}
    assert result.reveal == ("read_mail",)
    assert result.data["totalIndexed"] == 5


async def test_tool_that_the_agent_may_not_call_is_not_shown() -> None:
    _, made = plugin_of()
    result = await discover(made, turn_of(allowed=("read_*",)), query="mail", kind="tool")
    assert set(names(result.data)) == {"read_mail", "old_mail"}
    assert result.reveal == ("read_mail",)


async def test_results_are_limited_and_nothing_is_found_by_strange_words() -> None:
    _, made = plugin_of(results=2)
    assert len((await discover(made, turn_of(), query="mail")).data["capabilities"]) == 2
    assert (await discover(made, turn_of(), query="zebra")).data["capabilities"] == []


async def test_descriptions_pass_the_sanitizers_and_a_rejected_row_is_left_out() -> None:
    async def sanitize(card: Card) -> Card | Rejected:
        if "old" in card.text:
            return Rejected(reason="old")
        return replace(card, text=card.text.upper())

    _, made = plugin_of(sanitize)
    result = await discover(made, turn_of(), query="mail", kind="tool")
    texts = {entry["name"]: entry["description"] for entry in result.data["capabilities"]}
    assert texts == {
        "send_mail": "SEND A MAIL TO SOMEBODY.",
        "read_mail": "READ THE MAIL THAT CAME IN.",
    }


async def chosen(plugin: Plugin, turn: Turn) -> list[str]:
    view = turn.snapshot.capabilities.without(turn.withheld)
    return [item.id for item in await plugin.select_capabilities(turn, view)]


async def test_message_selects_what_fits_it_and_no_cards() -> None:
    plugin, _ = plugin_of()
    ids = await chosen(plugin, turn_of("please send a mail"))
    assert ids[0] == "tool:send_mail"
    assert set(ids) <= {"tool:send_mail", "tool:read_mail", "skill:mailman", "channel:smtp"}
    assert await chosen(plugin, turn_of("zebra")) == []


@pytest.mark.parametrize(
    ("plan", "ids"),
    [
        ({"kinds": frozenset({"skill"})}, {"skill:mailman"}),
        ({"category": "office"}, {"skill:mailman"}),
        (
            {"kinds": frozenset({"tool"}), "only_available": False, "category": ""},
            {"tool:send_mail", "tool:read_mail", "tool:old_mail"},
        ),
    ],
)
async def test_plan_narrows_the_selection(plan: dict[str, Any], ids: set[str]) -> None:
    plugin, _ = plugin_of(floor=0)
    turn = turn_of("mail lists")
    turn.plan = replace(turn.plan, **plan)
    assert set(await chosen(plugin, turn)) == ids


async def test_selection_keeps_to_its_floor_and_number() -> None:
    assert len(await chosen(plugin_of(floor=0, selected=1)[0], turn_of("mail"))) == 1
    assert await chosen(plugin_of(floor=1)[0], turn_of("mail")) == []


async def test_what_a_turn_may_not_know_is_not_read_on() -> None:
    plugin, _ = plugin_of()
    turn = turn_of(withheld=frozenset({"skill:mailman"}), allowed=("read_*",))
    for id_ in ("skill:mailman", "tool:old_mail", "tool:send_mail", "card:mail", "skill:none"):
        result = await plugin.read_capability(turn, id_)
        assert result.is_error
        assert "There is no capability" in result.content
    assert "Read the mail" in (await plugin.read_capability(turn, "tool:read_mail")).content
    behind = await plugin.read_capability(turn, "tool:read_mail", offset=1_000_000)
    assert behind.content == "Nothing more: this is behind its end."


async def test_what_a_stranger_wrote_taints_who_reads_on() -> None:
    plugin, _ = plugin_of()
    foreign = row("lists", "How lists run.", kind="skill", whose="foreign")
    turn = make_turn("lists", tools=[], capabilities=[*ROWS, foreign])
    assert (await plugin.read_capability(turn, "skill:lists")).taint
    assert not (await plugin.read_capability(turn, "skill:mailman")).taint


async def test_behind_a_tool_call_tiers_are_shown_where_they_may_say_something_else() -> None:
    plugin, _ = plugin_of()
    turn = turn_of()

    async def shown(stage: Literal["start", "after_tool"]) -> list[str]:
        builder = ContextBuilder(budget=5_000, counter=QuarterTokens(), stage=stage)
        await plugin.before_context_build(turn, builder)
        return [block.text for block in builder.blocks]

    first = await shown("start")
    assert len(first) > 1
    assert await shown("after_tool") == []
    for tool in turn.snapshot.tools.values():
        turn.offered[tool.name] = tool
    again = await shown("after_tool")
    assert again
    assert await shown("after_tool") == []
    assert await shown("start") == again


async def test_withheld_capability_is_not_selected() -> None:
    plugin, _ = plugin_of()
    ids = await chosen(plugin, turn_of(withheld=frozenset({"tool:send_mail"})))
    assert "tool:send_mail" not in ids


async def test_next_turn_finds_what_the_registry_has_since_then() -> None:
    _, made = plugin_of()
    before = turn_of()
    assert "zebra_mail" not in names((await discover(made, before, query="mail")).data)
    after = make_turn(capabilities=[row("zebra_mail", "Mail for zebras.")])
    after.snapshot.capabilities._version = 2
    assert names((await discover(made, after, query="mail")).data) == ["zebra_mail"]
    assert names((await discover(made, before, query="zebra")).data) == []


async def test_each_agent_sees_a_map_of_its_own_in_each_snapshot() -> None:
    plugin, _ = plugin_of()

    async def mapped(turn: Turn) -> str:
        context = ContextBuilder(budget=5000, counter=QuarterTokens())
        await plugin.before_context_build(turn, context)
        return context.blocks[0].text

    for _ in range(2):
        every, one = await mapped(turn_of()), await mapped(turn_of(allowed=("weather",)))
        hidden = frozenset({"skill:mailman"})
        none = await mapped(turn_of(allowed=("weather",), withheld=hidden))
        assert "send_mail" in every
        assert "send_mail" not in one
        assert ("mailman" in one, "mailman" in none) == (True, False)
        assert "weather" in one
    # A tool that a later snapshot has is hidden from an agent that lacks it.
    later = turn_of(allowed=("weather",))
    more = Tool(name="old_mail", description="", schema={"type": "object"})
    later.snapshot = replace(
        later.snapshot,
        tools={**later.snapshot.tools, "old_mail": more},
        capabilities=CapabilityIndex({row.id: row for row in ROWS}, 2),
    )
    assert "old_mail" in one
    assert "old_mail" not in await mapped(later)
