from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from tests.builtin_plugins.turns import make_call, make_host, make_turn

from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import Effect, Tool
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate.core.domain.tools import Ask, Decision
    from hookgate.core.host import Host

OWNER = Principal.owner()
STRANGER = Principal(id="stranger", scopes=frozenset({"chat"}))
SENDS = Flags.from_mapping({**Flags.none().to_json(), "sends_externally": True})


class Gate:
    def __init__(self, host: Host, plugin: Plugin) -> None:
        self.host = host
        self.plugin = plugin
        self.operations = {item.name: item for item in plugin.list_operations(host)}

    async def do(self, name: str, /, principal: Principal = OWNER, **params: Any) -> Any:
        invocation = Invocation(host=self.host, principal=principal)
        operation = self.operations[name]
        return await operation.handler(invocation, operation.params.model_validate(params))

    def asking(self, principal: Principal) -> asyncio.Task[Decision | None]:
        turn = make_turn(principal=principal, taint={"x"}, sink=self.host.events.publish)
        call = make_call("mail", SENDS, {"to": "a"})
        ask = self.plugin.before_tool_call(turn, call).ask_for
        assert ask is not None
        return asyncio.create_task(self.plugin.resolve_ask(turn, call, ask))


async def _open(**settings: Any) -> AsyncIterator[Gate]:
    host, plugin = make_host(), Plugin(PolicySettings(**settings))
    async with plugin.lifespan(host):
        yield Gate(host, plugin)


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async for item in _open():
        yield item


@pytest.fixture
async def patient() -> AsyncIterator[Gate]:
    async for item in _open(approvals={"unattended": "wait"}):
        yield item


async def first_approval(gate: Gate, principal: Principal = OWNER) -> dict[str, Any]:
    for _ in range(100):
        listed = await gate.do("approvals.list", principal=principal)
        if listed.approvals:
            return dict(listed.approvals[0])
        await asyncio.sleep(0)
    raise AssertionError("nothing was asked")


async def test_question_is_listed_and_resolved_by_operation(gate: Gate) -> None:
    asked = gate.asking(OWNER)
    shown = await first_approval(gate)
    params = {"id": shown["id"], "decision": "allow-once", "digest": shown["digest"]}
    resolved = await gate.do("approvals.resolve", **params)
    assert (resolved.tool, resolved.decision) == ("mail", "allow-once")
    decision = await asked
    assert decision is not None
    assert decision.allowed
    with pytest.raises(TurnError):
        await gate.do("approvals.resolve", **params)


async def test_approvals_need_the_scope_to_approve(gate: Gate) -> None:
    assert gate.operations["approvals.list"].scope == "approve"
    assert gate.operations["approvals.resolve"].scope == "approve"


async def test_turn_of_somebody_who_may_not_approve_is_denied_while_nobody_listens(
    gate: Gate,
) -> None:
    decision = await gate.asking(STRANGER)
    assert decision is not None
    assert not decision.allowed
    assert "connected" in decision.reason


async def test_listener_with_the_scope_on_the_bus_is_somebody_who_may_answer(gate: Gate) -> None:
    deaf = replace(OWNER, scopes=frozenset({"read", "operate"}))
    with gate.host.events.subscribe(principal=deaf):
        unheard = await gate.asking(STRANGER)
        assert unheard is not None
        assert not unheard.allowed
    with gate.host.events.subscribe(principal=OWNER) as heard:
        asked = gate.asking(STRANGER)
        async for event in heard:
            assert event.type == "approval"
            params = {"id": event.data["id"], "decision": "allow-once"}
            await gate.do("approvals.resolve", **params)
            break
        decision = await asked
    assert decision is not None
    assert decision.allowed


async def test_operator_may_have_it_wait_for_somebody_who_comes_and_looks(patient: Gate) -> None:
    asked = patient.asking(STRANGER)
    shown = await first_approval(patient)
    await patient.do("approvals.resolve", id=shown["id"], decision="deny")
    decision = await asked
    assert decision is not None
    assert not decision.allowed


async def test_table_is_shown_for_the_set_profile_and_for_any_other(gate: Gate) -> None:
    table = await gate.do("policy.table")
    assert table.profile == "balanced"
    assert {
        "flag": "sends_externally",
        "value": "unknown",
        "provenance": "inter_session",
        "tainted": False,
        "effect": "ask",
        "rule": "send-between-sessions",
    } in table.model_dump()["rows"]
    open_table = await gate.do("policy.table", profile="open")
    assert {row.effect for row in open_table.rows} == {"allow"}


async def test_override_that_names_no_tool_is_warned_of_once() -> None:
    async for gate in _open(deny=["shel"], allow=["clock"], pin_tools="off"):
        clock = Tool(name="clock", description="", schema={"type": "object"}, owner="client")
        gate.host.tools.apply("x", [clock])
        with structlog.testing.capture_logs() as logs:
            gate.host.log = structlog.get_logger()
            for _ in range(3):
                verdict = gate.plugin.before_tool_call(make_turn(), make_call("clock"))
                assert verdict.effect is Effect.ALLOW
                gate.host.tools.apply("x", [replace(clock, name="other")])
        assert [(log["log_level"], log["glob"]) for log in logs] == [("warning", "shel")]
        assert "`[plugin.policy] deny`" in logs[0]["event"]


async def test_open_lets_undeclared_tools_run_from_anywhere() -> None:
    async for gate in _open(profile="open"):
        turn = make_turn(provenance=Provenance.INTER_SESSION, taint={"x"})
        assert gate.plugin.before_tool_call(turn, make_call("any")).effect is Effect.ALLOW


async def test_nobody_is_asked_before_the_gateway_is_up() -> None:
    plugin = Plugin(PolicySettings())
    ask: Ask | None = plugin.before_tool_call(make_turn(taint={"x"}), make_call("m")).ask_for
    assert ask is not None
    assert await plugin.resolve_ask(make_turn(), make_call("m"), ask) is None
