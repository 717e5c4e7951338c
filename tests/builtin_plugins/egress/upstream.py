"""A small HTTP server that counts what reaches it, for tests of the way out."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

TLS = Path(__file__).parent / "tls"


@dataclass
class Hit:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = "Callable[[Hit, asyncio.StreamWriter], Awaitable[None]]"


async def ok(hit: Hit, writer: asyncio.StreamWriter) -> None:
    await respond(writer, 200, b"hello")


async def respond(
    writer: asyncio.StreamWriter, status: int, body: bytes = b"", **headers: str
) -> None:
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


def redirect(location: str, status: int = 302) -> Callable[..., Awaitable[None]]:
    async def answer(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, status, b"", location=location)

    return answer


@dataclass
class Upstream:
    port: int = 0
    hits: list[Hit] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    names: list[str | None] = field(default_factory=list)
    answers: dict[str, Callable[..., Awaitable[None]]] = field(default_factory=dict)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                method, path, _ = first.split(" ")
                pairs = [line.split(": ", 1) for line in lines if line]
                headers = {key.lower(): value for key, value in pairs}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                hit = Hit(method, path, headers, body)
                self.hits.append(hit)
                await self.answers.get(path.partition("?")[0], ok)(hit, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client went away, as clients do.
        finally:
            self.open -= 1
            self.closed.set()
            writer.close()


@asynccontextmanager
async def upstream(
    *, tls: bool = False, certificate: str = "server.pem"
) -> AsyncIterator[Upstream]:
    one = Upstream()
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / certificate, TLS / "server-key.pem")
        context.sni_callback = lambda _socket, name, _context: one.names.append(name)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=context)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await server.wait_closed()
