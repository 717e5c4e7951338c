"""A server that sends exactly the bytes it is told to, for tests on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
CLOSING = HEAD + b"connection: close\r\n\r\n"


class Wire:
    """One connection's side of the server.

    Attributes:
        asked: The body of the request; None where there is none.
    """

    def __init__(self, writer: asyncio.StreamWriter, asked: Any = None) -> None:
        self._writer = writer
        self.asked = asked

    async def raw(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def chunks(self, *pieces: bytes, end: bool = True) -> None:
        """Send a chunked response of `pieces`."""
        await self.raw(CHUNKED)
        for piece in pieces:
            if piece:
                await self.raw(b"%x\r\n%b\r\n" % (len(piece), piece))
        if end:
            await self.raw(b"0\r\n\r\n")

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + body)

    def close(self) -> None:
        self._writer.close()


Script: TypeAlias = Callable[[Wire], Awaitable[None]]


@dataclass
class RawServer:
    port: int = 0
    script: Script | None = None
    requests: list[Any] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                lengths = [
                    int(line.split(":")[1])
                    for line in head.lower().split("\r\n")
                    if line.startswith("content-length")
                ]
                asked = None
                if lengths and lengths[0]:
                    asked = json.loads(await reader.readexactly(lengths[0]))
                    self.requests.append(asked)
                self.heard.set()
                assert self.script is not None
                work = asyncio.ensure_future(self.script(Wire(writer, asked)))
                gone = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    work.cancel()  # The client went away while it was being answered.
                    await asyncio.gather(work, gone, return_exceptions=True)
                    return
                gone.cancel()
                await asyncio.gather(work, gone, return_exceptions=True)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self.left.set()
            writer.close()


@asynccontextmanager
async def raw_server() -> AsyncIterator[RawServer]:
    one = RawServer()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    try:
        yield one
    finally:
        server.close()
        await server.wait_closed()
