"""Schedules of a whole gateway: what they start, what becomes of it, and what is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.schedules.conftest import Scheduled
from tests.support.script import until

from hookgate.builtin_plugins.schedules import scheduler as running
from hookgate.builtin_plugins.schedules.settings import JobSettings, SchedulesSettings
from hookgate.cli.state import State
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import StoreUnavailableError, TurnError
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Claim, Principal
from hookgate.kit.testing.channel import MemoryChannel
from hookgate.kit.testing.gateway import TurnedClock
from hookgate.kit.testing.model import ScriptedModel, call, say
from hookgate.kit.tooling import tool

Start = Callable[..., AbstractAsyncContextManager[Scheduled]]


async def test_a_run_is_a_turn_of_its_session_for_nobody_else(scheduled: Start) -> None:
    job = {"channel": "cli", "account": "local", "peer": "ada", "heartbeat": True}
    async with scheduled(job=job) as one:
        await one.look(hours=1)
        row = await one.over()
        (turn,) = one.turns.ended
        kept = await one.gate.host[CONVERSATIONS].history(turn.session, turns=5)
    assert (turn.origin.provenance, turn.origin.path) == (Provenance.SCHEDULED, "heartbeat")
    assert str(turn.session) == "main:cli:local:ada"
    assert [message.text for message in kept] == ["do it", "Fine."]
    principal = turn.principal
    assert (principal.id, principal.scopes) == ("schedule:job", {"chat"})
    assert principal.bindings == (Claim("cli", "local", "ada"),)
    assert (row.last.state, row.last.turn, row.last.session) == ("done", turn.id, str(turn.session))
    assert (row.last.planned, row.missed) == ("2026-03-01T13:00:00.000000+00:00", 0)
    assert row.next == "2026-03-01T14:00:00+00:00"


async def test_without_an_address_a_schedule_has_a_session_of_its_own(scheduled: Start) -> None:
    async with scheduled() as one:
        await one.look(hours=1)
        await one.over()
        (turn,) = one.turns.ended
    assert (str(turn.session), turn.origin.path) == ("main:schedule:local:job", "job")


# -- what becomes of the answer ---------------------------------------------------------


async def test_the_answer_is_sent_by_the_channel_of_the_session(
    scheduled: Start, model: ScriptedModel
) -> None:
    channel = MemoryChannel(max_length=40)
    model.steps = [say("word " * 20), say(" heartbeat_ok\n"), say("HEARTBEAT_OK, and more")]
    job = {"channel": channel.name, "peer": "ada", "quiet": "HEARTBEAT_OK"}
    async with scheduled(channel, job=job) as one:
        await one.look(hours=1)
        assert (await one.over()).last.state == "done"
        assert len(channel.messages) == 3
        await one.look(hours=1)
        row = await one.over()
        assert (row.last.state, row.last.note) == ("done", "not sent: the answer was HEARTBEAT_OK")
        assert len(channel.messages) == 3
        await one.look(hours=1)
        await one.over()
        assert list(channel.messages.values())[3:] == ["HEARTBEAT_OK, and more"]


async def test_an_answer_that_the_channel_does_not_take_is_kept_and_said(scheduled: Start) -> None:
    channel = MemoryChannel()
    channel.fails = True
    async with scheduled(channel, job={"channel": channel.name}) as one:
        await one.look(hours=1)
        row = await one.over()
        assert one.turns.ended[0].answer == "Fine."
    assert row.last.state == "undelivered"
    assert "memory_channel did not take it" in row.last.note


async def test_a_schedule_speaks_in_no_session_of_the_sandbox_and_is_sent_by_it(
    scheduled: Start,
) -> None:
    job = {"every": "1h", "text": "do it", "channel": "wasm.desk"}
    with pytest.raises(ValueError, match="deliver_by"):
        JobSettings.model_validate(job)

    channel = MemoryChannel()
    there = {"account": "a", "peer": "ada", "deliver_by": channel.name}
    async with scheduled(channel, job=there) as one:
        await one.look(hours=1)
        row = await one.over()
        assert list(channel.messages.items()) == [("ada-1", "Fine.")]
    assert (row.last.state, row.last.session) == ("done", "main:schedule:a:ada")


async def test_a_channel_that_is_to_send_an_answer_and_is_not_there_is_said(
    scheduled: Start,
) -> None:
    async with scheduled(job={"deliver_by": "wasm.desk"}) as one:
        await one.look(hours=1)
        row = await one.over()
    assert row.last.state == "undelivered"
    assert "'wasm.desk'" in row.last.note


async def test_what_fails_is_said_and_the_next_run_comes(
    scheduled: Start, model: ScriptedModel
) -> None:
    async with scheduled(job={"agent": "nobody"}) as one:
        await one.look(hours=1)
        row = await one.over()
        assert (row.last.state, model.requests) == ("failed", [])
        assert "nobody" in row.last.note
        await one.look(hours=1)
        assert (await one.over()).last.planned.startswith("2026-03-01T14:00")


async def test_a_run_past_its_deadline_is_cancelled(scheduled: Start, model: ScriptedModel) -> None:
    model.steps = [[lambda: asyncio.sleep(3600), *say("late")]]
    async with scheduled(job={"deadline": 0.2}) as one:
        await one.look(hours=1)
        row = await one.over()
    assert (row.last.state, row.last.note) == (
        "cancelled",
        "it took longer than its deadline of 0.2s",
    )


# -- what it may do ----------------------------------------------------------------------

SENDS = replace(Flags.none(), sends_externally=True)


async def post(text: str) -> str:
    """Post something."""
    return f"posted {text}"


@pytest.mark.parametrize("profile", ["balanced", "strict"])
@pytest.mark.parametrize("flags", [SENDS, replace(SENDS, sends_externally=None)])
async def test_its_sends_are_asked_about_and_nobody_is_there(
    scheduled: Start, model: ScriptedModel, profile: str, flags: Flags
) -> None:
    model.steps = [call("post", text="hello"), say("it was not sent")]
    policy = {"profile": profile}
    async with scheduled(tools=[tool(post, flags=flags)], plugin={"policy": policy}) as one:
        await one.look(hours=1)
        await one.over()
        (finished,) = one.turns.ended[0].calls
        if profile == "balanced":
            # The same in a person's turn is no question.
            model.steps = [call("post", text="hello"), say("sent")]
            by_a_person = await one.gate.chat("post hello")
            assert by_a_person.calls[0].decision.allowed
    assert (finished.result.status, finished.decision.allowed) == ("denied", False)


async def test_policy_may_allow_its_sends(
    scheduled: Start, model: ScriptedModel, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "rules:\n"
        "  - name: the-morning-may-post\n"
        "    match: {provenance: scheduled, principal: 'schedule:job', tool: post}\n"
        "    effect: allow\n"
        "    reason: it is what it is for\n"
    )
    model.steps = [call("post", text="hello"), say("it was sent")]
    policy = {"policy": {"rules": [str(rules)]}}
    async with scheduled(tools=[tool(post, flags=SENDS)], plugin=policy) as one:
        await one.look(hours=1)
        await one.over()
        (finished,) = one.turns.ended[0].calls
    assert finished.result.content == "posted hello"


# -- what does not run -------------------------------------------------------------------


async def test_what_is_still_going_is_not_begun_twice(
    scheduled: Start, model: ScriptedModel
) -> None:
    go = asyncio.Event()
    model.steps = [[go.wait, *say("done at last")], say("quick")]
    async with scheduled() as one:
        await one.look(hours=1)
        await one.look(hours=1)
        with pytest.raises(TurnError, match="runs already"):
            await one.do("run", name="job")
        row = await one.row()
        assert row.outcome == "running"
        go.set()
        await one.over()
        await one.look(hours=1)
        rows = (await one.over()).runs
    assert [(r.state, r.planned[11:13]) for r in rows] == [
        ("done", "15"),
        ("skipped", "14"),
        ("done", "13"),
    ]
    assert rows[1].note == "the run of 2026-03-01T13:00:00.000000+00:00 was still going"


@pytest.mark.parametrize("missed", ["skip", "once"])
async def test_what_was_due_while_it_was_down_is_missed_and_said(
    scheduled: Start, clock: TurnedClock, missed: str
) -> None:
    async with scheduled(job={"missed": missed}) as one:
        await one.look(hours=1)
        await one.over()
    clock.turn(hours=3, minutes=30)
    async with scheduled(job={"missed": missed}) as one:
        row = await one.over()
        notices = one.gate.host.status()["notices"]
    count = 3 if missed == "skip" else 2
    assert (row.missed, row.last_missed.count) == (count, count)
    assert row.last_missed.first == "2026-03-01T14:00:00.000000+00:00"
    assert len(one.turns.ended) == (missed == "once")
    if missed == "once":
        assert row.last.note == "it was missed, and is made up for"
    else:
        assert "missed 3 runs from 2026-03-01 14:00:00" in notices["schedule job"]


async def test_another_plan_begins_when_it_is_first_seen(
    scheduled: Start, clock: TurnedClock
) -> None:
    async with scheduled():
        pass
    clock.turn(hours=5, minutes=10)
    async with scheduled(job={"every": "30m"}) as one:
        assert (await one.row()).missed == 0
        await one.look(minutes=20)
        assert (await one.over()).last.state == "done"


@pytest.mark.parametrize(("on_crash", "last"), [("leave", "interrupted"), ("again", "done")])
async def test_a_run_in_the_middle_of_which_the_gateway_stops_is_interrupted(
    scheduled: Start, model: ScriptedModel, on_crash: str, last: str
) -> None:
    model.steps = [[lambda: asyncio.sleep(3600)], say("again")]
    async with scheduled(job={"on_crash": on_crash}) as one:
        await one.look(hours=1)
        await until(lambda: bool(model.requests))
        assert (await one.row()).outcome == "running"
    async with scheduled(job={"on_crash": on_crash}) as one:
        rows = (await one.over()).runs
        # No more often than once.
        await one.look()
        assert (await one.over()).runs == rows
    ((state, attempt),) = ((row.state, row.attempt) for row in rows)
    assert (state, attempt) == (last, 2 if on_crash == "again" else 1)
    if on_crash == "leave":
        assert rows[0].note == "the gateway stopped in the middle"


async def test_a_clock_that_was_put_back_is_said(scheduled: Start) -> None:
    async with scheduled() as one:
        await one.look(hours=1)
        await one.over()
        one.clock.time = one.clock.time.replace(day=1, hour=2)
        await one.look()
        part = "clock of schedule job"
        assert "11:00:00 behind" in one.gate.host.degraded[part]
        row = await one.do("resume", name="job")
        await one.look(hours=1)
        await one.over()
        assert part not in one.gate.host.degraded
        assert row.next == "2026-03-01T03:00:00+00:00"
        assert len(one.turns.ended) == 2


async def test_what_became_of_a_run_is_written_once_the_store_works_again(
    scheduled: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RETRY_SECONDS", 0.01)
    async with scheduled() as one:
        book = await one.scheduler.book()
        end, failures = book.end, [StoreUnavailableError("the disk is full")] * 3

        async def failing(*given: Any) -> bool:
            if failures:
                raise failures.pop()
            return await end(*given)

        monkeypatch.setattr(book, "end", failing)
        await one.look(hours=1)
        assert (await one.over()).outcome == "done"
        assert failures == []


async def test_the_clock_is_looked_at_when_something_is_due_and_once_a_minute(
    scheduled: Start,
) -> None:
    async with scheduled() as one:
        assert await one.scheduler.look_at_all() == 60
        one.clock.turn(minutes=59, seconds=30)
        assert await one.scheduler.look_at_all() == 30


# -- what operators do -------------------------------------------------------------------


async def test_what_is_paused_rests_until_it_is_resumed(scheduled: Start) -> None:
    async with scheduled() as one:
        paused = await one.do("pause", name="job", why="holi\0days")
        assert (paused.state, paused.next, paused.note) == ("paused", "", "paused by ops: holidays")
        await one.look(hours=1)
        row = await one.row()
        assert (row.runs[0].state, row.runs[0].note) == ("skipped", "paused by ops: holidays")
        assert (await one.do("resume", name="job")).state == "on"
        await one.look(hours=1)
        assert (await one.over()).last.state == "done"
        assert len(one.turns.ended) == 1


async def test_a_pause_outlives_a_restart(scheduled: Start) -> None:
    async with scheduled() as one:
        await one.do("pause", name="job")
    async with scheduled() as one:
        await one.look(hours=1)
        assert (await one.row()).state == "paused"
        assert one.turns.ended == []


async def test_a_run_by_hand_is_over_when_its_answer_comes(scheduled: Start) -> None:
    async with scheduled(job={"enabled": False}) as one:
        ran = await one.do("run", name="job")
        assert (ran.state, ran.by, ran.note) == ("done", "ops", "by hand")
        await one.look(hours=5)
        row = await one.row()
        assert (row.state, row.next, row.missed, len(row.runs)) == ("disabled", "", 0, 1)
        with pytest.raises(TurnError, match="no schedule 'other'"):
            await one.do("run", name="other")


async def test_a_schedule_is_shown_to_those_who_may_see_its_session(scheduled: Start) -> None:
    def bound(peer: str) -> Principal:
        return Principal(id=peer, scopes=frozenset(("read",)), bindings=(Claim(peer=peer),))

    async with scheduled(job={"peer": "ada"}) as one:
        assert len((await one.do("list", bound("ada"))).schedules) == 1
        assert (await one.do("list", bound("bob"))).schedules == []
        with pytest.raises(TurnError, match="no schedule"):
            await one.do("list", bound("bob"), name="job")
        scopes = {name: op.scope for name, op in one.gate.host.operations.items()}
    assert {scopes[f"schedules.{name}"] for name in ("run", "pause", "resume")} == {"operate"}


async def test_settings_that_change_are_gone_by(scheduled: Start) -> None:
    async with scheduled() as one:
        fresh = {"jobs": {"job": {"every": "30m", "text": "other"}}}
        assert one.scheduler is not None
        plugin: Any = one.gate.plugins.get("schedules")
        assert plugin.take_settings(SchedulesSettings.model_validate(fresh)) == ()
        await one.look()
        await one.look(minutes=30)
        await one.over()
        assert one.turns.ended[0].message.text == "other"


# -- where it does not run ---------------------------------------------------------------


async def test_without_a_store_runs_are_known_to_the_process_and_that_is_said(
    scheduled: Start,
) -> None:
    async with scheduled(disabled=["storage"]) as one:
        await one.look(hours=1)
        assert (await one.over()).last.state == "done"
        assert "known to this process alone" in one.gate.host.degraded["schedules store"]


async def test_a_gateway_without_schedules_looks_at_no_clock(
    gateway: Any, clock: TurnedClock
) -> None:
    async with gateway() as gate:
        assert "schedules" not in {task.get_name() for task in gate.host._tasks}
        plugin = gate.plugins.get("schedules")
        assert plugin._scheduler._book is None


async def test_a_gateway_for_one_command_begins_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[plugins]\nentry_points = false\n"
        "[plugin.embedding]\nembedder = 'none'\n"
        "[plugin.schedules.jobs.job]\nevery = '1s'\ntext = 'tick'\n"
    )
    state = State(environ={"HOOKGATE_HOME": str(tmp_path)})
    async with state.gateway() as gate:
        assert gate.host.for_command
        assert "schedules" not in {task.get_name() for task in gate.host._tasks}
    async with state.make_gateway(state.settings) as gate:
        assert "schedules" in {task.get_name() for task in gate.host._tasks}
