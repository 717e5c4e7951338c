from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import engine_of, facts, judged, rules_of

from hookgate.builtin_plugins.policy.judge.engine import STRICTNESS, Engine
from hookgate.builtin_plugins.policy.judge.facts import LONGEST, Facts, History
from hookgate.core.domain.descriptors import Flags

UNDECLARED = Flags()


def rule(**keys: Any) -> str:
    keys = {"name": "r", "effect": "deny", "reason": "no", **keys}
    return json.dumps({"rules": [keys]})


# -- parts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({}, True),
        ({"tool": "send"}, True),
        ({"tool": ["mail_*", "s?nd"]}, True),
        ({"tool": "mail_*"}, False),
        ({"plugin": "mail*"}, True),
        ({"agent": "main"}, True),
        ({"agent": "other"}, False),
        ({"channel": ["web", "cli"]}, True),
        ({"peer": "ann"}, False),
        ({"account": "local", "principal": "loop*"}, True),
        ({"provenance": "external_user"}, True),
        ({"provenance": ["inter_session", "scheduled"]}, False),
        ({"sandbox": "python"}, True),
        ({"sandbox": "wasm"}, False),
        ({"tainted": True}, True),
        ({"tainted": False}, False),
        ({"taint": "tool:http_*"}, True),
        ({"taint": "tool:read_*"}, False),
        ({"nested": False}, True),
        ({"nested": True}, False),
        ({"flags": {"sends_externally": True}}, True),
        ({"flags": {"sendsExternally": [True, "unknown"]}}, True),
        ({"flags": {"sends_externally": False}}, False),
        ({"flags": {"sends_externally": True, "executes_privileged": True}}, False),
        ({"tool": "send", "agent": "other"}, False),
    ],
)
def test_a_rule_holds_where_each_part_of_its_match_does(match: dict[str, Any], holds: bool) -> None:
    call = facts(
        plugin="mailer", flags={"sends_externally": True}, taint=frozenset({"tool:http_get"})
    )
    assert judged(rule(match=match), call).effect == ("deny" if holds else None)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("args.to.endsWith('@us.com')", True),
        ("!args.to.endsWith('@us.com')", False),
        ("args.to in ['ann@us.com', 'bob@us.com']", True),
        ("args.to.matches('^[a-z]+@us[.]com$') && args.n > 2", True),
        ("size(args.list) == 2 && args.list.exists(x, x == 'b')", True),
        ("has(args.missing)", False),
        ("turn.tainted || args.n == 3", True),
        ("tool.name == 'send' && turn.provenance == 'external_user'", True),
        ("'tool:web' in turn.taint", False),
        (True, True),
        (False, False),
    ],
)
def test_a_condition_looks_at_arguments_tool_and_turn(when: Any, holds: bool) -> None:
    call = facts(arguments={"to": "ann@us.com", "n": 3, "list": ["a", "b"]})
    assert judged(rule(when=when), call).effect == ("deny" if holds else None)


# -- what cannot be decided -----------------------------------------------------------


@pytest.mark.parametrize("unknown", ["ask", "deny", None])
@pytest.mark.parametrize(
    ("parts", "call"),
    [
        ({"when": "args.missing == 1"}, facts()),
        ({"when": "args.n"}, facts(arguments={"n": 3})),
        ({"when": "args.n > 'x'"}, facts(arguments={"n": 3})),
        ({"when": "tool.flags.sends_externally"}, facts(declared=UNDECLARED)),
        ({"when": "!tool.flags.sends_externally"}, facts(declared=UNDECLARED)),
        ({"match": {"flags": {"sends_externally": True}}}, facts(declared=UNDECLARED)),
        ({"match": {"flags": {"sends_externally": False}}}, facts(declared=UNDECLARED)),
    ],
)
def test_what_cannot_be_decided_asks_or_denies_and_never_allows(
    unknown: str | None, parts: dict[str, Any], call: Facts
) -> None:
    said = {**parts, **({"unknown": unknown} if unknown else {})}
    for effect in ("deny", "ask"):
        found = judged(rule(effect=effect, **said), call)
        assert found.effect == (unknown or "ask")
        assert found.decisive is not None
        assert found.decisive.state == "unknown"
    for effect, more in (("allow", {}), ("rewrite", {"rewrite": {"remove": ["n"]}})):
        assert judged(rule(effect=effect, **parts, **more), call).effect is None


@pytest.mark.parametrize(
    ("arguments", "when"),
    [
        ({"to": "ann\0@evil"}, 'args.to != "ann"'),
        ({"to": "x\0rm -rf"}, 'args.to.contains("rm")'),
        ({"to": [{"k\0x": 1}]}, '!("k" in args.to[0])'),
    ],
)
def test_what_stands_behind_a_nul_is_seen(arguments: dict[str, Any], when: str) -> None:
    rules = json.dumps({"rules": [{"name": "r", "effect": "deny", "when": when, "reason": "x"}]})
    assert judged(rules, facts(arguments=arguments)).effect == "deny"


def test_one_part_that_fails_is_enough_whatever_the_others_cannot_say() -> None:
    text = rule(match={"agent": "other", "flags": {"sends_externally": True}}, when="args.missing")
    assert judged(text, facts(declared=UNDECLARED)).effect is None


def test_a_condition_may_be_sure_although_a_part_of_it_is_not() -> None:
    assert judged(rule(when="args.missing == 1 || true"), facts()).effect == "deny"
    assert judged(rule(when="args.missing == 1 && false"), facts()).effect is None


# -- what came before -----------------------------------------------------------------


def test_a_rule_may_want_an_earlier_call_of_the_same_turn() -> None:
    text = rule(match={"tool": "send"}, after={"flags": {"reads_external_data": True}})
    read = facts("http_get", flags={"reads_external_data": True})
    assert judged(text, facts()).effect is None
    assert judged(text, facts(), facts("clock")).effect is None
    assert judged(text, facts(), read).effect == "deny"
    assert judged(text, facts(), replace(read, turn="another")).effect is None
    # What nobody declared may have been a read.
    assert judged(text, facts(), replace(read, flags=UNDECLARED)).effect == "deny"


def test_a_rule_may_look_back_over_turns_and_sessions() -> None:
    read = facts("http_get")
    after = {"tool": "http_*", "within": "1m"}
    elsewhere = replace(read, session="another", turn="another")
    assert judged(rule(after=after), facts(), replace(read, turn="another")).effect == "deny"
    assert judged(rule(after=after), facts(), elsewhere).effect is None
    assert judged(rule(after={**after, "scope": "gateway"}), facts(), elsewhere).effect == "deny"
    assert judged(rule(after={**after, "scope": "peer"}), facts(), elsewhere).effect == "deny"
    other = replace(elsewhere, peer="bob")
    assert judged(rule(after={**after, "scope": "peer"}), facts(), other).effect is None
    assert judged(rule(after={**after, "within": 5}), facts(), read).effect is None  # 10 s ago


@pytest.mark.parametrize(("before", "effect"), [(0, None), (2, None), (3, "deny"), (9, "deny")])
def test_more_than_counts_this_call_too(before: int, effect: str | None) -> None:
    text = rule(match={"tool": "send"}, more_than={"calls": 3, "within": 60})
    calls = [facts()] * before + [facts("clock")] * 5
    assert judged(text, facts(), *calls).effect == effect


def test_more_than_may_count_other_calls_than_those_it_stops() -> None:
    text = rule(match={"tool": "send"}, more_than={"calls": 1, "tool": "read", "within": 60})
    assert judged(text, facts(), facts("read")).effect is None
    assert judged(text, facts(), facts("read"), facts("read")).effect == "deny"


def test_history_forgets_what_is_older_than_a_day_and_more_than_it_keeps() -> None:
    history = History(kept=3)
    for number in range(5):
        history.add(float(number), facts(f"t{number}"))
    assert [one.tool for one in history.since(0.0)] == ["t4", "t3", "t2"]
    assert [one.tool for one in history.since(0.0, "s")] == ["t4", "t3", "t2"]
    history.add(LONGEST + 3.5, facts("new"))
    assert [one.tool for one in history.since(0.0)] == ["new", "t4"]
    assert list(history.since(0.0, "another")) == []


# -- together -------------------------------------------------------------------------


def test_the_strictest_of_all_rules_that_hold_counts() -> None:
    text = json.dumps(
        {
            "rules": [
                {"name": "a", "effect": "allow"},
                {"name": "b", "effect": "ask", "reason": "hm"},
                {"name": "c", "effect": "deny", "reason": "no", "when": "args.n > 5"},
            ]
        }
    )
    few, many = facts(arguments={"n": 1}), facts(arguments={"n": 9})
    assert judged(text, few).effect == "ask"
    assert judged(text, many).effect == "deny"


RULES = st.lists(
    st.fixed_dictionaries(
        {
            "effect": st.sampled_from(["allow", "ask", "deny"]),
            "match": st.fixed_dictionaries(
                {},
                optional={
                    "tool": st.sampled_from(["send", "s*", "other"]),
                    "tainted": st.booleans(),
                    "flags": st.dictionaries(
                        st.sampled_from(["sends_externally", "executes_privileged"]),
                        st.sampled_from([True, False, "unknown"]),
                    ),
                },
            ),
        },
        optional={"when": st.sampled_from(["args.n > 1", "args.x", "has(args.n)"])},
    ),
    max_size=6,
)


@given(RULES, st.randoms(use_true_random=False), st.sampled_from([Flags(), Flags.none()]))
def test_no_order_of_rules_changes_what_follows(
    listed: list[dict[str, Any]], order: random.Random, flags: Flags
) -> None:
    named = [{**one, "name": f"r{n}", "reason": "x"} for n, one in enumerate(listed)]
    call = facts(declared=flags, arguments={"n": 2})
    rules = rules_of(json.dumps({"rules": named}))
    shuffled = list(rules)
    order.shuffle(shuffled)
    first = Engine(rules).judge(call, History(), 0.0)
    second = Engine(shuffled).judge(call, History(), 0.0)
    assert first.effect == second.effect
    strict = [STRICTNESS[one.effect] for one in first.outcomes if one.effect]
    assert (STRICTNESS[first.effect] if first.effect else None) == max(strict, default=None)


@given(RULES)
def test_one_more_rule_that_denies_or_asks_never_loosens(listed: list[dict[str, Any]]) -> None:
    named = [{**one, "name": f"r{n}", "reason": "x"} for n, one in enumerate(listed)]
    call = facts(arguments={"n": 2})
    rules = rules_of(json.dumps({"rules": named}))
    without = Engine(list(rules[1:])).judge(call, History(), 0.0).effect
    whole = Engine(rules).judge(call, History(), 0.0).effect
    if rules and rules[0].effect != "allow":
        assert STRICTNESS.get(whole or "", -1) >= STRICTNESS.get(without or "", -1)


def test_a_rule_in_shadow_mode_says_what_it_would_and_changes_nothing() -> None:
    found = judged(rule(mode="shadow"), facts())
    assert found.effect is None
    assert [one.effect for one in found.shadow] == ["deny"]


def test_a_rewrite_sets_and_removes_arguments_and_rests_where_nothing_changes() -> None:
    said = {"set": {"to": "'audit+' + args.to", "n": 3}, "remove": ["bcc"]}
    text = rule(effect="rewrite", rewrite=said, when="!args.to.startsWith('audit+')")
    found = judged(text, facts(arguments={"to": "ann", "bcc": "eve"}))
    assert found.arguments == {"to": "audit+ann", "n": 3}
    again = judged(text, facts(arguments=dict(found.arguments)))
    assert (again.effect, again.arguments) == (None, None)


def test_a_rewrite_that_cannot_be_made_denies() -> None:
    text = rule(effect="rewrite", rewrite={"set": {"to": "args.missing"}})
    assert judged(text, facts()).effect == "deny"


def test_the_version_is_of_what_rules_say_and_not_of_where_they_stand() -> None:
    text = rule(match={"flags": {"sends_externally": [True, False, "unknown"]}, "tool": "a"})
    assert engine_of(text).version == engine_of("\n\n" + text).version
    assert engine_of(text).version != engine_of(text.replace('"a"', '"b"')).version


@given(
    st.lists(st.sampled_from(["args.n > 1", "args.x", "args.n > 5", "true", "args.n"]), max_size=30)
)
def test_many_conditions_come_to_what_each_comes_to(texts: list[str]) -> None:
    listed = [
        {"name": f"r{n}", "effect": "ask", "reason": "x", "when": text}
        for n, text in enumerate(texts)
    ]
    engine = engine_of(json.dumps({"rules": listed}))
    call = facts(arguments={"n": 2})
    together = engine.judge(call, History(), 0.0)
    each = engine.judge(call, History(), 0.0, every=True)
    assert together.effect == each.effect
    assert [one for one in each.outcomes if one.effect] == list(together.outcomes)


def test_rules_about_other_tools_are_not_looked_at() -> None:
    text = json.dumps(
        {
            "rules": [
                {"name": f"r{n}", "effect": "deny", "reason": "x", "match": {"tool": f"t{n}"}}
                for n in range(100)
            ]
        }
    )
    engine = engine_of(text)
    assert [one.name for one in engine.rules_of(facts("t7"))] == ["r7"]
    every = engine.judge(facts("t7"), History(), 0.0, every=True)
    assert len(every.outcomes) == 100
