from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import rules_of

from hookgate.builtin_plugins.policy.bench.bench import Bench, imagined
from hookgate.builtin_plugins.policy.bench.cases import (
    TriedCase,
    files_of_cases,
    read_cases,
    read_text_of_cases,
    rule_paths,
    run_case,
)
from hookgate.builtin_plugins.policy.judge.facts import Facts, facts_of
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags

DECLARED = {"others": False, "sends_externally": True}


def case(**keys: Any) -> str:
    call = {"tool": "send", "flags": DECLARED}
    return json.dumps({"cases": [{"name": "c", "call": call, "expect": "allow", **keys}]})


def tried(text: str, *rules: dict[str, Any], **settings: Any) -> TriedCase:
    reading = read_text_of_cases(text, "r.test.yaml")
    assert reading.problems == ()
    named = [{"name": f"r{n}", "reason": "x", **one} for n, one in enumerate(rules)]
    made = rules_of(json.dumps({"rules": named}))
    return run_case(Bench(PolicySettings(**settings), made), reading.found[0])


def test_a_case_passes_where_all_is_as_it_should_be_and_says_what_is_not() -> None:
    deny = {"effect": "deny", "when": "args.n > 1"}
    call = {"tool": "send", "flags": DECLARED, "arguments": {"n": 2}}
    assert tried(case(call=call, expect={"effect": "deny", "rule": "r0"}), deny).passed
    wrong = tried(case(call=call, expect={"effect": "ask", "rule": "r1"}), deny).wrong
    assert wrong == ("expected ask, found deny", "expected the rule r1, found rule:r0")


def test_lists_and_the_profile_of_the_settings_count_as_in_a_gateway() -> None:
    assert tried(case(expect={"effect": "deny", "rule": "deny:s*"}), deny=("s*",)).passed
    sends = case(
        turn={"tainted": True}, expect={"effect": "ask", "rule": "send-after-foreign-text"}
    )
    assert tried(sends).passed
    assert tried(case(turn={"tainted": True}), profile="open").passed
    assert tried(case(turn={"tainted": True}, profile="open")).passed
    assert tried(case(turn={"tainted": True}), {"effect": "allow"}).passed


def test_a_flag_that_is_not_named_is_undeclared() -> None:
    call = {"tool": "send", "flags": {"sends_externally": False}}
    assert tried(case(call=call, expect={"effect": "ask", "rule": "privileged-unknown"})).passed


def test_tools_are_declared_once_for_a_file() -> None:
    text = json.dumps(
        {
            "tools": {"send": {"flags": DECLARED, "plugin": "mail"}},
            "cases": [{"name": "c", "call": {"tool": "send"}, "expect": "deny"}],
        }
    )
    rule = {"effect": "deny", "match": {"plugin": "mail", "flags": {"sends_externally": True}}}
    assert tried(text, rule).passed


def test_a_rewrite_is_judged_again_and_its_arguments_are_compared() -> None:
    rule = {"effect": "rewrite", "rewrite": {"set": {"n": "args.n + 1"}}, "when": "args.n < 3"}
    stop = {"effect": "deny", "when": "args.n == 3"}
    call = {"tool": "send", "flags": DECLARED, "arguments": {"n": 2}}
    expect = {"effect": "rewrite", "rule": "r0", "arguments": {"n": 3}}
    assert tried(case(call=call, expect=expect), rule).passed
    assert "found {'n': 3}" in tried(
        case(call=call, expect={**expect, "arguments": {"n": 4}}), rule
    ).wrong[0]  # fmt: skip
    assert tried(case(call=call, expect={"effect": "deny", "rule": "r1"}), rule, stop).passed
    low = {**call, "arguments": {"n": -9}}
    assert tried(case(call=low, expect="deny"), rule).passed  # rewritten over and over


@pytest.mark.parametrize(
    ("earlier", "effect"),
    [
        ({}, "deny"),
        ({"same_turn": False}, "allow"),
        ({"same_session": False}, "allow"),
    ],
)
def test_calls_that_came_before_are_remembered(earlier: dict[str, Any], effect: str) -> None:
    rule = {"effect": "deny", "match": {"tool": "send"}, "after": {"tool": "read"}}
    text = case(before=[{"tool": "read", **earlier}], expect=effect)
    assert tried(text, rule).passed


@pytest.mark.parametrize(("ago", "effect"), [(10, "deny"), (90, "allow")])
def test_a_call_lies_as_far_back_as_it_says(ago: int, effect: str) -> None:
    rule = {"effect": "deny", "after": {"tool": "read", "within": 60}}
    text = case(before=[{"tool": "read", "seconds_ago": ago}], expect=effect)
    assert tried(text, rule).passed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected keys and values, with `cases`"),
        ("cases: 3", "found 3, expected a list"),
        ("cases: [3]", "in case 1: 3, expected a mapping"),
        ("cases: []\ncase: []", "did you mean `cases`?"),
        (case(expect="block"), "one of `allow`, `rewrite`, `ask`, `deny`"),
        (case(expect={"efect": "deny"}), "did you mean `effect`?"),
        (case(profile="lax"), "expected one of `open`, `balanced`, `guarded`, `strict`"),
        (case(call={"tool": "a b"}), "`cases[0].call.tool`: found in case 'c'"),
        (case(call={"tool": "a", "flags": {"sends": True}}), "a key that is not known"),
        (case(call={"tool": "a", "flags": {"others": "maybe"}}), "true, false or unknown"),
        (case(call={"tool": "a", "arguments": [1]}), "a list of 1, expected a mapping"),
        (case(turn={"provenance": "user"}), "one of `external_user`"),
        (case(turn={"tainted": False, "taint": ["x"]}), "one of the two"),
        (case(before=[{"tool": "a", "second_ago": 3}]), "did you mean `seconds_ago`?"),
        (case(before=[3]), "before[0]`: found in case 'c': 3, expected a mapping"),
        ('{"cases": [{"name": "c"}]}', "`cases[0].call`: found in case 'c': nothing"),
        ("cases: &a []", "anchor"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, said: str) -> None:
    reading = read_text_of_cases(text, "r.test.yaml")
    shown = [str(one) for one in reading.problems]
    assert any(said in one for one in shown), shown
    assert reading.found == ()
    assert all(one.startswith("r.test.yaml") for one in shown)


def test_cases_are_found_beside_their_rules(tmp_path: Path) -> None:
    rules, beside, other = (
        tmp_path / name for name in ("a.yaml", "a.test.yaml", "b.test.yaml")
    )  # fmt: skip
    for path in (rules, beside, other):
        path.write_text("cases: []")
    assert files_of_cases([tmp_path]) == [beside, other]
    assert files_of_cases([rules]) == [beside]
    assert rule_paths([beside, rules]) == [rules]
    assert rule_paths([other]) == [tmp_path]
    assert read_cases([tmp_path / "gone.test.yaml"]).failed


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read_text_of_cases(text, "r.test.yaml").problems


@given(
    st.builds(
        Facts,
        tool=st.sampled_from(["a", "b_c"]),
        arguments=st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3)),
        flags=st.builds(Flags, sends_externally=st.sampled_from([True, False, None])),
        plugin=st.sampled_from(["", "p"]),
        sandbox=st.sampled_from(["python", "wasm"]),
        agent=st.text(max_size=4),
        peer=st.text(max_size=4),
        session=st.sampled_from(["a:b:c:d", "a:b%3A:c:d"]),
        turn=st.sampled_from(["t1", "t2"]),
        provenance=st.sampled_from(["external_user", "scheduled"]),
        taint=st.frozensets(st.text(max_size=3)),
        depth=st.integers(0, 3),
        index=st.integers(0, 3),
    )
)
def test_a_call_that_is_made_of_facts_has_these_facts(facts: Facts) -> None:
    assert facts_of(*imagined(facts)) == facts
