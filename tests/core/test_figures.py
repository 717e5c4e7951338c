"""The figures of turns, model calls and tool calls, as plugins get them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.builtin_plugins.turns import TurnedClock
from tests.support.script import Allow, Script, Scripted, Tools, call, echo_tool, gateway, say

from hookgate.core.domain.events import MetricRecord
from hookgate.core.domain.ports import CLOCK
from hookgate.core.domain.tools import Tool, ToolCall, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl


class Figures:
    """Keeps the records, and brings a clock that only the test moves."""

    name = "figures"
    provides = (CLOCK,)

    def __init__(self) -> None:
        self.clock = TurnedClock()
        self.records: list[MetricRecord] = []

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        host.provide(CLOCK, self.clock)
        yield

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        self.records.append(record)

    def of(self, name: str) -> list[Mapping[str, Any]]:
        return [record.fields for record in self.records if record.name == name]


class Deny:
    name = "deny"

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        return Verdict.deny("no")


def slow_tool(clock: TurnedClock) -> Tool:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        clock.advance(0.25)
        return "slept"

    return echo_tool("slow", run=run)


async def test_calls_tell_how_long_they_took() -> None:
    figures = Figures()

    def think() -> None:
        figures.clock.advance(1.5)

    script = Script([think, *call(("c1", "slow", {"text": "x"}))], say("done"))
    async with gateway(
        Scripted(script), Tools(slow_tool(figures.clock)), Allow(), figures
    ) as running:
        await running.chat("go")

    (tool,) = figures.of("tool.call")
    assert (tool["tool"], tool["status"], tool["milliseconds"]) == ("slow", "done", 250.0)
    first, second = figures.of("model.call")
    assert (first["ending"], first["milliseconds"]) == ("done", 1500.0)
    assert (second["ending"], second["milliseconds"]) == ("done", 0.0)
    assert (first["input_tokens"], first["output_tokens"]) == (11, 7)


async def test_call_that_did_not_run_has_no_time() -> None:
    figures = Figures()
    script = Script(call(("c1", "slow", {"text": "x"})), say("done"))
    async with gateway(
        Scripted(script), Tools(slow_tool(figures.clock)), Deny(), figures
    ) as running:
        await running.chat("go")

    (tool,) = figures.of("tool.call")
    assert tool["status"] == "denied"
    assert "milliseconds" not in tool
