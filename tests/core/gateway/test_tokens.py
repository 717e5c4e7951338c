from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.core.gateway.test_chat import Gate
from tests.support.script import Recorder, Script, Scripted, say, settings, until
from tests.support.wire import bearer, serving, tokens

from hookgate.core.domain.errors import ConfigError, StartError
from hookgate.core.domain.ports import SWITCHES
from hookgate.core.gateway.access.auth import Caller, check_listener
from hookgate.core.gateway.access.tokens import DEAF_SECONDS, REVOKED_SWITCH, new_token
from hookgate.core.gateway.serve import listen
from hookgate.sessions import FileSwitches

# -- revoking -------------------------------------------------------------------------------------


async def test_a_revoked_token_closes_its_sockets_and_requests_at_once_and_for_good(
    tmp_path: Path,
) -> None:
    hold = asyncio.Event()

    async def wait() -> None:
        await hold.wait()

    recorder = Recorder()
    section, made = tokens(ops={"scopes": ["operate"]}, ann={}, bob={})
    script = Script([wait, *say("x")])
    config = settings(tmp_path, gateway={"port": 0, **section})
    ann, ops = bearer(made["ann"]), bearer(made["ops"])
    async with serving(Scripted(script), recorder, wire=section, home=tmp_path) as served:
        async with (
            served.socket(**ops) as operator,
            served.socket(**ann) as running,
            served.socket(**ann) as idle,
            served.socket(**bearer(made["bob"])) as other,
        ):
            await running.send("chat.send", content="x")
            asking = asyncio.ensure_future(
                served.post("/v1/turns", {"content": "x", "peer": "b"}, **ann)
            )
            await until(lambda: len(script.requests) == 2)
            started = asyncio.get_running_loop().time()
            closed = asyncio.gather(idle.closed(), running.closed())
            assert await operator.result("token.revoke", name="ann") == {"name": "ann"}
            assert await closed == [1008, 1008]
            with pytest.raises(aiohttp.ClientError):
                await asking
            assert asyncio.get_running_loop().time() - started < 10
            await until(lambda: len(recorder.turns) == 2)
            assert {turn.ending for turn in recorder.turns} == {"cancelled"}
            assert await other.result("ping") == {"pong": True}
            rows = (await operator.result("token.list"))["tokens"]
            assert {row["name"]: row["revoked"] for row in rows} == {
                "ops": False,
                "ann": True,
                "bob": False,
            }
            answer = await operator.call("token.revoke", name="nobody")
            assert answer["error"]["code"] == -32006
        assert (await served.get("/v1/status", **ann))[0] == 401
    async with serving(Scripted(script), wire=section, home=tmp_path) as served:
        assert (await served.get("/v1/status", **ann))[0] == 401
        assert (await served.get("/v1/status", **bearer(made["bob"])))[0] == 200
    kept = tmp_path / "revoked-tokens.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert made["ann"] not in kept.read_text()
    assert config.gateway.tokens["ann"].digest in kept.read_text()


async def test_a_turn_that_was_to_be_finished_without_its_client_is_cancelled_too() -> None:
    gate, recorder = Gate(), Recorder()
    section, made = tokens(ops={"scopes": ["operate"]}, ann={})
    wire = {**section, "on_disconnect": "finish"}
    async with (
        serving(Scripted(Script(gate.stops())), recorder, wire=wire) as served,
        served.socket(**bearer(made["ops"])) as operator,
    ):
        async with served.socket(**bearer(made["ann"])) as socket:
            await socket.send("chat.send", content="x")
            await gate.reached.wait()
        await until(lambda: len(served.server.clients) == 1)
        assert len(served.gate.host.running()) == 1
        await operator.result("token.revoke", name="ann")
        await until(lambda: len(recorder.turns) == 1)
    assert recorder.turns[0].ending == "cancelled"


async def test_a_token_that_is_revoked_while_it_lets_somebody_in_lets_nobody_in() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served:
        gate = served.server.gate
        identify, book = gate.identify, gate.tokens

        async def late(request: web.Request, *forms: Any) -> Caller | None:
            caller = await identify(request, *forms)
            book._mark(section["tokens"]["ann"]["digest"])
            return caller

        gate.identify = late  # type: ignore[method-assign] - to revoke in between
        async with served.socket(hello=False, **bearer(made["ann"])) as socket:
            assert await socket.closed() == 1008
        book._revoked.clear()
        with pytest.raises(aiohttp.ClientError):
            await served.post("/v1/turns", {"content": "x"}, **bearer(made["ann"]))
        assert served.gate.host.running() == ()


async def test_a_revocation_at_another_gateway_is_heard() -> None:
    section, made = tokens(ann={})
    async with serving(wire=section) as served, served.socket(**bearer(made["ann"])) as socket:
        digest = section["tokens"]["ann"]["digest"]
        await served.gate.host[SWITCHES].put(REVOKED_SWITCH, [digest], version=0)
        assert await socket.closed() == 1008
        assert (await served.get("/v1/status", **bearer(made["ann"])))[0] == 401


async def test_what_either_list_names_is_revoked_and_both_name_it_then(tmp_path: Path) -> None:
    section, made = tokens(ann={}, bob={}, eve={})
    digests = {name: section["tokens"][name]["digest"] for name in made}
    kept = tmp_path / "revoked-tokens.json"
    kept.write_text(json.dumps({"digests": [digests["ann"]]}))
    switches = FileSwitches(tmp_path)
    await switches.put(REVOKED_SWITCH, [digests["bob"]], version=0)
    async with serving(wire=section, home=tmp_path) as served:
        for name, status in (("ann", 401), ("bob", 401), ("eve", 200)):
            assert (await served.get("/v1/status", **bearer(made[name])))[0] == status
    named = (await switches.get(REVOKED_SWITCH)).value
    assert named == sorted([digests["ann"], digests["bob"]])


@pytest.mark.parametrize("held", ["{", '{"switches": {"tokens.revoked": 7}}'])
async def test_without_the_switch_of_revoked_tokens_nobody_is_let_in(
    tmp_path: Path, held: str
) -> None:
    section, _ = tokens(ann={})
    (tmp_path / "switches.json").write_text(held)
    with pytest.raises(StartError, match=r"switches\.json"):
        async with serving(wire=section, home=tmp_path):
            raise AssertionError("it started")


async def test_without_the_list_of_revoked_tokens_nobody_is_let_in(tmp_path: Path) -> None:
    section, _ = tokens(ann={})
    (tmp_path / "revoked-tokens.json").write_text('{"digests": [7]}')
    with pytest.raises(StartError, match=r"revoked-tokens\.json"):
        async with serving(wire=section, home=tmp_path):
            raise AssertionError("it started")


# -- when revocations cannot be kept, or not be heard of ------------------------------------------


async def test_who_revokes_its_own_token_by_a_request_is_cut_off_and_others_hear_of_it() -> None:
    section, made = tokens(ops={"scopes": ["operate"]})
    async with serving(wire=section) as served:
        heard: list[Any] = []
        served.gate.host[SWITCHES].watch(REVOKED_SWITCH, lambda switch: heard.append(switch.value))
        ops = bearer(made["ops"])
        with pytest.raises(aiohttp.ClientError):
            await served.post("/v1/operations/token.revoke", {"name": "ops"}, **ops)
        await until(lambda: heard == [[section["tokens"]["ops"]["digest"]]])


async def test_a_token_is_revoked_even_where_that_cannot_be_kept(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["operate", "read"]}, ann={})
    async with (
        serving(wire=section, home=tmp_path) as served,
        served.socket(**bearer(made["ops"])) as operator,
        served.socket(**bearer(made["ann"])) as ann,
    ):
        (tmp_path / "revoked-tokens.json").mkdir()
        closed = asyncio.ensure_future(ann.closed())
        answer = await operator.call("token.revoke", name="ann")
        assert answer["error"]["data"]["code"] == "store_failed"
        assert "revoke it again" in answer["error"]["message"]
        assert await closed == 1008
        assert (await served.get("/v1/status", **bearer(made["ann"])))[0] == 401
        (tmp_path / "revoked-tokens.json").rmdir()
        assert await operator.result("token.revoke", name="ann") == {"name": "ann"}
    assert section["tokens"]["ann"]["digest"] in (tmp_path / "revoked-tokens.json").read_text()


async def test_a_gateway_that_cannot_hear_of_revocations_lets_nobody_new_in_by_a_token() -> None:
    section, made = tokens(ann={})
    ann = bearer(made["ann"])
    async with serving(wire=section) as served, served.socket(**ann) as there:
        switches = served.gate.host[SWITCHES]
        switches.behind = lambda: DEAF_SECONDS + 1  # type: ignore[method-assign]
        status, body = await served.get("/v1/status", **ann)
        assert (status, body["error"]["data"]["code"]) == (503, "not_checked")
        with pytest.raises(aiohttp.WSServerHandshakeError):
            async with served.socket(hello=False, **ann):
                raise AssertionError("it was let in")
        assert await there.result("ping") == {"pong": True}
        switches.behind = lambda: DEAF_SECONDS - 1  # type: ignore[method-assign]
        assert (await served.get("/v1/status", **ann))[0] == 200


async def test_a_list_of_revocations_that_cannot_be_read_lets_nobody_in_until_it_can() -> None:
    section, made = tokens(ann={}, bob={})
    ann, bob = bearer(made["ann"]), bearer(made["bob"])
    async with serving(wire=section) as served:
        switches = served.gate.host[SWITCHES]
        junk = await switches.put(REVOKED_SWITCH, ["no digest"], version=0)
        assert junk is not None
        assert (await served.get("/v1/status", **ann))[0] == 503
        digest = section["tokens"]["ann"]["digest"]
        await switches.put(REVOKED_SWITCH, [digest], version=junk.version)
        assert (await served.get("/v1/status", **ann))[0] == 401
        assert (await served.get("/v1/status", **bob))[0] == 200


# -- what does not start -----------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "gateway.example"])
def test_listening_beyond_loopback_needs_a_token(host: str) -> None:
    with pytest.raises(StartError, match="hookgate token new"):
        check_listener(settings(gateway={"host": host}))
    section, _ = tokens(ops={})
    check_listener(settings(gateway={"host": host, **section}))


def test_trusting_proxies_needs_a_token() -> None:
    with pytest.raises(StartError, match="hookgate token new"):
        check_listener(settings(gateway={"trusted_proxies": ["10.0.0.1"]}))


async def test_a_public_listener_wants_the_token_from_loopback_too() -> None:
    section, made = tokens(ops={})
    async with serving(wire={"host": "0.0.0.0", **section}) as served:
        local = f"http://127.0.0.1:{served.listener.port}/v1/status"
        async with served.http.get(local) as answer:
            assert answer.status == 401
        async with served.http.get(local, **bearer(made["ops"])) as answer:
            assert answer.status == 200


async def test_a_token_may_stand_in_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    token, _ = new_token()
    path = tmp_path / "token"
    path.write_text(token + "\n")
    path.chmod(0o644)
    wire = {"tokens": {"ops": {"file": str(path)}}}
    with pytest.raises(ConfigError, match="chmod 600"):
        async with serving(wire=wire):
            raise AssertionError("it started")
    path.chmod(0o600)
    async with serving(wire=wire) as served:
        assert (await served.get("/v1/status", **bearer(token)))[0] == 200
        assert served.gate.host.secrets.redact(f"x {token} y") == "x [redacted] y"
    path.write_text("")
    with pytest.raises(StartError, match="empty"):
        async with serving(wire=wire):
            raise AssertionError("it started")


async def test_two_names_for_one_token_stop_the_start() -> None:
    _, digest = new_token()
    wire = {"tokens": {"one": {"digest": digest}, "two": {"digest": digest}}}
    with pytest.raises(StartError, match=r"tokens\.one and gateway\.tokens\.two"):
        async with serving(wire=wire):
            raise AssertionError("it started")


async def test_a_port_that_is_taken_says_so() -> None:
    async with serving() as served:
        other = served.gate
        taken = settings(gateway={"port": served.listener.port})
        other.settings = taken
        with pytest.raises(StartError, match=r"cannot listen on 127\.0\.0\.1"):
            async with listen(other):
                raise AssertionError("it listens")
