from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.turns import attach, make_host, make_turn

from hookgate.builtin_plugins.awareness.cards.listing import MAX_ROWS
from hookgate.builtin_plugins.awareness.plugin import Plugin
from hookgate.builtin_plugins.awareness.settings import AwarenessSettings
from hookgate.core.domain.descriptors import Capability, Card, Flags, Rejected
from hookgate.core.domain.strict_json import compile_schema
from hookgate.core.domain.tools import Tool
from hookgate.core.host import PluginInfo

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn


def row(name: str, kind: Any = "tool", **more: Any) -> Capability:
    return Capability(id=f"{kind}:{name}", kind=kind, name=name, **{"whose": "own", **more})


ROWS = [
    row("weather", flags=Flags.none(), description="Tell the forecast.", source_ref="plugin x"),
    row("alarm", description="Wake somebody."),
    row("http_get", available=False, description="System: fetches a page"),
    row("knitting", "skill", description="How to knit."),
    row("irc", "channel"),
    row("safety", "card"),
]
TOOLS = [
    Tool(name=name, description="", schema={"type": "object"}) for name in ("weather", "alarm")
]


def turn_of(**more: Any) -> Turn:
    return make_turn(tools=TOOLS, capabilities=more.pop("capabilities", ROWS), **more)


async def listed(turn: Turn, detail: str | None = None, **more: Any) -> Any:
    plugin = Plugin(AwarenessSettings(watch=False))
    host = make_host(Path(mkdtemp(prefix="hookgate-test-")))

    async def sanitize(card: Card) -> Card | Rejected:
        if "knit" in card.text:
            return Rejected(reason="no knitting")
        return replace(card, text=card.text.replace("System:", "[System]:"))

    memory = PluginInfo(name="memory", state="disabled", reason="said so")
    attach(host, memory, sanitize=sanitize)
    arguments = more if detail is None else {"detail": detail, **more}
    async with plugin.lifespan(host):
        made, *_ = await plugin.list_tools()
        assert compile_schema(made.schema)(arguments) == []
        assert made.run is not None
        result = await made.run(turn, arguments)
        await host.stop_tasks()
    assert not isinstance(result, str)
    assert json.loads(result.content) == result.data
    return result.data


async def test_summary_names_what_is_on_and_off_by_kind() -> None:
    assert await listed(turn_of()) == {
        "kinds": {
            "tool": {"total": 3, "on": ["alarm", "weather"], "off": ["http_get"]},
            "skill": {"total": 1, "on": ["knitting"], "off": []},
            "channel": {"total": 1, "on": ["irc"], "off": []},
            "card": {"total": 1, "on": ["safety"], "off": []},
        },
        "cards": {"on": True, "shown": [], "routerTags": []},
    }


async def test_full_list_says_what_each_one_does_and_where_it_is_from() -> None:
    turn = turn_of(offered={"weather": TOOLS[0]})
    data = await listed(turn, "full")
    alarm, http_get, weather = data["kinds"]["tool"]["rows"]
    assert weather == {
        "id": "tool:weather",
        "name": "weather",
        "on": True,
        "offered": True,
        "category": "",
        "origin": "plugin x",
        "flags": {},
        "description": "Tell the forecast.",
    }
    assert (alarm["offered"], alarm["flags"]["sends_externally"]) == (False, None)
    assert http_get["on"] is False
    assert data["plugins"] == [
        {"name": "memory", "origin": "builtin", "state": "disabled", "why": "said so"}
    ]
    assert data["differsFromStock"] == {
        "pluginsOff": ["memory"],
        "toolsAdded": ["alarm", "weather"],
    }


async def test_descriptions_in_the_full_list_have_passed_the_sanitizers() -> None:
    data = await listed(turn_of(), "full")
    assert data["kinds"]["tool"]["rows"][1]["description"] == "[System]: fetches a page"
    assert data["kinds"]["skill"]["rows"][0]["description"] == "(not shown: no knitting)"


async def test_what_is_withheld_or_not_the_agents_is_not_listed() -> None:
    turn = turn_of(withheld=frozenset({"skill:knitting", "tool:alarm"}), allowed=("al*",))
    data = await listed(turn, "full")
    assert [entry["name"] for entry in data["kinds"]["tool"]["rows"]] == ["http_get"]
    assert "skill" not in data["kinds"]


async def test_long_list_is_cut_and_the_rest_counted() -> None:
    rows = [row(f"skill_{number:04}", "skill") for number in range(MAX_ROWS + 5)]
    data = await listed(turn_of(capabilities=rows))
    assert data["kinds"]["skill"]["total"] == MAX_ROWS + 5
    assert len(data["kinds"]["skill"]["on"]) == MAX_ROWS
    assert data["kinds"]["skill"]["more"] == 5


async def test_flags_of_all_tools_are_declared_and_only_the_list_is_always_there() -> None:
    made = await Plugin(AwarenessSettings()).list_tools()
    assert [one.name for one in made if one.always_on] == ["list_capabilities"]
    assert {one.flags for one in made} == {Flags.none()}


@pytest.mark.parametrize("count", [20, 60, 150, 400])
async def test_full_list_is_whole_however_much_there_is(count: int) -> None:
    rows = [row(f"skill_{n:04}", "skill", description="What it does. " * 20) for n in range(count)]
    data = await listed(turn_of(capabilities=rows), "full")
    assert len(json.dumps(data)) < 9000  # 2,000 tokens of four characters, and some blanks
    skills = data["kinds"]["skill"]
    assert skills["total"] == count == len(skills["rows"]) + skills.get("more", 0)
    assert skills["rows"]


async def test_one_kind_may_be_asked_for() -> None:
    assert set((await listed(turn_of(), kind="channel"))["kinds"]) == {"channel"}
