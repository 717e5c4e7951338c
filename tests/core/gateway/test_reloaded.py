"""What a reload puts into force at the doors: tokens and limits, without a gap."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.script import settings, until
from tests.support.wire import Served, bearer, serving, tokens

from hookgate.core import runtime
from hookgate.core.domain.errors import ConfigError, StartError
from hookgate.core.gateway.access.tokens import new_token


def change(served: Served, **section: Any) -> None:
    """Have the next reload find this section `[gateway]`."""
    home = served.gate.settings.home
    served.gate._read_settings = lambda: settings(home, gateway={"port": 0, **section})


async def status(served: Served, token: str) -> int:
    return (await served.get("/v1/status", **bearer(token)))[0]


async def test_tokens_come_and_go_and_who_came_in_by_one_that_stays_notices_nothing() -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]}, ann={}, bob={})
    more, new = tokens(eve={})
    async with (
        serving(wire=section) as served,
        served.socket(**bearer(made["ops"])) as ops,
        served.socket(**bearer(made["ann"])) as ann,
        served.socket(**bearer(made["bob"])) as bob,
    ):
        assert await status(served, new["eve"]) == 401
        named = {**section["tokens"], **more["tokens"]}
        del named["ann"]
        named["bob"] = {**named["bob"], "scopes": ["chat"]}
        change(served, tokens=named)
        # One goes, and what the other may do is not what its socket came in with.
        closed = asyncio.gather(ann.closed(), bob.closed())
        assert (await ops.result("reload"))["restart"] == []
        assert await closed == [1008, 1008]
        assert await status(served, new["eve"]) == 200
        assert await status(served, made["ann"]) == 401
        assert await status(served, made["bob"]) == 403
        assert await ops.result("ping") == {"pong": True}


async def test_a_revoked_token_does_not_come_back_under_another_name(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]}, ann={})
    async with serving(wire=section, home=tmp_path) as served:
        async with served.socket(**bearer(made["ops"])) as ops:
            await ops.result("token.revoke", name="ann")
        named = {"ops": section["tokens"]["ops"], "annie": section["tokens"]["ann"]}
        change(served, tokens=named)
        await served.gate.reload()
        assert await status(served, made["ann"]) == 401


async def test_limits_are_in_force_for_what_comes_next() -> None:
    async with serving() as served, served.socket() as open_before:
        change(
            served,
            limits={
                "connections": 1,
                "frame_bytes": 2048,
                "attempts_per_minute": 3,
                "heartbeat_seconds": 7,
                "unverified_seconds": 8,
                "ready_streams": 5,
            },
        )
        assert (await served.gate.reload())["restart"] == []
        server = served.server
        assert server.clients.heartbeat == 7
        assert server.bodies.limits.unverified_seconds == 8
        code, answer = await served.get("/v1/status")
        assert code == 429
        assert "raise `gateway.limits.connections`" in answer["error"]["data"]["action"]
        assert await open_before.result("ping") == {"pong": True}
        change(served)
        await served.gate.reload()
        assert (await served.get("/v1/status"))[0] == 200


async def test_what_waits_for_a_restart_is_named_by_its_key_and_shown_until_it_is_as_it_was() -> (
    None
):
    section, made = tokens(ops={"scopes": ["operate", "read"]})
    async with serving(wire=section) as served:
        change(served, **section, allowed_hosts=["gw.example"], limits={"drain_seconds": 1})
        assert (await served.gate.reload())["restart"] == ["gateway.allowed_hosts"]
        _, shown = await served.get("/v1/status", **bearer(made["ops"]))
        assert shown["notices"]["settings"] == (
            "changed and waiting for a restart: gateway.allowed_hosts"
        )
        change(served, **section)
        assert (await served.gate.reload())["restart"] == []
        _, shown = await served.get("/v1/status", **bearer(made["ops"]))
        assert "settings" not in shown["notices"]


async def test_the_last_token_does_not_go_where_others_can_reach_the_listener() -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]})
    async with serving(wire={"host": "0.0.0.0", **section}) as served:
        # The address waits for a restart, so what is listened on counts.
        change(served, host="127.0.0.1")
        with pytest.raises(StartError, match="there is no token"):
            await served.gate.reload()
        local = f"http://127.0.0.1:{served.listener.port}/v1/status"
        for token, code in ((made["ops"], 200), (new_token()[0], 401)):
            async with served.http.get(local, **bearer(token)) as answer:
                assert answer.status == code


async def test_a_token_whose_file_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]})
    async with serving(wire=section) as served:
        change(served, tokens={"ops": {"file": str(tmp_path / "absent")}})
        with pytest.raises(ConfigError, match="no such file"):
            await served.gate.reload()
        assert await status(served, made["ops"]) == 200


async def test_a_token_that_is_rotated_in_its_file_is_in_force_without_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SECRETS_SECONDS", 0.01)
    (first, _), (second, _) = new_token(), new_token()
    path = tmp_path / "token"
    path.write_text(first)
    path.chmod(0o600)
    async with serving(wire={"tokens": {"ops": {"file": str(path)}}}) as served:
        async with served.socket(**bearer(first)) as shown_before:
            path.write_text(second)
            assert await shown_before.closed() == 1008
        assert await status(served, second) == 200
        assert await status(served, first) == 401


async def test_a_hundred_reloads_under_load_fail_nobody() -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]}, ann={})
    async with serving(wire=section) as served:
        done = asyncio.Event()
        answers: list[int] = []

        async def ask(number: int) -> None:
            while not done.is_set():
                body = {"content": "x", "peer": f"peer-{number}"}
                code, _ = await served.post("/v1/turns", body, **bearer(made["ann"]))
                answers.append(code)

        asking = [asyncio.ensure_future(ask(number)) for number in range(4)]
        for number in range(100):
            more, new = tokens(eve={})
            named = {**section["tokens"], **more["tokens"]}
            change(served, tokens=named, limits={"queue_frames": 64 + number})
            await served.gate.reload()
            assert await status(served, new["eve"]) == 200
        await until(lambda: len(answers) > 20)
        done.set()
        await asyncio.gather(*asking)
    assert set(answers) == {200}
