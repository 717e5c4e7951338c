"""`[log] requests`: a line for each request, and nothing in it of what was said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tests.core.gateway.test_chat import turn_frames
from tests.support.wire import serving

from hookgate.core.gateway.operations import Empty, Invocation, Operation
from hookgate.hookspecs import hookimpl

SAID = "words of a person"
ON = {"level": "info", "format": "json", "requests": True}


class Faulty:
    name = "faulty"

    @hookimpl
    def list_operations(self, host: Any) -> Sequence[Operation[Any, Any]]:
        async def fails(invocation: Invocation, params: Empty) -> Empty:
            raise KeyboardInterrupt

        return [
            Operation(name="bad.one", summary="", handler=fails, params=Empty, result=Empty,
                      scope="read")
        ]  # fmt: skip


def lines_of(capfd: pytest.CaptureFixture[str]) -> tuple[str, list[dict[str, Any]]]:
    text = capfd.readouterr().err
    told = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return text, [line for line in told if line["event"] == "request"]


async def test_each_http_request_has_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    async with serving(log=ON) as served:
        await served.get("/health")
        await served.get(f"/v1/sessions/history?session={SAID.replace(' ', '+')}")
        await served.get("/nothing/there")
        await served.post("/v1/turns", {"content": SAID})
        await served.post("/v1/operations/ping", {"wrong": SAID})
    text, lines = lines_of(capfd)
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/health", 200),
        ("GET", "/v1/sessions/history", 400),
        ("GET", "/nothing/there", 404),
        ("POST", "/v1/turns", 200),
        ("POST", "/v1/operations/ping", 400),
    ]
    assert [line["principal"] for line in lines] == ["", "loopback", "", "loopback", "loopback"]
    assert all(line["ms"] >= 0 for line in lines)
    assert SAID not in text
    assert "words+of" not in text


async def test_each_frame_of_a_socket_has_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    async with serving(Faulty(), log=ON) as served, served.socket() as socket:
        await socket.call("ping")
        await turn_frames(socket, await socket.send("chat.send", content=SAID))
        await socket.call("session.list", limit=SAID)
        await socket.call("no.such")
        assert (await socket.call("bad.one"))["error"]["code"] == -32603
        await socket.raw.send_str("{")
        await socket.next()
        assert await socket.result("ping") == {"pong": True}
    text, lines = lines_of(capfd)
    frames = [line for line in lines if line["face"] == "ws"]
    # A request that streams has its line when it is over, behind its `done`.
    assert sorted((line["method"], line["status"]) for line in frames) == [
        ("", "parse_error"),
        ("bad.one", "internal"),
        ("chat.send", "ok"),
        ("no.such", "method_not_found"),
        ("ping", "ok"),
        ("ping", "ok"),
        ("session.list", "invalid_params"),
    ]
    assert {line["principal"] for line in frames} == {"loopback"}
    (upgrade,) = [line for line in lines if line["face"] == "http"]
    assert (upgrade["path"], upgrade["status"]) == ("/ws", 101)
    assert SAID not in text


async def test_without_the_setting_there_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    async with serving(log={**ON, "requests": False}) as served, served.socket() as socket:
        await socket.call("ping")
        await served.get("/health")
    assert lines_of(capfd)[1] == []
