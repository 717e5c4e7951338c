from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import engine_of
from tests.builtin_plugins.turns import make_call, make_turn

from hookgate.builtin_plugins.policy.judge.judging import Globs, Judge
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import Effect, ToolCall, Verdict
from hookgate.core.domain.turn import Turn

SENDS = Flags.from_mapping({**Flags.none().to_json(), "sends_externally": True})
PRIVILEGED = Flags.from_mapping({**Flags.none().to_json(), "executes_privileged": True})


def judge_of(**settings: Any) -> Judge:
    return Judge(PolicySettings(**settings))


def verdict_of(judge: Judge, turn: Turn, call: ToolCall) -> Verdict:
    return judge.judge(turn, call)[0]


def test_verdict_of_the_profile_names_its_rule() -> None:
    judge = judge_of()
    assert (
        verdict_of(judge, make_turn(), make_call("clock", Flags.none())).rule == "profile:balanced"
    )
    asked = verdict_of(judge, make_turn(taint={"tool:http_get"}), make_call("mail", SENDS))
    assert (asked.effect, asked.rule) == (Effect.ASK, "send-after-foreign-text")
    nested = make_turn(provenance=Provenance.SCHEDULED)
    denied = verdict_of(judge, nested, make_call("shell", PRIVILEGED))
    assert (denied.effect, denied.rule) == (Effect.DENY, "privileged-without-a-person")
    assert "shell is not run" in denied.reason


def test_ask_tells_the_whole_story_within_its_limits() -> None:
    name = "n" * 64
    turn = make_turn(taint={"tool:http_get", "memory"}, provenance=Provenance.CHANNEL)
    settings = {"approvals": {"timeout_seconds": 7}}
    ask = verdict_of(judge_of(**settings), turn, make_call(name, SENDS)).ask_for
    assert ask is not None
    assert ask.title == f"May {name} run?"
    assert (ask.timeout, ask.severity) == (7, "critical")
    for part in ("memory, tool:http_get", "channel", "sends_externally yes (declared)"):
        assert part in ask.description


@pytest.mark.parametrize(
    ("settings", "effect", "rule"),
    [
        ({"allow": ["mail*"]}, Effect.ALLOW, "allow:mail*"),
        ({"allow": ["mail*"], "ask": ["mail_send"]}, Effect.ASK, "ask:mail_send"),
        ({"allow": ["*"], "ask": ["*"], "deny": ["m*"]}, Effect.DENY, "deny:m*"),
        ({"allow": ["Mail*"], "profile": "open"}, Effect.ALLOW, "profile:open"),
        ({"allow": ["mail"], "profile": "strict"}, Effect.ASK, "send"),
    ],
)
def test_overrides_go_before_the_profile_and_the_strictest_list_counts(
    settings: dict[str, Any], effect: Effect, rule: str
) -> None:
    verdict = verdict_of(judge_of(**settings), make_turn(), make_call("mail_send", SENDS))
    assert (verdict.effect, verdict.rule) == (effect, rule)


@given(
    st.fixed_dictionaries(
        {
            key: st.lists(st.sampled_from(["act", "a*", "b*", "*"]), max_size=2)
            for key in ("allow", "ask", "deny")
        }
    )
)
def test_deny_beats_ask_beats_allow_whatever_the_lists(lists: dict[str, list[str]]) -> None:
    verdict = verdict_of(judge_of(**lists), make_turn(), make_call("act", Flags.none()))
    named = {key for key, globs in lists.items() if {"act", "a*", "*"} & set(globs)}
    if "deny" in named:
        assert verdict.effect is Effect.DENY
    elif "ask" in named:
        assert verdict.effect is Effect.ASK
    else:
        assert verdict.effect is Effect.ALLOW


def test_globs_that_name_no_tool_are_found() -> None:
    judge = judge_of(deny=["shel", "mail*"], allow=["clock", "x[12]"])
    assert judge.idle_globs({"shell", "mail_send", "clock"}) == [
        ("deny", "shel"),
        ("allow", "x[12]"),
    ]


def test_globs_match_whole_names_and_their_case() -> None:
    globs = Globs(["a?c", "http_*"])
    assert globs.match("abc") == "a?c"
    assert globs.match("abcd") is None
    assert globs.match("HTTP_get") is None


# -- with rules -----------------------------------------------------------------------


def ruled(effect: str, *, name: str = "mail_send", rules: str = "", **settings: Any) -> Verdict:
    said = {"name": "r", "effect": effect, "reason": "the rule", "match": {"tool": "mail_*"}}
    if effect == "rewrite":
        said["rewrite"] = {"set": {"to": "'ann'"}}
    engine = engine_of(rules or json.dumps({"rules": [said]}))
    judge = Judge(PolicySettings(**settings), engine)
    return verdict_of(judge, make_turn(), make_call(name, Flags.none()))


@pytest.mark.parametrize(
    ("effect", "settings", "found", "rule"),
    [
        ("deny", {}, Effect.DENY, "rule:r"),
        ("deny", {"allow": ["*"]}, Effect.DENY, "rule:r"),
        ("deny", {"ask": ["*"]}, Effect.DENY, "rule:r"),
        ("deny", {"deny": ["*"]}, Effect.DENY, "deny:*"),
        ("ask", {"allow": ["*"]}, Effect.ASK, "rule:r"),
        ("ask", {"deny": ["*"]}, Effect.DENY, "deny:*"),
        ("allow", {"profile": "strict"}, Effect.ALLOW, "rule:r"),
        ("allow", {"ask": ["*"]}, Effect.ASK, "ask:*"),
        ("allow", {"deny": ["*"]}, Effect.DENY, "deny:*"),
        ("rewrite", {"allow": ["*"]}, Effect.ALLOW, "rule:r"),
        ("rewrite", {"deny": ["*"]}, Effect.DENY, "deny:*"),
    ],
)
def test_the_strictest_of_lists_and_rules_counts_and_the_profile_comes_last(
    effect: str, settings: dict[str, Any], found: Effect, rule: str
) -> None:
    verdict = ruled(effect, **settings)
    assert (verdict.effect, verdict.rule) == (found, rule)
    assert (verdict.arguments == {"to": "ann"}) is (rule == "rule:r" and effect == "rewrite")


def test_a_call_that_no_rule_is_about_is_left_to_the_profile() -> None:
    assert ruled("deny", name="clock").rule == "profile:balanced"


def test_a_rule_says_why_how_grave_and_for_how_long_it_asks() -> None:
    said = {"name": "r", "effect": "ask", "reason": "Mail goes out.", "severity": "critical"}
    verdict = ruled("ask", rules=json.dumps({"rules": [{**said, "timeout": 7}]}))
    assert verdict.ask_for is not None
    assert (verdict.ask_for.severity, verdict.ask_for.timeout) == ("critical", 7.0)
    assert "Mail goes out." in verdict.ask_for.description
    unknown = ruled("ask", rules=json.dumps({"rules": [{**said, "when": "args.missing == 1"}]}))
    assert unknown.ask_for is not None
    assert "cannot be decided" in unknown.ask_for.description
