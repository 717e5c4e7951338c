"""Rules that somebody is writing, checked, tried and explained over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.policy.conftest import Near
from tests.builtin_plugins.policy.test_plugin import SENDS, Gate
from tests.builtin_plugins.turns import make_host

from hookgate.builtin_plugins.policy.bench import apart
from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.errors import NotAllowedError, TurnError
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Principal

RULES = """\
rules:
  - name: no-mail-to-strangers
    match: {tool: mail}
    when: args.to != "ann"
    effect: deny
    reason: mail goes to ann alone
"""
CASES = """\
cases:
  - name: a stranger
    call: {tool: mail, arguments: {to: bob}}
    expect: {effect: deny, rule: no-mail-to-strangers}
  - name: ann
    call: {tool: mail, arguments: {to: ann}, flags: {others: false}}
    expect: deny
"""


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    file = tmp_path / "mail.yaml"
    file.write_text(RULES)
    host, plugin = make_host(), Plugin(PolicySettings(rules=(file,), pin_tools="off"))
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    host.tools.apply(
        "x", [Tool(name="mail", description="", schema=schema, flags=SENDS, owner="client")]
    )
    async with plugin.lifespan(host):
        yield Gate(host, plugin)


@pytest.mark.usefixtures("near")
async def test_rules_are_checked_with_the_line_of_what_is_wrong(gate: Gate) -> None:
    good = await gate.do("policy.check", rules=RULES)
    assert (good.ok, good.rules, good.problems) == (True, ["no-mail-to-strangers"], [])
    wrong = await gate.do("policy.check", rules=RULES.replace("deny", "denied"))
    assert not wrong.ok
    assert [(one.line, one.key) for one in wrong.problems] == [(5, "rules[0].effect")]
    assert "denied" in wrong.problems[0].found
    # The tools of the gateway are looked at as well.
    odd = await gate.do("policy.check", rules=RULES.replace("args.to", "args.too"))
    assert [one.severity for one in odd.problems] == ["warning"]
    assert "too" in odd.problems[0].found
    twice = await gate.do("policy.check", rules=RULES + RULES.removeprefix("rules:\n"))
    assert "a second rule" in twice.problems[-1].found


@pytest.mark.usefixtures("near")
async def test_a_question_that_would_outlast_its_turn_is_wrong_as_on_the_command_line(
    gate: Gate,
) -> None:
    late = await gate.do("policy.check", rules=RULES.replace("deny", "ask\n    timeout: 7d"))
    assert not late.ok
    assert [(one.line, one.severity) for one in late.problems] == [(2, "error")]
    assert "its turn ends after" in late.problems[0].found


@pytest.mark.usefixtures("near")
async def test_cases_are_tried_by_the_text_and_the_settings(gate: Gate) -> None:
    tried = await gate.do("policy.test", rules=RULES, cases=CASES)
    assert (tried.ok, tried.passed, tried.failed, tried.left) == (False, 1, 1, 0)
    assert tried.cases[0].rule == "rule:no-mail-to-strangers"
    assert tried.cases[1].wrong == ["expected deny, found allow"]
    assert tried.cases[1].line == 5
    (covered,) = tried.coverage
    assert (covered.rule, covered.decisive, covered.failed) == ("no-mail-to-strangers", 1, 1)
    broken = await gate.do("policy.test", rules=RULES, cases="cases: 3")
    assert (broken.ok, broken.cases) == (False, [])
    assert broken.problems[0].file == "rules.test.yaml"


@pytest.mark.usefixtures("near")
async def test_a_condition_that_goes_on_for_too_long_is_denied_as_by_a_gateway(gate: Gate) -> None:
    loop = "args.l.all(a, args.l.all(b, args.l.all(c, a + b + c > 0)))"
    cases = CASES.replace("{to: bob}", f"{{l: [{', '.join(['1'] * 50)}]}}")
    tried = await gate.do("policy.test", rules=RULES.replace('args.to != "ann"', loop), cases=cases)
    assert tried.cases[0].effect == "deny"
    assert "could not be judged" in tried.cases[0].why


async def test_no_text_takes_more_than_its_time(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "SECONDS", 0.01)
    with pytest.raises(TurnError, match="nothing was found out"):
        await gate.do("policy.test", rules=RULES, cases=CASES)


@pytest.mark.usefixtures("near")
async def test_not_everybody_at_once_has_rules_tried(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most, ended = 0, 0, asyncio.Event()

    async def ask(_: apart.Child, work: Any) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await ended.wait()
        running -= 1
        return {"ok": bool(work), "rules": [], "problems": []}

    monkeypatch.setattr(Near, "ask", ask)
    waiting = [
        asyncio.create_task(gate.do("policy.check", rules=RULES)) for _ in range(apart.MOST_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TurnError, match="other rules") as refused:
        await gate.do("policy.check", rules=RULES)
    assert refused.value.code == "busy"
    ended.set()
    assert all(found.ok for found in await asyncio.gather(*waiting))
    assert most == 1


@pytest.mark.slow
async def test_no_condition_takes_more_memory_than_it_may(gate: Gate) -> None:
    rules = RULES.replace(
        'args.to != "ann"', "args.l.map(a, args.l.map(b, args.to + args.to + args.to)).size() > 1"
    )
    many = f"[{', '.join(['1'] * 90)}]"
    cases = CASES.replace("to: bob", f"to: {'a' * 50_000}, l: {many}")
    with pytest.raises(TurnError, match="nothing was found out"):
        await gate.do("policy.test", rules=rules, cases=cases)


async def test_a_call_is_explained_by_the_rules_in_force(gate: Gate) -> None:
    found = await gate.do("policy.explain", tool="mail", arguments={"to": "bob"})
    assert (found.known, found.decided.effect) == (True, "deny")
    assert found.flags["sends_externally"] is True
    assert [(one.rule, one.state) for one in found.rules] == [("no-mail-to-strangers", "holds")]
    asked = await gate.do("policy.explain", tool="mail", arguments={"to": "ann"}, taint=["tool:x"])
    assert asked.decided.effect == "ask"
    other = await gate.do(
        "policy.explain", tool="none", flags={"sends_externally": False}, before=["mail"]
    )
    assert (other.known, other.flags["sends_externally"]) == (False, False)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"arguments": {"a": "x" * 20_000}}, "20,000"), ({"flags": {"odd": True}}, "odd")],
)
async def test_a_call_that_cannot_be_explained_says_why(
    gate: Gate, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(TurnError, match=said):
        await gate.do("policy.explain", tool="mail", **given)


@pytest.mark.parametrize("name", ["check", "test", "explain"])
async def test_who_sees_some_sessions_only_learns_nothing_of_rules(gate: Gate, name: str) -> None:
    params = {
        "check": {"rules": RULES},
        "test": {"rules": RULES, "cases": CASES},
        "explain": {"tool": "mail"},
    }
    some = Principal(id="some", scopes=frozenset({"read"}))
    with pytest.raises(NotAllowedError, match="some sessions only"):
        await gate.do(f"policy.{name}", principal=some, **params[name])
