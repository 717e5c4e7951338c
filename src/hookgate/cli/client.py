"""A gateway that runs elsewhere, asked over its WebSocket."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp

from hookgate.cli.door import AnsweredError, Stream
from hookgate.core import strict_json
from hookgate.core.errors import HookgateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

__all__ = ["RemoteDoor", "UnreachableError", "connect"]

CONNECT_SECONDS = 10.0
"""Seconds for the connection and the handshake."""

HELLO_SECONDS = 3.0
"""Seconds after which a gateway that says nothing is taken to wait for a token."""

MAX_FRAME = 64 * 1024 * 1024
"""The longest frame that is taken, in bytes."""


class UnreachableError(HookgateError):
    """A gateway does not answer, or what answers is no gateway."""


class RemoteDoor:
    """A gateway at the other end of a WebSocket.

    Attributes:
        where: Its address.
        hello: What it said when the socket opened.
    """

    def __init__(self, url: str, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self.where = url
        self.hello: Mapping[str, Any] = {}
        self._socket = socket
        self._numbers = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._over: HookgateError | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """See `Door.call`."""
        number, stream = await self._send(method, params or {})
        try:
            return await stream.result()
        finally:
            del self._streams[number]

    @asynccontextmanager
    async def stream(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Stream]:
        """See `Door.stream`."""
        number, stream = await self._send(method, params or {})
        try:
            yield stream
        finally:
            if not stream.over:
                await self._cancel(method, number)
            del self._streams[number]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _cancel(self, method: str, number: int) -> None:
        """Cancel a request of this socket. It may have ended meanwhile: that is as well."""
        what = "events.unsubscribe" if method == "events.subscribe" else "chat.cancel"
        with suppress(HookgateError):
            await asyncio.shield(self.call(what, {"request": number}))

    async def _send(self, method: str, params: Mapping[str, Any]) -> tuple[int, Stream]:
        if self._over is not None:
            raise self._over
        number = next(self._numbers)
        stream = Stream(method, lambda: self._spawn(self._cancel(method, number)))
        self._streams[number] = stream
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            await self._socket.send_str(json.dumps(frame))
        except ConnectionError:
            del self._streams[number]
            raise self._gone() from None
        return number, stream

    async def pump(self) -> None:
        """Hand every frame to the request that it belongs to, until the socket closes."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._take(strict_json.loads(message.data))
            self._over = self._gone()
        except (strict_json.StrictJSONError, KeyError, TypeError) as error:
            self._over = UnreachableError(f"the gateway on {self.where} sent nonsense: {error}")
        for stream in self._streams.values():
            stream.fail(self._over)

    def _gone(self) -> UnreachableError:
        code = self._socket.close_code
        why = {
            1001: "it stops",
            1008: "it does not let this client in",
            1013: "this client reads too slowly",
        }.get(code or 0, f"code {code}" if code else "the connection broke")
        return UnreachableError(f"the gateway on {self.where} closed the connection: {why}")

    def _take(self, frame: Any) -> None:
        if "method" in frame:
            data = dict(frame.get("params", {}))
            stream = self._streams.get(data.pop("request", 0))
            if stream is not None:
                stream.put_event(frame["method"], data)
            return
        stream = self._streams.get(frame.get("id"))
        if stream is None:
            return
        if "error" in frame:
            error = frame["error"]
            stream.fail(AnsweredError(error["message"], error.get("data") or {}))
        else:
            stream.put_result(frame["result"])


@asynccontextmanager
async def connect(url: str, token: str | None) -> AsyncIterator[RemoteDoor]:
    """Connect to the gateway at `url`, such as ``http://127.0.0.1:7200``.

    Raises:
        UnreachableError: Nothing answers there, or no gateway.
        AnsweredError: The gateway does not let this client in.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Without the environment's proxies: a gateway on loopback is not behind one.
    timeout = aiohttp.ClientTimeout(total=CONNECT_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        socket = await _open(session, url)
        async with socket:
            door = RemoteDoor(url, socket)
            door.hello = await _hello(socket, url, token)
            pump = asyncio.create_task(door.pump())
            try:
                yield door
            finally:
                await socket.close()
                await pump


async def _open(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse[bool]:
    try:
        return await session.ws_connect(f"{url}/ws", max_msg_size=MAX_FRAME, autoping=True)
    except aiohttp.WSServerHandshakeError as error:
        raise await _refusal(session, url, error.status) from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise UnreachableError(f"no gateway answers on {url}: {error}") from None


async def _refusal(session: aiohttp.ClientSession, url: str, status: int) -> HookgateError:
    """Ask again over HTTP, where a refusal comes with its reason."""
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
        async with session.get(f"{url}/v1/status") as response:
            error = (await response.json())["error"]
            return AnsweredError(error["message"], error["data"])
    return UnreachableError(
        f"what listens on {url} is no hookgate gateway: it answers a WebSocket with HTTP "
        f"{status}; set `gateway.port` in the settings, or stop what listens there"
    )


async def _hello(
    socket: aiohttp.ClientWebSocketResponse[bool], url: str, token: str | None
) -> Mapping[str, Any]:
    try:
        message = await socket.receive(timeout=HELLO_SECONDS)
    except TimeoutError:
        if token is not None:
            raise UnreachableError(f"the gateway on {url} accepts, and says nothing") from None
        raise AnsweredError(
            f"the gateway on {url} needs a token",
            {"code": "unauthorized", "action": "put it into HOOKGATE_TOKEN"},
        ) from None
    with suppress(TypeError, KeyError, ValueError):
        frame = strict_json.loads(message.data)
        if frame["method"] == "hello":
            hello: Mapping[str, Any] = frame["params"]
            return hello
    raise UnreachableError(f"what listens on {url} is no hookgate gateway: it does not greet")
