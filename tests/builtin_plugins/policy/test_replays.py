"""Calls on record judged again over the wire: by a process of their own, page by page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.policy.ruling import facts
from tests.builtin_plugins.policy.test_plugin import OWNER, SENDS, Gate
from tests.builtin_plugins.policy.test_replaying import Row, row
from tests.builtin_plugins.turns import make_call, make_host, make_turn

from hookgate import Decision, Effect, Event, Invocation, OperationModel, operation, operations_of
from hookgate.builtin_plugins.policy.bench import operations, workbench
from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.errors import NotAllowedError, TurnError
from hookgate.core.domain.turn import Principal

RULES = """\
rules:
  - {name: strangers, match: {tool: mail}, when: args.to != "ann", effect: deny, reason: x}
"""
SHADOW = """\
rules:
  - {name: watched, mode: shadow, match: {tool: mail}, effect: ask, reason: x}
"""


class Page(OperationModel):
    rows: list[dict[str, Any]]
    next: str


class Record:
    """Stands for the audit: its rows, and how it was asked for them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.asked: list[dict[str, Any]] = []

    @operation("audit.export")
    async def export(
        self,
        _: Invocation,
        after: str = "",
        limit: int = 1000,
        since: str = "",
        until: str = "",
        kind: str = "",
    ) -> Page:
        """Give rows."""
        self.asked.append({"limit": limit, "since": since, "until": until, "kind": kind})
        start = int(after or 0)
        part = self.rows[start : start + limit]
        return Page(rows=part, next=str(start + limit) if len(part) == limit else "")


class Replays(Gate):
    """A gate with a record."""

    def __init__(self, host: Any, plugin: Plugin) -> None:
        super().__init__(host, plugin)
        self.record = Record()
        host.operations.update({one.name: one for one in operations_of(self.record)})

    def mail(self, to: str, effect: str = "allow", **more: Any) -> None:
        """Put a call on record."""
        seq = len(self.record.rows) + 1
        call = facts("mail", arguments={"to": to})
        self.record.rows.append({**row(call, effect, seq=seq, second=seq % 3600), **more})


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Replays]:
    file = tmp_path / "mail.yaml"
    file.write_text(RULES)
    plugin = Plugin(PolicySettings(profile="open", rules=(file,), pin_tools="off"))
    async with plugin.lifespan(host := make_host()):
        yield Replays(host, plugin)


async def test_rules_in_force_and_others_are_held_against_the_record(gate: Replays) -> None:
    gate.mail("ann")
    gate.mail("bob")
    # The rules in force are those that were read, whatever the file says by now.
    found = await gate.do("policy.replay")
    assert (found.ok, found.whole, found.read, found.rows, found.same) == (True, True, 2, 2, 1)
    (flip,) = found.decisions
    assert (flip.row, flip.old, flip.old_rule) == ("c1/2", "allow", "profile:open")
    assert (flip.new, flip.new_rule) == ("deny", "rule:strangers")
    assert [(one.rule, one.decisive, one.last) for one in found.rules] == [
        ("strangers", 1, gate.record.rows[1]["at"])
    ]


@pytest.mark.usefixtures("near")
async def test_a_text_of_rules_is_held_against_the_record(gate: Replays) -> None:
    gate.mail("ann")
    gate.mail("bob")
    other = await gate.do("policy.replay", rules=SHADOW, profile="strict")
    assert other.rules[0].effects == {"ask": 2}
    both = await gate.do("policy.replay", rules=SHADOW, added=True)
    assert [one.rule for one in both.rules] == ["strangers", "watched"]
    milder = await gate.do("policy.replay", rules=RULES.replace("deny", "ask"), added=True)
    assert milder.flips == {"allow -> ask": 1}
    broken = await gate.do("policy.replay", rules=RULES.replace("deny", "denied"))
    assert (broken.ok, broken.rows, broken.problems[0].line) == (False, 0, 2)


@pytest.mark.usefixtures("near")
async def test_cases_are_tried_beside_the_rules_in_force(gate: Replays) -> None:
    cases = """\
cases:
  - {name: to bob, call: {tool: mail, arguments: {to: bob}}, expect: deny}
"""
    alone = await gate.do("policy.test", rules=SHADOW, cases=cases)
    both = await gate.do("policy.test", rules=SHADOW, cases=cases, added=True)
    assert (alone.failed, both.passed) == (1, 1)
    assert [one.rule for one in both.coverage] == both.rules == ["watched"]


@pytest.mark.usefixtures("near")
async def test_of_each_call_that_cannot_be_replayed_it_is_said_why(gate: Replays) -> None:
    call = facts("mail", arguments={"to": "bob"})
    gate.record.rows = [
        row(call, redact=("to",), seq=1),
        row(call, "deny", rule="quarantine", seq=2),
        row(call, "deny", verdicts=[], seq=3),
        {**row(call, seq=4), "data": json.dumps({"odd": 1})},
    ]
    found = await gate.do("policy.replay")
    assert (found.rows, found.undecidable, found.passed_over) == (2, 2, 2)
    assert [(one.standing, one.row) for one in found.decisions] == [
        ("undecidable", "c1/1"),
        ("passed_over", "c1/2"),
        ("passed_over", "c1/3"),
        ("undecidable", "c1/4"),
    ]
    assert "masked arguments" in found.decisions[0].why
    assert found.decisions[3].why.startswith("the row is no decision that can be judged again")
    assert sum(found.reasons.values()) == 4
    assert found.reasons["the tool was in quarantine"] == 1


@pytest.mark.usefixtures("near")
async def test_all_are_counted_and_so_many_told_one_by_one(
    gate: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench, "MOST_FLIPS", 2)
    monkeypatch.setattr(workbench, "MOST_OTHERS", 1)
    for number in range(5):
        gate.mail("bob")
        gate.mail("bob", "deny", data=json.dumps({"odd": number}))
    found = await gate.do("policy.replay")
    assert (found.flips, found.undecidable) == ({"allow -> deny": 5}, 5)
    assert [one.standing for one in found.decisions] == ["flip", "undecidable", "flip"]


@pytest.mark.usefixtures("near")
async def test_a_period_is_asked_for_with_the_day_before_it(gate: Replays) -> None:
    gate.mail("bob")
    gate.mail("bob")
    at = "2024-02-29T12:00:02+00:00"
    found = await gate.do("policy.replay", since=at, until="2024-03-01T12:00:00+00:00")
    assert [one.row for one in found.decisions] == ["c1/2"]
    assert found.read == 2
    asked = gate.record.asked[-1]
    assert (asked["since"][:19], asked["until"][:19], asked["kind"]) == (
        "2024-02-28T12:00:02",
        "2024-03-01T12:00:00",
        "tool_decided",
    )
    waits = RULES.replace("effect", "unless: {after: {tool: backup}}, effect")
    await gate.do("policy.replay", rules=waits)
    assert gate.record.asked[-1]["kind"] == ""
    gate.record.rows[0]["turn"] = "first"
    found = await gate.do("policy.replay", turn="first")
    assert [one.row for one in found.decisions] == ["c1/1"]
    with pytest.raises(TurnError, match="expected a time such as"):
        await gate.do("policy.replay", since="soon")


@pytest.mark.usefixtures("near")
async def test_two_sets_of_rules_are_compared_over_calls_and_cases(gate: Replays) -> None:
    gate.mail("ann", "deny")
    gate.mail("bob", "deny")
    cases = """\
cases:
  - {name: to bob, call: {tool: mail, arguments: {to: bob}, flags: {others: false}}, expect: deny}
  - {name: to ann, call: {tool: mail, arguments: {to: ann}, flags: {others: false}}, expect: allow}
"""
    rules = RULES.replace("effect: deny", "effect: ask") + SHADOW.removeprefix("rules:\n")
    found = await gate.do("policy.diff", rules=rules, cases=cases)
    assert (found.added, found.changed) == (["watched"], {"strangers": ["effect"]})
    assert [(one.what, one.old, one.new) for one in found.cases] == [("to bob", "deny", "ask")]
    assert (found.lines, found.differing_table) == (360, 0)
    # Both are judged: what is on record is what somebody called, and nothing else.
    assert [(one.row, one.old, one.new) for one in found.decisions] == [("c1/2", "deny", "ask")]
    assert found.flips == {"deny -> ask": 1}
    same = await gate.do("policy.diff", old=rules, rules=rules)
    assert (same.decisions, same.differing_table, same.changed) == ([], 0, {})
    broken = await gate.do("policy.diff", old="rules: 3", cases="cases: 3")
    assert {one.file for one in broken.problems} == {"old.yaml", "rules.test.yaml"}


@pytest.mark.usefixtures("near")
async def test_it_says_how_far_it_is_and_what_has_flipped(
    gate: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "TELL_SECONDS", 0.0)
    for number in range(operations.PAGE + 50):
        gate.mail("bob" if number % 100 == 0 else "ann")
    told: list[Event] = []
    operation = gate.operations["policy.replay"]
    found = await operation.handler(
        Invocation(host=gate.host, principal=OWNER, emit=told.append),
        operation.params.model_validate({}),
    )
    assert [one.data["rows"] for one in told] == [operations.PAGE, operations.PAGE + 50]
    assert sum(len(one.data["decisions"]) for one in told) == len(found.decisions) == 3
    assert {one["limit"] for one in gate.record.asked} == {operations.PAGE}


@pytest.mark.usefixtures("near")
async def test_a_replay_ends_with_its_time_and_says_so(
    gate: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MOST_SECONDS", 0.0)
    gate.mail("bob")
    found = await gate.do("policy.replay")
    assert (found.ok, found.whole, found.rows) == (True, False, 0)


async def test_a_replay_that_is_cancelled_leaves_no_process(
    gate: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, processes = asyncio.Event(), []
    start = asyncio.create_subprocess_exec

    async def kept(*words: Any, **more: Any) -> asyncio.subprocess.Process:
        processes.append(await start(*words, **more))
        started.set()
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", kept)
    task = asyncio.create_task(gate.do("policy.replay"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes[0].returncode is not None


async def test_only_so_many_replays_run_at_once(
    gate: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MOST_REPLAYS", 0)
    with pytest.raises(TurnError, match="other rules") as refused:
        await gate.do("policy.replay")
    assert refused.value.code == "busy"


async def test_without_a_record_it_says_so(gate: Replays) -> None:
    del gate.host.operations["audit.export"]
    with pytest.raises(TurnError, match="the plugin audit is off"):
        await gate.do("policy.replay")


@pytest.mark.parametrize("name", ["replay", "diff", "rules"])
async def test_who_sees_some_sessions_only_learns_nothing_of_them(gate: Replays, name: str) -> None:
    some = Principal(id="some", scopes=frozenset({"read"}))
    with pytest.raises(NotAllowedError, match="some sessions only"):
        await gate.do(f"policy.{name}", principal=some)


async def test_rules_in_force_stand_in_their_order_with_their_hits(
    gate: Replays, tmp_path: Path
) -> None:
    (tmp_path / "mail.yaml").write_text(RULES + SHADOW.removeprefix("rules:\n"))
    (await gate.plugin.reloading(gate.host))()
    for _ in range(2):
        turn, call = make_turn(), make_call("mail", SENDS, {"to": "bob"})
        verdict = replace(gate.plugin.before_tool_call(turn, call), plugin="policy")
        denied = Decision(
            effect=Effect.DENY, reason="x", verdicts=(verdict,), rule=verdict.rule, by="policy"
        )
        await gate.plugin.tool_decided(turn, call, denied)
    found = await gate.do("policy.rules")
    assert found.profile == "open"
    strangers, watched = found.rules
    assert (strangers.rule, strangers.effect, strangers.decided) == ("strangers", "deny", 2)
    assert strangers.says == {"match": {"tool": ("mail",)}, "when": 'args.to != "ann"'}
    assert strangers.place.endswith("mail.yaml:2")
    assert (watched.mode, watched.decided, watched.would) == ("shadow", 0, 2)
    assert watched.last >= found.since
