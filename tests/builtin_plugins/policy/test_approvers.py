from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.policy.asking import OPS, Asked, mail, opened
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.policy.desk.approvals import Approvers
from hookgate.builtin_plugins.policy.desk.grants import GrantBook
from hookgate.builtin_plugins.policy.settings import ApprovalSettings
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.tools import Ask, Tool
from hookgate.core.domain.turn import Address, Claim, Principal
from hookgate.core.gateway.access.tokens import token_book

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hookgate.core.domain.tools import Decision
    from hookgate.core.domain.turn import Turn

ASK = Ask(title="May act run?")

BOSS = Principal.owner("token:boss")
OTHER = Principal.owner("token:other")
USER = Principal(id="token:user", scopes=frozenset({"chat"}))


def approvers(**settings: Any) -> Approvers:
    return Approvers(ApprovalSettings.model_validate(settings))


async def denied(gate: Asked, principal: Principal) -> Decision:
    decision = await gate.asking(gate.turn(principal=principal), mail())
    assert not decision.allowed
    assert gate.plugin._desk is not None
    assert len(gate.plugin._desk.inbox) == 0
    return decision


def may(some: Approvers, names: Iterable[str], turn: Turn, ask: Ask = ASK) -> list[bool]:
    return [some.may_answer(Principal.owner(name), turn, ask) for name in names]


def test_without_a_list_everybody_may_and_with_one_those_whom_it_names() -> None:
    turn = make_turn()
    assert may(approvers(), ["anybody"], turn) == [True]
    some = approvers(approvers=["token:*", "loopback"])
    names = ("token:x", "loopback", "Token:x", "")
    assert may(some, names, turn) == [True, True, False, False]


def test_a_name_of_a_group_stands_for_its_members() -> None:
    some = approvers(
        approvers=["finance", "token:x"], groups={"finance": ["token:fin-*", "token:cfo"]}
    )
    names = ("token:fin-1", "token:cfo", "token:x", "finance", "token:y")
    assert may(some, names, make_turn()) == [True, True, True, False, False]


def test_the_lists_of_rules_stand_in_the_place_of_the_settings_and_all_of_them_count() -> None:
    some = approvers(approvers=["token:ops"], groups={"finance": ["token:cfo", "token:both"]})
    names = ("token:ops", "token:cfo", "token:both")
    one = replace(ASK, approvers=(("finance",),))
    assert may(some, names, make_turn(), one) == [False, True, True]
    two = replace(ASK, approvers=(("finance",), ("token:both", "token:ops")))
    assert may(some, names, make_turn(), two) == [False, False, True]
    assert "finance" in some.why_not("token:ops", make_turn(), one)


def test_whoever_sent_the_message_at_the_root_may_not_approve_where_that_is_not_wanted() -> None:
    root = make_turn(principal=Principal.owner("a"))
    nested = make_turn(principal=Principal.owner("b"), parent=root, depth=1)
    strict = approvers(self_approval=False)
    assert may(strict, "abc", nested) == [False, False, True]
    assert may(approvers(), "a", root) == [True]


def test_a_nested_turns_questions_belong_to_the_address_of_the_outermost() -> None:
    root = make_turn(address=Address("slack", "acme", "bob"))
    nested = make_turn(address=Address("nested", "acme", "child_1"), parent=root, depth=1)
    bobs = Principal(id="b", bindings=(Claim("slack", "*", "bob"),))
    anns = Principal(id="a", bindings=(Claim("slack", "*", "ann"),))
    assert approvers().may_answer(bobs, nested, ASK)
    assert not approvers().may_answer(anns, nested, ASK)


@pytest.mark.parametrize("unattended", ["deny", "wait"])
async def test_an_empty_list_means_nobody_and_says_so_at_once(
    unattended: str, tmp_path: Path
) -> None:
    settings = {"approvers": [], "unattended": unattended}
    async with opened(tmp_path, approvals=settings) as gate:
        decision = await denied(gate, OPS)
    assert "`[plugin.policy.approvals] approvers` is empty" in decision.reason


async def test_somebody_else_sees_no_question_and_cannot_answer_it(tmp_path: Path) -> None:
    settings = {"approvers": ["token:boss"], "unattended": "wait"}
    async with opened(tmp_path, tokens={"boss": ["approve"]}, approvals=settings) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question(BOSS)
        assert (await gate.do("approvals.list", OPS)).approvals == []
        for decision in ("allow-once", "allow-always", "deny"):
            with pytest.raises(TurnError, match="not among") as caught:
                await gate.do("approvals.resolve", OPS, id=shown["id"], decision=decision)
            assert caught.value.code == "forbidden"
        await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-once")
        assert (await asked).by == "token:boss"


async def test_where_nobody_of_the_list_is_connected_it_is_denied_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, approvals={"approvers": ["token:boss"]}) as gate:
        with gate.host.events.subscribe(principal=OTHER):
            assert "connected" in (await denied(gate, OPS)).reason
        with gate.host.events.subscribe(principal=BOSS):
            asked = gate.asking(gate.turn(principal=USER), mail())
            shown = await gate.question(BOSS)
            await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-once")
            assert (await asked).allowed
        assert "connected" in (await denied(gate, USER)).reason


async def test_a_single_owner_approves_its_own_calls_unless_that_is_not_wanted(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        await gate.do("approvals.resolve", id=shown["id"], decision="allow-once")
        assert (await asked).allowed
    async with opened(tmp_path, approvals={"self_approval": False}) as gate:
        assert "connected" in (await denied(gate, OPS)).reason
        with gate.host.events.subscribe(principal=BOSS):
            asked = gate.asking(gate.turn(), mail())
            shown = await gate.question(BOSS)
            with pytest.raises(TurnError, match="sent the message that led to this call"):
                await gate.do("approvals.resolve", OPS, id=shown["id"], decision="allow-once")
            await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-once")
            assert (await asked).allowed


async def test_when_the_last_approver_leaves_it_is_denied_at_once(tmp_path: Path) -> None:
    settings = {"approvers": ["token:boss", "token:other"], "timeout_seconds": 600}
    async with opened(tmp_path, approvals=settings) as gate:
        with gate.host.events.subscribe(principal=BOSS):
            with gate.host.events.subscribe(principal=OTHER):
                asked = gate.asking(gate.turn(), mail())
                await gate.question(BOSS)
            await asyncio.sleep(0)
            assert not asked.done()
        decision = await asked
    assert (decision.allowed, decision.answer) == (False, "withdrawn")
    assert "Nobody who may approve is connected" in decision.reason


async def test_an_approver_who_is_just_answering_may_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, approvals={"approvers": ["token:boss"]}) as gate:
        listening = gate.host.events.subscribe(principal=BOSS)
        listening.__enter__()
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question(BOSS)
        append = gate.record.append

        async def recorded(kind: str, data: Any) -> None:
            listening.__exit__(None, None, None)
            await append(kind, data)

        monkeypatch.setattr(gate.record, "append", recorded)
        await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-always")
        assert (await asked).allowed


async def test_one_waits_for_somebody_who_may_come_and_not_for_nobody(tmp_path: Path) -> None:
    settings = {"approvers": ["token:boss"], "unattended": "wait"}
    for tokens in ({}, {"boss": ["chat", "read"], "other": ["approve"]}):
        async with opened(tmp_path, tokens=tokens, approvals=settings) as gate:
            assert "Nobody may approve" in (await denied(gate, OPS)).reason
    async with opened(tmp_path, tokens={"boss": ["approve"]}, approvals=settings) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question(BOSS)
        await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-once")
        assert (await asked).allowed


async def test_when_the_token_that_one_waits_for_is_revoked_it_is_denied_at_once(
    tmp_path: Path,
) -> None:
    settings = {"approvers": ["token:boss"], "unattended": "wait", "timeout_seconds": 600}
    tokens = {"boss": ["approve"]}
    async with opened(tmp_path, tokens=tokens, approvals=settings) as gate:
        asked = gate.asking(gate.turn(), mail())
        await gate.question(BOSS)
        await token_book(gate.host).revoke("boss")
        assert "Nobody may approve" in (await asked).reason


async def test_without_tokens_the_owner_may_come(tmp_path: Path) -> None:
    async with opened(tmp_path, approvals={"unattended": "wait"}) as gate:
        asked = gate.asking(gate.turn(principal=USER), mail())
        shown = await gate.question(Principal.owner())
        assert shown["tool"] == "mail"
        asked.cancel()


async def answered_after(gate: Asked, change: Any, choice: str) -> Decision:
    """Ask, let `change` happen, answer with the digest that was shown before it."""
    turn, arguments = gate.turn(), {"to": "a"}
    call = mail(arguments)
    asked = gate.asking(turn, call)
    shown = await gate.question()
    change(gate, turn, call, arguments)
    answer = {"id": shown["id"], "decision": choice, "digest": shown["digest"]}
    refused = nullcontext() if change is _nothing else pytest.raises(TurnError, match="ran out")
    with refused:
        await gate.do("approvals.resolve", **answer)
    return await asked


def _tool(gate: Asked, turn: Any, call: Any, arguments: Any) -> None:
    gate.host.tools.apply(
        "x", [Tool(name="mail", description="New.", schema={"type": "object"}, owner="client")]
    )


def _arguments(gate: Asked, turn: Any, call: Any, arguments: dict[str, str]) -> None:
    arguments["to"] = "b"


def _session(gate: Asked, turn: Any, call: Any, arguments: Any) -> None:
    turn.session = make_turn(agent="other").session


def _turn(gate: Asked, turn: Any, call: Any, arguments: Any) -> None:
    turn.id = "turn_other"


def _policy(gate: Asked, turn: Any, call: Any, arguments: Any) -> None:
    gate.plugin._version = (gate.plugin._judge.engine.version, "another")


def _nothing(gate: Asked, turn: Any, call: Any, arguments: Any) -> None:
    pass


@pytest.mark.parametrize("choice", ["allow-once", "allow-always"])
@pytest.mark.parametrize("change", [_tool, _arguments, _session, _turn, _policy, _nothing])
async def test_what_changes_while_it_waits_never_runs_and_nothing_of_it_is_kept(
    change: Any, choice: str, tmp_path: Path
) -> None:
    async with opened(tmp_path) as gate:
        decision = await answered_after(gate, change, choice)
        kept = change is _nothing and choice == "allow-always"
        assert len(await gate.grants()) == kept
    assert decision.allowed == (change is _nothing)
    if not decision.allowed:
        assert "changed while it was asked about" in decision.reason


RULES = """
rules:
  - name: mail
    match: {tool: mail}
    effect: ask
    reason: "%s"
"""


async def test_rules_that_change_while_it_waits_leave_no_grant_behind(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(RULES % "one")
    async with opened(tmp_path, rules=[str(file)]) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        file.write_text(RULES % "two")
        await gate.reread()
        assert not (await asked).allowed
        answer = {"id": shown["id"], "decision": "allow-always", "digest": shown["digest"]}
        with pytest.raises(TurnError, match="no question"):
            await gate.do("approvals.resolve", **answer)
        assert await gate.grants() == {}
        assert await gate.is_asked(gate.turn(), mail())


@pytest.mark.parametrize("step", ["record", "keep"])
async def test_rules_that_change_while_the_answer_is_kept_leave_no_grant_behind(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        keeping, append = GrantBook.keeping, gate.record.append

        def slowly(self: GrantBook, grant: Any) -> Any:
            keep = keeping(self, grant)

            def kept(connection: Any) -> None:
                keep(connection)
                _policy(gate, None, None, None)

            return kept

        async def recorded(kind: str, data: Any) -> None:
            await append(kind, data)
            _policy(gate, None, None, None)

        if step == "keep":
            monkeypatch.setattr(GrantBook, "keeping", slowly)
        else:
            monkeypatch.setattr(gate.record, "append", recorded)
        with pytest.raises(TurnError, match="ran out"):
            await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
        assert not (await asked).allowed
        assert await gate.grants() == {}
        kinds = [(kind, row.get("revoked_by")) for kind, row in gate.record.rows]
        assert kinds == [("grant_made", None), ("grant_revoked", "policy")]


async def test_a_grant_of_somebody_who_may_no_longer_answer_answers_nothing(tmp_path: Path) -> None:
    """A rule may ask other people about the call than the one that led to the grant."""
    async with opened(tmp_path) as gate:
        turn = gate.turn(principal=OTHER)
        await gate.always(turn, mail(), principal=OTHER)
        ask = replace(ASK, approvers=(("token:boss",),), choices=("allow-always", "deny"))
        with gate.host.events.subscribe(principal=BOSS):
            asked = asyncio.create_task(gate.plugin.resolve_ask(turn, mail(), ask))
            shown = await gate.question(BOSS)
            await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="deny")
            decision = await asked
        assert decision is not None
        assert not decision.allowed


async def test_what_waits_when_the_gateway_stops_is_not_there_after(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    async with opened(tmp_path) as gate:
        with pytest.raises(TurnError, match="no question"):
            await gate.do("approvals.resolve", id=shown["id"], decision="allow-always")
        assert await gate.grants() == {}


GROUPS = {"groups": {"finance": ["token:cfo"]}, "approvers": ["token:boss"]}
CFO = Principal.owner("token:cfo")


async def test_a_rule_says_who_answers_and_all_rules_that_ask_count(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "rules:\n"
        "  - {name: one, match: {tool: mail}, effect: ask, reason: r, approvers: [finance],"
        " timeout: 5m}\n"
        "  - {name: two, match: {tool: mail}, effect: ask, reason: r, approvers: token:c*}\n"
    )
    async with opened(tmp_path, rules=[str(file)], approvals=GROUPS, ask=["mail"]) as gate:
        ask = gate.judged(gate.turn(), mail()).ask_for
        assert ask is not None
        assert ask.approvers == (("finance",), ("token:c*",))
        assert "finance; token:c*" in ask.description
        with gate.host.events.subscribe(principal=CFO):
            asked = gate.asking(gate.turn(), mail())
            shown = await gate.question(CFO)
            assert shown["approvers"] == [["finance"], ["token:c*"]]
            with pytest.raises(TurnError, match="approvers of the rule that asks: finance"):
                await gate.do("approvals.resolve", BOSS, id=shown["id"], decision="allow-once")
            await gate.do("approvals.resolve", CFO, id=shown["id"], decision="allow-once")
            assert (await asked).by == CFO.id


def test_waits_of_settings_are_lengths_of_time() -> None:
    made = ApprovalSettings.model_validate({"timeout_seconds": "2m", "always_days": "12h"})
    assert (made.timeout_seconds, made.always_days) == (120, 0.5)
    with pytest.raises(ValidationError, match="at most 7d: its call and its session wait"):
        ApprovalSettings.model_validate({"timeout_seconds": "8d"})


async def test_the_start_says_which_approvers_are_nobody(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{name: pay, effect: ask, reason: x, approvers: finanse}]")
    groups = {"groups": {"finance": ["token:cfo"]}}
    async with opened(tmp_path, rules=[str(rules)], approvals=groups) as gate:
        told = gate.host.notices["policy approvers"]
    assert "in rule 'pay': the approver 'finanse'" in told
    assert "one of the groups ('finance')" in told


async def test_the_start_says_which_approvers_of_the_settings_are_nobody(tmp_path: Path) -> None:
    approvals = {"approvers": ["ops", "finance", "loopback"], "groups": {"finance": ["cfo"]}}
    async with opened(tmp_path, approvals=approvals) as gate:
        told = gate.host.notices["policy approvers"]
    assert "[plugin.policy.approvals] approvers: found the approver 'ops'" in told
    assert "[plugin.policy.approvals] groups.finance: found the approver 'cfo'" in told
    assert told.count("found") == 2


async def test_the_start_says_that_a_folder_holds_no_rules(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    async with opened(tmp_path, rules=[str(tmp_path / "rules")]) as gate:
        assert "a folder without rules" in gate.host.notices["policy folders"]


async def test_a_question_that_leaves_denying_out_can_be_denied(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        ask = Ask(title="May it?", choices=("allow-once",))
        asked = asyncio.create_task(gate.plugin.resolve_ask(gate.turn(), mail(), ask))
        shown = await gate.question()
        assert shown["choices"] == ["allow-once", "deny"]
        await gate.do("approvals.resolve", id=shown["id"], decision="deny")
        decision = await asked
    assert decision is not None
    assert not decision.allowed
