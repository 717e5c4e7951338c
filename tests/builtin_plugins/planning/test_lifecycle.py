"""The course of a turn: each path on the wire, and legal orders only."""

from __future__ import annotations

import asyncio
from datetime import datetime
from types import SimpleNamespace
from typing import Any, get_args

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.planning.planned import (
    BAD,
    GOOD,
    Finds,
    asked,
    planning,
    states,
)
from tests.builtin_plugins.turns import attach, make_host, make_turn
from tests.support.script import Allow, Events, Script, Scripted, say, settings
from tests.support.wire import Socket

from hookgate import Gateway, Refusal, Turn, hookimpl
from hookgate.builtin_plugins.planning.planner import NEXT, Lifecycle, State
from hookgate.builtin_plugins.planning.plugin import Plugin
from hookgate.builtin_plugins.planning.settings import PlanningSettings
from hookgate.core.gateway.serve import listen
from hookgate.core.turn.context import ContextBuilder

STATES: tuple[State, ...] = get_args(State)


@given(st.lists(st.sampled_from(STATES), max_size=12))
def test_whatever_is_reached_for_the_order_is_legal(wanted: list[State]) -> None:
    course = Lifecycle()
    passed: list[State] = []
    for state in wanted:
        passed += course.reach(state)

    before: State | None = None
    for state in passed:
        assert state in NEXT[before], passed
        before = state
    assert len(set(passed)) == len(passed), "no state comes twice"
    assert course.state == before
    if passed:
        assert passed[0] in ("planned", "errored")


@given(st.lists(st.sampled_from(STATES), max_size=6), st.sampled_from(["completed", "errored"]))
def test_a_turn_that_ends_is_told_to_have_ended(wanted: list[State], end: State) -> None:
    course = Lifecycle()
    for state in wanted:
        course.reach(state)
    course.reach(end)

    assert course.state in ("completed", "errored")
    assert all(course.reach(state) == () for state in STATES)


STEPS = ("plan", "start", "after_tool", "degrade", "done", "failed", "cancelled", "refused")


@given(st.lists(st.sampled_from(STEPS), max_size=8))
def test_whatever_becomes_of_a_turn_its_events_are_in_legal_order(steps: list[str]) -> None:
    told = asyncio.run(course_of(steps))

    before: State | None = None
    for state in told:
        assert state in NEXT[before], (steps, told)
        before = state
    ended = [step for step in steps if step in ("done", "failed", "cancelled", "refused")]
    if ended:
        assert told[-1] == ("completed" if ended[0] == "done" else "errored")


async def course_of(steps: list[str]) -> list[State]:
    """Return the states that are told of a turn to which this happens."""
    host, events = make_host(), Events()
    attach(host)
    host.hooks = SimpleNamespace(implementations=lambda _: ())  # type: ignore[assignment]
    plugin = Plugin(PlanningSettings())
    turn = make_turn(sink=events)
    async with plugin.lifespan(host):
        for step in steps:
            match step:
                case "plan":
                    plugin.plan_turn(turn, turn.plan)
                case "start" | "after_tool":
                    context = ContextBuilder(budget=100, counter=host.tokens)
                    context.stage = step
                    plugin.before_context_build(turn, context)
                case "degrade":
                    turn.degrade("memory", "the past is not there")
                case "done" | "failed" | "cancelled" | "refused":
                    turn.ending = step
                    plugin.turn_ended(turn)
    return [data["state"] for data in events.of("lifecycle")]


class Refuses:
    name = "refuses"

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal:
        return Refusal(code="closed", message="come back tomorrow")


class Degrades:
    """Goes on without something, after a model was asked."""

    name = "degrades"

    @hookimpl
    def after_model_call(self, turn: Turn) -> None:
        turn.degrade("memory", "the past is not there")


@pytest.mark.parametrize(
    ("model", "parts", "broken", "flags", "path"),
    [
        (GOOD, (), False, {}, ["planned", "executing", "completed"]),
        (BAD, (), False, {}, ["planned", "executing", "errored"]),
        (GOOD, (Refuses(),), False, {}, ["errored"]),
        (GOOD, (), True, {}, ["planned", "executing", "degraded", "recovered", "completed"]),
        (say(""), (), True, {}, ["planned", "executing", "degraded", "completed"]),
        (BAD, (), True, {}, ["planned", "executing", "degraded", "errored"]),
        # Discovery failed, and so did the turn.
        (GOOD, (), True, {"failMode": "closed"}, ["planned", "errored"]),
        (
            GOOD,
            (Degrades(),),
            False,
            {},
            ["planned", "executing", "degraded", "recovered", "completed"],
        ),
    ],
)
async def test_every_path_of_a_turn_is_told(
    model: Any, parts: tuple[object, ...], broken: bool, flags: dict[str, Any], path: list[str]
) -> None:
    finds = Finds()
    finds.broken = broken
    async with planning(Script(model), finds, *parts) as gate:
        _, events = await asked(gate, flags)

    assert states(events) == path
    assert events.types()[-2:] == ["lifecycle", "done"]
    for data in events.of("lifecycle"):
        assert data.keys() == {"state", "time", "details"}
        assert datetime.fromisoformat(data["time"]).tzinfo is not None


async def test_each_state_has_its_details() -> None:
    finds = Finds()
    finds.broken = True
    async with planning(Script(GOOD), finds) as gate:
        _, events = await asked(gate, {"capabilityDiscoveryKind": "tool"})
        _, failed = await asked(gate, {"failMode": "closed"})

    details = {data["state"]: data["details"] for data in events.of("lifecycle")}
    assert details["planned"] == {
        "overrides": ["capabilityDiscoveryKind"],
        "failure_mode": "fail_open",
        "tool_selection": "discovered",
        "discovery": True,
        "kinds": ["tool"],
        "category": "",
    }
    assert details["executing"] == {
        "failure_mode": "fail_open",
        "tool_selection": "discovered",
        "tools": 3,
        "selected": 0,
    }
    assert "the index is gone" in details["degraded"]["reasons"]["discovery_failed"]
    assert details["recovered"] == {"from": ["discovery_failed"]}
    assert details["completed"].keys() == {"ending", "outcome", "kpi"}
    ended = failed.of("lifecycle")[-1]["details"]
    assert (ended["ending"], ended["code"]) == ("failed", "discovery_failed")


@pytest.mark.parametrize(("room", "came_to"), [(100_000, "all"), (1, "discovered")])
async def test_executing_says_what_auto_came_to(room: int, came_to: str) -> None:
    turn = {"tool_selection": "auto", "whole_tool_tokens": room}
    async with planning(Script(GOOD), Finds(), turn=turn) as gate:
        _, events = await asked(gate)

    details = {data["state"]: data["details"] for data in events.of("lifecycle")}
    assert details["planned"]["tool_selection"] == "auto"
    assert details["executing"]["tool_selection"] == came_to


async def test_a_cancelled_turn_is_told_as_errored() -> None:
    reached = asyncio.Event()

    async def waits() -> None:
        reached.set()
        await asyncio.Event().wait()

    async with planning(Script([waits])) as gate:
        task = asyncio.create_task(asked(gate))
        await reached.wait()
        gate.host.cancel(gate.host.running()[0].id, "enough")
        _, events = await task

    assert states(events) == ["planned", "executing", "errored"]
    ended = events.of("lifecycle")[-1]["details"]
    assert (ended["ending"], ended["code"]) == ("cancelled", "cancelled")


async def test_what_is_told_holds_no_secret() -> None:
    class Leaks:
        name = "leaks"

        @hookimpl
        def select_capabilities(self, turn: Turn) -> None:
            raise RuntimeError("no index at https://index?key=hunter2-hunter2")

    async with planning(Script(GOOD), Leaks()) as gate:
        gate.host.secrets.register("hunter2-hunter2")
        _, events = await asked(gate)

    told = [data for data in events.of("lifecycle") if data["state"] == "degraded"]
    assert "no index" in str(told) and "hunter2" not in str(told)


@pytest.mark.parametrize("section", [{"lifecycle": False}, {"enabled": False}])
async def test_it_can_be_switched_off(section: dict[str, Any]) -> None:
    async with planning(Script(GOOD), section=section) as gate:
        _, events = await asked(gate)

    assert states(events) == []


async def test_a_client_of_the_socket_hears_it_before_done() -> None:
    script = Script(GOOD)
    gate = Gateway(
        settings(gateway={"port": 0}),
        builtin=("control", "planning"),
        plugins=(Scripted(script), Allow()),
    )
    async with (
        gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{listener.url}/ws") as raw,
    ):
        socket = Socket(raw)
        await socket.next()
        await socket.send("chat.send", content="go")
        await socket.until("done")

    frames = [frame["method"] for frame in socket.heard]
    told = [frame["params"]["state"] for frame in socket.heard if frame["method"] == "lifecycle"]
    assert told == ["planned", "executing", "completed"]
    assert frames[-2:] == ["lifecycle", "done"]
