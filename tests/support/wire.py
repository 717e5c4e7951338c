"""Gateways that listen on a real port, and clients that speak to them."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from tests.support.script import Script, Scripted, gateway, say

from hookgate import Gateway
from hookgate.core.gateway.access.tokens import new_token
from hookgate.core.gateway.serve import Listener, listen
from hookgate.core.gateway.server import SERVER, Server


@dataclass
class Socket:
    """A WebSocket client that keeps the notifications which it meets."""

    raw: aiohttp.ClientWebSocketResponse
    heard: list[dict[str, Any]] = field(default_factory=list)
    number: int = 0

    async def next(self) -> dict[str, Any]:
        """Return the next frame."""
        message = await self.raw.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        frame: dict[str, Any] = json.loads(message.data)
        if "method" in frame:
            self.heard.append(frame)
        return frame

    async def send(self, method: str, **params: Any) -> int:
        """Send a request and return its id."""
        self.number += 1
        frame = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        await self.raw.send_str(json.dumps(frame))
        return self.number

    async def answer(self, number: Any) -> dict[str, Any]:
        """Return the answer to a request, whatever comes in between."""
        while True:
            frame = await self.next()
            if "method" not in frame and frame["id"] == number:
                return frame

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer."""
        return await self.answer(await self.send(method, **params))

    async def result(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        answer = await self.call(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    async def until(self, method: str) -> dict[str, Any]:
        """Return the parameters of the next notification called `method`."""
        while True:
            frame = await self.next()
            if frame.get("method") == method:
                params: dict[str, Any] = frame["params"]
                return params

    async def closed(self) -> int | None:
        """Read until the socket is closed and return the close code."""
        while True:
            message = await self.raw.receive()
            if message.type is not aiohttp.WSMsgType.TEXT:
                return self.raw.close_code


@dataclass
class Served:
    """A gateway that listens."""

    gate: Gateway
    listener: Listener
    http: aiohttp.ClientSession

    @property
    def url(self) -> str:
        return self.listener.url

    @property
    def host(self) -> str:
        """What belongs into a Host header."""
        return f"127.0.0.1:{self.listener.port}"

    @property
    def server(self) -> Server:
        return self.listener.app[SERVER]

    @asynccontextmanager
    async def socket(self, *, hello: bool = True, **more: Any) -> AsyncIterator[Socket]:
        """Connect a WebSocket; `hello` is read off first."""
        async with self.http.ws_connect(f"{self.url}/ws", **more) as raw:
            client = Socket(raw)
            if hello:
                assert (await client.next())["method"] == "hello"
            yield client

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        """Return status and JSON body."""
        async with self.http.get(self.url + path, **more) as answer:
            return answer.status, await answer.json()

    async def post(self, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        """Send JSON; return status and JSON body."""
        more.setdefault("json", {} if body is None else body)
        async with self.http.post(self.url + path, **more) as answer:
            return answer.status, await answer.json()

    async def raw(self, request: str | bytes, *, read: int = 65_536) -> bytes:
        """Send bytes as they are and return what comes back before the end or a pause."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        writer.write(request.encode("latin-1") if isinstance(request, str) else request)
        await writer.drain()
        try:
            return await reader.read(read)
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    *plugins: object, wire: Mapping[str, Any] | None = None, **sections: Any
) -> AsyncIterator[Served]:
    """Run a gateway on a free port.

    Args:
        plugins: Its plugins; without any, a provider that always says "well said".
        wire: The section ``[gateway]``.
        sections: The other sections.
    """
    loaded = plugins or (Scripted(Script(say("well said"))),)
    # Not on by itself: aiohttp's own limit of 100 connections to one host.
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        gateway(*loaded, gateway={"port": 0, **(wire or {})}, **sections) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession(connector=connector) as http,
    ):
        yield Served(gate, listener, http)


def tokens(**settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Make a token for each name; return the section and the tokens."""
    section, made = {}, {}
    for name, more in settings.items():
        token, digest = new_token()
        section[name] = {"digest": digest, **more}
        made[name] = token
    return {"tokens": section}, made


def bearer(token: str) -> dict[str, dict[str, str]]:
    """Return what makes a client send `token`."""
    return {"headers": {"Authorization": f"Bearer {token}"}}


def small_buffers(connection: socket.socket, size: int = 4096) -> None:
    """Make a client's kernel hold little, so that not reading is felt soon."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
