"""Gateways with keys, that listen on real sockets and keep a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.script import Script, Scripted, say, settings
from tests.support.wire import Served, bearer

from hookgate import Gateway, ModelInfo
from hookgate.core.gateway.serve import listen

BUILTIN = ("control", "storage", "keys", "providers", "metering", "audit", "policy")


class Named(Script):
    """A provider that names its models."""

    def models(self) -> tuple[ModelInfo, ...]:
        return (ModelInfo(name="one"), ModelInfo(name="two"))


def model() -> Scripted:
    return Scripted(Script(*(say("well said") for _ in range(40))))


@asynccontextmanager
async def keyed(
    home: Path,
    *plugins: object,
    wire: dict[str, Any] | None = None,
    builtin: tuple[str, ...] = BUILTIN,
    **sections: Any,
) -> AsyncIterator[Served]:
    """Run a gateway with the plugin `keys` on a free port."""
    made = settings(home, gateway={"port": 0, **(wire or {})}, **sections)
    async with AsyncExitStack() as stack:
        gate = Gateway(made, builtin=builtin, plugins=plugins or (model(),))
        await stack.enter_async_context(gate)
        listener = await stack.enter_async_context(listen(gate))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        yield Served(gate, listener, http)


async def new(served: Served, **params: Any) -> str:
    """Make a key as the owner, or as whoever `by` is; return its secret."""
    by = params.pop("by", None)
    status, answer = await served.post("/v1/keys", params, **(bearer(by) if by else {}))
    assert status == 200, answer
    secret: str = answer["key"]
    return secret


async def refused(served: Served, **params: Any) -> str:
    """Try to make a key; return why it was not made."""
    by = params.pop("by", None)
    status, answer = await served.post("/v1/keys", params, **(bearer(by) if by else {}))
    assert status in (400, 403), answer
    return str(answer["error"]["message"]) + " " + str(answer["error"]["data"])


async def chat(served: Served, key: str, account: str, **more: Any) -> tuple[int, Any]:
    """Say something with a key."""
    body = {"content": "x", "channel": "compat", "account": account, **more}
    return await served.post("/v1/turns", body, **bearer(key))
