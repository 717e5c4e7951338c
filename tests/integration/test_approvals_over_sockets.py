"""A question that one socket's turn waits with is answered on another socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hookgate.core.gateway.serve import listen
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway

ASKS = '/call read_file {"path": "page.txt"}\n/then\n/call http_get {"url": "URL"}'


class Socket:
    """A JSON-RPC client over one WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._last = 0

    async def send(self, method: str, **params: Any) -> int:
        self._last += 1
        frame = {"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}
        await self._socket.send_str(json.dumps(frame))
        return self._last

    async def until(self, method: str) -> dict[str, Any]:
        """Return the parameters of the next notification called `method`."""
        while True:
            frame = await self._frame()
            if frame.get("method") == method:
                found: dict[str, Any] = frame["params"]
                return found

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and return its whole response."""
        return await self.answer(await self.send(method, **params))

    async def answer(self, number: int) -> dict[str, Any]:
        """Return the whole response to a request."""
        while True:
            frame = await self._frame()
            if frame.get("id") == number:
                return frame

    async def _frame(self) -> dict[str, Any]:
        message = await self._socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        frame: dict[str, Any] = json.loads(message.data)
        return frame


@asynccontextmanager
async def two_sockets(home: Path) -> AsyncIterator[tuple[Socket, Socket, str]]:
    (home / "files").mkdir(parents=True)
    (home / "files" / "page.txt").write_text("somebody else's words")
    config: dict[str, Any] = {
        "home": home,
        "gateway": {"port": 0},
        "plugins": {"entry_points": False},
        "plugin": {"tools": {"read_roots": [str(home / "files")],
                             "http_get": ["http://127.0.0.1/*"]}},
    }  # fmt: skip
    gate = Gateway(Settings.model_validate(config))
    async with gate, listen(gate) as listener, aiohttp.ClientSession() as session:
        url = f"{listener.url}/ws"
        async with session.ws_connect(url) as one, session.ws_connect(url) as two:
            yield Socket(one), Socket(two), listener.url


@pytest.mark.parametrize("decision", ["allow-once", pytest.param("deny", marks=pytest.mark.slow)])
async def test_a_question_is_answered_on_another_socket_while_the_lane_is_held(
    decision: str, tmp_path: Path
) -> None:
    async with two_sockets(tmp_path) as (asking, answering, _):
        await asking.send("chat.send", content=ASKS.replace("URL", "http://127.0.0.1/x"))
        question = await asking.until("approval")
        pong = await asking.call("ping")
        listed = await answering.call("approval.list")
        assert [row["id"] for row in listed["result"]["approvals"]] == [question["id"]]
        resolved = await answering.call("approval.resolve", id=question["id"], decision=decision)
        again = await answering.call("approval.resolve", id=question["id"], decision="allow-once")
        results = [await asking.until("tool_result")]
        done = await asking.until("done")
    assert "result" in pong
    assert "result" in resolved
    assert "error" in again
    # Nothing answers at port 80 here: what is allowed is tried and fails, what is denied is not.
    assert ("denied" in results[-1]["content"]) == (decision == "deny")
    assert done["ending"] == "done"


@pytest.mark.parametrize("decision", ["allow-once", "deny"])
async def test_what_a_client_has_read_by_one_call_it_sends_by_the_next_with_a_persons_word_alone(
    decision: str, tmp_path: Path
) -> None:
    sends = {"name": "http_get", "arguments": {"url": "http://127.0.0.1/x"}}
    async with two_sockets(tmp_path) as (asking, answering, _):
        read = await asking.call("tool.call", name="read_file", arguments={"path": "page.txt"})
        number = await asking.send("tool.call", **sends)
        question = await asking.until("approval")
        await answering.call("approval.resolve", id=question["id"], decision=decision)
        made = (await asking.answer(number))["result"]
    assert read["result"]["content"] == "somebody else's words"
    assert read["result"]["taint"] == ["tool:read_file"]
    assert made["decision"]["effect"] == ("allow" if decision == "allow-once" else "deny")
    assert made["status"] == ("failed" if decision == "allow-once" else "denied")
