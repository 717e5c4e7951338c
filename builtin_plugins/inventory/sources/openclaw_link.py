"""The one connection to OpenClaw's gateway: frames of JSON over a WebSocket."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hookgate import Egress, EgressError
from hookgate.builtin_plugins.inventory.sources import RuntimeDisconnectedError
from hookgate.clients import PeerLookup, canonical_address
from hookgate.tasks import contained_task, stop

if TYPE_CHECKING:
    import aiohttp

    Endpoint = tuple[str, int]

PROTOCOL = (3, 4)
"""The versions of the protocol that are spoken here: the lowest and the highest."""

READING = frozenset({"config.get", "tools.catalog"})
"""What changes nothing."""

FRAME_BYTES = 8 * 1024 * 1024
CHALLENGE_SECONDS = 1.0
"""How long a gateway's challenge is waited for; older ones send none."""

SECONDS = 10.0
"""The limit of a connection, and of an answer."""


class OpenClawError(Exception):
    """The gateway has refused a request.

    Attributes:
        code: Its word for why.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}"[:500])
        self.code = code


class OpenClawLink:
    """Connects when something is asked for the first time, and again after the connection ended.

    All who ask share the connection; answers find their requests by number. The token is the
    operator's of OpenClaw: on this machine it goes to a process of this user or of root alone,
    whoever listens at the port.

    Args:
        url: Where the gateway is.
        token: Returns its shared token, where there is one.
        egress: Returns the way out; None where there is none.
        trusted: Whether the other end of a connection (its end, ours) is held by this user or
            root, where it is on this machine.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str | None],
        egress: Callable[[], Egress | None],
        *,
        trusted: Callable[[Endpoint, Endpoint], bool] | None = None,
    ) -> None:
        self.url = url
        self._egress = egress
        self._trusted = trusted or is_ours
        self.methods: frozenset[str] = frozenset()
        self._token = token
        self._numbers = count(1)
        self._connecting = asyncio.Lock()
        self._open = AsyncExitStack()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._reading: asyncio.Task[None] | None = None
        self._challenged = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Any]] = {}

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return what the gateway answers.

        What changes nothing is asked once more where the connection has ended meanwhile, as it
        does whenever the gateway starts again.

        Raises:
            OpenClawError: It has refused.
            RuntimeDisconnectedError: It cannot be reached, or does not answer.
        """
        known = self._socket
        await self._connected()
        try:
            return await self._asked(method, params or {})
        except RuntimeDisconnectedError:
            if method not in READING or known is None or not known.closed:
                raise
        await self._connected()
        return await self._asked(method, params or {})

    async def _connected(self) -> None:
        async with self._connecting:
            if self._socket is None or self._socket.closed:
                await self._connect()

    async def close(self) -> None:
        """End the connection."""
        await stop(self._reading)
        await self._open.aclose()
        self._socket = self._reading = None

    async def _connect(self) -> None:
        await self.close()
        self._challenged.clear()
        if (egress := self._egress()) is None:
            raise _away(self.url, "there is no way out: no plugin provides `egress`")
        grant = f"http{self.url.removeprefix('ws').split('?')[0]}"
        try:
            self._socket = await self._open.enter_async_context(
                egress.websocket(
                    [grant if urlsplit(grant).path else f"{grant}/"],
                    self.url,
                    name="inventory",
                    max_bytes=FRAME_BYTES,
                    timeout=SECONDS,
                )
            )
            self._check_peer(self._socket)
            self._reading = contained_task(self._read(self._socket), name="inventory.openclaw")
            with suppress(TimeoutError):
                async with asyncio.timeout(CHALLENGE_SECONDS):
                    await self._challenged.wait()
            hello = await self._asked("connect", self._introduction())
        except (EgressError, TimeoutError, OSError) as error:
            await self.close()
            raise _away(self.url, f"{type(error).__name__}: {error}") from None
        except BaseException:
            await self.close()
            raise
        features = hello.get("features") if isinstance(hello, dict) else None
        if not isinstance(hello, dict) or hello.get("type") != "hello-ok":
            await self.close()
            raise _away(self.url, "it does not speak the protocol of OpenClaw's gateway")
        methods = features.get("methods") if isinstance(features, dict) else None
        self.methods = frozenset(map(str, methods if isinstance(methods, list) else ()))

    def _check_peer(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Make sure, before anything is said, that no other user of this machine listens."""
        ends = [socket.get_extra_info(name) for name in ("peername", "sockname")]
        peer, ours = (tuple(end[:2]) if end else ("", 0) for end in ends)
        here = canonical_address(peer[0])
        if here is not None and here.is_loopback and not self._trusted(peer, ours):
            raise _away(
                self.url, "another user of this machine listens there, who is not given the token"
            )

    def _introduction(self) -> dict[str, Any]:
        # A backend on the same machine that has the shared token needs no device of its own.
        said: dict[str, Any] = {
            "minProtocol": PROTOCOL[0],
            "maxProtocol": PROTOCOL[1],
            "client": {
                "id": "gateway-client",
                "displayName": "hookgate",
                "version": "1",
                "platform": sys.platform,
                "mode": "backend",
            },
            "role": "operator",
            # All of `config.*` asks for it.
            "scopes": ["operator.read", "operator.admin"],
            "caps": [],
        }
        if token := self._token():
            said["auth"] = {"token": token}
        return said

    async def _asked(self, method: str, params: Mapping[str, Any]) -> Any:
        import aiohttp

        socket, number = self._socket, f"hookgate-{next(self._numbers)}"
        assert socket is not None, "whoever asks has connected"
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        frame = {"type": "req", "id": number, "method": method, "params": params}
        try:
            async with asyncio.timeout(SECONDS):
                await socket.send_str(json.dumps(frame))
                return await answer
        except TimeoutError:
            raise _away(self.url, f"it did not answer {method} within {SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _away(self.url, f"{type(error).__name__}: {error}") from None
        finally:
            del self._waiting[number]

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Hand answers to those who wait, until the connection ends; then tell the others."""
        import aiohttp

        try:
            async for message in socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._take(message.data)
        finally:
            why = f"the connection has ended ({socket.close_code})"
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_away(self.url, why))

    def _take(self, text: str) -> None:
        try:
            frame = json.loads(text)
        except (ValueError, RecursionError):
            frame = None
        if not isinstance(frame, dict):
            return
        if frame.get("type") == "event":
            if frame.get("event") == "connect.challenge":
                self._challenged.set()
            return
        answer = self._waiting.get(str(frame.get("id")))
        if frame.get("type") != "res" or answer is None or answer.done():
            return
        if frame.get("ok") is True:
            answer.set_result(frame.get("payload"))
            return
        error = frame.get("error")
        said = error if isinstance(error, dict) else {}
        code, why = str(said.get("code", "ERROR")), str(said.get("message", "it says no reason"))
        answer.set_exception(OpenClawError(code, why))


def is_ours(peer: Endpoint, ours: Endpoint) -> bool:
    """Whether this user or root holds the other end of a loopback connection.

    Systems but Linux do not tell; there it is taken for granted, as it is for clients.
    """
    lookup = PeerLookup()
    try:
        user = lookup.user_of(peer, ours) if lookup.enabled else None
        return not lookup.enabled or (user is not None and user.trusted)
    finally:
        lookup.close()


def _away(url: str, why: str) -> RuntimeDisconnectedError:
    return RuntimeDisconnectedError(
        f"OpenClaw's gateway at {url} cannot be asked: {why}"[:500],
        action="start it, or look at `openclaw_url` and the secret that `openclaw_token` names",
    )
