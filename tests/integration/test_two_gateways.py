"""Two gateways on one PostgreSQL database, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.script import Script, Scripted, say, settings
from tests.support.wire import Served, bearer, tokens

from hookgate.core.gateway.serve import listen
from hookgate.core.runtime import Gateway

pytestmark = pytest.mark.slow

WITHIN = 1.0
"""Seconds after which a gateway has heard of what another one did."""


@asynccontextmanager
async def served(
    url: str, home: Path, wire: dict[str, Any], *plugins: object, **sections: Any
) -> AsyncIterator[Served]:
    """A gateway on the database, with a home folder of its own."""
    more = sections.pop("plugin", {})
    config = settings(
        home,
        gateway={"port": 0, **wire},
        plugin={"storage": {"url": url, "fallback": "refuse"}, **more},
        **sections,
    )
    loaded = plugins or (Scripted(Script(say("well said"))),)
    builtin = ("storage", "policy", "awareness")
    async with (
        Gateway(config, builtin=builtin, plugins=loaded) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http)


async def soon(condition: Any) -> None:
    """Wait until `condition` returns something true, as long as others may take to hear of it."""
    loop = asyncio.get_running_loop()
    over = loop.time() + WITHIN
    while not await condition():
        assert loop.time() < over, f"nothing was heard of it within {WITHIN:g} s"


async def test_a_token_revoked_on_one_is_refused_on_both_within_a_second(
    url: str, tmp_path: Path
) -> None:
    wire, made = tokens(ops={"scopes": ["operate", "read"]}, ann={"scopes": ["chat", "read"]})
    ann = bearer(made["ann"])
    async with (
        served(url, tmp_path / "a", wire) as a,
        served(url, tmp_path / "b", wire) as b,
        b.socket(**ann) as socket,
    ):
        assert (await b.get("/v1/status", **ann))[0] == 200
        closed = asyncio.ensure_future(socket.closed())
        async with a.socket(**bearer(made["ops"])) as operator:
            assert await operator.result("token.revoke", name="ann") == {"name": "ann"}
        assert (await a.get("/v1/status", **ann))[0] == 401

        async def refused() -> bool:
            return (await b.get("/v1/status", **ann))[0] == 401

        await soon(refused)
        assert await closed == 1008
    # One that starts later, with a home of its own, has never heard of it.
    async with served(url, tmp_path / "c", wire) as c:
        assert (await c.get("/v1/status", **ann))[0] == 401


async def test_cards_turned_off_on_one_are_off_on_both_within_a_second(
    url: str, tmp_path: Path
) -> None:
    wire, made = tokens(ops={"scopes": ["operate", "read"]})
    ops = bearer(made["ops"])
    async with served(url, tmp_path / "a", wire) as a, served(url, tmp_path / "b", wire) as b:
        async with a.socket(**ops) as operator:
            await operator.result("awareness.disable")

        async def off() -> bool:
            status, body = await b.get("/v1/status", **ops)
            assert status == 200
            return "awareness" in body["degraded"]

        await soon(off)
