"""Each turn that did not end well stands in the log with its id, its code and its session."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from tests.support.script import Events, Script, Scripted, gateway, say, until

from hookgate import Gateway
from hookgate.core.domain.errors import LaneFullError, ProviderError
from hookgate.core.domain.models import Refusal, TextDelta
from hookgate.core.domain.ports import LANES
from hookgate.core.domain.turn import Turn
from hookgate.core.log import Log
from hookgate.hookspecs import hookimpl

SECRET = "sk-canary-0123456789"


def logging(*plugins: object, **sections: Any) -> tuple[Gateway, io.StringIO]:
    gate, lines = gateway(*plugins, **sections), io.StringIO()
    gate.host.log = Log(gate.settings.log, gate.host.secrets, stream=lines).logger()
    return gate, lines


def about_turns(lines: io.StringIO) -> list[dict[str, Any]]:
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in told if "turn" in line]


class Refuses:
    name = "refuses"

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal:
        return Refusal(code="closed", message="not today")


class Breaks:
    name = "breaks"

    @hookimpl
    def before_turn(self, turn: Turn) -> None:
        raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("plugins", "step", "level", "code"),
    [
        ((), [ProviderError("auth", f"no key {SECRET}")], "warning", "provider_failed"),
        ((), [TextDelta("x"), ProviderError("cut", "gone")], "warning", "provider_failed"),
        ((Refuses(),), say("x"), "warning", "closed"),
        ((Breaks(),), say("x"), "warning", "hook_failed"),
    ],
    ids=["failed", "cut", "refused", "hook"],
)
async def test_a_turn_that_did_not_end_well_is_named(
    plugins: tuple[object, ...], step: Any, level: str, code: str
) -> None:
    gate, lines = logging(Scripted(Script(step)), *plugins)
    async with gate:
        gate.host.secrets.register(SECRET)
        turn = await gate.chat("my own words")
    (line,) = about_turns(lines)
    assert (line["turn"], line["session"]) == (turn.id, "main:cli:local:main")
    assert (line["level"], line["code"]) == (level, code)
    assert line["reason"]
    assert SECRET not in lines.getvalue()
    assert "my own words" not in lines.getvalue()


async def test_a_fault_of_the_gateway_is_an_error_with_its_traceback() -> None:
    class Faulty(Scripted):
        name = "faulty"

        @hookimpl
        def before_turn(self, turn: Turn) -> None:
            turn.plan = None  # type: ignore[assignment]

    gate, lines = logging(Faulty(Script(say("x"))))
    async with gate:
        turn = await gate.chat("go")
    assert turn.error is not None
    (line,) = about_turns(lines)
    assert (line["level"], line["code"], line["turn"]) == ("error", turn.error.code, turn.id)
    assert line["session"] == str(turn.session)
    assert "Traceback" in line["exception"]


async def test_a_good_turn_is_not_named() -> None:
    gate, lines = logging(Scripted(Script(say("x"))))
    async with gate:
        await gate.chat("go")
    assert about_turns(lines) == []


async def test_a_turn_that_never_began_is_named() -> None:
    gate, lines = logging(Scripted(Script(say("x"))), turn={"lane_queue": 0})
    async with gate:
        events = Events()

        class Full:
            def ahead(self, *_: Any) -> int:
                return 0

            def hold(self, session: Any, turn: Turn) -> Any:
                raise LaneFullError("too many wait")

        lanes = gate.host[LANES]
        gate.host.provide(LANES, Full())  # type: ignore[arg-type]
        with pytest.raises(LaneFullError):
            await gate.chat("go", sink=events)
        gate.host.provide(LANES, lanes)
    (line,) = about_turns(lines)
    assert (line["event"], line["level"]) == ("turn did not begin", "warning")
    assert (line["code"], line["session"]) == ("lane_full", "main:cli:local:main")


async def test_a_cancelled_turn_is_named_as_such() -> None:
    gate, lines = logging(Scripted(Script([asyncio.Event().wait])))
    async with gate:
        asked = asyncio.create_task(gate.chat("go"))
        await until(lambda: bool(gate.host.running()) and bool(gate.host.running()[0].messages))
        gate.host.cancel(gate.host.running()[0].id, "enough")
        await asked
    (line,) = about_turns(lines)
    assert (line["event"], line["level"], line["code"]) == ("turn cancelled", "info", "cancelled")
