"""The plugin behind a real socket: clients of Ollama, and providers of that wire and of others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.test_utils import TestServer

from hookgate import (
    CONVERSATIONS,
    Frame,
    Gateway,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    SessionKey,
    Settings,
    StopEvent,
    TextDelta,
    ToolCall,
    ToolUseEvent,
    Turn,
    Verdict,
    hookimpl,
)
from hookgate.wire import Raw, came_as

BASH = {"type": "function", "function": {"name": "Bash", "later": 1}}


def line(message: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "message": message, "done": False, **more}


def came(event: Any, data: Any) -> Any:
    return came_as(event, Raw(wire="ollama-chat", data=data))


class Model:
    """A provider that speaks the wire of its clients, or another one."""

    name = "local"

    def __init__(self, *answers: Sequence[ModelEvent], wire: str = "ollama-chat") -> None:
        self.answers, self.wire = list(answers), wire
        self.requests: list[ModelRequest] = []

    def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(name="*")]

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        for event in self.answers.pop(0):
            yield event


class Around:
    """Brings the model, and judges calls: what removes is denied."""

    name = "around"

    def __init__(self, model: Model) -> None:
        self.model = model

    @hookimpl
    def list_providers(self) -> Sequence[Model]:
        return [self.model]

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        is_harmful = "rm" in str(call.arguments)
        return Verdict.deny("nothing is removed") if is_harmful else Verdict.allow()


@asynccontextmanager
async def served(home: Path, model: Model) -> AsyncIterator[tuple[Gateway, Any]]:
    config = Settings.model_validate(
        {"home": home, "agents": {"main": {"model": "local/m"}}, "default_agent": "main"}
    )
    gateway = Gateway(config, builtin=("egress",), plugins=[Around(model)])
    async with gateway, TestServer(gateway.app(), host="127.0.0.1") as server:

        async def ask(**body: Any) -> tuple[int, list[Any]]:
            body.setdefault("model", "local/m")
            body.setdefault("messages", [{"role": "user", "content": "hi"}])
            async with (
                aiohttp.ClientSession() as http,
                http.post(server.make_url("/api/chat"), json=body) as answer,
            ):
                text = await answer.text()
                return answer.status, [json.loads(one) for one in text.splitlines()]

        yield gateway, ask


async def test_on_its_own_wire_all_goes_through_as_it_is(tmp_path: Path) -> None:
    first = line({"role": "assistant", "content": "hello"}, later=1)
    call = line({"role": "assistant", "tool_calls": [{"id": "c", "later": 2}]})
    last = line({"content": ""}, done=True, done_reason="stop", total_duration=5)
    model = Model(
        [
            Frame(Raw(wire="ollama-chat", data={"later": 0})),
            came(TextDelta("hello"), first),
            came(ToolUseEvent(id="c", name="Bash", input={"command": "ls"}), [call]),
            came(StopEvent("tool_use"), [last]),
        ]
    )
    body = {"tools": [BASH], "think": "later", "options": {"mirostat": 2}}
    async with served(tmp_path, model) as (gateway, ask):
        status, lines = await ask(**body)
        kept = await gateway.host[CONVERSATIONS].history(
            SessionKey("main", "cli", "local", "main"), turns=1
        )

    assert (status, lines) == (200, [{"later": 0}, first, call, last])
    (request,) = model.requests
    assert request.raw is not None
    assert request.raw.data["think"] == "later"
    assert request.tools[0].raw == Raw(wire="ollama-chat", data=BASH)
    assert list(kept) == []


async def test_on_another_wire_the_answer_is_made_and_what_is_lost_is_named(tmp_path: Path) -> None:
    model = Model([TextDelta("he"), TextDelta("llo"), StopEvent("end")], wire="another")
    async with served(tmp_path, model) as (_, ask):
        refused = await ask(think="later")
        status, lines = await ask(options={"temperature": 0.5}, stream=False)

    assert refused[0] == 400
    assert "think" in refused[1][0]["error"]
    assert (status, lines[0]["message"]["content"], lines[0]["done"]) == (200, "hello", True)
    assert model.requests[0].temperature == 0.5


async def test_a_denied_call_never_reaches_the_client(tmp_path: Path) -> None:
    model = Model(
        [
            came(ToolUseEvent(id="c", name="Bash", input={"command": "rm -r /"}), [line("bad")]),
            came(StopEvent("tool_use"), [line("bad end")]),
        ],
        [came(TextDelta("then not"), line("fine")), came(StopEvent("end"), [line("end")])],
    )
    async with served(tmp_path, model) as (_, ask):
        _, lines = await ask(tools=[BASH])

    assert [one["message"] for one in lines] == ["fine", "end"]
    (denied,) = model.requests[1].messages[-1].tool_results
    assert "nothing is removed" in denied.text


async def test_what_is_no_request_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, Model()) as (_, ask):
        for wrong in ({"messages": "x"}, {"messages": [1]}, {"model": 5}, {"model": "no-slash"}):
            status, lines = await ask(**wrong)
            assert status == 400
            assert "error" in lines[0]
