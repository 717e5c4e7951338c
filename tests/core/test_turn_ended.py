"""The last word of plugins on a turn, before its client hears that it is done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.script import Events, Script, Scripted, gateway, say, settled

from hookgate import CONVERSATIONS, Event, Refusal, Turn, hookimpl


class Last:
    """Says how a turn ended, then fails where a test wants that."""

    name = "last"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.told: list[tuple[str | None, str, str]] = []

    @hookimpl
    def turn_ended(self, turn: Turn) -> None:
        code = turn.error.code if turn.error else ""
        self.told.append((turn.ending, turn.answer, code))
        turn.emit(Event("last", {"ending": turn.ending}, scope="chat"))
        if self.error is not None:
            raise self.error


class Refuses:
    name = "refuses"

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal:
        return Refusal(code="closed", message="come back tomorrow")


@pytest.mark.parametrize(
    ("model", "parts", "told"),
    [
        (say("fine"), (), ("done", "fine", "")),
        ([RuntimeError("broken")], (), ("failed", "", "internal")),
        (say("never"), (Refuses(),), ("refused", "", "closed")),
    ],
)
async def test_every_turn_that_was_begun_is_told_of_once_and_before_done(
    model: Any, parts: tuple[object, ...], told: tuple[str, str, str]
) -> None:
    last, events = Last(), Events()
    async with gateway(Scripted(Script(model)), *parts, last) as gate:
        await gate.chat("go", sink=events)

    assert [(ending, answer) for ending, answer, _ in last.told] == [told[:2]]
    assert events.types()[-2:] == ["last", "done"]


async def test_a_cancelled_turn_is_told_of_too() -> None:
    last, events, reached = Last(), Events(), asyncio.Event()

    async def waits() -> None:
        reached.set()
        await asyncio.Event().wait()

    async with gateway(Scripted(Script([waits])), last) as gate:
        task = asyncio.create_task(gate.chat("go", sink=events))
        await reached.wait()
        gate.host.cancel(gate.host.running()[0].id, "enough")
        await task

    assert last.told == [("cancelled", "", "cancelled")]
    assert events.types()[-2:] == ["last", "done"]


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1), asyncio.CancelledError()])
@pytest.mark.parametrize("required", [False, True])
async def test_whatever_it_raises_the_turn_is_over(error: BaseException, required: bool) -> None:
    last, events = Last(error), Events()
    hooks = {"turn_ended": {"required": True}} if required else {}
    async with gateway(Scripted(Script(say("fine"))), last, hooks=hooks) as gate:
        turn = await gate.chat("go", sink=events)
        await settled(gate)
        kept = await gate.host[CONVERSATIONS].history(turn.session, turns=1)

    assert (turn.ending, kept[-1].text) == ("done", "fine")
    assert events.types().count("done") == 1
