"""What a request may ask of its turn: flags that plugins declare."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.support.script import Events, Recorder, Script, Scripted, gateway, say, settled
from tests.support.wire import serving

from hookgate import (
    CONVERSATIONS,
    Host,
    RequestFlag,
    SessionKey,
    Turn,
    TurnError,
    TurnPlan,
    hookimpl,
)

SESSION = SessionKey("main", "cli", "local", "main")


def fraction(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise ValueError("beyond")
    return number


class Tones:
    """A third party's plugin that reads two flags of its own."""

    name = "tones"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        tone = RequestFlag(
            name="answerTone",
            aliases=("tone",),
            values={"plain": "plain", "flat": "plain", "warm": "warm", "false": None},
        )
        share = RequestFlag(name="share", read=fraction, expected="a number from 0 to 1")
        host.flags.apply(self.name, [tone, share])
        yield

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan | None:
        return replace(plan, max_iterations=3) if turn.flags.get("answerTone") == "warm" else None


@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        ({"answerTone": "warm"}, {"answerTone": "warm"}),
        ({"answer_tone": " WARM "}, {"answerTone": "warm"}),
        ({"Answer-Tone": "flat"}, {"answerTone": "plain"}),
        ({"tone": False}, {"answerTone": None}),
        ({"share": 0.25, "tone": "plain"}, {"share": 0.25, "answerTone": "plain"}),
        ({"tone": "flat", "answerTone": "plain"}, {"answerTone": "plain"}),
        ({}, {}),
    ],
)
async def test_a_plugin_finds_what_was_asked_under_the_name_that_it_declared(
    flags: dict[str, Any], meant: dict[str, Any]
) -> None:
    async with gateway(Scripted(Script(say("ok"))), Tones()) as gate:
        turn = await gate.chat("go", options={"customFlags": flags})

    assert turn.flags == meant
    assert turn.plan.max_iterations == (3 if meant.get("answerTone") == "warm" else 10)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"customFlags": {"tone": "loud"}}, "'loud' as the flag `tone`, expected plain or flat"),
        ({"customFlags": {"answer_tone": 5}}, "found 5 as the flag `answer_tone`"),
        ({"customFlags": {"tone": True}}, "found True as the flag `tone`"),
        ({"customFlags": {"share": 1.5}}, "expected a number from 0 to 1"),
        ({"customFlags": {"share": {"of": 1}}}, "expected a number from 0 to 1"),
        ({"customFlags": {"tone": "warm", "answerTone": "plain"}}, "twice, with two meanings"),
        ({"customFlags": ["tone"]}, "expected an object of flags"),
        ({"customFlags": {"failMode": "sometimes"}}, "expected fail_open or open or fail_closed"),
        # Beside `customFlags` they count as well.
        ({"toolFailureMode": "never"}, "found 'never' as the flag `toolFailureMode`"),
        ({"failMode": "open", "customFlags": {"failMode": "closed"}}, "with two meanings"),
    ],
)
async def test_a_value_that_means_nothing_is_refused_before_anything_is_committed(
    options: dict[str, Any], why: str
) -> None:
    script, recorder = Script(say("never")), Recorder()
    async with gateway(Scripted(script), Tones(), recorder) as gate:
        with pytest.raises(TurnError, match="found") as caught:
            await gate.chat("go", options=options)
        await settled(gate)
        kept = await gate.host[CONVERSATIONS].history(SESSION, turns=5)

    assert caught.value.code == "invalid_params"
    assert why in str(caught.value)
    assert (list(kept), script.requests, recorder.turns) == ([], [], [])


async def test_clients_of_socket_and_route_get_the_error() -> None:
    async with serving(Scripted(Script(say("never"))), Tones()) as served:
        options = {"customFlags": {"tone": "loud"}}
        async with served.socket() as socket:
            answer = await socket.call("chat.send", content="go", options=options)
        params = {"content": "go", "options": options}
        async with served.http.post(f"{served.url}/v1/turns", json=params) as response:
            status, body = response.status, await response.json()

    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["code"] == "invalid_params"
    assert (status, body["error"]["data"]["code"]) == (400, "invalid_params")
    assert "expected plain or flat or warm" in body["error"]["message"]


async def test_a_name_that_nobody_knows_is_passed_over_and_told() -> None:
    events, script = Events(), Script(say("ok"))
    names = {"tonne": "warm", "organizationId": "acme"}
    async with gateway(Scripted(script), Tones()) as gate:
        turn = await gate.chat("go", options={"customFlags": names, "beside": 1}, sink=events)
        quiet = Events()
        await gate.chat("go", options={"customFlags": {"tone": "warm"}}, sink=quiet)

    assert (turn.ending, turn.flags, turn.options["customFlags"]) == ("done", {}, names)
    told = events.of("warning")
    assert [data["code"] for data in told] == ["unknown_flags"]
    assert "`tonne`, `organizationId`" in told[0]["message"]
    assert quiet.of("warning") == []


async def test_a_flag_that_a_plugin_reads_badly_is_a_wrong_value_and_no_fault_of_the_gateway() -> (
    None
):
    class Bad:
        name = "bad"

        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            host.flags.apply(self.name, [RequestFlag(name="bad", read=lambda value: value["x"])])
            yield

    async with gateway(Scripted(Script(say("ok"))), Bad()) as gate:
        with pytest.raises(TurnError, match="as the flag `bad`") as caught:
            await gate.chat("go", options={"customFlags": {"bad": {}}})

    assert caught.value.code == "invalid_params"


async def test_the_flag_of_the_core_is_nobody_elses() -> None:
    class Taker:
        name = "taker"

        @hookimpl
        @asynccontextmanager
        async def lifespan(self, host: Host) -> AsyncIterator[None]:
            mine = RequestFlag(name="mine", aliases=("failMode",), values={"closed": "ha"})
            same = RequestFlag(name="toolFailureMode", values={"fail_closed": "fail_open"})
            host.flags.apply(self.name, [mine, same])
            yield

    async with gateway(Scripted(Script(say("ok"))), Taker()) as gate:
        turn = await gate.chat("go", options={"customFlags": {"failMode": "closed"}})
        degraded = gate.host.degraded

    assert turn.plan.failure_mode == "fail_closed"
    assert "flag toolFailureMode of taker" in degraded
