"""One turn meets the hooks in the order in which hookspecs.py and the documentation list them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from docs.hook_pages import hooks
from tests.support.script import Script, Scripted, call, echo_tool, gateway, say, settings, settled

from hookgate.core.domain.descriptors import Card
from hookgate.core.domain.events import MetricRecord
from hookgate.core.domain.tools import Ask, Decision, Tool, Verdict
from hookgate.core.hooks.dispatch import HookFailure
from hookgate.core.turn.context import ContextBuilder
from hookgate.hookspecs import hookimpl

ELSEWHERE = ["reloading", "check_settings"]
"""Hooks of a reload, and of a look at the settings that starts nothing."""

WIRING = [hook.name for hook in hooks() if hook.section == "Wiring" and hook.name not in ELSEWHERE]
# Nobody has to say who they are to a gateway in their own process.
TURN = [
    hook.name
    for hook in hooks()
    # A tool of the client's is judged as any other, and described before that: its own tests.
    if hook.section not in ("Wiring", "Who asks") and hook.name != "describe_client_call"
]


class Witness:
    """Implements every hook, and notes when it was called first."""

    name = "witness"

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.closed = False
        self.told = asyncio.Event()

    def note(self, name: str) -> None:
        if name not in self.seen:
            self.seen.append(name)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        self.note("lifespan")
        yield
        self.closed = True

    @hookimpl
    def list_operations(self) -> Sequence[Any]:
        self.note("list_operations")
        return []

    @hookimpl
    def add_routes(self) -> None:
        self.note("add_routes")

    @hookimpl
    def check_settings(self) -> Sequence[Any]:
        self.note("check_settings")
        return []

    @hookimpl
    def describe_providers(self) -> Sequence[Any]:
        self.note("describe_providers")
        return []

    @hookimpl
    def list_providers(self) -> Sequence[Any]:
        self.note("list_providers")
        return []

    @hookimpl
    def reloading(self) -> None:
        self.note("reloading")

    @hookimpl
    def list_tools(self) -> Sequence[Tool]:
        self.note("list_tools")
        return [echo_tool()]

    @hookimpl
    def list_channels(self) -> Sequence[Any]:
        self.note("list_channels")
        return []

    @hookimpl
    def list_capabilities(self) -> Sequence[Any]:
        self.note("list_capabilities")
        return []

    @hookimpl
    def list_cards(self) -> Sequence[Card]:
        self.note("list_cards")
        return [Card(id="one", text="a card")]

    @hookimpl
    def receive_message(self) -> None:
        self.note("receive_message")

    @hookimpl
    def before_turn(self) -> None:
        self.note("before_turn")

    @hookimpl
    def tag_turn(self) -> set[str]:
        self.note("tag_turn")
        return {"seen"}

    @hookimpl
    def plan_turn(self) -> None:
        self.note("plan_turn")

    @hookimpl
    def withhold_capabilities(self) -> None:
        self.note("withhold_capabilities")

    @hookimpl
    def select_capabilities(self) -> None:
        self.note("select_capabilities")

    @hookimpl
    def sanitize_card(self) -> None:
        self.note("sanitize_card")

    @hookimpl
    def before_context_build(self, context: ContextBuilder) -> None:
        self.note("before_context_build")

    @hookimpl
    def prepare_model_call(self) -> None:
        self.note("prepare_model_call")

    @hookimpl
    def before_model_call(self) -> None:
        self.note("before_model_call")

    @hookimpl
    def filter_stream(self) -> None:
        self.note("filter_stream")

    @hookimpl
    def after_model_call(self) -> None:
        self.note("after_model_call")

    @hookimpl
    def before_tool_call(self) -> Verdict:
        if "before_model_call" in self.seen:
            self.note("before_tool_call")
        return Verdict.ask(Ask(title="May it?"))

    @hookimpl
    def resolve_ask(self) -> Decision:
        self.note("resolve_ask")
        return Decision.allow("yes", by="witness")

    @hookimpl
    def tool_decided(self) -> None:
        self.note("tool_decided")

    @hookimpl
    def after_tool_call(self) -> None:
        self.note("after_tool_call")

    @hookimpl
    def tool_finished(self) -> None:
        self.note("tool_finished")

    @hookimpl
    def turn_ended(self) -> None:
        self.note("turn_ended")

    @hookimpl
    def judge_turn(self) -> None:
        self.note("judge_turn")

    @hookimpl
    def after_turn(self) -> None:
        self.note("after_turn")
        raise RuntimeError("so that hook_failed hears of it")

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        if record.name == "turn":
            self.note("log_metrics")

    @hookimpl
    def hook_failed(self, failure: HookFailure) -> None:
        self.note("hook_failed")
        self.told.set()


class Shower:
    """Asks for a card as the model may see it, as plugins that show cards do."""

    name = "shower"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        self.host = host
        yield

    @hookimpl
    async def before_context_build(self) -> None:
        await self.host.sanitize(Card(id="one", text="a card"))


def gateway_of(witness: Witness, home: Path) -> Any:
    script = Script(call(("c1", "echo", {"text": "hello"})), say("all done"))
    config = settings(home, turn={"answerers": ["witness"]})
    return gateway(Scripted(script), witness, Shower(), config=config)


async def test_a_turn_meets_every_hook_and_in_the_order_that_is_written_down(
    tmp_path: Path,
) -> None:
    witness = Witness()
    async with gateway_of(witness, tmp_path) as gate:
        turn = await gate.chat("hello")
        await settled(gate)
        await witness.told.wait()
        await gate.drain(1)

    assert turn.answer == "all done"
    wiring, met = witness.seen[: len(WIRING)], witness.seen[len(WIRING) :]
    assert wiring[0] == "lifespan"
    assert sorted(wiring) == sorted(WIRING)
    # Metrics and failures are told off the turn's path: after it, in either order.
    assert met[:-2] == TURN[:-2]
    assert set(met[-2:]) == set(TURN[-2:])
    assert witness.closed


async def test_a_reload_meets_its_hooks_in_the_order_that_is_written_down(tmp_path: Path) -> None:
    witness = Witness()
    async with gateway_of(witness, tmp_path) as gate:
        assert "reloading" not in witness.seen
        witness.seen.clear()
        await gate.reload()

    again = ["reloading", "describe_providers", "list_providers"]
    again += ["list_tools", "list_capabilities", "list_cards"]
    assert witness.seen == again
    assert again == [hook.name for hook in hooks() if hook.name in again]
