"""A platform that takes whatever it is sent, and answers as a test has told it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Platform:
    """The platform.

    Attributes:
        url: Where it listens.
        sent: What it was sent.
        answers: What the next requests are answered with: status, JSON and headers; then
            `usual`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.sent: list[Sent] = []
        self.answers: list[tuple[int, Any, dict[str, str]]] = []
        self.usual: Callable[[int], Any] = lambda number: {"ok": True, "id": f"m{number}"}
        self._changed = asyncio.Condition()

    async def until(self, holds: Callable[[], Any]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)

    async def serve(self, request: web.Request) -> web.Response:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        async with self._changed:
            self.sent.append(Sent(request.method, request.path_qs, headers, raw))
            self._changed.notify_all()
        if self.answers:
            status, found, more = self.answers.pop(0)
            return web.json_response(found, status=status, headers=more)
        return web.json_response(self.usual(len(self.sent)))


@asynccontextmanager
async def platform() -> AsyncIterator[Platform]:
    """Run a platform on a free port of loopback."""
    one = Platform()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", one.serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield one
    finally:
        await runner.cleanup()
