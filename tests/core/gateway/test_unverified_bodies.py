"""Bodies that are read before it is known who sends them: any plugin's route reads them so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from tests.support.script import until
from tests.support.wire import Served, serving

from hookgate import Access, Routes, hookimpl, read_unverified
from hookgate.core.gateway.requests import UnverifiedBodies


class Hook:
    """A plugin with a webhook of its own."""

    name = "hook"

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.pieces: list[bytes] = []

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        access = Access.self_checked("a signature over the body")
        routes.add("POST", "/hook", self.receive, access=access, max_body=1024 * 1024)
        routes.add("POST", "/known", self.receive, access=Access.scoped("chat"))

    async def receive(self, request: web.Request) -> web.Response:
        body = await read_unverified(request, each=self.pieces.append, **self.options)
        return web.json_response({"got": len(body)})


async def begun(served: Served, sent: bytes, length: int | None = None) -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
    size = f"Content-Length: {length}" if length else "Transfer-Encoding: chunked"
    writer.write(f"POST /hook HTTP/1.1\r\nHost: {served.host}\r\n{size}\r\n\r\n".encode())
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def post(served: Served, body: bytes, path: str = "/hook") -> tuple[int, Any]:
    async with served.http.post(served.url + path, data=body) as answer:
        return answer.status, await answer.json()


async def test_a_body_comes_whole_and_piece_by_piece() -> None:
    hook = Hook()
    async with serving(hook) as served:
        body = bytes(range(256)) * 1024
        assert await post(served, body) == (200, {"got": 256 * 1024})
        assert b"".join(hook.pieces) == body
        assert served.server.bodies.held == 0


async def test_a_body_is_256_kibibytes_at_most_unless_the_route_says_otherwise() -> None:
    async with serving(Hook()) as served:
        code, answer = await post(served, b"x" * (256 * 1024 + 1))
        assert (code, answer["error"]["data"]["code"]) == (413, "too_large")
        # One that does not say how long it is is cut where it gets too long.
        sent = b"40001\r\n" + b"x" * 0x40001 + b"\r\n"
        assert await status(*await begun(served, sent)) == 413
        assert served.server.bodies.held == 0
    async with serving(Hook(most=1000)) as served:
        assert (await post(served, b"x" * 1001))[0] == 413
        assert (await post(served, b"x" * 1000))[0] == 200


async def test_a_body_has_so_many_seconds() -> None:
    async with serving(Hook(), wire={"limits": {"unverified_seconds": 0.3}}) as served:
        assert await status(*await begun(served, b"x" * 10, 20)) == 408
        assert served.server.bodies.held == 0


async def test_bodies_beyond_the_memory_for_them_push_out_the_oldest() -> None:
    limits = {"unverified_bytes": 65_536, "unverified_seconds": 600}
    async with serving(Hook(), wire={"limits": limits}) as served:
        bodies = served.server.bodies
        slow = []
        for number in range(4):
            slow.append(await begun(served, b"x" * 16_000, 17_000))
            await until(lambda most=16_000 * (number + 1): bodies.held == most)
        assert await post(served, b"x" * 1536) == (200, {"got": 1536})
        assert bodies.held == 64_000
        assert await post(served, b"x" * 1537) == (200, {"got": 1537})
        assert await status(*slow[0]) == 429
        assert bodies.held == 48_000
        # One that is longer than all the memory makes no room for itself.
        code, answer = await post(served, b"x" * 70_000)
        assert (code, answer["error"]["data"]["retry_after"]) == (429, 1)
        assert bodies.held == 0
        for one in slow[1:]:
            assert await status(*one) == 429


async def test_who_goes_away_in_the_middle_leaves_nothing() -> None:
    async with serving(Hook()) as served:
        _, writer = await begun(served, b"x" * 1000, 2000)
        await until(lambda: served.server.bodies.held == 1000)
        writer.close()
        await until(lambda: served.server.bodies.held == 0)


async def test_a_sender_who_is_known_already_is_not_read_so() -> None:
    async with serving(Hook()) as served:
        code, answer = await post(served, b"hello", "/known")
        assert (code, answer["error"]["data"]["code"]) == (500, "internal")


@pytest.mark.parametrize("limits", [{"unverified_seconds": 0}, {"unverified_bytes": 1}])
def test_limits_below_use_are_refused(limits: dict[str, Any]) -> None:
    from pydantic import ValidationError

    from hookgate.core.settings.schema import LimitSettings

    with pytest.raises(ValidationError):
        LimitSettings(**limits)


async def test_what_is_dropped_is_not_counted_again_by_a_piece_that_was_there_already() -> None:
    class Content:
        def __init__(self) -> None:
            self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def iter_any(self) -> AsyncIterator[bytes]:
            while (piece := await self.pieces.get()) is not None:
                yield piece

    limits: Any = SimpleNamespace(unverified_seconds=5.0, unverified_bytes=10)
    bodies = UnverifiedBodies(limits)
    first, second = Content(), Content()
    requests: list[Any] = [SimpleNamespace(content=c, content_length=None) for c in (first, second)]
    reading = [asyncio.create_task(bodies.read(one, 100, None)) for one in requests]
    await asyncio.sleep(0)
    first.pieces.put_nowait(b"6" * 6)
    await until(lambda: bodies.held == 6)
    # Both arrive in one round of the loop: the second one's drops the first.
    second.pieces.put_nowait(b"y" * 6)
    first.pieces.put_nowait(b"x" * 3)
    second.pieces.put_nowait(None)
    dropped, read = await asyncio.gather(*reading, return_exceptions=True)
    assert isinstance(dropped, Exception)
    assert read == b"y" * 6
    assert bodies.held == 0
