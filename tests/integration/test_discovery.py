"""Discovery in a whole gateway, with the embedder's real model: what reaches the model."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import (
    Allow,
    Script,
    Scripted,
    Tools,
    blocks,
    call,
    say,
    settings,
    settled,
)

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.gateway import Gateway
from hookgate.hookspecs import hookimpl
from hookgate.kit.tooling import tool

# Every capability is embedded.
embeds = pytest.mark.slow

GITHUB = """---
name: github
description: Work with GitHub from the command line, for issues, pull requests and repositories.
metadata:
  category: developer-tools
  requires-tools: cli_executor
---
# GitHub

Use `gh issue list` for issues, and `gh pr list` for pull requests.
"""

SOURDOUGH = """---
name: sourdough
description: Bake sourdough bread. Use it for starters, hydration, proofing and baking times.
---
Feed the starter twice.
"""


def cli_executor(command: str) -> str:
    """Execute a program in a sandboxed shell."""
    return f"ran {command}"


def weather(city: str) -> str:
    """Tell the weather forecast of a city: rain, wind and temperature."""
    return f"sunny in {city}"


def send_mail(to: str, text: str) -> str:
    """Send an e-mail to somebody."""
    return f"sent {text} to {to}"


def tools() -> Sequence[Tool]:
    return [tool(made, flags=Flags.none()) for made in (cli_executor, weather, send_mail)]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves its index, so that the others need not embed again."""
    return tmp_path_factory.mktemp("embedded") / "capability_index.npz"


@pytest.fixture
def home(tmp_path: Path, embedded: Path) -> Iterator[Path]:
    index = tmp_path / "discovery" / embedded.name
    if embedded.exists():
        index.parent.mkdir()
        shutil.copy(embedded, index)
    yield tmp_path
    if index.exists():
        shutil.copy(index, embedded)


@asynccontextmanager
async def running(home: Path, script: Script, **discovery: Any) -> AsyncIterator[Gateway]:
    folder = home / "skills" / "github"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(GITHUB)
    config = settings(
        home,
        turn={"tool_selection": "discovered"},
        plugin={
            "discovery": {"dirs": [str(home / "skills")], "watch": False, **discovery},
            "embedding": {"load_after_seconds": 0},
        },
    )
    gate = Gateway(
        config,
        builtin=("control", "storage", "embedding", "discovery"),
        plugins=[Scripted(script), Tools(*tools()), Allow()],
    )
    async with gate:
        found = await ask(gate, "discovery.discover", query="a shell")
        assert found.vectors, found.problem
        yield gate


async def ask(gate: Gateway, name: str, **params: Any) -> Any:
    operation = gate.host.operations[name]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    return await operation.handler(invocation, operation.params(**params))


def context(request: ModelRequest) -> str:
    return "\n\n".join(block.text for block in blocks(request))


def offered(request: ModelRequest) -> list[str]:
    return [one.name for one in request.tools]


@embeds
async def test_a_question_about_github_shows_the_tool_that_its_skill_needs(home: Path) -> None:
    script = Script(say("Three are open."))
    async with running(home, script) as gate:
        await gate.chat("Which issues are open in our GitHub repository?")
    seen = context(script.requests[0])
    assert "github (skill), see its details" in seen
    assert seen.count("Work with GitHub") == 1
    assert "cli_executor (tool), needed by github, offered" in seen
    assert "Use `gh issue list` for issues" in seen
    # What is needed can be called, too.
    assert offered(script.requests[0]) == ["cli_executor", "discover_capabilities"]


@embeds
async def test_off_topic_messages_bring_the_map_and_nothing_more(home: Path) -> None:
    script = Script(say("You are welcome."))
    async with running(home, script) as gate:
        for message in ("thanks!", "what's the weather like in your mood", "haha, good one"):
            await gate.chat(message)
    for request in script.requests:
        assert "Available capability categories" in context(request)
        assert "Relevant capabilities" not in context(request)
        # With nothing selected the turn falls back to what is always on.
        assert offered(request) == ["discover_capabilities"]


@embeds
async def test_several_intents_bring_the_tools_of_each(home: Path) -> None:
    script = Script(say("Done."))
    async with running(home, script) as gate:
        await gate.chat("Tell me whether it rains in Oslo tomorrow. Then e-mail Kari about it.")
    assert {"send_mail", "weather"} <= set(offered(script.requests[0]))


@embeds
async def test_what_the_model_searches_for_can_be_called_in_the_same_turn(home: Path) -> None:
    script = Script(
        call(("c1", "discover_capabilities", {"query": "weather forecast"})),
        call(("c2", "weather", {"city": "Oslo"})),
        say("Sunny."),
    )
    async with running(home, script) as gate:
        turn = await gate.chat("hello there")
    assert offered(script.requests[0]) == ["discover_capabilities"]
    assert offered(script.requests[1]) == ["discover_capabilities", "weather"]
    assert [made.result.content for made in turn.calls][1] == "sunny in Oslo"


@embeds
async def test_the_same_set_of_tools_makes_the_same_beginning_of_a_request(home: Path) -> None:
    script = Script(say("ok"))
    async with running(home, script) as gate:
        await gate.chat("Will it rain in Oslo?")
        await gate.chat("What is the temperature in Rome?")
    first, second = script.requests
    assert first.tools == second.tools
    assert first.system[0] == second.system[0]
    assert first.system[0].stable


@embeds
async def test_a_tool_that_was_used_well_is_learned_and_can_be_forgotten(home: Path) -> None:
    answer = "It will be sunny in Oslo tomorrow, with a light wind from the west, and warm."
    script = Script(call(("c1", "weather", {"city": "Oslo"})), say(answer))
    async with running(home, script) as gate:
        await gate.chat("Do I need my umbrella for the walk, or is it dry? Rain in Oslo?")
        await settled(gate)
        rows = (await ask(gate, "discovery.examples")).examples
        assert [row.capability for row in rows] == ["tool:weather"]
        await ask(gate, "discovery.forget", capability="tool:weather")
        assert (await ask(gate, "discovery.examples")).examples == ()


@embeds
async def test_a_second_start_embeds_nothing(home: Path) -> None:
    script = Script(say("ok"))
    async with running(home, script):
        pass
    saved = home / "discovery" / "capability_index.npz"
    before = saved.stat().st_mtime_ns
    async with running(home, script) as gate:
        status = await ask(gate, "discovery.stats")
        assert status.vectors
        assert not any(part.startswith("discovery") for part in gate.host.degraded)
    # Nothing was made, and nothing had to be written.
    assert saved.stat().st_mtime_ns == before


@embeds
async def test_a_skill_that_appears_is_found_and_one_that_goes_is_not(home: Path) -> None:
    script = Script(say("ok"))
    question = "How wet should my sourdough dough be?"
    folder = home / "skills" / "sourdough"
    async with running(home, script, watch=True, debounce_ms=50) as gate:
        with gate.host.events.subscribe(
            scopes=frozenset({"read"}), where=lambda event: event.type == "capabilities_indexed"
        ) as events:

            async def indexed(there: bool) -> None:
                async with asyncio.timeout(120):
                    async for _ in events:
                        if ("skill:sourdough" in gate.host.capabilities.view()) == there:
                            return

            folder.mkdir()
            (folder / "SKILL.md").write_text(SOURDOUGH)
            await indexed(True)
            await gate.chat(question)
            shutil.rmtree(folder)
            await indexed(False)
            await gate.chat(question)
    assert "Kind: skill\nBake sourdough" in context(script.requests[0])
    assert "sourdough (skill)" not in context(script.requests[1])


async def test_without_an_embedder_words_alone_find(home: Path) -> None:
    script = Script(say("ok"))
    config = settings(home, turn={"tool_selection": "discovered"})
    plugins = [Scripted(script), Tools(*tools()), Allow()]
    async with Gateway(
        config, builtin=("control", "storage", "discovery"), plugins=plugins
    ) as gate:
        await gate.chat("What is the weather forecast for Oslo?")
        found = await ask(gate, "discovery.discover", query="weather forecast")
    assert not found.vectors
    assert offered(script.requests[0]) == ["discover_capabilities", "weather"]


QUESTION = "Do I need my umbrella for the walk, or is it dry? Rain in Oslo?"
ANSWER = "It will be sunny in Oslo tomorrow, with a light wind from the west, and warm."


def by_words(home: Path, script: Script, **more: Any) -> Gateway:
    config = settings(home, turn={"tool_selection": "discovered"}, **more)
    plugins = [Scripted(script), Tools(*tools()), Allow()]
    return Gateway(config, builtin=("control", "storage", "discovery"), plugins=plugins)


async def as_seen_by(principal: Principal, gate: Gateway, query: str) -> Any:
    operation = gate.host.operations["discovery.discover"]
    invocation = Invocation(host=gate.host, principal=principal)
    return await operation.handler(invocation, operation.params(query=query))


async def test_the_first_turn_after_a_restart_knows_what_was_learned(tmp_path: Path) -> None:
    script = Script(
        call(("c1", "discover_capabilities", {"query": "rain and wind forecast"})),
        call(("c2", "weather", {"city": "Oslo"})),
        say(ANSWER),
    )
    asked = "Should I take my parasol along?"
    async with by_words(tmp_path, script) as gate:
        await gate.chat(asked)
        await settled(gate)
        assert "weather" not in offered(script.requests[0])
    script = Script(say(ANSWER))
    async with by_words(tmp_path, script) as gate:
        turn = await gate.chat(asked)
        found = await as_seen_by(turn.principal, gate, asked)
        others = await as_seen_by(Principal.owner("somebody"), gate, asked)
    assert "weather" in offered(script.requests[0])
    # The command shows what that turn saw.
    assert [one.id for one in found.found] == ["tool:weather"]
    # What one principal's turns have taught helps no other's.
    assert others.found == []


async def test_discover_shows_what_a_turn_would_see(tmp_path: Path) -> None:
    script = Script(say("ok"))
    agents = {"main": {"model": "script/x", "tools": ["weather", "discover_*"]}}
    question = "Send an e-mail about the weather forecast of the city"
    async with by_words(tmp_path, script, agents=agents) as gate:
        turn = await gate.chat(question)
        found = await as_seen_by(turn.principal, gate, question)
    shown = [one.id for one in found.found]
    assert shown == list(turn.selections)
    assert "tool:weather" in shown
    assert "tool:send_mail" not in shown
    for tier in found.tiers:
        assert tier.text in context(script.requests[0])


async def test_status_says_that_words_alone_count_without_an_embedder(tmp_path: Path) -> None:
    async with by_words(tmp_path, Script(say("ok"))) as gate:
        await gate.chat("What is the weather forecast for Oslo?")
        assert any("by words alone" in said for said in gate.host.notices.values())


def long_skill(sections: int) -> str:
    said = "Knead the dough of bowl {} with care. " * 12
    parts = [f"## Step {n}\n\n" + said.replace("{}", str(n)) for n in range(sections)]
    return SOURDOUGH + "\n" + "\n\n".join(parts) + "\nThe last word is crumb.\n"


async def test_a_skill_that_was_cut_is_read_on_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "sourdough"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(long_skill(40))
    marker = re.compile(r"\[cut: [\d,]+ more tokens; read_capability (\{.*?\})\]")
    pages: list[str] = []

    def read_on(request: ModelRequest) -> Any:
        said = context(request) if not pages else request.messages[-1].tool_results[0].content
        pages.append(said)
        found = marker.search(said)
        if found is None:
            return say("All read.")
        return call((f"c{len(pages)}", "read_capability", json.loads(found[1])))

    script = Script(read_on)
    discovery = {"dirs": [str(tmp_path / "skills")], "watch": False}
    async with by_words(tmp_path, script, plugin={"discovery": discovery}) as gate:
        turn = await gate.chat("How do I bake sourdough bread?")
    assert turn.answer == "All read."
    assert "read_capability" in offered(script.requests[0])
    whole = "\n".join(pages)
    assert all(f"## Step {n}\n" in whole for n in range(40))
    assert pages[-1].rstrip().endswith("The last word is crumb.")
    assert 3 <= len(pages) <= 8
    # Nothing is read twice.
    assert sum(page.count("## Step 20\n") for page in pages) == 1
    # What it reads is the operator's own, and taints nothing.
    assert turn.taint == frozenset()


async def test_what_is_whole_needs_no_reader_and_what_is_withheld_has_none(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "sourdough"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SOURDOUGH)
    script = Script(
        call(("c1", "discover_capabilities", {"query": "bread"})),
        call(("c2", "read_capability", {"id": "skill:sourdough"})),
        say("ok"),
    )
    discovery = {"dirs": [str(tmp_path / "skills")], "watch": False}
    async with by_words(tmp_path, script, plugin={"discovery": discovery}) as gate:
        await gate.chat("How do I bake sourdough bread, and what is the weather in Oslo?")
        assert "read_capability" not in offered(script.requests[0])
        made = gate.host.tools.view()["read_capability"]
        assert made.flags == Flags.none()


class Withholds:
    """A plugin that takes capabilities away while a test says so."""

    name = "withholds"

    def __init__(self) -> None:
        self.ids: set[str] = set()

    @hookimpl
    def withhold_capabilities(self, turn: Any, capabilities: Any) -> set[str]:
        return set(self.ids)


BREAD = "How do I bake sourdough bread?"
STEP = "Feed the starter twice."


@asynccontextmanager
async def baking(home: Path, script: Script, taken: Withholds) -> AsyncIterator[Gateway]:
    folder = home / "skills" / "sourdough"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SOURDOUGH)
    config = settings(home, plugin={"discovery": {"dirs": [str(home / "skills")], "watch": False}})
    plugins = [Scripted(script), Tools(*tools()), Allow(), taken]
    async with Gateway(
        config, builtin=("control", "storage", "discovery"), plugins=plugins
    ) as gate:
        yield gate


async def test_a_skill_stands_where_it_was_shown_and_is_not_shown_again(tmp_path: Path) -> None:
    script = Script(say("ok"))
    async with baking(tmp_path, script, Withholds()) as gate:
        for text in (BREAD, "Thanks, lovely!", "And how long does sourdough bread proof?"):
            await gate.chat(text)
    for before, request in pairwise(script.requests):
        known = [one.text for one in before.messages]
        assert [one.text for one in request.messages[: len(known)]] == known
        assert context(request).count(STEP) == 1
    # What is for the last message stands there already: all of it.
    assert "sourdough (skill), see its details" in script.requests[2].messages[0].text
    assert [one.is_context for one in script.requests[2].messages].count(True) == 1


@pytest.mark.parametrize("way", ["withheld", "changed", "removed"])
async def test_a_skill_is_gone_from_where_it_stood_once_it_is(way: str, tmp_path: Path) -> None:
    script, taken = Script(say("ok")), Withholds()
    async with baking(tmp_path, script, taken) as gate:
        await gate.chat(BREAD)
        assert STEP in context(script.requests[0])
        skill = tmp_path / "skills" / "sourdough" / "SKILL.md"
        if way == "withheld":
            taken.ids.add("skill:sourdough")
        elif way == "changed":
            skill.write_text(SOURDOUGH.replace("twice", "thrice"))
            await gate.reload()
        else:
            shutil.rmtree(skill.parent)
            await gate.reload()
        await gate.chat("Thanks, lovely!")
        assert STEP not in context(script.requests[1])
        await gate.chat(BREAD)
    shown = context(script.requests[2])
    assert STEP not in shown
    assert ("Feed the starter thrice." in shown) == (way == "changed")


async def test_a_skill_stands_while_another_capability_is_withheld(tmp_path: Path) -> None:
    script, taken = Script(say("ok")), Withholds()
    async with baking(tmp_path, script, taken) as gate:
        await gate.chat(BREAD)
        taken.ids.add("tool:send_mail")
        await gate.chat("Thanks, lovely!")
    assert STEP in context(script.requests[1])


async def test_a_skill_is_gone_from_where_it_stood_once_sanitizers_judge_anew(
    tmp_path: Path,
) -> None:
    script, taken = Script(say("ok")), Withholds()
    async with baking(tmp_path, script, taken) as gate:
        await gate.chat(BREAD)
        gate._sanitizer.reloaded(settings=True)
        await gate.chat("Thanks, lovely!")
    assert STEP not in context(script.requests[1])
