"""Answers over real sockets: one of many counts, and what is not answered never runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.script import Script, Scripted, Tools, call, echo_tool, say, settings, until
from tests.support.wire import Served, bearer, tokens

from hookgate import Gateway
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Origin, Principal, Turn, TurnRequest
from hookgate.core.gateway.operations import Invocation
from hookgate.core.gateway.serve import listen

SENDS = replace(Flags.none(), sends_externally=True)
EVERYBODY = {"scopes": ["chat", "approve", "operate", "read"]}


def step(request: ModelRequest) -> Any:
    """Send what the message says; say so once there is a result."""
    last = request.messages[-1]
    if last.tool_results:
        return say(last.tool_results[0].content.partition(":")[0])
    tool, text = "send", last.text
    if text.startswith("nest: "):
        tool, text = "nest", text.removeprefix("nest: ")
    return call((f"call_{len(request.messages)}", tool, {"text": text}))


@dataclass
class Sending:
    """A gateway that listens, with a tool that people are asked about."""

    served: Served
    ran: list[str]

    async def question(self) -> dict[str, Any]:
        """Return the only question that waits."""
        rows: list[dict[str, Any]] = []
        while not rows:
            _, answer = await self.served.get("/v1/approvals")
            rows = answer["approvals"]
        return rows[0]

    async def answered(self, **answer: Any) -> tuple[int, Any]:
        return await self.served.post("/v1/approvals/resolve", answer)


@asynccontextmanager
async def sending(
    home: Path, *, wire: Mapping[str, Any] | None = None, **policy: Any
) -> AsyncIterator[Sending]:
    ran: list[str] = []

    async def send(turn: Turn, arguments: Mapping[str, Any]) -> str:
        ran.append(str(arguments["text"]))
        return "sent"

    async def nest(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return (await gate.host.nested_turn(turn, str(arguments["text"]))).answer

    tools: list[Tool] = [
        echo_tool("send", run=send, flags=SENDS),
        echo_tool("nest", run=nest, flags=Flags.none()),
    ]
    config = settings(
        home,
        gateway={"port": 0, **(wire or {})},
        plugin={"policy": {"profile": "strict", **policy}},
    )
    plugins = [Scripted(Script(step)), Tools(*tools)]
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        Gateway(config, builtin=("control", "storage", "audit", "policy"), plugins=plugins) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession(connector=connector) as http,
    ):
        yield Sending(Served(gate, listener, http), ran)


async def test_of_fifty_racing_answers_by_every_face_one_counts_and_the_call_runs_once(
    tmp_path: Path,
) -> None:
    async with sending(tmp_path) as place, place.served.socket() as asking:
        await asking.send("chat.send", content="hello")
        shown = await asking.until("approval")
        answer = {"id": shown["id"], "digest": shown["digest"], "decision": "allow-once"}

        async def by_socket() -> bool:
            async with place.served.socket() as socket:
                return "result" in await socket.call("approval.resolve", **answer)

        async def by_http() -> bool:
            return (await place.answered(**answer))[0] == 200

        async def by_name() -> bool:
            path = "/v1/operations/approval.resolve"
            return (await place.served.post(path, answer))[0] == 200

        ways = [by_socket] * 10 + [by_http] * 20 + [by_name] * 20
        won = await asyncio.gather(*(way() for way in ways))
        done = await asking.until("done")
        _, rows = await place.served.get("/v1/audit?tool=send&kind=tool_decided")
    assert won.count(True) == 1
    assert done["ending"] == "done"
    assert place.ran == ["hello"]
    assert [row["outcome"] for row in rows["entries"]] == ["allow"]


async def test_an_answer_to_another_call_runs_nothing(tmp_path: Path) -> None:
    async with sending(tmp_path) as place, place.served.socket() as asking:
        await asking.send("chat.send", content="one")
        shown = await asking.until("approval")
        status, refused = await place.answered(
            id=shown["id"], decision="allow-once", digest="0" * 64
        )
        assert (status, refused["error"]["data"]["code"]) == (400, "invalid_params")
        assert place.ran == []
        assert (await place.answered(id=shown["id"], decision="deny"))[0] == 200
        assert (await asking.until("tool_result"))["status"] == "denied"
    assert place.ran == []


async def test_when_the_client_of_the_turn_goes_away_its_question_goes_with_it(
    tmp_path: Path,
) -> None:
    async with sending(tmp_path) as place:
        async with place.served.socket() as asking:
            await asking.send("chat.send", content="hello")
            shown = await asking.until("approval")
        gate = place.served.gate
        await until(lambda: not gate.host.running())
        status, answer = await place.answered(id=shown["id"], decision="allow-once")
        assert (status, answer["error"]["data"]["code"]) == (404, "not_found")
        assert place.ran == []


async def test_a_question_does_not_outlive_the_gateway(tmp_path: Path) -> None:
    async with sending(tmp_path) as place:
        chat = asyncio.create_task(place.served.post("/v1/turns", {"content": "hello"}))
        shown = await place.question()
    await asyncio.gather(chat, return_exceptions=True)
    assert place.ran == []
    async with sending(tmp_path) as place:
        assert (await place.served.get("/v1/approvals"))[1]["approvals"] == []
        status, _ = await place.answered(id=shown["id"], decision="allow-once")
        assert status == 404
        assert place.ran == []


async def chat(place: Sending, text: str, **address: str) -> Any:
    status, answer = await place.served.post("/v1/turns", {"content": text, **address})
    assert status == 200, answer
    return answer


async def test_what_is_allowed_always_holds_after_a_restart_until_it_is_revoked(
    tmp_path: Path,
) -> None:
    async with sending(tmp_path) as place:
        first = asyncio.create_task(chat(place, "hello"))
        shown = await place.question()
        status, answer = await place.answered(id=shown["id"], decision="allow-always")
        assert status == 200
        await first
        assert place.ran == ["hello"]
    grant = answer["grant"]
    async with sending(tmp_path) as place:
        await chat(place, "hello")
        assert place.ran == ["hello"]
        _, rows = await place.served.get("/v1/audit?tool=send&kind=tool_decided&limit=1")
        assert rows["entries"][0]["data"]["rule"] == f"grant:{grant}"
        for other in (chat(place, "other"), chat(place, "hello", peer="other")):
            asked = asyncio.create_task(other)
            assert (await place.answered(id=(await place.question())["id"], decision="deny"))[0]
            await asked
        assert place.ran == ["hello"]
        (row,) = (await place.served.get("/v1/approvals/grants"))[1]["grants"]
        assert (row["id"], row["state"], row["arguments"]) == (grant, "valid", '{"text":"hello"}')
        status, _ = await place.served.post("/v1/approvals/revoke", {"id": grant})
        assert status == 200
        asked = asyncio.create_task(chat(place, "hello"))
        await place.answered(id=(await place.question())["id"], decision="deny")
        await asked
        assert place.ran == ["hello"]
        kinds = [
            row["kind"]
            for row in (await place.served.get("/v1/audit"))[1]["entries"]
            if row["kind"].startswith("grant")
        ]
    assert kinds == ["grant_revoked", "grant_made"]


@pytest.mark.parametrize("decision", ["allow-once", "allow-always", "deny"])
async def test_only_those_whom_the_operator_names_answer(decision: str, tmp_path: Path) -> None:
    section, made = tokens(boss=EVERYBODY, other=EVERYBODY)
    names = {"approvers": ["token:boss"], "unattended": "wait"}
    async with sending(tmp_path, wire=section, approvals=names) as place:
        boss, other = bearer(made["boss"]), bearer(made["other"])
        post = place.served.post
        running = asyncio.create_task(post("/v1/turns", {"content": "hello"}, **other))
        rows: list[Any] = []
        while not rows:
            rows = (await place.served.get("/v1/approvals", **boss))[1]["approvals"]
        answer = {"id": rows[0]["id"], "decision": decision}
        assert (await place.served.get("/v1/approvals", **other))[1]["approvals"] == []
        status, refused = await post("/v1/approvals/resolve", answer, **other)
        assert (status, refused["error"]["data"]["code"]) == (403, "forbidden")
        assert place.ran == []
        assert (await post("/v1/approvals/resolve", answer, **boss))[0] == 200
        await running
    assert place.ran == ([] if decision == "deny" else ["hello"])


async def test_with_an_empty_list_of_approvers_nothing_waits_and_nothing_runs(
    tmp_path: Path,
) -> None:
    async with sending(tmp_path, approvals={"approvers": []}) as place:
        await chat(place, "hello")
        _, rows = await place.served.get("/v1/audit?tool=send&kind=tool_decided")
    assert place.ran == []
    assert "approvers` is empty" in rows["entries"][0]["data"]["reason"]


RULES = """
rules:
  - {name: first, match: {tool: note}, effect: %s, reason: r}
  - {name: second, match: {tool: send}, effect: ask, reason: r}
"""


def both(request: ModelRequest) -> Any:
    """Call a tool that is allowed, and one that somebody is asked about, in one message."""
    if results := request.messages[-1].tool_results:
        return say(" / ".join(part.content for part in results))
    return call(("call_1", "note", {"text": "a"}), ("call_2", "send", {"text": "b"}))


@pytest.mark.parametrize("effect", ["allow", "deny"])
async def test_rules_that_change_between_the_judging_and_the_run_count(
    effect: str, tmp_path: Path
) -> None:
    file, ran = tmp_path / "rules.yaml", []
    file.write_text(RULES % "allow")

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        ran.append(str(arguments["text"]))
        return "done"

    tools = Tools(echo_tool("note", run=run), echo_tool("send", run=run))
    config = settings(tmp_path, plugin={"policy": {"rules": [str(file)]}})
    events: list[Any] = []
    owner = Principal.owner()
    plugins = [Scripted(Script(both)), tools]
    async with Gateway(config, builtin=("control", "policy"), plugins=plugins) as gate:
        origin, request = Origin(provenance=Provenance.EXTERNAL_USER), TurnRequest(content="go")
        answer = asyncio.create_task(
            gate.host.start_turn(owner, origin, request, sink=events.append).wait()
        )
        await until(lambda: any(event.type == "approval" for event in events))
        file.write_text(RULES % effect)
        await gate.host.reload()
        if effect == "allow":  # They are as they were, so the question waits on.
            asked = next(event.data for event in events if event.type == "approval")
            resolve = gate.host.operations["approval.resolve"]
            params = resolve.params(id=asked["id"], decision="allow-once")
            await resolve.handler(Invocation(host=gate.host, principal=owner), params)
        turn = await answer
    assert ran == (["a", "b"] if effect == "allow" else [])
    if effect == "deny":
        assert "note is not run: the rules changed after it was judged" in turn.answer
        assert "changed while it was asked about" in turn.answer
