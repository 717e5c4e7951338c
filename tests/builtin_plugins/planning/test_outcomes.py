"""How turns went: who says so, what becomes of it, and what changes while they go badly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.planning.planned import (
    ALL,
    BAD,
    FEW,
    GOOD,
    LOST,
    MISSED,
    NOWHERE,
    SHORT,
    Finds,
    Plans,
    asked,
    heard,
    offered,
    planning,
    shown,
    states,
)
from tests.builtin_plugins.turns import make_turn
from tests.support.script import Recorder, Script, call, echo_tool, say

from hookgate import (
    Address,
    Claim,
    Origin,
    Outcome,
    Principal,
    Provenance,
    Refusal,
    Tool,
    Turn,
    TurnRequest,
    Verdict,
    hookimpl,
)
from hookgate.builtin_plugins.planning.kpi import INSTRUMENTS, scope_key
from hookgate.builtin_plugins.planning.operations import sees
from hookgate.builtin_plugins.telemetry.records import Instruments
from hookgate.kit.testing.gateway import TurnedClock

CLOSED = {"failure_mode": "fail_closed", "tool_selection": "discovered"}
FIRST = {"outcomes": {"rolling_window_size": 5, "alert_min_samples": 5}}


class Outcomes:
    """Keeps what was judged."""

    name = "outcomes"

    def __init__(self) -> None:
        self.seen: list[Outcome] = []

    @hookimpl
    def after_turn(self, turn: Turn, outcome: Outcome) -> None:
        self.seen.append(outcome)


class Judges:
    name = "judges"

    @hookimpl
    def judge_turn(self, turn: Turn) -> Outcome:
        return Outcome(status="partial", score=0.4, source="judges")


@pytest.mark.parametrize(
    ("flags", "outcome"),
    [
        ({"taskOutcome": "success"}, ("success", 1.0)),
        ({"task_outcome": "Partial"}, ("partial", 0.5)),
        ({"taskOutcome": "failed"}, ("failed", 0.0)),
        ({"taskOutcome": 1}, ("success", 1.0)),
        ({"taskOutcome": 0.7}, ("success", 0.7)),
        ({"taskOutcome": 0.69}, ("partial", 0.69)),
        ({"taskOutcome": 0.3}, ("partial", 0.3)),
        ({"taskOutcome": 0.29}, ("failed", 0.29)),
        ({"taskSuccess": True}, ("success", 1.0)),
        ({"task_success": False}, ("failed", 0.0)),
        ({"taskSuccess": True, "taskOutcome": 0.4}, ("partial", 0.4)),
    ],
)
async def test_a_request_may_say_how_its_turn_went(
    flags: dict[str, Any], outcome: tuple[str, float]
) -> None:
    kept = Outcomes()
    async with planning(Script(SHORT), kept) as gate:
        await asked(gate, flags)

    judged = kept.seen[0]
    assert (judged.status, judged.score) == outcome
    assert (judged.source, judged.claimed) == ("request_override", True)


async def test_without_a_word_of_the_request_the_end_and_the_answer_count() -> None:
    kept = Outcomes()
    async with planning(Script(GOOD, SHORT, BAD), kept) as gate:
        for _ in range(3):
            await asked(gate)

    assert [(one.status, one.score, one.source) for one in kept.seen] == [
        ("success", 0.95, "heuristic"),
        ("partial", 0.6, "heuristic"),
        ("failed", 0.0, "heuristic"),
    ]


async def test_a_plugin_that_judges_is_believed_before_the_request() -> None:
    kept = Outcomes()
    async with planning(Script(GOOD), kept, Judges()) as gate:
        await asked(gate, {"taskSuccess": True})

    assert (kept.seen[0].source, kept.seen[0].score) == ("judges", 0.4)


async def test_requests_may_be_kept_from_judging_themselves() -> None:
    kept = Outcomes()
    async with planning(Script(GOOD), kept, section={"allow_request_overrides": False}) as gate:
        _, events = await asked(gate, {"taskOutcome": "failed"})

    assert kept.seen[0].source == "heuristic"
    assert [data["code"] for data in events.of("warning")] == ["flags_not_followed"]


async def test_a_degraded_turn_scores_less() -> None:
    kept, finds = Outcomes(), Finds()
    finds.broken = True
    async with planning(Script(GOOD), kept, finds) as gate:
        await asked(gate)

    assert kept.seen[0].score == 0.85


# -- told ------------------------------------------------------------------------------


async def test_an_outcome_and_what_its_window_comes_to_are_told() -> None:
    told: list[Any] = []
    async with planning(Script(GOOD)) as gate:
        heard(gate, told, "outcome", "outcome_kpi")
        with gate.host.events.subscribe(scopes=frozenset({"chat"})):
            turn, _ = await asked(gate)

    assert [(event.type, event.turn, event.scope) for event in told] == [
        ("outcome", turn.id, "chat"),
        ("outcome_kpi", turn.id, "chat"),
    ]
    assert told[0].data == {
        "status": "success",
        "score": 0.95,
        "source": "heuristic",
        "reason": "there is a whole answer",
    }
    assert told[1].data["scopeKey"] == "agent:main/channel:cli"
    assert (told[1].data["sampleCount"], told[1].data["weightedSuccessRate"]) == (1, 0.95)


async def test_an_alert_goes_to_the_wire_the_log_and_the_figures_and_then_waits(
    capfd: pytest.CaptureFixture[str],
) -> None:
    told: list[Any] = []
    clock, figures = TurnedClock(), Figures()
    async with planning(Script(BAD), figures, section=FIRST, clock=clock) as gate:
        heard(gate, told, "outcome_alert")
        with gate.host.events.subscribe(scopes=frozenset({"read"})):
            for _ in range(7):
                await asked(gate)
            assert len(told) == 1
            clock.turn(seconds=59)
            await asked(gate)
            assert len(told) == 1
            clock.turn(seconds=1)
            await asked(gate)
        instruments = gate.host.instruments.view()

    assert [event.data["severity"] for event in told] == ["critical", "critical"]
    assert told[0].data["threshold"] == 0.55
    assert told[0].data["value"] == 0.0
    assert "agent:main/channel:cli is 0.00, below 0.55" in told[0].data["reason"]
    records = [one.fields for one in figures.records if one.name == "planning.alert"]
    assert [fields["severity"] for fields in records] == ["critical"] * 2
    assert "turns go badly" in capfd.readouterr().err
    assert {"hookgate_outcomes", "hookgate_outcome_alerts"} <= instruments.keys()


class Figures:
    name = "figures"

    def __init__(self) -> None:
        self.records: list[Any] = []

    @hookimpl
    def log_metrics(self, record: Any) -> None:
        self.records.append(record)


@pytest.mark.parametrize(
    ("outcomes", "names"),
    [
        ({}, {"planning.outcome", "planning.alert"}),
        ({"emit_alerts": False}, {"planning.outcome"}),
        ({"enabled": False}, set()),
    ],
)
async def test_telemetry_and_alerts_have_switches(
    outcomes: dict[str, Any], names: set[str]
) -> None:
    figures, told = Figures(), list[Any]()
    section = {"outcomes": {**FIRST["outcomes"], **outcomes}}
    async with planning(Script(LOST), figures, section=section, turn=CLOSED) as gate:
        heard(gate, told, "outcome", "outcome_kpi", "outcome_alert")
        with gate.host.events.subscribe(scopes=frozenset({"read", "chat"})):
            for _ in range(6):
                await asked(gate)
        found = await shown(gate)

    assert {one.name for one in figures.records if one.name.startswith("planning")} == names
    readings = [
        (reading.instrument.name, reading.labels)
        for record in figures.records
        for reading in Instruments(INSTRUMENTS).readings(record)
    ]
    scope = "agent:main/channel:cli"
    assert (("hookgate_outcomes", (scope, "failed", "heuristic")) in readings) is bool(names)
    alerted = ("hookgate_outcome_alerts", (scope, "critical")) in readings
    assert alerted is ("planning.alert" in names)
    assert bool(told) is bool(names)
    # What is told nobody still plans.
    assert (found["scopes"][0]["sampleCount"], found["scopes"][0]["degraded"]) in ((5, True),)


async def test_an_alert_is_shown_to_nobody_of_another_channel() -> None:
    def bound(channel: str) -> Principal:
        claims = (Claim(channel=channel),)
        return Principal(id=channel, scopes=frozenset({"chat", "read"}), bindings=claims)

    told: list[Any] = []
    async with planning(Script(LOST), section=FIRST, turn=CLOSED) as gate:
        heard(gate, told, "outcome_alert", "outcome_plans")
        with gate.host.events.subscribe(scopes=frozenset({"read"})):
            for _ in range(5):
                await asked(gate)
        rows = {name: (await shown(gate, bound(name)))["scopes"] for name in ("cli", "web")}

    assert {event.type for event in told} == {"outcome_alert", "outcome_plans"}
    assert all(event.is_for(bound("cli")) and not event.is_for(bound("web")) for event in told)
    assert (len(rows["cli"]), rows["web"]) == (1, [])


def test_no_two_scopes_have_one_window_and_each_is_seen_by_its_own_channel() -> None:
    def key(agent: str, channel: str) -> str:
        return scope_key(make_turn(agent=agent, address=Address(channel)), "agent_channel")

    def may(channel: str, scope: str) -> bool:
        claims = (Claim(channel=channel),)
        return sees(Principal(id="t", scopes=frozenset({"read"}), bindings=claims), scope)

    one, other = key("a/channel:b", "c"), key("a", "b/channel:c")
    assert one != other
    assert may("c", one)
    assert may("b/channel:c", other)
    assert not may("c", other)
    assert not may("b", other)
    agents = scope_key(make_turn(agent="a/channel:b"), "agent")
    assert agents != key("a", "b")


# -- what changes while turns go badly --------------------------------------------------


async def test_plans_change_while_turns_go_badly_and_back_without_flapping() -> None:
    script, told = Script(*MISSED * 5, *[GOOD] * 5, *MISSED * 3, GOOD), list[Any]()
    async with planning(script, Finds()) as gate:
        heard(gate, told, "outcome_plans")
        with gate.host.events.subscribe(scopes=frozenset({"read"})):
            runs = [await asked(gate) for _ in range(14)]

    # Five turns at 0.6; then five in which nothing is missed; then all is as before, and
    # three bad ones are too few to change it again.
    assert [offered(script, number) for number in range(22)] == [
        *[FEW] * 10,
        *[ALL] * 5,
        *[FEW] * 7,
    ]
    assert [event.data["degraded"] for event in told] == [True, False]
    changed = runs[5][1].of("lifecycle")
    assert changed[0]["details"]["adaptive"] == {"widened": True, "failure_mode": "fail_open"}
    assert states(runs[5][1]) == ["planned", "executing", "degraded", "recovered", "completed"]
    assert "tools_widened" in changed[2]["details"]["reasons"]
    assert states(runs[10][1]) == ["planned", "executing", "completed"]


async def test_the_change_stays_under_the_cap_and_offers_what_was_found_first() -> None:
    script = Script(*MISSED * 5, GOOD)
    section = {"discovery": {"fallback_tool_tokens": 100}}
    async with planning(script, Finds(), section=section) as gate:
        for _ in range(6):
            await asked(gate)

    assert offered(script) == FEW


@pytest.mark.parametrize(
    ("flags", "section", "names"),
    [
        ({"toolSelectionMode": "discovered"}, {}, FEW),
        ({}, {"adaptive": {"enabled": False}}, FEW),
        ({}, {"adaptive": {"force_all_tools_when_degraded": False}}, FEW),
        ({}, {"adaptive": {"min_samples": 6}}, FEW),
        ({}, {"enabled": False}, FEW),
        ({}, {}, ALL),
    ],
)
async def test_the_change_has_switches_and_a_request_that_asks_is_heard(
    flags: dict[str, Any], section: dict[str, Any], names: list[str]
) -> None:
    script = Script(*MISSED * 5, GOOD)
    async with planning(script, Finds(), section=section) as gate:
        for _ in range(5):
            await asked(gate)
        await asked(gate, flags)

    assert offered(script) == names


@pytest.mark.parametrize(
    ("flags", "section", "mode"),
    [
        ({}, {}, "fail_open"),
        ({"failMode": "closed"}, {}, "fail_closed"),
        ({"failMode": "closed"}, {"allow_request_overrides": False}, "fail_closed"),
        ({}, {"adaptive": {"force_fail_open_when_degraded": False}}, "fail_closed"),
    ],
)
async def test_fail_closed_of_a_plugin_is_loosened_and_that_of_a_request_never(
    flags: dict[str, Any], section: dict[str, Any], mode: str
) -> None:
    plans = Plans(failure_mode="fail_closed")
    script = Script(*[LOST] * 5, GOOD)
    async with planning(script, Finds(), plans, section=section) as gate:
        for _ in range(5):
            turn, _ = await asked(gate)
            assert turn.plan.failure_mode == "fail_closed"
        turn, _ = await asked(gate, flags)

    assert turn.plan.failure_mode == mode


async def test_the_change_passes_no_policy() -> None:
    class Denies:
        name = "denies"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: Any) -> Any:
            return Verdict.deny("not here") if call.name == "other" else None

        @hookimpl
        def withhold_capabilities(self) -> set[str]:
            return {"tool:secret"}

    script = Script(
        *MISSED * 5,
        call(("1", "other", {"text": "x"}), ("2", "secret", {"text": "x"})),
        GOOD,
    )
    secret = MoreTools(echo_tool("secret"))
    async with planning(script, Finds(), Denies(), secret) as gate:
        for _ in range(5):
            await asked(gate)
        turn, _ = await asked(gate)

    assert offered(script) == ALL
    results = {done.call.name: done.result for done in turn.calls}
    assert results["other"].status == "denied"
    assert "unknown tool" in results["secret"].content


class MoreTools:
    name = "more_tools"

    def __init__(self, *tools: Any) -> None:
        self.tools = tools

    @hookimpl
    def list_tools(self) -> Any:
        return self.tools


@pytest.mark.parametrize("flags", [{"taskSuccess": False}, {"taskOutcome": 0.0}])
async def test_what_a_client_says_never_changes_plans(flags: dict[str, Any]) -> None:
    script = Script(GOOD)
    async with planning(script, Finds()) as gate:
        for _ in range(8):
            await asked(gate, flags)
        await asked(gate)
        row = (await shown(gate))["scopes"][0]

    assert offered(script) == FEW
    assert (row["failedCount"], row["successCount"], row["degraded"]) == (8, 1, False)


@pytest.mark.parametrize("steps", [(BAD,), (SHORT,), (call(("1", "echo", {"text": 7})), SHORT)])
async def test_what_is_no_fault_of_discovery_or_tools_changes_no_plan(steps: Any) -> None:
    async with planning(Script(*steps * 8), Finds()) as gate:
        for _ in range(8):
            await asked(gate)
        found = await shown(gate)

    assert found["scopes"][0]["weightedSuccessRate"] < 0.7
    assert (found["scopes"][0]["sampleCount"], found["scopes"][0]["degraded"]) == (8, False)
    assert {row["fault"] for row in found["failed"]} <= {""}


async def test_the_turns_that_failed_are_listed_with_why_and_where() -> None:
    def bound(channel: str, peer: str) -> Principal:
        claims = (Claim(channel=channel, peer=peer),)
        return Principal(id=channel, scopes=frozenset({"chat", "read"}), bindings=claims)

    async with planning(Script(GOOD, BAD, LOST), turn=CLOSED) as gate:
        turns = [(await asked(gate))[0] for _ in range(3)]
        rows = (await shown(gate))["failed"]
        last = (await shown(gate, failed=1))["failed"]
        others = (await shown(gate, bound("cli", "bob")))["failed"]

    assert [row["turn"] for row in rows] == [turns[2].id, turns[1].id]
    assert {row["session"] for row in rows} == {str(turns[0].session)}
    assert [row["fault"] for row in rows] == ["tools", ""]
    assert "tool_failed: tool 'always' failed" in rows[0]["reason"]
    assert "failed: " in rows[1]["reason"]
    assert (last, others) == (rows[:1], [])


async def test_a_call_of_a_tool_that_is_not_there_counts_as_failed() -> None:
    kept = Outcomes()
    steps = [step for _ in range(4) for step in (NOWHERE, SHORT)]
    script = Script(NOWHERE, say(""), *steps, GOOD)
    async with planning(script, kept, Finds()) as gate:
        for _ in range(6):
            turn, _ = await asked(gate)
        found = await shown(gate)

    judged = [(one.status, one.score) for one in kept.seen]
    assert judged == [("failed", 0.1), *[("partial", 0.6)] * 4, ("success", 0.85)]
    assert turn.plan.widened, "what was missing may be among all tools"
    assert [row["fault"] for row in found["failed"]] == ["tools"]


async def test_the_turns_own_client_hears_how_it_went_before_it_is_done() -> None:
    async with planning(Script(GOOD, BAD), plugin={}) as gate:
        _, good = await asked(gate)
        _, bad = await asked(gate)
    async with planning(Script(GOOD), Judges()) as gate:
        _, judged = await asked(gate)

    told, failed = (events.of("lifecycle")[-1]["details"] for events in (good, bad))
    assert told["outcome"]["status"] == "success"
    assert told["kpi"]["sampleCount"] == 1
    assert (failed["outcome"]["status"], failed["kpi"]["failedCount"]) == ("failed", 1)
    types = good.types()
    assert types.index("done") == len(types) - 1
    # What another plugin says may take its time, and nobody waits for it.
    assert judged.of("lifecycle")[-1]["details"] == {"ending": "done"}


async def test_refused_and_cancelled_turns_count_and_change_nothing() -> None:
    class Refuses:
        name = "refuses"

        @hookimpl
        def before_turn(self, turn: Turn) -> Refusal | None:
            text = turn.message.text
            return Refusal(code="closed", message="tomorrow") if text == "no" else None

    script = Script(GOOD)
    async with planning(script, Finds(), Refuses()) as gate:
        for _ in range(6):
            await asked(gate, text="no")
        await asked(gate)
        row = (await shown(gate))["scopes"][0]

    assert offered(script) == FEW
    assert (row["failedCount"], row["degraded"]) == (6, False)


async def test_windows_of_two_agents_and_channels_are_apart() -> None:
    agents = {"main": {"model": "script/one"}, "other": {"model": "script/one"}}
    async with planning(Script(GOOD), agents=agents) as gate:
        for agent, channel in (("main", "cli"), ("main", "web"), ("other", "cli")):
            await gate.chat("go", agent=agent, address=Address(channel, "local", "main"))
        await gate.turns.after.drain()
        keys = [row["scopeKey"] for row in (await shown(gate))["scopes"]]
        one = await shown(gate, scope="agent:other/channel:cli")

    assert keys == [
        "agent:main/channel:cli",
        "agent:main/channel:web",
        "agent:other/channel:cli",
    ]
    assert [row["scopeKey"] for row in one["scopes"]] == ["agent:other/channel:cli"]


async def test_a_turn_that_waits_for_its_client_is_no_sample_yet(tmp_path: Path) -> None:
    lamp = Tool(name="lamp", description="", schema={"type": "object"}, owner="client")
    recorder = Recorder()
    async with planning(Script(call(("1", "lamp", {}))), recorder) as gate:
        handle = gate.host.start_turn(
            Principal.owner(),
            Origin(provenance=Provenance.EXTERNAL_USER, path="ws"),
            TurnRequest(content="light", address=Address(), client_tools=(lamp,)),
        )
        turn = await handle.wait()
        await gate.turns.after.drain()
        found = await shown(gate)

    assert turn.ending == "awaiting_client"
    assert found["scopes"] == []
