from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import rules_of

from hookgate.builtin_plugins.policy.judge.engine import STRICTNESS, Engine
from hookgate.builtin_plugins.policy.judge.facts import KEPT, Facts, History
from hookgate.builtin_plugins.policy.rules.linting import (
    KnownTool,
    arguments_of,
    covers,
    known_tool,
    lint,
    lint_tools,
    sample_of,
)
from hookgate.builtin_plugins.policy.rules.model import Condition
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import FLAG_NAMES, Flags

SENDS = {"flags": {"sends_externally": [True, "unknown"]}}


def text_of(*rules: dict[str, Any]) -> str:
    named = [{"name": f"r{n}", "reason": "x", **rule} for n, rule in enumerate(rules)]
    return json.dumps({"rules": named})


def found(*rules: dict[str, Any], settings: PolicySettings | None = None) -> list[str]:
    problems = lint(rules_of(text_of(*rules)), settings)
    assert all(one.severity == "warning" and one.line for one in problems)
    return [one.found for one in problems]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"effect": "deny"}, {"effect": "ask", "match": SENDS}, "'r1': a rule that never counts"),
        ({"effect": "deny"}, {"effect": "allow", "match": SENDS}, "'r1': a rule that never counts"),
        ({"effect": "ask", "match": SENDS}, {"effect": "deny"}, "'r0': a rule that never counts"),
        (
            {"effect": "deny", "match": {"tool": "mail_*"}},
            {"effect": "ask", "match": {"tool": ["mail_send", "mail_x*"]}, "when": "args.x"},
            "'r1': a rule that never counts",
        ),
        ({"effect": "deny"}, {"effect": "deny", "when": "args.n > 1"}, "and comes first"),
        (
            {"effect": "deny", "match": {"tainted": True}},
            {"effect": "ask", "match": {"taint": "tool:*"}},
            "'r1': a rule that never counts",
        ),
        (
            {"effect": "ask", "match": SENDS},
            {"effect": "deny", "match": SENDS},
            "the effect deny, and ask in rule 'r0'",
        ),
        (
            {"effect": "deny", "after": {"tool": "a", "within": "1h"}},
            {"effect": "ask", "after": {"tool": "a", "within": "1m"}},
            "'r1': a rule that never counts",
        ),
    ],
)
def test_what_never_counts_and_what_contradicts_is_named(
    first: dict[str, Any], second: dict[str, Any], said: str
) -> None:
    (problem,) = found(first, second)
    assert said in problem


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("turn.chanel == 'web'", "turn.chanel, which there is not"),
        ("has(now.day) && now.day == 1", "now.day, which there is not"),
        ("tool.flags.sends", "tool.flags.sends, which there is not"),
        ("args.x.matches('^(?!a)')", "the pattern '^(?!a)' (INVALID_ARGUMENT: invalid regular"),
        ("matches(args.x, r'(')", "the pattern r'('"),
    ],
)
def test_what_a_condition_can_never_find_is_named(when: str, said: str) -> None:
    (problem,) = found({"effect": "deny", "when": when})
    assert said in problem
    rewrite = {"set": {"a": when}}
    (problem,) = found({"effect": "rewrite", "rewrite": rewrite})
    assert said in problem


@pytest.mark.parametrize(
    "when",
    [
        "turn.channel == 'web' && now.hour < 8 && tool.flags.sends_externally",
        "tool.flags == {} || args.turn.x == 1 || args.a == 'turn.x'",
        "args.list.exists(tool, tool.x == 1) || turn.peer.startsWith('x')",
        "args.x.matches('^a$') || args.x.matches(args.y)",
    ],
)
def test_what_a_condition_may_find_is_not_named(when: str) -> None:
    assert found({"effect": "deny", "when": when}) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"effect": "ask"}, {"effect": "deny", "match": SENDS}),
        ({"effect": "deny", "mode": "shadow"}, {"effect": "ask"}),
        ({"effect": "deny", "when": "args.n > 1"}, {"effect": "ask", "when": "args.n > 2"}),
        # Where the flag is undeclared, the first one only asks.
        (
            {"effect": "deny", "match": {"flags": {"sends_externally": True}}},
            {"effect": "deny", "match": {"flags": {"sends_externally": True}, "tool": "x"},
             "unknown": "deny"},
        ),
        ({"effect": "deny", "match": {"tool": "a?"}}, {"effect": "ask", "match": {"tool": "a*"}}),
        (
            {"effect": "deny", "more_than": {"calls": 3, "within": 9}},
            {"effect": "ask", "match": {"tool": "x"}, "more_than": {"calls": 3, "within": 9}},
        ),
        ({"effect": "rewrite", "rewrite": {"remove": ["a"]}},
         {"effect": "rewrite", "rewrite": {"remove": ["b"]}}),
    ],
)  # fmt: skip
def test_what_may_count_is_not_named(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert found(first, second) == []


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"match": {"tainted": False, "taint": "x"}}, "never hold together"),
        ({"when": "1 > 2"}, "which never holds"),
        ({"more_than": {"calls": KEPT + 1, "within": 60}}, f"more than {KEPT + 1} calls"),
        ({"more_than": {"calls": 0, "within": 60}}, "always holds"),
        (
            {"match": {"provenance": "scheduled"}, "after": {"provenance": "channel"}},
            "another provenance",
        ),
        ({"match": {"nested": True}, "after": {"nested": False}}, "another `nested`"),
        ({"match": {"tainted": False}, "after": {"tainted": True}}, "that is not"),
        (
            {"match": {"tainted": False}, "more_than": {"calls": 2, "tainted": True}},
            "`more_than` that is tainted",
        ),
    ],
)
def test_what_can_never_hold_is_named(rule: dict[str, Any], said: str) -> None:
    (problem,) = found({"effect": "deny", **rule})
    assert said in problem


def test_lists_of_the_settings_that_come_before_a_rule_are_named() -> None:
    rule = {"effect": "ask", "match": {"tool": "mail_send"}}
    for key in ("deny", "ask"):
        settings = PolicySettings.model_validate({key: ("mail_*",)})
        (problem,) = found(rule, settings=settings)
        assert f"`{key}` of [plugin.policy]" in problem
    assert found(rule, settings=PolicySettings(allow=("*",))) == []
    assert found({**rule, "unknown": "deny", "when": "args.x"},
                 settings=PolicySettings(ask=("*",))) == []  # fmt: skip


TOOLS = (
    KnownTool(Facts(tool="mail_send", plugin="mail", flags=Flags.none()), frozenset({"to"})),
    KnownTool(Facts(tool="clock", plugin="tools", flags=Flags.none()), frozenset()),
)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"match": {"tool": ["mail_*", "male_*"]}}, ["no tool that 'male_*' fits"]),
        ({"match": {"plugin": "others"}}, ["no tool that it is about"]),
        ({"after": {"tool": "fetch"}}, ["no tool that 'fetch' fits"]),
        ({"match": {"tool": "mail_send"}, "when": "args.too == 'x'"}, ["speaks of args.too"]),
        ({"match": {"tool": "mail_send"}, "when": "args.to == 'args.too'"}, []),
        ({"when": "has(args.to) && args.to == ''"}, []),
    ],
)
def test_rules_are_held_against_the_tools_there_are(rule: dict[str, Any], said: list[str]) -> None:
    problems = lint_tools(rules_of(text_of({"effect": "deny", **rule})), TOOLS)
    assert len(problems) == len(said)
    assert all(word in one.found for word, one in zip(said, problems, strict=True))


def test_a_tool_whose_schema_is_open_has_arguments_that_nobody_knows() -> None:
    flag = {"value": None, "standing": "unknown"}
    row = {"name": "a", "plugin": "p", "sandbox": "python",
           "flags": dict.fromkeys(FLAG_NAMES, flag)}  # fmt: skip
    assert known_tool(row).arguments is None
    assert known_tool(row, {"properties": {"x": {}}}).arguments == {"x"}
    assert known_tool(row, {"properties": {}, "additionalProperties": True}).arguments is None
    assert known_tool(row, {"properties": {}, "anyOf": []}).arguments is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("args.a == 1 && has(args . b.c)", {"a", "b"}),
        ("args['a'] == 1", None),
        ("size(args) > 1", None),
        ("args.size() > 1", None),
        ("turn.tainted", set()),
    ],
)
def test_the_arguments_that_a_condition_speaks_of_are_known_or_any(
    text: str, names: set[str] | None
) -> None:
    for texts in (True, False):
        assert arguments_of(Condition(text), texts=texts) == names


def test_a_name_is_made_of_a_glob_where_that_is_easy() -> None:
    assert sample_of(["mail_*", "a?c", "[ab]", "x.y", "mail_*"]) == ["mail_x", "axc"]


# -- soundness -------------------------------------------------------------------------

FLAG = st.dictionaries(
    st.sampled_from(["sends_externally", "executes_privileged"]),
    st.sampled_from([True, False, "unknown", [True, "unknown"], [True, False, "unknown"]]),
    max_size=2,
)
MATCH = st.fixed_dictionaries(
    {},
    optional={
        "tool": st.sampled_from(["send", "s*", "se*", "?end", "other", ["send", "other"]]),
        "tainted": st.booleans(),
        "taint": st.sampled_from(["tool:*", "tool:web"]),
        "provenance": st.sampled_from(["scheduled", ["scheduled", "external_user"]]),
        "nested": st.booleans(),
        "flags": FLAG,
    },
)
RULE = st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "ask", "deny", "rewrite"]), "match": MATCH},
    optional={
        "when": st.sampled_from(["args.n > 1", "args.x", "has(args.n)", "1 > 2"]),
        "after": st.fixed_dictionaries({"tool": st.sampled_from(["s*", "send"])}),
        "more_than": st.fixed_dictionaries(
            {"calls": st.integers(0, 2), "within": st.sampled_from([5, 60])}
        ),
        "unknown": st.sampled_from(["ask", "deny"]),
    },
)
VALUE = st.sampled_from([True, False, None])
FACTS = st.builds(
    Facts,
    tool=st.sampled_from(["send", "sent", "other"]),
    arguments=st.sampled_from([{}, {"n": 1}, {"n": 2}, {"x": True}]),
    flags=st.builds(Flags, sends_externally=VALUE, executes_privileged=VALUE),
    provenance=st.sampled_from(["scheduled", "external_user"]),
    taint=st.sampled_from([frozenset(), frozenset({"tool:web"}), frozenset({"page"})]),
    depth=st.integers(0, 1),
    session=st.just("s"),
    turn=st.just("t"),
)


def made(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for rule in drawn:
        if rule["effect"] in ("allow", "rewrite"):
            rule.pop("unknown", None)
        if rule["effect"] == "rewrite":
            rule["rewrite"] = {"set": {"n": "7"}}
    return drawn


@given(st.lists(RULE, min_size=2, max_size=5).map(made), FACTS, st.lists(FACTS, max_size=3))
def test_a_rule_that_is_said_never_to_count_never_decides_and_changes_nothing(
    drawn: list[dict[str, Any]], call: Facts, earlier: list[Facts]
) -> None:
    rules = rules_of(text_of(*drawn))
    history = History()
    for one in earlier:
        history.add(90.0, one)
    whole = Engine(rules).judge(call, history, 100.0)
    idle = {one.found.split("'")[1] for one in lint(rules) if "never counts" in one.found}
    for name in idle:
        assert whole.decisive is None or whole.decisive.rule.name != name
        left = Engine([rule for rule in rules if rule.name != name])
        assert left.judge(call, history, 100.0).effect == whole.effect
    never = {one.found.split("'")[1] for one in lint(rules) if "which never" in one.found}
    assert not never & {one.rule.name for one in whole.outcomes if one.state == "holds"}


@given(st.tuples(RULE, RULE).map(list).map(made), FACTS)
def test_a_rule_that_covers_another_is_at_least_as_strict_wherever_that_has_a_say(
    drawn: list[dict[str, Any]], call: Facts
) -> None:
    one, other = rules_of(text_of(*drawn))
    if covers(one, other, earlier=True):
        mine, its = (Engine([rule]).judge(call, History(), 0.0).effect for rule in (one, other))
        assert its is None or (mine is not None and STRICTNESS[mine] >= STRICTNESS[its])


GROUPS = PolicySettings.model_validate({"approvals": {"groups": {"finance": ["token:cfo"]}}})


@pytest.mark.parametrize("approver", ["finanse", "Finance", "cfo"])
def test_an_approver_that_is_no_group_and_nobodys_id_is_named(approver: str) -> None:
    rule = {"effect": "ask", "approvers": ["token:ops", approver]}
    (problem,) = found(rule, settings=GROUPS)
    assert f"'r0': the approver {approver!r}, which is no group" in problem
    assert found(rule) == []


@pytest.mark.parametrize("approver", ["finance", "token:cfo", "token:*", "*", "loopback"])
def test_groups_ids_and_globs_are_approvers(approver: str) -> None:
    assert found({"effect": "ask", "approvers": [approver]}, settings=GROUPS) == []
