"""A gateway that runs elsewhere, asked over its WebSocket."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import aiohttp

from hookgate.cli.client.local import AnsweredError, Stream
from hookgate.core.domain import strict_json
from hookgate.core.domain.errors import HookgateError
from hookgate.core.gateway.access.origin import canonical_address, is_loopback
from hookgate.core.gateway.access.peer import (
    NONCE_HEADER,
    OWNER_PREFIX,
    PROOF_HEADER,
    PeerLookup,
    new_nonce,
    prove_owner,
    proves,
)

if TYPE_CHECKING:
    from aiohttp.connector import Connection

CONNECT_SECONDS = 10.0
"""Seconds for the connection and the handshake."""

HELLO_SECONDS = 10.0
"""Seconds for each frame before the first request."""

MAX_FRAME = 64 * 1024 * 1024
"""The longest frame that is taken, in bytes."""


class UnreachableError(HookgateError):
    """A gateway does not answer, or what answers is no gateway."""


class RemoteClient:
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

    @property
    def degraded(self) -> Mapping[str, str]:
        """See `Client.degraded`."""
        told: Mapping[str, str] = self.hello.get("degraded", {})
        return told

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """See `Client.call`."""
        number, stream = await self._send(method, params or {})
        try:
            return await stream.result()
        finally:
            del self._streams[number]

    @asynccontextmanager
    async def stream(
        self, method: str, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Stream]:
        """See `Client.stream`."""
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
        if "error" in frame:
            error = frame["error"]
            # Whose request it was that could not be read is not said, and any may wait for it.
            failed = AnsweredError(error["message"], error.get("data") or {})
            for number, stream in self._streams.items():
                if frame.get("id") in (None, number):
                    stream.fail(failed)
        elif (stream := self._streams.get(frame.get("id"))) is not None:
            stream.put_result(frame["result"])


@asynccontextmanager
async def connect(
    url: str, key: str, token: str | None, *, owner: bool = True
) -> AsyncIterator[RemoteClient]:
    """Connect to the gateway at `url`, such as ``http://127.0.0.1:7200``.

    What listens there hears nothing but a nonce before it has proved itself, on this very
    connection.

    Args:
        url: Where it listens, on this machine.
        key: What it proves itself by.
        token: The access token, for a gateway that wants one.
        owner: Whether to come as the home's owner rather, where it is reached by loopback.

    Raises:
        UnreachableError: Nothing answers there, or not the gateway that has `key`.
        AnsweredError: The gateway does not let this client in.
    """
    check = _Check(url, key)
    # Without the environment's proxies: a gateway on loopback is not behind one.
    async with aiohttp.ClientSession(
        headers={NONCE_HEADER: check.nonce},
        timeout=aiohttp.ClientTimeout(total=CONNECT_SECONDS),
        response_class=check.response_class(),
    ) as session:
        socket = await _open(session, url)
        async with socket:
            if check.token_wanted:
                await _authenticate(socket, url, (owner and check.owner) or token)
            client = RemoteClient(url, socket)
            client.hello = await _hello(socket, url)
            pump = asyncio.create_task(client.pump())
            try:
                yield client
            finally:
                await socket.close()
                await pump


class _Check:
    """Sees to it that no answer is read that is not the gateway's.

    Attributes:
        nonce: What the gateway has to prove itself with.
        token_wanted: Whether the gateway that answered wants a token first.
        owner: What shows it by loopback, in place of a token, that its key was read in the home.
    """

    def __init__(self, url: str, key: str) -> None:
        self.nonce = new_nonce()
        self.token_wanted = False
        self.owner: str | None = None
        self._url = url
        self._key = key

    def response_class(self) -> type[aiohttp.ClientResponse]:
        """Return the class of responses that are checked as soon as their head has come."""

        class ProvenResponse(aiohttp.ClientResponse):
            async def start(self, connection: Connection) -> aiohttp.ClientResponse:
                transport = connection.transport
                await super().start(connection)
                ends = [
                    transport.get_extra_info(name) if transport is not None else None
                    for name in ("peername", "sockname")
                ]
                check(self.headers, *ends)
                return self

        check = self._check
        return ProvenResponse

    def _check(self, headers: Mapping[str, str], peer: Any, local: Any) -> None:
        if not proves(self._key, self.nonce, headers.get(PROOF_HEADER, ""), peer):
            raise UnreachableError(
                f"what listens on {self._url} does not prove to be the gateway of this home folder"
            )
        if not _ours(peer, local):
            raise UnreachableError(
                f"what listens on {self._url} is no process of this user's or of root's"
            )
        self.token_wanted = "WWW-Authenticate" in headers
        if is_loopback(canonical_address(peer[0])):
            self.owner = prove_owner(self._key, self.nonce, peer, local)


def _ours(peer: Any, local: Any) -> bool:
    """Whether the other end of a connection is ours or root's, as far as the kernel can tell."""
    lookup = PeerLookup()
    try:
        user = lookup.user_of(peer[:2], local[:2])
    finally:
        lookup.close()
    return not lookup.enabled or (user is not None and user.trusted)


async def _open(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse[bool]:
    try:
        return await session.ws_connect(f"{url}/ws", max_msg_size=MAX_FRAME, autoping=True)
    except aiohttp.WSServerHandshakeError as error:
        raise await _refusal(session, url, error.status) from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise UnreachableError(f"no gateway answers on {url}: {error}") from None


async def _refusal(session: aiohttp.ClientSession, url: str, status: int) -> HookgateError:
    """Ask again without an upgrade: a refusal then comes with its reason."""
    with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
        async with session.get(f"{url}/ws") as response:
            error = (await response.json())["error"]
            if error["data"].get("code") != "upgrade_required":
                return AnsweredError(error["message"], error["data"])
    return UnreachableError(
        f"the gateway on {url} answers a WebSocket with HTTP {status}: try again in a moment"
    )


async def _authenticate(
    socket: aiohttp.ClientWebSocketResponse[bool], url: str, token: str | None
) -> None:
    """Show the token in the first frame."""
    wanted = AnsweredError(
        f"the gateway on {url} needs a token",
        {"code": "unauthorized", "action": "put it into HOOKGATE_TOKEN"},
    )
    if token is None:
        raise wanted
    frame = {"jsonrpc": "2.0", "id": "auth", "method": "auth", "params": {"token": token}}
    try:
        await socket.send_str(json.dumps(frame))
    except ConnectionError:
        raise UnreachableError(f"the gateway on {url} closed the connection") from None
    answer = await _frame(socket, url)
    if isinstance(error := answer.get("error"), dict):
        if token.startswith(OWNER_PREFIX):
            raise wanted  # Something stands between that changes the addresses.
        raise AnsweredError(str(error.get("message", "")), error.get("data") or {})


async def _hello(socket: aiohttp.ClientWebSocketResponse[bool], url: str) -> Mapping[str, Any]:
    frame = await _frame(socket, url)
    if frame.get("method") == "hello" and isinstance(frame.get("params"), dict):
        hello: Mapping[str, Any] = frame["params"]
        return hello
    raise UnreachableError(f"the gateway on {url} does not greet: is it of another version?")


async def _frame(socket: aiohttp.ClientWebSocketResponse[bool], url: str) -> Mapping[str, Any]:
    """Return the next frame of a gateway that has proved itself."""
    try:
        message = await socket.receive(timeout=HELLO_SECONDS)
    except TimeoutError:
        raise UnreachableError(f"the gateway on {url} accepts, and says nothing") from None
    if message.type is aiohttp.WSMsgType.TEXT:
        with suppress(ValueError):
            frame = strict_json.loads(message.data)
            if isinstance(frame, dict):
                return frame
    raise UnreachableError(f"the gateway on {url} closed the connection, or sent nonsense")
