from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.policy.ruling import facts, rules_of

from hookgate.builtin_plugins.audit.entries import Redaction, decided
from hookgate.builtin_plugins.policy.bench.bench import Bench, imagined
from hookgate.builtin_plugins.policy.bench.replaying import (
    Replay,
    Replayed,
    Tally,
    read_rows,
    rows_of_export,
)
from hookgate.builtin_plugins.policy.judge.facts import Facts, History, facts_of
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.tools import Ask, ClientCallFlags, Decision, Effect, Verdict

Row = dict[str, Any]


def bench(*rules: dict[str, Any], **settings: Any) -> Bench:
    named = [{"name": f"r{n}", "reason": "x", **one} for n, one in enumerate(rules)]
    settings = {"profile": "open", **settings}
    return Bench(PolicySettings(**settings), rules_of(json.dumps({"rules": named})))


def row(
    call: Facts,
    effect: str = "allow",
    *,
    outcome: str = "",
    rule: str = "profile:open",
    redact: tuple[str, ...] = (),
    seq: int = 1,
    second: int = 0,
    others: tuple[str, ...] = (),
    **data: Any,
) -> Row:
    """A row, as the audit makes it of a decision and as an export holds it."""
    verdicts = [_verdict(effect, rule, "policy")]
    verdicts += [_verdict(one, "", "another") for one in others]
    done = outcome or ("deny" if effect == "deny" else "allow")
    decision = Decision(
        effect=Effect[done.upper()], reason="x", verdicts=tuple(verdicts), rule=rule, by="policy"
    )
    turn, made = imagined(call)
    entry = decided(turn, made, decision, Redaction(redact))
    return {
        "chain": "c1",
        "seq": seq,
        "at": f"2024-02-29T12:{second // 60:02}:{second % 60:02}.000000+00:00",
        "kind": entry.kind,
        "turn": entry.turn,
        "session": entry.session,
        "tool": entry.tool,
        "outcome": entry.outcome,
        "data": json.dumps({**entry.data, **data}),
    }


def _verdict(effect: str, rule: str, plugin: str) -> Verdict:
    made = {
        "allow": Verdict.allow(rule=rule),
        "deny": Verdict.deny("x", rule=rule),
        "ask": Verdict.ask(Ask(title="May it?"), rule=rule),
    }[effect]
    return replace(made, plugin=plugin)


@dataclass
class Done:
    """What came of a replay: the decisions of policy, and the counts of all."""

    rows: list[Replayed]
    tally: Tally


def replayed(judge: Bench, *rows: Row, **more: Any) -> Done:
    done = Done([], Tally())
    for one in Replay(judge, **more).each(read_rows(rows)):
        done.tally.take(one)
        if one.standing != "passed_over":
            done.rows.append(one)
    assert done.tally.to_json()["rows"] == len(done.rows)
    return done


def standings(found: Done) -> list[tuple[str, str]]:
    return [(one.standing, one.found.effect) for one in found.rows]


def test_decisions_that_would_be_others_flip_and_the_rest_stays() -> None:
    rows = [
        row(facts("send"), seq=1),
        row(facts("clock"), seq=2),
        row(facts("shell"), "deny", seq=3),
    ]
    found = replayed(bench({"effect": "deny", "match": {"tool": "send"}}), *rows)
    assert standings(found) == [("flip", "deny"), ("same", "allow"), ("flip", "allow")]
    assert found.tally.flips == {"allow -> deny": 1, "deny -> allow": 1}
    assert found.rows[0].recorded.place == "c1/1"


@pytest.mark.parametrize("outcome", ["allow", "deny"])
def test_a_question_counts_as_one_whatever_somebody_answered(outcome: str) -> None:
    asked = row(facts("send"), "ask", outcome=outcome)
    assert standings(replayed(bench({"effect": "ask"}), asked)) == [("same", "ask")]
    assert replayed(bench(), asked).tally.flips == {"ask -> allow": 1}


def test_the_candidate_profile_and_lists_count_too() -> None:
    tainted = row(facts("send", flags={"sends_externally": True}, taint=frozenset({"x"})))
    assert replayed(bench(profile="balanced"), tainted).tally.flips == {"allow -> ask": 1}
    assert replayed(bench(deny=("se*",)), tainted).tally.flips == {"allow -> deny": 1}


def test_decisions_without_a_verdict_of_policy_are_passed_over() -> None:
    none = row(facts("send"), "deny", verdicts=[])
    pinned = row(facts("send"), "deny", rule="quarantine")
    found = replayed(bench(), none, pinned)
    assert (found.rows, found.tally.standings["passed_over"]) == ([], 2)
    assert found.tally.reasons == {"policy had no say": 1, "the tool was in quarantine": 1}


# -- what came before ------------------------------------------------------------------

AFTER = {"effect": "deny", "match": {"tool": "send"}, "after": {"tool": "read"}}


def test_what_was_allowed_before_is_remembered_and_a_new_start_forgets_it() -> None:
    first = row(facts("read"), seq=1)
    second = row(facts("send"), seq=2, second=1)
    assert replayed(bench(AFTER), first, second).tally.flips == {"allow -> deny": 1}
    assert replayed(bench(AFTER), first, {**second, "chain": "c2"}).tally.flips == {}
    assert replayed(bench(AFTER), {**second, "seq": 3}, {**first, "seq": 4}).tally.flips == {}


def test_rows_are_taken_in_the_order_of_chains_and_numbers() -> None:
    rows = [row(facts("send"), seq=10, second=1), row(facts("read"), seq=9)]
    assert replayed(bench(AFTER), *rows).tally.flips == {"allow -> deny": 1}


@pytest.mark.parametrize(
    ("read", "effect"),
    [
        (row(facts("read"), "deny"), "deny"),  # it would run now
        (row(facts("read"), "deny", others=("deny",)), "allow"),  # somebody else denied it, too
        (row(facts("read"), "allow", outcome="deny", others=("deny",)), "allow"),
        (row(facts("read"), "ask", outcome="allow"), "deny"),
    ],
)
def test_a_call_counts_as_run_where_it_would_have_run(read: Row, effect: str) -> None:
    found = replayed(bench(AFTER), read, row(facts("send"), seq=2, second=1))
    assert found.rows[-1].found.effect == effect


@pytest.mark.parametrize(
    ("status", "effect"), [("done", "allow"), ("failed", "deny"), (None, "deny")]
)
def test_a_call_that_is_waited_for_counts_where_it_did_its_work(
    status: str | None, effect: str
) -> None:
    unless = {"after": {"tool": "backup"}}
    rule = {"effect": "deny", "match": {"tool": "send"}, "unless": unless}
    rows = [row(facts("backup")), row(facts("send"), seq=3, second=9)]
    rows[0]["call"] = "call_1"
    if status:
        ended = {**rows[0], "kind": "tool_finished", "seq": 2, "outcome": status, "data": "{}"}
        rows.insert(1, ended)
    assert replayed(bench(rule), *rows).rows[-1].found.effect == effect


def test_a_call_that_the_candidate_denies_is_not_remembered() -> None:
    rules = [AFTER, {"effect": "deny", "match": {"tool": "read"}}]
    found = replayed(bench(*rules), row(facts("read")), row(facts("send"), seq=2, second=1))
    assert [one.found.effect for one in found.rows] == ["deny", "allow"]


def test_more_than_so_many_calls_in_a_window_are_counted_by_the_clock_of_the_record() -> None:
    rule = {"effect": "deny", "more_than": {"calls": 2, "within": 60}}
    seconds = [0, 10, 20, 90, 100]
    rows = [row(facts("send"), seq=n, second=second) for n, second in enumerate(seconds, 1)]
    found = replayed(bench(rule), *rows)
    assert [one.found.effect for one in found.rows] == ["allow", "allow", "deny", "allow", "allow"]


def test_only_those_of_a_period_and_of_a_turn_are_judged_and_all_are_remembered() -> None:
    rows = [row(facts("read")), row(facts("send"), seq=2, second=30)]
    other = replace(facts("send"), turn="another")
    last = row(other, seq=3, second=40)
    first, second, _ = (one.at for one in read_rows([*rows, last]))
    for period in ({"since": second, "until": second + 1}, {"since": first + 1, "turn": "t"}):
        found = replayed(bench(AFTER), *rows, last, **period)
        assert standings(found) == [("flip", "deny")]


def test_two_sets_of_rules_are_held_against_each_other_over_the_same_calls() -> None:
    rows = [row(facts("send"), "deny", seq=1), row(facts("read"), seq=2)]
    old, new = bench({"effect": "ask", "match": {"tool": "send"}}), bench()
    (first, second) = replayed(new, *rows, old=old).rows
    assert (first.standing, first.old, first.old_rule) == ("flip", "ask", "rule:r0")
    assert first.to_json()["new"] == "allow"
    assert second.standing == "same"


def test_rules_that_had_a_say_are_counted_those_in_shadow_too() -> None:
    run = Replay(
        bench(
            {"effect": "deny", "match": {"tool": "send"}},
            {"effect": "ask", "mode": "shadow", "match": {"tool": ["send", "read"]}},
            {"effect": "deny", "match": {"tool": "x"}},
        )
    )
    rows = [row(facts("send")), row(facts("read"), seq=2, second=5)]
    assert [one.standing for one in run.each(read_rows(rows))] == ["flip", "same"]
    deny, shadow, idle = run.coverage.rows.values()
    assert (deny.decisive, deny.effects) == (1, {"deny": 1})
    assert (shadow.decisive, shadow.effects) == (0, {"ask": 2})
    assert shadow.last == rows[1]["at"] > deny.last == rows[0]["at"]
    assert (idle.exercised, idle.last) == (False, "")


# -- what is masked --------------------------------------------------------------------

SECRET = facts("send", arguments={"to": "ann", "body": {"text": "hello"}, "n": 2})


@pytest.mark.parametrize(
    ("rules", "standing"),
    [
        ([{"effect": "deny", "when": "args.body.text == 'hello'"}], "undecidable"),
        ([{"effect": "deny", "when": "size(args) > 7"}], "undecidable"),
        ([{"effect": "allow", "when": "args.body.text == 'x'"}], "same"),
        ([{"effect": "deny", "when": "args.to == 'eve'"}], "same"),
        ([{"effect": "deny", "when": "args.to == 'ann'"}], "flip"),
        ([{"effect": "deny", "match": {"tool": "x"}, "when": "args.body == 1"}], "same"),
        ([{"effect": "deny", "match": {"tainted": True}, "when": "args.body == 1"}], "same"),
        ([{"effect": "deny"}, {"effect": "ask", "when": "args.body == 1"}], "flip"),
        ([{"effect": "ask"}, {"effect": "deny", "when": "args.body == 1"}], "undecidable"),
        ([{"effect": "deny", "mode": "shadow", "when": "args.body == 1"}], "same"),
        ([{"effect": "rewrite", "rewrite": {"set": {"n": "args.body"}}}], "undecidable"),
    ],
)
def test_what_a_mask_leaves_open_is_undecidable_and_nothing_else(
    rules: list[dict[str, Any]], standing: str
) -> None:
    found = replayed(bench(*rules), row(SECRET, redact=("text",)))
    assert [one.standing for one in found.rows] == [standing]
    if standing == "undecidable":
        assert "masked arguments" in found.rows[0].why


def test_a_secret_that_was_masked_may_have_been_in_any_argument() -> None:
    rule = {"effect": "deny", "when": "args.to == 'eve'"}
    masked = facts("send", arguments={"to": "x", "n": "[redacted]"})
    assert replayed(bench(rule), row(masked, redacted=True)).tally.standings["undecidable"] == 1
    assert replayed(bench(rule), row(SECRET, redacted=True)).tally.standings["same"] == 1
    hidden = row(replace(SECRET, peer="[redacted]"), redacted=True)
    assert replayed(bench(), hidden).tally.standings["undecidable"] == 1


BLIND = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["allow", "ask", "deny"]),
        "when": st.sampled_from(["args.a == 1", "args.b > 1", "args.a == args.b", "true"]),
    },
    optional={"match": st.sampled_from([{"tool": "send"}, {"tainted": True}, {"tool": "x"}])},
)


@given(
    st.lists(BLIND, max_size=4),
    st.fixed_dictionaries({}, optional={"a": st.integers(0, 2), "b": st.integers(0, 2)}),
    st.sampled_from([(), ("a",), ("b",), ("a", "b")]),
    st.sampled_from(["open", "balanced"]),
    st.booleans(),
)
def test_what_is_said_of_a_masked_row_is_what_the_whole_row_would_have_said(
    rules: list[dict[str, Any]],
    arguments: dict[str, int],
    redact: tuple[str, ...],
    profile: str,
    tainted: bool,
) -> None:
    call = facts(
        "send",
        flags={"sends_externally": True},
        arguments=arguments,
        taint=frozenset({"x"}) if tainted else frozenset(),
    )
    judge = bench(*rules, profile=profile)
    (masked,) = replayed(judge, row(call, redact=redact)).rows
    (whole,) = replayed(judge, row(call)).rows
    assert whole.standing != "undecidable"
    if masked.standing != "undecidable":
        assert (masked.standing, masked.found.effect) == (whole.standing, whole.found.effect)


# -- a whole run -----------------------------------------------------------------------

OWN = st.fixed_dictionaries(
    {"effect": st.sampled_from(["allow", "ask", "deny"])},
    optional={
        "match": st.sampled_from([{"tool": "send"}, {"tool": "read"}, {"tainted": True}]),
        "when": st.sampled_from(["args.n > 1", "args.x"]),
        "after": st.sampled_from([{"tool": "read"}, {"tool": "send", "within": 30}]),
        "more_than": st.sampled_from([{"calls": 1}, {"calls": 2, "within": 20}]),
    },
)
CALL = st.tuples(
    st.sampled_from(["send", "read"]),
    st.sampled_from(["t1", "t2"]),
    st.sampled_from([{}, {"n": 1}, {"n": 2}]),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(OWN, max_size=4), st.lists(CALL, max_size=12))
def test_a_run_that_is_judged_again_under_its_own_rules_flips_nothing(
    rules: list[dict[str, Any]], calls: list[Any]
) -> None:
    judge, history, rows = bench(*rules, profile="balanced"), History(), []
    start = 1_709_208_000.0  # the time of the first row
    for number, (tool, turn, arguments, tainted, answer) in enumerate(calls):
        call = facts(tool, arguments=arguments, taint=frozenset({"x"} if tainted else ()))
        call = replace(call, turn=turn, session="a:b:c:d", index=number)
        found = judge.decide(call, history, start + number * 7)
        allowed = found.effect == "allow" or (found.effect == "ask" and answer)
        if allowed:
            history.add(start + number * 7, facts_of(*imagined(call)))
        outcome = "allow" if allowed else "deny"
        rows.append(row(call, found.effect, outcome=outcome, seq=number + 1, second=number * 7))
    again = replayed(judge, *rows)
    assert (again.tally.flips, again.tally.standings["same"]) == ({}, len(calls))


# -- files -----------------------------------------------------------------------------


def test_an_export_is_read_and_what_is_none_is_named() -> None:
    lines = [json.dumps(row(facts("send"))), "", json.dumps({"heads": []})]
    (one,) = read_rows(rows_of_export(lines))
    at = datetime.fromisoformat(one.when)
    assert one.facts == replace(facts_of(*imagined(facts("send"))), index=0, at=at)
    for junk in ("hello", "[]"):
        with pytest.raises(ValueError, match="line 1 is no row"):
            list(rows_of_export([junk]))
    with pytest.raises(ValueError, match="c1/1 is no decision"):
        read_rows([{**row(facts("send")), "data": "{}"}])
    assert read_rows([{"kind": "grant_made"}]) == []


def test_what_was_known_of_a_clients_call_is_judged_again() -> None:
    said = ClientCallFlags(flags=Flags.none(), why="it looks", confined=True, family={"a": "b"})
    known = replace(facts("Bash", taint=frozenset({"x"})), owner="client")
    rows = [
        row(replace(known, said=said), rule="profile:guarded", seq=1),
        row(known, rule="profile:guarded", seq=2),
    ]
    found = replayed(bench(profile="guarded"), *rows)
    assert standings(found) == [("same", "allow"), ("flip", "ask")]
    assert found.rows[0].recorded.facts.said == said
