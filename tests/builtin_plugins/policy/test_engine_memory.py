"""What the engine remembers between calls changes no judgement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import engine_of, facts

from hookgate.builtin_plugins.policy.judge import engine as engines
from hookgate.builtin_plugins.policy.judge.engine import Engine, Judgement
from hookgate.builtin_plugins.policy.judge.facts import Facts, History
from hookgate.core.domain.descriptors import Flags

RULES = """
rules:
  - {name: sends, effect: ask, reason: r, match: {tainted: true, flags: {sends_externally: true}}}
  - {name: undeclared, effect: deny, reason: r, match: {flags: {executes_privileged: true}}}
  - {name: web, effect: deny, reason: r, match: {channel: "web*", tool: "w*"}}
  - {name: peers, effect: allow, match: {peer: "ann", nested: false}}
  - {name: shadow, effect: deny, reason: r, mode: shadow, match: {agent: main, taint: "tool:*"}}
  - {name: big, effect: deny, reason: r, match: {peer: "a*"}, when: "args.n > 5"}
  - {name: small, effect: ask, reason: r, match: {channel: cli}, when: "args.n < 2"}
  - {name: cut, effect: rewrite, match: {tool: send}, when: "args.n == 3", rewrite: {set: {n: "4"}}}
  - {name: scheduled, effect: deny, reason: r, match: {provenance: scheduled, principal: "o*"}}
  - {name: again, effect: ask, reason: r, match: {tool: write}, more_than: {calls: 1}}
  - {name: then, effect: deny, reason: r, after: {tool: read, channel: "web*"}}
  - {name: often, effect: ask, reason: r, more_than: {calls: 2, within: 1m, scope: peer}}
"""

calls = st.builds(
    Facts,
    tool=st.sampled_from(["send", "write", "read"]),
    arguments=st.sampled_from([{}, {"n": 1}, {"n": 3}, {"n": 9}]),
    flags=st.sampled_from([Flags(), Flags.none(), Flags(sends_externally=True)]),
    channel=st.sampled_from(["cli", "web1"]),
    peer=st.sampled_from(["ann", "abe", "bob"]),
    agent=st.sampled_from(["main", "other"]),
    principal=st.sampled_from(["owner", "guest"]),
    provenance=st.sampled_from(["external_user", "scheduled"]),
    taint=st.sampled_from([frozenset(), frozenset({"tool:read"}), frozenset({"page"})]),
    depth=st.integers(0, 1),
    session=st.sampled_from(["s1", "s2"]),
    turn=st.sampled_from(["t1", "t2"]),
)


def seen(judgement: Judgement) -> Any:
    def plain(outcomes: Any) -> list[tuple[str, str, str, Any]]:
        return sorted((one.rule.name, one.state, one.why, one.effect) for one in outcomes)

    holding = [one for one in judgement.outcomes if one.state != "fails"]
    arguments = None if judgement.arguments is None else dict(judgement.arguments)
    return judgement.effect, arguments, plain(judgement.shadow), plain(holding)


@given(st.lists(calls, min_size=1, max_size=12))
def test_an_engine_that_has_judged_before_judges_as_a_new_one_and_as_one_that_looks_at_all(
    made: list[Facts],
) -> None:
    used, history = engine_of(RULES), History()
    for now, call in enumerate(made):
        fresh = Engine(used.rules)
        found = seen(used.judge(call, history, float(now)))
        assert found == seen(fresh.judge(call, history, float(now)))
        assert found == seen(fresh.judge(call, history, float(now), every=True))
        assert fresh.concerns(call.tool, call.plugin, call.sandbox, call.flags)
        history.add(float(now), call)


def test_a_tool_of_the_gateways_and_one_of_a_client_are_told_apart() -> None:
    text = "rules: [{name: a, effect: deny, reason: r, match: {owner: client}}]"
    engine = engine_of(text)
    for owner, effect in (("host", None), ("client", "deny"), ("host", None)):
        facts = Facts(tool="send", owner=owner)
        assert engine.judge(facts, History(), 0.0).effect == effect
        assert engine.concerns("send", "", "python", Flags(), owner) is bool(effect)


def test_a_part_that_a_rule_leaves_out_leaves_its_digest() -> None:
    """Grants are bound to what the rules say: a new version of hookgate takes none away."""
    text = "rules: [{name: a, effect: deny, reason: r, match: {tool: send}}]"
    digest = "4c2e88bdce4730367d79926ab63ea5b4d7f7bece7780dffc875b76e0c3d9d574"
    assert engine_of(text).version == digest


def test_rules_about_other_tools_do_not_concern_a_tool() -> None:
    engine = engine_of("rules: [{name: a, effect: deny, reason: r, match: {tool: send}}]")
    assert engine.concerns("send", "", "python", Flags())
    assert not engine.concerns("read", "", "python", Flags())


def test_what_is_remembered_of_circumstances_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(engines, "MEMO", 2)
    engine = engine_of("rules: [{name: a, effect: deny, reason: r, match: {peer: 'p1*'}}]")
    for number in range(40):
        call = replace(facts(), peer=f"p{number}", tool=f"tool{number}")
        expected = "deny" if str(number).startswith("1") else None
        assert engine.judge(call, History(), 0.0).effect == expected
        assert len(engine._plans) <= 2 * engines.PLANS
        assert len(engine._memo) <= 2


def test_calls_of_a_turn_are_found_among_many_and_forgotten_with_the_oldest() -> None:
    history = History(kept=4)
    for number in range(6):
        history.add(float(number), replace(facts(), turn=f"t{number % 2}", index=number))
    assert [call.index for call in history.since(float("-inf"), turn="t1")] == [5, 3]
    assert [call.index for call in history.since(4.0, turn="t0")] == [4]
    assert list(history.since(0.0, turn="t7")) == []
    assert len(history) == 4
