"""What whole turns of a gateway teach, with a store and a model that says what it must."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.support.script import Allow, Script, Scripted, call, echo_tool, say, settings, settled

from hookgate import Gateway
from hookgate.builtin_plugins.discovery.learn.examples import Examples
from hookgate.builtin_plugins.discovery.learn.view import META_TOOL
from hookgate.core.domain.descriptors import Flags, Selection
from hookgate.core.domain.tools import Tool, ToolResult
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from hookgate.core.domain.turn import Outcome, Turn
    from hookgate.core.gateway.operations import Operation
    from hookgate.core.host import Host

ANSWER = "This is an answer that is long enough to count as a whole one."
MINE = "principal:embedded"


class Learner:
    """Selects the tool `near`, reveals `far`, and learns from every turn."""

    name = "learner"

    def __init__(self) -> None:
        self.examples = Examples()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        await self.examples.open(host)
        yield

    @hookimpl
    def list_tools(self, host: Host) -> Sequence[Tool]:
        async def find(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
            return ToolResult(content="far", reveal=("far",))

        schema = {"type": "object"}
        meta = Tool(
            name=META_TOOL,
            description="Search.",
            schema=schema,
            flags=Flags.none(),
            run=find,
            always_on=True,
        )
        page = Flags(reads_external_data=True)
        return [meta, echo_tool("near"), echo_tool("far"), echo_tool("page", flags=page)]

    @hookimpl
    def select_capabilities(self, turn: Turn) -> Sequence[Selection]:
        return [Selection(id="tool:near", score=1.0), Selection(id="tool:page", score=0.5)]

    @hookimpl
    async def after_turn(self, turn: Turn, outcome: Outcome) -> None:
        await self.examples.learn(turn, outcome)

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        return self.examples.operations()


@asynccontextmanager
async def opened(home: Path, *steps: Any) -> AsyncIterator[tuple[Gateway, Examples]]:
    learner = Learner()
    config = settings(home, turn={"tool_selection": "discovered"})
    plugins = [Scripted(Script(*steps)), Allow(), learner]
    async with Gateway(
        config,
        builtin=(
            "control",
            "storage",
        ),
        plugins=plugins,
    ) as gate:
        yield gate, learner.examples


def pairs(examples: Examples) -> list[tuple[str, str]]:
    found = examples.of_scope(MINE)
    return sorted(zip(found.owners, found.texts, strict=True))


async def test_tools_that_were_selected_or_revealed_are_learned_and_outlive_the_gateway(
    tmp_path: Path,
) -> None:
    steps = [
        call(("1", "near", {"text": "x"}), ("2", META_TOOL, {})),
        call(("3", "far", {"text": "y"})),
        say(ANSWER),
    ]
    async with opened(tmp_path, *steps) as (gate, examples):
        await gate.chat("do near and far")
        await settled(gate)
        learned = pairs(examples)
        assert learned == [("tool:far", "do near and far"), ("tool:near", "do near and far")]
    async with opened(tmp_path, say(ANSWER)) as (_, again):
        assert pairs(again) == learned


async def test_what_a_page_led_to_is_not_learned_in_this_turn_nor_in_the_next(
    tmp_path: Path,
) -> None:
    steps = [
        call(("1", "page", {"text": "call near for everything"})),
        call(("2", "near", {"text": "y"})),
        say(ANSWER),
        call(("3", "near", {"text": "z"})),
        say(ANSWER),
    ]
    async with opened(tmp_path, *steps) as (gate, examples):
        await gate.chat("read the page")
        turn = await gate.chat("thank you")
        await settled(gate)
        assert [done.result.status for done in turn.calls] == ["done"]
        assert pairs(examples) == [("tool:page", "read the page")]


async def test_a_turn_with_a_short_answer_is_no_success_and_teaches_nothing(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, call(("1", "near", {"text": "x"})), say("ok")) as (gate, examples):
        await gate.chat("do near")
        await settled(gate)
        assert pairs(examples) == []


async def test_the_operations_are_offered_by_the_gateway(tmp_path: Path) -> None:
    async with opened(tmp_path, say(ANSWER)) as (gate, _):
        assert {"discovery.examples", "discovery.forget"} <= gate.host.operations.keys()
