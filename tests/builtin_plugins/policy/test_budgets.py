"""Conditions about budgets: `budget('daily').left`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.policy.ruling import engine_of, facts, rules_of
from tests.support.script import call, echo_tool, say

from hookgate.builtin_plugins.policy.bench.bench import Bench
from hookgate.builtin_plugins.policy.bench.cases import read_text_of_cases, run_case
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.builtin_plugins.policy.rules.linting import lint, unknown_budgets
from hookgate.builtin_plugins.policy.rules.model import Condition, ConditionError
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel

LOW = "budget('daily').left < 0.2"


def rule(**keys: Any) -> str:
    return json.dumps({"rules": [{"name": "r", "effect": "deny", "reason": "no", **keys}]})


def effect(text: str, call: Facts) -> str | None:
    return engine_of(text).judge(call, History(), 0.0).effect


def left(**budgets: dict[str, float]) -> Facts:
    return replace(facts("send"), budgets=budgets)


def test_a_condition_knows_what_is_left_of_a_budget() -> None:
    text = rule(when=LOW)
    assert effect(text, left(daily={"left": 0.1})) == "deny"
    assert effect(text, left(daily={"left": 0.5})) is None
    units = rule(when="budget(\"daily\").usd < 2.5 && budget( 'rate' ).tokens == 100.0")
    assert effect(units, left(daily={"usd": 2.0}, rate={"tokens": 100})) == "deny"


def test_a_budget_of_which_nothing_is_known_loosens_nothing() -> None:
    assert effect(rule(when=LOW), left()) == "ask"
    assert effect(rule(when="budget('daily').usd < 1.0"), left(daily={"left": 0.1})) == "ask"
    assert (
        effect(json.dumps({"rules": [{"name": "r", "effect": "allow", "when": LOW}]}), left())
        is None
    )


def test_the_names_of_budgets_are_known_beforehand() -> None:
    condition = Condition(
        "budget('daily').left < .5 || budget(\"a.b\").usd > 1.0".replace(" .5", " 0.5")
    )
    assert condition.budgets == {"daily", "a.b"}
    assert Condition("args.text == \"budget('daily')\"").budgets == frozenset()
    assert Condition("args.budget == 'x' && size(args) > 0").budgets == frozenset()
    (made,) = rules_of(
        json.dumps({
            "rules": [{
                "name": "r", "effect": "rewrite",
                "rewrite": {"set": {"n": "budget('daily').left"}},
            }]
        })
    )  # fmt: skip
    assert made.budgets == {"daily"}


@pytest.mark.parametrize("text", ["budget(args.name).left < 1.0", "budget().left < 1.0",
                                  "budget('a' + 'b').left < 1.0"])  # fmt: skip
def test_a_budget_that_is_named_in_no_text_is_wrong(text: str) -> None:
    with pytest.raises(ConditionError, match=r"the name of one budget in quotes"):
        Condition(text)


def test_a_budget_that_there_is_not_is_wrong_at_check() -> None:
    rules = rules_of(rule(when=LOW))
    assert unknown_budgets(rules, {"daily"}) == []
    (problem,) = unknown_budgets(rules, {"monthly", "a"})
    assert problem.severity == "error"
    assert "budget('daily')" in problem.found
    assert "a, monthly" in problem.found
    (problem,) = unknown_budgets(rules, None)
    assert "no plugin tells of budgets" in problem.found
    assert lint(rules) == []


def test_a_case_says_what_is_left() -> None:
    rules = rules_of(rule(when=LOW))
    text = json.dumps({
        "cases": [
            {"name": "little", "call": {"tool": "send", "flags": {"others": False}},
             "budgets": {"daily": {"left": 0.1}}, "expect": "deny"},
            {"name": "enough", "call": {"tool": "send", "flags": {"others": False}},
             "budgets": {"daily": {"left": 0.9}}, "expect": "allow"},
            {"name": "who knows", "call": {"tool": "send", "flags": {"others": False}},
             "expect": "ask"},
        ]
    })  # fmt: skip
    reading = read_text_of_cases(text, "r.test.yaml")
    assert reading.problems == ()
    bench = Bench(PolicySettings(profile="open"), rules)
    assert [run_case(bench, one).wrong for one in reading.found] == [()] * 3


async def test_a_gateway_judges_by_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(
        rule(match={"tool": "send"}, when="budget('few').requests < 2.0")
    )
    turns = [[call((f"c{n}", "send", {"text": "x"})), say("ok")] for n in range(3)]
    model = ScriptedModel(*[step for turn in turns for step in turn])
    plugin = {
        "policy": {"profile": "open", "rules": [str(tmp_path / "r.yaml")]},
        "metering": {"limits": {"few": {"requests": 4}}},
    }
    async with started(
        home=tmp_path, model=model, tools=[echo_tool("send")],
        only=["policy", "metering", "storage"], plugin=plugin,
    ) as gate:  # fmt: skip
        assert "policy budgets" not in gate.host.notices
        found = [(await gate.chat("go")).calls[0].result.status for _ in range(2)]
    # One of four was used for the first message, and three for the second.
    assert found == ["done", "denied"]


async def test_a_gateway_says_which_budget_there_is_not(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(rule(when=LOW))
    plugin = {"policy": {"profile": "open", "rules": [str(tmp_path / "r.yaml")]}}
    async with started(
        home=tmp_path, model=ScriptedModel(say("ok")), only=["policy", "metering", "storage"],
        plugin=plugin,
    ) as gate:  # fmt: skip
        assert "budget('daily')" in gate.host.notices["policy budgets"]
