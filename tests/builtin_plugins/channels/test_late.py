"""Channels that come, change and go while the gateway runs: by a door that any plugin has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Serve, Served
from tests.builtin_plugins.wasm.folders import constant, write_plugin
from tests.support.script import until

from hookgate import Webhook
from hookgate.builtin_plugins.wasm import service
from hookgate.builtin_plugins.wasm.engine import sandbox as engine
from hookgate.core import runtime
from hookgate.core.domain.errors import HookgateError
from hookgate.kit.testing.model import ScriptedModel, say

HEADER = Webhook(verification="header", secret="bell_key", header="X-Key")
SECRETS = {"bell_key": KEY, "new_key": "the-new-key-of-the-bell"}


async def post(served: Served, number: int, *, key: str = KEY, name: str = "bell") -> int:
    url, headers = f"{served.url}/webhook/{name}", {"X-Key": key}
    async with served.http.post(url, data=event(number), headers=headers) as answer:
        await answer.read()
        return answer.status


async def posted(served: Served, number: int, *, key: str = KEY) -> None:
    """Post as a platform does, which comes again while nobody is there to take it."""
    await answers(served, number, 200, key=key)


async def answers(served: Served, number: int, status: int, **more: Any) -> None:
    """Post until it is answered with a status."""
    while True:
        if await post(served, number, **more) == status:
            return
        await asyncio.sleep(0.02)


async def test_channel_that_comes_after_the_start_is_served_then(serve: Serve) -> None:
    bell, model = Bell(HEADER), ScriptedModel(say("ding"))
    async with serve(model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, 1) == 404
        served.gateway.host.channels.apply("acme", [bell])
        await posted(served, 1)
        await bell.until(lambda: bell.said)
        assert bell.said == [("ada", "ding")]
        assert "channel:bell" in served.gateway._catalogue.snapshot().capabilities


async def test_channel_that_comes_again_with_another_connection_is_served_by_that(
    serve: Serve,
) -> None:
    old = Bell(HEADER)
    new = Bell(Webhook(verification="header", secret="new_key", header="X-Key"))
    model = ScriptedModel(say("old"), say("new"))
    async with serve(model=model, channels={}, secrets=SECRETS) as served:
        host = served.gateway.host
        host.channels.apply("acme", [old])
        await posted(served, 1)
        await old.until(lambda: old.said)
        host.channels.apply("acme", [new])
        await posted(served, 2, key=SECRETS["new_key"])
        await new.until(lambda: new.said)
        assert await post(served, 3) == 401
        assert (old.said, new.said) == ([("ada", "old")], [("ada", "new")])


async def test_a_rotated_secret_is_asked_for_and_a_missing_one_serves_nobody(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SECRETS_SECONDS", 0.01)
    vault = {"vaulted_key": KEY}
    bell = Bell(Webhook(verification="header", secret="vaulted_key", header="X-Key"))
    async with serve(model=ScriptedModel(say("ding")), channels={}) as served:
        host = served.gateway.host
        host.secrets.add_source("put it into the vault", vault.get)
        host.channels.apply("acme", [bell])
        await posted(served, 1)
        vault["vaulted_key"] = "the-rotated-key-of-the-bell"
        await answers(served, 2, 401)
        await posted(served, 3, key=vault["vaulted_key"])
        vault.clear()
        await answers(served, 4, 404, key="the-rotated-key-of-the-bell")
        assert "no secret 'vaulted_key'" in host.degraded["channel bell"]
        assert await post(served, 5, key="") == 404


async def test_channel_that_goes_is_not_served_any_more(serve: Serve) -> None:
    bell, other = Bell(HEADER), Bell(HEADER, name="other")
    async with serve(
        bell, other, model=ScriptedModel(say("ding")), channels={}, secrets=SECRETS
    ) as served:
        await posted(served, 1)
        await bell.until(lambda: bell.said)
        channels = served.gateway.host.channels
        channels.apply("acme", remove=["bell"])
        assert "bell" in channels, "nobody takes away what another one brought"
        channels.apply(str(channels.source_of("bell")), remove=["bell"])
        await answers(served, 2, 404)
        assert await post(served, 3, name="other") == 200


async def test_what_is_no_channel_is_not_taken(serve: Serve) -> None:
    half: Any = type("Half", (), {"name": "half", "sandboxed": False})()
    async with serve(model=ScriptedModel(say("x")), channels={}) as served:
        with pytest.raises(HookgateError, match="found no features, send, edit"):
            served.gateway.host.channels.apply("acme", [half])
        assert served.gateway.host.channels == {}


async def test_where_a_sandbox_is_required_a_late_channel_is_held_to_it(serve: Serve) -> None:
    turn = {"sandbox": "required"}
    async with serve(model=ScriptedModel(say("x")), channels={}, turn=turn) as served:
        bell = Bell(HEADER)
        bell.sandboxed = True
        with pytest.raises(HookgateError, match="does not run in WASM"):
            served.gateway.host.channels.apply("acme", [bell])


async def test_channel_of_a_guest_that_is_ready_after_the_start_is_served_then(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, real = asyncio.Event(), engine.compiled

    async def compiled(*args: Any, **more: Any) -> Any:
        await let_go.wait()
        return await real(*args, **more)

    monkeypatch.setattr(engine, "compiled", compiled)
    monkeypatch.setattr(service, "LOAD_SECONDS", 0.0)
    message = {"id": "1", "content": "hello", "account": "a", "peer": "ada"}
    guest = constant(parse_incoming={"messages": [message]}, format_outgoing={})
    webhook = {"verification": "header", "secret": "bell_key", "header": "X-Key"}
    more: dict[str, Any] = {"grants": ["http:api.example.com"], "channel": {"webhook": webhook}}
    write_plugin(tmp_path / "guests" / "bell", guest, kind="channel", **more)
    plugin = {"wasm": {"folders": [str(tmp_path / "guests")]}}
    model, channels = ScriptedModel(say("ding")), {"wasm.bell": {"senders": ["*"]}}
    async with serve(model=model, channels=channels, secrets=SECRETS, plugin=plugin) as served:
        assert await post(served, 1, name="wasm.bell") == 404
        let_go.set()
        await answers(served, 1, 200, name="wasm.bell")
        await until(lambda: bool(model.requests))
