"""A client brings tools to a gateway as it is installed, and they are called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.core.gateway.test_chat import turn_frames
from tests.support.script import Script, Scripted, Step, Tools, call, echo_tool, say, settings
from tests.support.wire import Served

from hookgate import Address, Gateway, Origin, Principal, Provenance, Tool, Turn, TurnRequest
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.turn import Claim
from hookgate.core.gateway.serve import listen

NAMES = [name for name in BUILTIN if name in ("control", "storage", "audit", "policy")]
LOOK = {"name": "look", "schema": {"type": "object"}}
TOOL = Tool(name="look", description="", schema={"type": "object"}, owner="client")
ANYBODY = Principal(id="anybody", scopes=frozenset({"chat"}), bindings=(Claim(),))
USES = (("c1", "look", {"at": "it"}),)


@asynccontextmanager
async def plain(home: Path, *steps: Step, **sections: Any) -> AsyncIterator[Served]:
    config = settings(home, gateway={"port": 0}, **sections)
    tools = Tools(echo_tool("mine"))
    async with (
        Gateway(config, builtin=NAMES, plugins=[Scripted(Script(*steps)), tools]) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http)


async def asked(served: Served, **more: Any) -> Mapping[str, Any]:
    body = {"content": "go", "client_tools": [LOOK], **more}
    status, answer = await served.post("/v1/turns", body)
    assert status == 200
    return answer


async def test_a_clients_first_call_reaches_it_and_its_result_comes_back(tmp_path: Path) -> None:
    async with plain(tmp_path, call(*USES), say("seen")) as served:
        first = await asked(served)
        assert first["ending"] == "awaiting_client"
        (one,) = first["tool_calls"]
        assert (one["name"], one["input"], one["owner"]) == ("look", {"at": "it"}, "client")
        results = [{"tool_use_id": one["id"], "content": "it is red"}]
        second = await asked(served, content="", tool_results=results)
        assert (second["ending"], second["text"]) == ("done", "seen")


async def test_the_ended_turn_says_what_waits_for_its_client(tmp_path: Path) -> None:
    pending = [{"id": "c1", "name": "look", "input": {"at": "it"}}]
    async with plain(tmp_path, call(*USES)) as served:
        async with served.socket() as socket:
            number = await socket.send("chat.send", content="go", client_tools=[LOOK])
            frames = await turn_frames(socket, number)
            assert frames[-1]["params"]["pending"] == pending
        turn = await within(served, Provenance.EXTERNAL_USER, peer="other")
        assert [(use.id, use.name, use.input) for use in turn.pending] == [
            ("c1", "look", {"at": "it"})
        ]


async def within(served: Served, came: Provenance, **address: str) -> Turn:
    request = TurnRequest(content="go", client_tools=(TOOL,), address=Address(**address))
    origin = Origin(provenance=came, path="test")
    return await served.gate.host.start_turn(ANYBODY, origin, request).wait()


async def test_after_foreign_text_it_is_asked_about_and_nobody_answers(tmp_path: Path) -> None:
    async with plain(tmp_path, call(*USES), say("no")) as served:
        request = TurnRequest(content="go", client_tools=(TOOL,), taint=frozenset({"mail:eve"}))
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="test")
        turn = await served.gate.host.start_turn(ANYBODY, origin, request).wait()
    assert (turn.ending, turn.calls[0].result.status) == ("done", "denied")
    assert turn.calls[0].decision.verdicts[0].rule == "send-after-foreign-text"


@pytest.mark.parametrize("came", [Provenance.SCHEDULED, Provenance.INTER_SESSION])
async def test_where_no_persons_message_led_to_it_it_is_asked_about(
    came: Provenance, tmp_path: Path
) -> None:
    async with plain(tmp_path, call(*USES), say("no")) as served:
        turn = await within(served, came)
    assert turn.calls[0].result.status == "denied"


RULES = """
version: 1
rules:
  - name: none-of-clients
    match: {owner: client}
    effect: deny
    reason: we run our own
"""


async def test_a_rule_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(RULES)
    rules = {"policy": {"rules": [str(tmp_path / "rules.yaml")]}}
    async with plain(tmp_path, call(*USES), say("ok"), plugin=rules) as served:
        turn = await within(served, Provenance.EXTERNAL_USER)
        (row,) = [
            row
            for row in (await served.get("/v1/audit"))[1]["entries"]
            if row["kind"] == "tool_decided"
        ]
    assert turn.calls[0].result.text == "denied: look is not run: we run our own"
    assert (row["outcome"], row["data"]["rule"]) == ("deny", "rule:none-of-clients")


def answer_calls(answer: Mapping[str, Any]) -> Sequence[str]:
    return [str(one.get("content")) for one in answer["tool_calls"]]


async def test_a_call_of_a_tool_that_the_request_does_not_list_reaches_its_client(
    tmp_path: Path,
) -> None:
    async with plain(tmp_path, call(("c1", "look_closer", {"at": "it"}))) as served:
        answer = await asked(served)
        assert answer["ending"] == "awaiting_client"
        (one,) = answer["tool_calls"]
        assert (one["name"], one["owner"]) == ("look_closer", "client")
        status, audit = await served.get("/v1/audit")
        assert status == 200
        assert [row["outcome"] for row in audit["entries"] if row["tool"] == "look_closer"] == [
            "allow"
        ]


@pytest.mark.parametrize("name", ["Mine", "MINE", "no name at all", "x" * 65])
async def test_what_is_the_gateways_or_no_name_does_not_reach_the_client(
    name: str, tmp_path: Path
) -> None:
    async with plain(tmp_path, call(("c1", name, {"text": "x"})), say("ok")) as served:
        answer = await asked(served)
    assert answer["ending"] == "done"
    assert "unknown tool" in answer_calls(answer)[0]


async def test_without_tools_of_the_client_an_unknown_tool_is_unknown(tmp_path: Path) -> None:
    async with plain(tmp_path, call(*USES), say("ok")) as served:
        answer = await asked(served, client_tools=[])
    assert answer["ending"] == "done"


async def test_a_client_that_says_that_its_tool_acts_with_raised_rights_is_asked(
    tmp_path: Path,
) -> None:
    tools = [{**LOOK, "flags": {"executes_privileged": True}}]
    brief = {"policy": {"approvals": {"timeout_seconds": 0.1}}}
    async with plain(tmp_path, call(*USES), say("ok"), plugin=brief) as served:
        answer = await asked(served, client_tools=tools)
        audit = (await served.get("/v1/audit"))[1]["entries"]
    (row,) = [row for row in audit if row["kind"] == "tool_decided"]
    assert (row["outcome"], row["data"]["answer"]) == ("deny", "expired")
    assert [verdict["rule"] for verdict in row["data"]["verdicts"]] == ["privileged"]
    assert answer["ending"] == "done"
