from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.policy.asking import OPS, Asked, mail, opened
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.policy.approvers import Approvers
from hookgate.builtin_plugins.policy.settings import ApprovalSettings
from hookgate.core.errors import TurnError
from hookgate.core.tools import Tool
from hookgate.core.turn import Principal

if TYPE_CHECKING:
    from pathlib import Path

    from hookgate.core.tools import Decision

BOSS = Principal.owner("token:boss")
USER = Principal(id="token:user", scopes=frozenset({"chat"}))


def approvers(**settings: Any) -> Approvers:
    return Approvers(ApprovalSettings.model_validate(settings))


async def denied(gate: Asked, principal: Principal) -> Decision:
    decision = await gate.asking(gate.turn(principal=principal), mail())
    assert not decision.allowed
    assert gate.plugin._desk is not None
    assert len(gate.plugin._desk.inbox) == 0
    return decision


def test_without_a_list_everybody_may_and_with_one_those_whom_it_names() -> None:
    turn = make_turn()
    assert approvers().may("anybody", turn)
    some = approvers(approvers=["token:*", "loopback"])
    assert [some.may(name, turn) for name in ("token:x", "loopback", "Token:x", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_whoever_sent_the_message_at_the_root_may_not_approve_where_that_is_not_wanted() -> None:
    root = make_turn(principal=Principal.owner("a"))
    nested = make_turn(principal=Principal.owner("b"), parent=root, depth=1)
    strict = approvers(self_approval=False)
    assert [strict.may(name, nested) for name in "abc"] == [False, False, True]
    assert approvers().may("a", root)


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
    async with opened(tmp_path, approvals=settings) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question(BOSS)
        assert (await gate.do("approval.list", OPS)).approvals == []
        for decision in ("allow-once", "allow-always", "deny"):
            with pytest.raises(TurnError, match="not among") as caught:
                await gate.do("approval.resolve", OPS, id=shown["id"], decision=decision)
            assert caught.value.code == "forbidden"
        await gate.do("approval.resolve", BOSS, id=shown["id"], decision="allow-once")
        assert (await asked).by == "token:boss"


async def test_where_nobody_of_the_list_is_connected_it_is_denied_at_once(tmp_path: Path) -> None:
    approve = frozenset({"approve"})
    async with opened(tmp_path, approvals={"approvers": ["token:boss"]}) as gate:
        with gate.host.events.subscribe(scopes=approve, principal="token:other"):
            assert "connected" in (await denied(gate, OPS)).reason
        with gate.host.events.subscribe(scopes=approve, principal="token:boss"):
            asked = gate.asking(gate.turn(principal=USER), mail())
            shown = await gate.question(BOSS)
            await gate.do("approval.resolve", BOSS, id=shown["id"], decision="allow-once")
            assert (await asked).allowed
        assert "connected" in (await denied(gate, USER)).reason


async def test_a_single_owner_approves_its_own_calls_unless_that_is_not_wanted(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        await gate.do("approval.resolve", id=shown["id"], decision="allow-once")
        assert (await asked).allowed
    async with opened(tmp_path, approvals={"self_approval": False}) as gate:
        assert "connected" in (await denied(gate, OPS)).reason
        with gate.host.events.subscribe(scopes=frozenset({"approve"}), principal=BOSS.id):
            asked = gate.asking(gate.turn(), mail())
            shown = await gate.question(BOSS)
            with pytest.raises(TurnError, match="sent the message that led to this call"):
                await gate.do("approval.resolve", OPS, id=shown["id"], decision="allow-once")
            await gate.do("approval.resolve", BOSS, id=shown["id"], decision="allow-once")
            assert (await asked).allowed


async def test_when_the_only_approver_goes_away_nothing_runs(tmp_path: Path) -> None:
    settings = {"approvers": ["token:boss"], "timeout_seconds": 0.05}
    async with opened(tmp_path, approvals=settings) as gate:
        with gate.host.events.subscribe(scopes=frozenset({"approve"}), principal=BOSS.id):
            asked = gate.asking(gate.turn(), mail())
            await gate.question(BOSS)
        decision = await asked
    assert not decision.allowed
    assert "Nobody answered" in decision.reason


async def answered_after(gate: Asked, change: Any) -> Decision:
    """Ask, let `change` happen, answer with the digest that was shown before it."""
    turn, arguments = gate.turn(), {"to": "a"}
    call = mail(arguments)
    asked = gate.asking(turn, call)
    shown = await gate.question()
    change(gate, turn, call, arguments)
    await gate.do("approval.resolve", id=shown["id"], decision="allow-once", digest=shown["digest"])
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


@pytest.mark.parametrize("change", [_tool, _arguments, _session, _turn, _policy, _nothing])
async def test_what_changes_while_it_waits_never_runs(change: Any, tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        decision = await answered_after(gate, change)
    assert decision.allowed == (change is _nothing)
    if not decision.allowed:
        assert "changed while it was asked about" in decision.reason


async def test_what_waits_when_the_gateway_stops_is_not_there_after(tmp_path: Path) -> None:
    async with opened(tmp_path) as gate:
        asked = gate.asking(gate.turn(), mail())
        shown = await gate.question()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    async with opened(tmp_path) as gate:
        with pytest.raises(TurnError, match="no question"):
            await gate.do("approval.resolve", id=shown["id"], decision="allow-always")
        assert await gate.grants() == {}
