"""A call that policy forbids is denied on whatever path the message came that led to it.

A new way in is a new line in `PATHS`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.core.gateway.test_chat import turn_frames
from tests.support.script import Script, Scripted, call, echo_tool, say, settings, until
from tests.support.wire import Served

from hookgate import Gateway
from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.models import ModelRequest
from hookgate.core.domain.tools import Tool, ToolCall, Verdict
from hookgate.core.domain.turn import Address, Origin, Principal, Turn, TurnRequest
from hookgate.core.gateway.operations import Invocation, Operation, OperationModel
from hookgate.core.gateway.serve import listen
from hookgate.hookspecs import hookimpl

ARGUMENTS = {"text": "wipe it all \u202e"}
OWNER = Principal.owner("ops")
CLIENT_TOOL = {"name": "forbidden_there", "description": "", "schema": {"type": "object"}}


class Said(OperationModel):
    """What a plugin's own operation is given and returns."""

    content: str


class Forbidden:
    """Brings the forbidden tool, ways of a plugin's own to it, and sees what is judged."""

    name = "forbidden_tools"

    def __init__(self) -> None:
        self.ran: list[Mapping[str, Any]] = []
        self.judged: list[tuple[str, Mapping[str, Any], str]] = []
        self.gate: Gateway | None = None

    @hookimpl
    def list_tools(self, host: Any) -> Sequence[Tool]:
        async def forbidden(turn: Turn, arguments: Mapping[str, Any]) -> str:
            self.ran.append(arguments)
            return "done"

        async def nest(turn: Turn, arguments: Mapping[str, Any]) -> str:
            child = await host.nested_turn(turn, str(arguments["text"]), tool="nest")
            return str(child.answer)

        async def within(turn: Turn, arguments: Mapping[str, Any]) -> str:
            return (await turn.call("forbidden", ARGUMENTS)).result.text

        runs = {"forbidden": forbidden, "nest": nest, "within": within}
        return [echo_tool(name, run=run) for name, run in runs.items()]

    @hookimpl
    def list_operations(self, host: Any) -> Sequence[Operation[Any, Any]]:
        async def come_in(invocation: Invocation, params: Said) -> Said:
            assert self.gate is not None
            turn = await self.gate.host.start_turn(
                invocation.principal,
                Origin(provenance=Provenance.CHANNEL, path="hook", channel="mail"),
                TurnRequest(content=params.content, address=Address(channel="mail")),
            ).wait()
            return Said(content=turn.answer)

        return [
            Operation(
                name="mail.take",
                summary="Take a message that came by another way.",
                params=Said,
                result=Said,
                handler=come_in,
                scope="chat",
                rest=("POST", "/v1/mail"),
            )
        ]

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        self.judged.append((call.name, call.arguments, turn.origin.path))
        return None


def step(request: ModelRequest) -> Any:
    """Call what the message names; say so once there is a result."""
    last = request.messages[-1]
    if last.tool_results:
        return say("it was " + ", ".join(part.content.split(":")[0] for part in last.tool_results))
    first, _, rest = last.text.partition(" ")
    arguments = {"text": rest} if first == "nest" else ARGUMENTS
    return call((f"call_{len(request.messages)}", first, arguments))


@dataclass
class Way:
    """A gateway that listens, with the plugin in it."""

    served: Served
    plugin: Forbidden

    @property
    def gate(self) -> Gateway:
        return self.served.gate


@pytest.fixture
async def way(tmp_path: Path) -> AsyncIterator[Way]:
    plugin = Forbidden()
    config = settings(tmp_path, gateway={"port": 0}, plugin={"policy": {"deny": ["forbidden*"]}})
    plugins = [Scripted(Script(step)), plugin]
    names = [name for name in BUILTIN if name in ("control", "storage", "audit", "policy")]
    async with (
        Gateway(config, builtin=names, plugins=plugins) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        plugin.gate = gate
        yield Way(Served(gate, listener, http), plugin)


async def by_socket(way: Way, **params: Any) -> None:
    async with way.served.socket() as socket:
        number = await socket.send("chat.send", **{"content": "forbidden", **params})
        await turn_frames(socket, number)


async def by_socket_for_the_client(way: Way) -> None:
    await by_socket(way, content="forbidden_there", client_tools=[CLIENT_TOOL])


async def by_post(way: Way) -> None:
    status, answer = await way.served.post("/v1/turns", {"content": "forbidden"})
    assert status == 200, answer


async def by_event_stream(way: Way) -> None:
    url, accept = f"{way.served.url}/v1/turns", {"Accept": "text/event-stream"}
    async with way.served.http.post(url, json={"content": "forbidden"}, headers=accept) as answer:
        assert "event: done" in await answer.text()


async def by_named_operation(way: Way) -> None:
    body = {"content": "forbidden"}
    status, answer = await way.served.post("/v1/operations/chat.send", body)
    assert status == 200, answer


async def by_a_plugins_operation(way: Way) -> None:
    status, answer = await way.served.post("/v1/mail", {"content": "forbidden"})
    assert status == 200, answer


async def by_a_plugins_method(way: Way) -> None:
    async with way.served.socket() as socket:
        await socket.result("mail.take", content="forbidden")


async def by_socket_without_a_model(way: Way) -> None:
    async with way.served.socket() as socket:
        called = await socket.result("tool.call", name="forbidden", arguments=ARGUMENTS)
    assert (called["status"], called["decision"]["effect"]) == ("denied", "deny")


async def by_post_without_a_model(way: Way) -> None:
    body = {"name": "forbidden", "arguments": ARGUMENTS}
    status, called = await way.served.post("/v1/tools/call", body)
    assert (status, called["status"], called["decision"]["effect"]) == (200, "denied", "deny")


async def by_a_plugins_call(way: Way) -> None:
    origin = Origin(provenance=Provenance.SCHEDULED, path="schedule")
    made = await way.gate.host.call_tool(OWNER, origin, Address(), "forbidden", ARGUMENTS)
    assert made.result.status == "denied"


async def embedded(way: Way) -> None:
    await way.gate.chat("forbidden")


async def nested(way: Way) -> None:
    await way.gate.chat("nest forbidden")


async def within_another_tool(way: Way) -> None:
    await way.gate.chat("within")


async def nested_twice(way: Way) -> None:
    await way.gate.chat("nest nest forbidden")


def from_within(provenance: Provenance) -> Callable[[Way], Awaitable[None]]:
    async def come(way: Way) -> None:
        origin = Origin(provenance=provenance, path="within")
        await way.gate.host.start_turn(OWNER, origin, TurnRequest(content="forbidden")).wait()

    return come


PATHS: dict[str, Callable[[Way], Awaitable[None]]] = {
    "WebSocket": by_socket,
    "WebSocket, a tool that the client runs": by_socket_for_the_client,
    "HTTP, one answer": by_post,
    "HTTP, server-sent events": by_event_stream,
    "HTTP, operation by name": by_named_operation,
    "HTTP, a plugin's own route": by_a_plugins_operation,
    "WebSocket, a plugin's own method": by_a_plugins_method,
    "WebSocket, a tool without a model": by_socket_without_a_model,
    "HTTP, a tool without a model": by_post_without_a_model,
    "a plugin's call without a model": by_a_plugins_call,
    "embedded": embedded,
    "nested": nested,
    "nested twice": nested_twice,
    "within another tool": within_another_tool,
    **{f"from within, {kind.value}": from_within(kind) for kind in Provenance},
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_forbidden_call_is_judged_and_denied_on_every_path(path: str, way: Way) -> None:
    await PATHS[path](way)

    await until(lambda: any(name.startswith("forbidden") for name, _, _ in way.plugin.judged))
    judged = [row for row in way.plugin.judged if row[0].startswith("forbidden")]
    assert [arguments for _, arguments, _ in judged] == [ARGUMENTS]
    async with way.served.http.get(f"{way.served.url}/v1/audit") as answer:
        rows = [
            row
            for row in (await answer.json())["entries"]
            if row["tool"].startswith("forbidden") and row["kind"] == "tool_decided"
        ]
    assert [(row["outcome"], row["data"]["rule"]) for row in rows] == [("deny", "deny:forbidden*")]
    assert rows[0]["data"]["path"] == judged[0][2] != ""
    assert way.plugin.ran == []


async def test_without_the_prohibition_the_same_call_runs(tmp_path: Path) -> None:
    plugin = Forbidden()
    config = settings(tmp_path, plugin={"policy": {"profile": "open"}})
    plugins = [Scripted(Script(step)), plugin]
    async with Gateway(
        config, builtin=("control", "storage", "audit", "policy"), plugins=plugins
    ) as gate:
        await gate.chat("forbidden")
    assert plugin.ran == [ARGUMENTS]


async def test_without_the_prohibition_the_same_call_runs_without_a_model(tmp_path: Path) -> None:
    plugin = Forbidden()
    body = {"name": "forbidden", "arguments": ARGUMENTS}
    config = settings(tmp_path, gateway={"port": 0}, plugin={"policy": {"profile": "open"}})
    plugins = [Scripted(Script(step)), plugin]
    names = ("control", "storage", "audit", "policy")
    async with (
        Gateway(config, builtin=names, plugins=plugins) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        status, called = await Served(gate, listener, http).post("/v1/tools/call", body)
    assert (status, called["status"], called["content"]) == (200, "done", "done")
    assert called["decision"]["effect"] == "allow"
    assert plugin.ran == [ARGUMENTS]
