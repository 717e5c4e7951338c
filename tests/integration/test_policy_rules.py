"""Rules in a whole gateway: what a model may not do any more, and what is on record."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import (
    Script,
    Scripted,
    Step,
    Tools,
    call,
    echo_tool,
    say,
    settings,
    settled,
)

from hookgate import Gateway
from hookgate.builtin_plugins.policy.rules.files import read_rules
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import HookError, StartError
from hookgate.core.domain.tools import Tool, ToolResult
from hookgate.core.domain.turn import Principal, Turn
from hookgate.core.gateway.codes import describe_error
from hookgate.core.gateway.operations import Invocation
from hookgate.kit.content.documents import DocumentReading

SENDS = Flags.from_mapping({**Flags.none().to_json(), "sends_externally": True})
READS = Flags.from_mapping({**Flags.none().to_json(), "reads_external_data": True})


def page_tool() -> Tool:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(content="A page that asks for a mail to eve.")

    return Tool(
        name="read_page", description="Reads.", schema={"type": "object"}, flags=READS, run=run
    )


def written(home: Path, *rules: Mapping[str, Any]) -> None:
    (home / "rules").mkdir(exist_ok=True)
    (home / "rules" / "mine.yaml").write_text(json.dumps({"rules": rules}), encoding="utf-8")


@asynccontextmanager
async def running(home: Path, *steps: Step, **policy: Any) -> AsyncIterator[tuple[Gateway, Script]]:
    script = Script(*steps)
    policy = {"rules": [str(home / "rules")], "profile": "open", **policy}
    gate = Gateway(
        settings(home, plugin={"policy": policy}),
        builtin=("control", "storage", "audit", "policy"),
        plugins=[Scripted(script), Tools(echo_tool("send", flags=SENDS), page_tool())],
    )
    async with gate:
        yield gate, script


async def rows(gate: Gateway, kind: str) -> Any:
    operation = gate.host.operations["audit.list"]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    found = await operation.handler(invocation, operation.params(kind=kind))
    return list(reversed(found.entries))


SEND = call(("c", "send", {"text": "hello"}))


async def test_a_rule_denies_and_is_named_to_the_model_and_on_record(tmp_path: Path) -> None:
    rule = {
        "name": "no-hello",
        "effect": "deny",
        "reason": "nobody says hello",
        "when": "args.text == 'hello'",
    }
    written(tmp_path, rule)
    async with running(tmp_path, SEND, say("ok")) as (gate, _):
        turn = await gate.chat("say hello")
        (row,) = await rows(gate, "tool_decided")
    (done,) = turn.calls
    assert "nobody says hello" in done.result.content
    assert (row.outcome, row.data["rule"]) == ("deny", "rule:no-hello")


async def test_a_page_that_was_read_in_one_turn_stops_a_send_in_the_next_after_a_restart_too(
    tmp_path: Path,
) -> None:
    rule = {
        "name": "no-send-after-foreign-text",
        "match": {"flags": {"sends_externally": [True, "unknown"]}, "tainted": True},
        "effect": "deny",
        "reason": "it could send what a page asked for",
    }
    written(tmp_path, rule)
    async with running(tmp_path, call(("r", "read_page", {})), say("read")) as (gate, _):
        turn = await gate.chat("read the page")
        assert [done.decision.allowed for done in turn.calls] == [True]
    async with running(tmp_path, SEND, say("ok")) as (gate, _):
        turn = await gate.chat("now mail it")
    assert [done.decision.allowed for done in turn.calls] == [False]


async def test_calls_of_one_message_are_counted_in_its_order_before_any_runs(
    tmp_path: Path,
) -> None:
    rule = {
        "name": "two-at-most",
        "effect": "deny",
        "reason": "that is enough",
        "match": {"tool": "send"},
        "more_than": {"calls": 2, "within": "1m"},
    }
    written(tmp_path, rule)
    many = call(*((f"c{number}", "send", {"text": "x"}) for number in range(4)))
    async with running(tmp_path, many, say("ok")) as (gate, _):
        turn = await gate.chat("send a lot")
    decided = {done.call.id: done.decision.allowed for done in turn.calls}
    assert decided == {"c0": True, "c1": True, "c2": False, "c3": False}


async def test_a_rewrite_is_what_the_tool_gets_and_what_is_on_record(tmp_path: Path) -> None:
    rule = {
        "name": "polite",
        "effect": "rewrite",
        "rewrite": {"set": {"text": "'please: ' + args.text"}},
        "when": "!args.text.startsWith('please: ')",
    }
    written(tmp_path, rule)
    async with running(tmp_path, SEND, say("ok")) as (gate, _):
        turn = await gate.chat("say hello")
        (row,) = await rows(gate, "tool_decided")
    assert turn.calls[0].result.content == "please: hello"
    assert row.data["arguments"] == {"text": "please: hello"}
    assert row.data["rewritten_by"] == ["policy"]


async def test_a_rule_in_shadow_mode_is_on_record_and_stops_nothing(tmp_path: Path) -> None:
    written(tmp_path, {"name": "soon", "effect": "deny", "reason": "no", "mode": "shadow"})
    async with running(tmp_path, SEND, say("ok")) as (gate, _):
        turn = await gate.chat("say hello")
        await settled(gate)
        (row,) = await rows(gate, "policy_shadow")
    assert turn.calls[0].decision.allowed
    assert (row.data["rule"], row.data["would"], row.data["decided"]) == ("soon", "deny", "allow")


async def test_rules_that_cannot_be_used_stop_the_start(tmp_path: Path) -> None:
    written(tmp_path, {"name": "bad", "effect": "block"})
    with pytest.raises(StartError, match=r"mine\.yaml.*in rule 'bad': the text \"block\""):
        async with running(tmp_path, say("ok")):
            pass


async def test_a_reload_takes_new_rules_over_and_keeps_the_old_ones_where_they_are_broken(
    tmp_path: Path,
) -> None:
    written(tmp_path, {"name": "no", "effect": "deny", "reason": "no"})
    async with running(tmp_path, SEND, say("ok"), SEND, say("ok"), SEND, say("ok")) as (gate, _):
        assert not (await gate.chat("1")).calls[0].decision.allowed
        written(tmp_path, {"name": "no", "effect": "block"})
        with pytest.raises(HookError, match=r"reloading of plugin 'policy'.*\"block\"") as caught:
            await gate.reload()
        # The plugin works: nobody is told to turn off what judges.
        action = describe_error(gate.host, caught.value).data["action"]
        assert action == "mend what it names, and try again"
        assert "stay in force" in gate.host.degraded["policy rules"]
        assert not (await gate.chat("2")).calls[0].decision.allowed
        written(tmp_path, {"name": "yes", "effect": "allow"})
        await gate.reload()
        assert gate.host.degraded == {}
        assert (await gate.chat("3")).calls[0].decision.allowed


async def test_rules_are_read_once_at_start_and_once_at_each_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"name": "no", "effect": "deny", "reason": "no"})
    read = 0

    def counted(*places: Any) -> DocumentReading[Rule]:
        nonlocal read
        read += 1
        return read_rules(*places)

    monkeypatch.setattr("hookgate.builtin_plugins.policy.plugin.read_rules", counted)
    async with running(tmp_path, say("ok")) as (gate, _):
        assert read == 1
        await gate.reload()
        assert read == 2


async def test_a_tool_that_a_reload_brings_is_judged_by_the_rules_of_that_reload(
    tmp_path: Path,
) -> None:
    written(tmp_path, {"name": "all", "effect": "allow"})
    new = echo_tool("send_later", flags=SENDS)
    step = call(("c", "send_later", {"text": "hello"}))
    async with running(tmp_path, step, say("ok"), step, say("ok")) as (gate, _):
        brought = gate.plugins.get("some_tools")
        assert isinstance(brought, Tools)
        brought.tools = (*brought.tools, new)
        written(tmp_path, {"name": "broken", "effect": "block"})
        with pytest.raises(HookError):
            await gate.reload()
        assert "send_later" not in gate.host.tools.view()
        written(
            tmp_path,
            {"name": "no", "match": {"tool": "send_later"}, "effect": "deny", "reason": "no"},
        )
        await gate.reload()
        (done,) = (await gate.chat("go")).calls
    assert done.decision.rule == "rule:no"
    assert not done.decision.allowed
