"""What a rule leaves out: `unless`, `not`, negated globs, and what is proven."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.policy.ruling import engine_of, facts, rules_of
from tests.support.script import Script, Scripted, Tools, call, echo_tool, say, settings

from hookgate import Address, Gateway, Turn
from hookgate.builtin_plugins.policy.bench.bench import Bench
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.rules.files import read_text_of_rules
from hookgate.builtin_plugins.policy.rules.linting import covers, lint, past_deadline
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.kit.testing.gateway import TurnedClock, started
from hookgate.kit.testing.model import ScriptedModel

NOW = 10_000.0
DELETE = facts("delete")
BACKUP = facts("backup")
SENDS_NOT = Flags(sends_externally=False, proven=frozenset({"sends_externally"}))


def rule(**keys: Any) -> str:
    return json.dumps({"rules": [{"name": "r", "effect": "deny", "reason": "no", **keys}]})


def effect(text: str, call: Facts, history: History | None = None) -> str | None:
    return engine_of(text).judge(call, history or History(), NOW).effect


def done(*calls: Facts, ago: float = 10.0) -> History:
    history = History()
    for one in calls:
        history.add(NOW - ago, one)
    return history


# -- unless ----------------------------------------------------------------------------

FIRST = rule(match={"tool": "delete"}, unless={"after": {"tool": "backup", "within": "1h"}})


def test_nothing_is_deleted_before_a_backup() -> None:
    assert effect(FIRST, DELETE) == "deny"
    assert effect(FIRST, DELETE, done(BACKUP)) is None
    assert effect(FIRST, DELETE, done(BACKUP, ago=3601)) == "deny"
    assert effect(FIRST, DELETE, done(replace(BACKUP, session="another"))) == "deny"


@pytest.mark.parametrize("end", [None, False])
def test_a_backup_that_failed_or_is_under_way_is_none(end: bool | None) -> None:
    history = History()
    history.add(NOW - 10, BACKUP, call="c1")
    if end is not None:
        history.finished("t", "c1", done=end)
    assert effect(FIRST, DELETE, history) == "deny"
    history.finished("t", "c1", done=True)
    assert effect(FIRST, DELETE, history) == (None if end is None else "deny")


def test_what_may_have_been_such_a_call_is_none() -> None:
    text = rule(unless={"after": {"flags": {"writes_persistent_state": True}}})
    maybe = replace(BACKUP, flags=Flags())
    assert effect(text, DELETE, done(maybe)) == "deny"


def test_a_rule_that_allows_is_kept_from_it_by_what_may_have_been_such_a_call() -> None:
    text = rule(effect="allow", unless={"after": {"flags": {"reads_external_data": True}}})
    maybe = History()
    maybe.add(NOW - 10, replace(BACKUP, flags=Flags()), call="c1")
    assert effect(text, DELETE) == "allow"
    assert effect(text, DELETE, maybe) is None


def test_a_call_that_is_forgotten_is_not_told_of_its_end() -> None:
    history = History(kept=1)
    history.add(NOW, BACKUP, call="c1")
    history.add(NOW, DELETE, call="c2")
    history.finished("t", "c1", done=True)
    assert list(history.since(0, done=True)) == []


# -- not, and names that are left out ----------------------------------------------------


def test_a_rule_does_not_hold_for_what_it_leaves_out() -> None:
    text = rule(match={"tool": "d*"}, **{"not": {"agent": "ops"}})
    assert effect(text, DELETE) == "deny"
    assert effect(text, replace(DELETE, agent="ops")) is None


def test_what_may_be_left_out_is_unknown() -> None:
    text = rule(**{"not": {"flags": {"sends_externally": False}}})
    assert effect(text, replace(DELETE, flags=Flags())) == "ask"
    assert effect(text, DELETE) is None
    allows = rule(effect="allow", **{"not": {"flags": {"sends_externally": True}}})
    assert effect(allows, replace(DELETE, flags=Flags())) is None
    assert effect(allows, DELETE) == "allow"


@pytest.mark.parametrize(
    ("globs", "fitting"),
    [
        (["delete_*", "!delete_draft"], {"delete_all"}),
        (["!delete_*"], {"send"}),
        ("!send", {"delete_all", "delete_draft"}),
        (["!send", "send"], set()),
    ],
)
def test_a_glob_behind_an_exclamation_mark_leaves_out(globs: Any, fitting: set[str]) -> None:
    text = rule(match={"tool": globs})
    names = ("delete_all", "delete_draft", "send")
    assert {name for name in names if effect(text, facts(name)) == "deny"} == fitting


# -- proven ------------------------------------------------------------------------------


def test_only_what_is_proven_is_allowed() -> None:
    text = rule(
        effect="allow", match={"flags": {"sends_externally": {"is": False, "proven": True}}}
    )
    assert effect(text, replace(DELETE, flags=SENDS_NOT)) == "allow"
    assert effect(text, DELETE) is None
    assert effect(text, replace(DELETE, flags=Flags())) is None


def test_all_is_denied_but_what_is_proven() -> None:
    text = rule(**{"not": {"flags": {"sends_externally": {"is": False, "proven": True}}}})
    assert effect(text, replace(DELETE, flags=SENDS_NOT)) is None
    assert effect(text, DELETE) == "deny"
    assert effect(text, replace(DELETE, flags=Flags())) == "deny"


@pytest.mark.parametrize(
    "value",
    [{"is": False}, {"proven": True}, {"is": "unknown", "proven": True}, {"is": 1, "proven": True},
     {"is": False, "proven": False}, {"is": False, "proven": True, "more": 1}],
)  # fmt: skip
def test_another_form_is_wrong(value: Any) -> None:
    reading = read_text_of_rules(rule(match={"flags": {"sends_externally": value}}), "r.yaml")
    assert reading.failed
    assert "expected" in str(reading.problems[0])


# -- now ---------------------------------------------------------------------------------

NIGHT = "now.hour >= 22 || now.hour < 6"


def test_a_condition_knows_the_time_on_the_wall_of_the_settings_zone() -> None:
    rules = rules_of(rule(when=NIGHT))
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for zone, expected in (("UTC", "allow"), ("Asia/Tokyo", "allow"), ("Pacific/Auckland", "deny")):
        bench = Bench(PolicySettings(profile="open", zone=zone), rules)
        assert bench.decide(replace(DELETE, at=noon)).effect == expected
    bench = Bench(PolicySettings(profile="open"), rules)
    assert bench.decide(replace(DELETE, at=noon.replace(hour=23))).effect == "deny"
    assert bench.decide(replace(DELETE, at=datetime(2026, 1, 1, 23))).effect == "deny"


def test_what_now_holds() -> None:
    at = datetime(2026, 1, 4, 7, 5, tzinfo=UTC)
    for text in ("now.minute == 5", "now.weekday == 7", "now.date == '2026-01-04'",
                 "now.time >= '07:05'"):  # fmt: skip
        assert effect(rule(when=text), replace(DELETE, at=at)) == "deny"


def test_where_the_time_is_not_known_a_rule_asks_and_none_loosens() -> None:
    assert effect(rule(when=NIGHT), DELETE) == "ask"
    assert effect(rule(effect="allow", when=NIGHT), DELETE) is None
    assert lint(rules_of(rule(when=NIGHT))) == []


def test_a_zone_that_is_none_is_wrong() -> None:
    with pytest.raises(ValueError, match="Europe/Berlin"):
        PolicySettings(zone="Mars/Base")


async def test_a_gateway_judges_by_its_clock(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(rule(when="now.hour == 12"))
    steps = [call(("c1", "delete", {"text": "x"})), say("ok")]
    model = ScriptedModel(*steps)
    policy = {"policy": {"profile": "open", "rules": [str(tmp_path / "r.yaml")]}}
    clock = TurnedClock()
    for hours, status in ((0, "denied"), (1, "done")):
        clock.turn(hours=hours)
        async with started(
            home=tmp_path, model=model, clock=clock, tools=[echo_tool("delete")],
            only=["policy"], plugin=policy,
        ) as gate:  # fmt: skip
            turn = await gate.chat("go", address=Address(peer=status))
        assert turn.calls[0].result.status == status
        model.steps = list(steps)


# -- linting -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ({"unless": {"after": {"tool": "backup"}}}, {}),
        ({"not": {"agent": "ops"}}, {}),
        ({"match": {"tool": ["*", "!send"]}}, {}),
        (
            {"match": {"flags": {"sends_externally": {"is": False, "proven": True}}}},
            {"match": {"flags": {"sends_externally": False}}},
        ),
    ],
)
def test_a_rule_that_leaves_out_covers_none_that_does_not(
    narrow: dict[str, Any], wide: dict[str, Any]
) -> None:
    (one,), (other,) = rules_of(rule(**narrow)), rules_of(rule(**wide))
    assert not covers(one, other, earlier=True)
    assert covers(one, one, earlier=True)
    assert lint([one]) == []


def test_a_question_that_outlasts_its_turn_is_wrong() -> None:
    rules = rules_of(rule(effect="ask", timeout="2d"))
    (problem,) = past_deadline(rules, 600.0)
    assert problem.severity == "error"
    assert "2d" in problem.found
    assert "deadline_seconds" in problem.expected
    assert past_deadline(rules, 172_800.0) == []


# -- in a gateway --------------------------------------------------------------------------


async def test_a_backup_counts_once_it_is_done_and_not_in_the_message_of_the_deletion(
    tmp_path: Path,
) -> None:
    async def fails(turn: Turn, arguments: Mapping[str, Any]) -> str:
        raise OSError("no room")

    rules = tmp_path / "rules.yaml"
    rules.write_text(rule(match={"tool": "delete"}, unless={"after": {"tool": "backup*"}}))
    text = {"text": "x"}
    together = call(("c1", "backup", text), ("c2", "delete", text))
    failed = [call(("c3", "backup_badly", text)), call(("c4", "delete", text))]
    after = call(("c5", "delete", text))
    script = Script(*failed, together, after, say("done"))
    tools = Tools(echo_tool("backup"), echo_tool("delete"), echo_tool("backup_badly", run=fails))
    config = settings(tmp_path, plugin={"policy": {"profile": "open", "rules": [str(rules)]}})
    async with Gateway(config, builtin=("policy",), plugins=[Scripted(script), tools]) as gate:
        turn = await gate.chat("go")
    ends = [(one.call.id, one.result.status) for one in turn.calls if one.call.name == "delete"]
    assert ends == [("c4", "denied"), ("c2", "denied"), ("c5", "done")]
