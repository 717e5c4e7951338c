from __future__ import annotations

import asyncio
import hashlib
import json
import socket as socket_of
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.core.gateway.test_peer import NOBODY, as_root, user
from tests.support.script import Recorder, Script, Scripted, say
from tests.support.wire import Served, Socket, bearer, serving, tokens

from hookgate.core.gateway.access.peer import NONCE_HEADER, new_key, new_nonce, prove_owner
from hookgate.core.gateway.access.tokens import PREFIX
from hookgate.core.gateway.wire import websocket as socket_module


async def refused(served: Served, **more: Any) -> int:
    """Return the status with which a WebSocket is refused."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with served.socket(hello=False, **more):
            raise AssertionError("it was let in")
    return caught.value.status


async def authenticate(socket: Socket, token: Any) -> dict[str, Any]:
    await socket.raw.send_json(
        {"jsonrpc": "2.0", "id": "a", "method": "auth", "params": {"token": token}}
    )
    return await socket.next()


# -- loopback without tokens -----------------------------------------------------------


async def test_loopback_needs_no_token() -> None:
    async with serving() as served, served.socket() as socket:
        assert socket.heard[0]["params"]["principal"] == "loopback"
        assert (await served.get("/v1/status"))[0] == 200


@pytest.mark.parametrize(
    "name", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"]
)
async def test_a_proxy_before_a_listener_without_tokens_is_refused_and_told(name: str) -> None:
    headers = {name: "127.0.0.1"}
    async with serving() as served:
        for path in ("/v1/status", "/health", "/nothing"):
            status, answer = await served.get(path, headers=headers)
            assert (status, answer["error"]["data"]["code"]) == (400, "forwarded")
            assert "proxy" in answer["error"]["message"]
            assert "trusted_proxies" in answer["error"]["data"]["action"]
        assert await refused(served, headers=headers) == 400


# -- the ways to bring a token -------------------------------------------------------------


async def test_a_token_is_needed_once_there_is_one_on_loopback_too() -> None:
    section, made = tokens(ops={"scopes": ["read", "operate"]})
    async with serving(wire=section) as served:
        status, answer = await served.get("/v1/status")
        assert (status, answer["error"]["code"]) == (401, -32001)
        assert (await served.get("/v1/status", **bearer("wrong")))[0] == 401
        assert (await served.get("/v1/status", **bearer(made["ops"])))[0] == 200
        async with served.http.get(served.url + "/v1/status") as response:
            assert response.headers["WWW-Authenticate"] == "Bearer"
        assert await refused(served, **bearer("wrong")) == 401
        async with served.socket(**bearer(made["ops"])) as socket:
            hello = socket.heard[0]["params"]
    assert (hello["principal"], hello["scopes"]) == ("token:ops", ["operate", "read"])


async def test_the_scheme_of_a_token_is_read_in_any_case_and_no_other_is_taken() -> None:
    section, made = tokens(ops={})
    async with serving(wire=section) as served:
        for text, status in (
            (f"bearer {made['ops']}", 200),
            (f"BEARER  {made['ops']}", 200),
            (f"Basic {made['ops']}", 401),
            (made["ops"], 401),
            (f"Bearer {made['ops']} x", 401),
            (f"Bearer {made['ops']}x", 401),
            (f"Bearer {made['ops'][:-1]}", 401),
            ("Bearer", 401),
            (f"Bearer {'x' * 5000}", 401),
        ):
            answer = await served.get("/v1/status", headers={"Authorization": text})
            assert answer[0] == status, text[:20]


async def test_a_browser_brings_its_token_as_a_subprotocol() -> None:
    section, made = tokens(page={})
    async with serving(wire=section) as served:
        protocols = ["hookgate", f"bearer.{made['page']}"]
        async with served.socket(protocols=protocols) as socket:
            assert socket.raw.protocol == "hookgate"
            assert socket.heard[0]["params"]["principal"] == "token:page"
        assert await refused(served, protocols=["hookgate", "bearer.wrong"]) == 401
        # Without `hookgate` nothing could be taken up, and a browser would give up.
        assert await refused(served, protocols=[f"bearer.{made['page']}"]) == 400


async def test_two_tokens_are_one_too_many() -> None:
    section, made = tokens(ops={})
    async with serving(wire=section) as served:
        protocols = ["hookgate", f"bearer.{made['ops']}"]
        assert await refused(served, protocols=protocols, **bearer(made["ops"])) == 401
        assert served.server.gate.tokens.evaluated == 0


async def test_a_token_in_the_first_frame_opens_the_socket() -> None:
    section, made = tokens(ops={"scopes": ["read"]})
    async with serving(wire=section) as served, served.socket(hello=False) as socket:
        answer = await authenticate(socket, made["ops"])
        assert answer["result"] == {"principal": "token:ops", "scopes": ["read"]}
        assert (await socket.next())["method"] == "hello"
        assert await socket.result("ping") == {"pong": True}
        # Afterwards it is no method any more.
        assert (await socket.call("auth", token="x"))["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"status"}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"chat.send","params":{"content":"x"}}', -32001),
        ('{"jsonrpc":"2.0","method":"auth","params":{"token":"x"}}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"auth","params":{"token":"x"}}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"auth","params":{"token":""}}', -32001),
        ('{"jsonrpc":"2.0","id":1,"method":"auth","params":{"token":7}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"auth"}', -32602),
        ("nonsense", -32700),
        ("[]", -32600),
    ],
)
async def test_a_first_frame_without_a_right_token_ends_the_socket(frame: str, code: int) -> None:
    recorder = Recorder()
    section, _ = tokens(ops={})
    async with (
        serving(Scripted(Script(say("x"))), recorder, wire=section) as served,
        served.socket(hello=False) as socket,
    ):
        await socket.raw.send_str(frame)
        assert (await socket.next())["error"]["code"] == code
        assert await socket.closed() == 1008
        assert recorder.turns == []
        assert served.gate.host.running() == ()


async def test_a_socket_that_sends_no_token_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "AUTH_SECONDS", 0.05)
    section, _ = tokens(ops={})
    async with serving(wire=section) as served, served.socket(hello=False) as socket:
        assert (await socket.next())["error"]["data"]["code"] == "timeout"
        assert await socket.closed() == 1008


async def test_only_so_many_sockets_may_wait_to_authenticate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hookgate.core.gateway.server.PENDING", 1)
    section, made = tokens(ops={})
    async with serving(wire=section) as served, served.socket(hello=False) as first:
        assert await refused(served) == 429
        async with served.socket(**bearer(made["ops"])) as socket:
            assert await socket.result("ping") == {"pong": True}
        await authenticate(first, made["ops"])
        await first.next()
        async with served.socket(hello=False) as second:
            assert "result" in await authenticate(second, made["ops"])


@pytest.mark.parametrize("name", ["token", "access_token", "Authorization", "api_key", "auth"])
async def test_a_token_in_the_query_is_refused_even_where_it_is_right(name: str) -> None:
    section, made = tokens(ops={})
    async with serving(wire=section) as served:
        status, answer = await served.get(f"/v1/status?{name}={made['ops']}")
        assert (status, answer["error"]["data"]["code"]) == (401, "unauthorized")
        assert made["ops"] not in json.dumps(answer)
        status, _ = await served.get(f"/v1/status?{name}=x", **bearer(made["ops"]))
        assert status == 401
        status, _ = await served.get(f"/v1/status?x={made['ops']}", **bearer(made["ops"]))
        assert status == 401


# -- the owner of the home, where there are tokens --------------------------------------------


@asynccontextmanager
async def waiting(
    served: Served, nonce: str, **headers: str
) -> AsyncIterator[tuple[Socket, Any, Any]]:
    """Open a socket without a token; yield it, and the gateway's end and its own."""
    sent = {NONCE_HEADER: nonce, **headers}
    async with served.socket(hello=False, headers=sent) as socket:
        ends = [socket.raw.get_extra_info(name) for name in ("peername", "sockname")]
        yield socket, *ends


async def test_who_has_read_the_homes_key_is_its_owner_though_there_are_tokens() -> None:
    section, _ = tokens(laptop={"scopes": ["chat"]})
    nonce = new_nonce()
    async with serving(wire=section) as served, waiting(served, nonce) as (socket, server, own):
        proof = prove_owner(served.server.key, nonce, server, own)
        answer = await authenticate(socket, proof)
        assert answer["result"]["principal"] == "loopback"
        assert answer["result"]["scopes"] == ["approve", "chat", "operate", "read"]
        assert (await socket.next())["method"] == "hello"
        assert "result" in await socket.call("status")


@pytest.mark.parametrize("wrong", ["key", "nonce", "server", "client", "prefix", "no nonce"])
async def test_an_owners_proof_is_good_for_one_connection_to_one_gateway(wrong: str) -> None:
    section, _ = tokens(laptop={"scopes": ["chat"]})
    nonce = new_nonce()
    sent = "none" if wrong == "no nonce" else nonce
    async with serving(wire=section) as served, waiting(served, sent) as (socket, server, own):
        key = new_key() if wrong == "key" else served.server.key
        server = ("127.0.0.1", 1) if wrong == "server" else server
        own = ("127.0.0.1", 1) if wrong == "client" else own
        proof = prove_owner(key, new_nonce() if wrong == "nonce" else nonce, server, own)
        assert proof is not None
        shown = proof.removeprefix("hgo_") if wrong == "prefix" else proof
        assert (await authenticate(socket, shown))["error"]["code"] == -32001
        assert await socket.closed() == 1008
        assert served.server.gate.tokens.evaluated == 1


async def test_an_owners_proof_does_not_come_through_a_proxy_nor_as_a_bearer_token() -> None:
    section, _ = tokens(laptop={"scopes": ["chat"]})
    wire, nonce = {**section, "trusted_proxies": ["127.0.0.1"]}, new_nonce()
    async with serving(wire=wire) as served:
        headers = {"X-Forwarded-For": "127.0.0.1"}
        async with waiting(served, nonce, **headers) as (socket, server, own):
            proof = prove_owner(served.server.key, nonce, server, own)
            assert (await authenticate(socket, proof))["error"]["code"] == -32001
        assert (await served.get("/v1/status", **bearer(str(proof))))[0] == 401


@as_root
async def test_another_user_is_no_owner_even_with_the_key() -> None:
    section, _ = tokens(laptop={"scopes": ["chat"]})
    nonce = new_nonce()

    def foreign(address: Any) -> socket_of.socket:
        with user(NOBODY):
            return socket_of.socket(address[0], address[1])

    connector = aiohttp.TCPConnector(socket_factory=foreign)
    async with (
        serving(wire=section) as served,
        aiohttp.ClientSession(connector=connector) as http,
        http.ws_connect(f"{served.url}/ws", headers={NONCE_HEADER: nonce}) as raw,
    ):
        ends = [raw.get_extra_info(name) for name in ("peername", "sockname")]
        answer = await authenticate(Socket(raw), prove_owner(served.server.key, nonce, *ends))
    assert answer["error"]["code"] == -32001


# -- guessing ---------------------------------------------------------------------------------


async def test_of_a_thousand_guesses_twenty_are_evaluated() -> None:
    section, _ = tokens(ops={}, other={})
    statuses, waits = [], []
    async with serving(wire=section) as served:
        for number in range(1000):
            status, answer = await served.get("/v1/status", **bearer(f"guess-{number}"))
            statuses.append(status)
            waits.append(answer["error"]["data"].get("retry_after", 0))
        assert served.server.gate.tokens.evaluated == 20
        # The first that is refused waits longest: on a busy machine the others come later.
        assert max(waits) > 50
        assert await refused(served, **bearer("guess-1000")) == 429
        assert served.server.gate.tokens.evaluated == 20
        assert (await served.get("/health"))[0] == 200
    assert statuses == [401] * 20 + [429] * 980


async def test_guesses_lock_out_nobody_who_comes_from_the_same_address_with_a_right_token() -> None:
    section, made = tokens(ops={}, other={})
    async with serving(wire={**section, "limits": {"attempts_per_minute": 1}}) as served:
        for guess in ("guess", PREFIX + "A" * 43, made["ops"][:-1], f"{made['ops']}A"):
            status, _ = await served.get("/v1/status", **bearer(guess))
        assert status == 429
        assert (await served.get("/v1/status", **bearer(made["ops"])))[0] == 200
        async with served.socket(**bearer(made["ops"])) as socket:
            assert await socket.result("ping") == {"pong": True}
        async with served.socket(protocols=["hookgate", f"bearer.{made['other']}"]) as socket:
            assert await socket.result("ping") == {"pong": True}
        # One that has the form of a right one has the limit as well: it is not told apart.
        assert (await served.get("/v1/status", **bearer(PREFIX + "B" * 43)))[0] == 429
        await served.server.gate.tokens.revoke("other")
        assert (await served.get("/v1/status", **bearer(made["other"])))[0] == 429


async def test_a_token_that_may_be_guessed_passes_a_lock_where_it_was_right_before() -> None:
    digest = hashlib.sha256(b"swordfish").hexdigest()
    wire = {"tokens": {"weak": {"digest": digest}}, "limits": {"attempts_per_minute": 1}}
    for first, status in ((bearer("swordfish"), 200), (bearer("x"), 429)):
        async with serving(wire=wire) as served:
            await served.get("/v1/status", **first)
            await served.get("/v1/status", **bearer("guess"))
            assert (await served.get("/v1/status", **bearer("swordfish")))[0] == status


async def test_guesses_in_first_frames_count_as_well() -> None:
    section, made = tokens(ops={})
    async with serving(wire=section) as served:
        async with served.socket(hello=False) as patient:
            for _ in range(20):
                async with served.socket(hello=False) as socket:
                    await authenticate(socket, "wrong")
            assert served.server.gate.tokens.evaluated == 20
            answer = await authenticate(patient, "right?")
            assert answer["error"]["code"] == -32010
        assert served.server.gate.tokens.evaluated == 20
        async with served.socket(hello=False) as socket:
            assert "result" in await authenticate(socket, made["ops"])


async def test_right_tokens_and_missing_ones_are_no_attempts() -> None:
    section, made = tokens(ops={})
    async with serving(wire={**section, "limits": {"attempts_per_minute": 1}}) as served:
        for _ in range(5):
            assert (await served.get("/v1/status", **bearer(made["ops"])))[0] == 200
            assert (await served.get("/v1/status"))[0] == 401
        assert len(served.server.gate.attempts) == 0


async def test_behind_a_trusted_proxy_each_client_is_counted_alone() -> None:
    section, made = tokens(ops={})
    wire = {**section, "trusted_proxies": ["127.0.0.1"], "limits": {"attempts_per_minute": 1}}

    def via(client: str, token: str) -> dict[str, Any]:
        return {"headers": {"X-Forwarded-For": client, "Authorization": f"Bearer {token}"}}

    async with serving(wire=wire) as served:
        assert (await served.get("/v1/status", **via("203.0.113.1", "wrong")))[0] == 401
        assert (await served.get("/v1/status", **via("203.0.113.1", "right?")))[0] == 429
        assert (await served.get("/v1/status", **via("203.0.113.2", "wrong")))[0] == 401
        assert (await served.get("/v1/status", **via("203.0.113.1", made["ops"])))[0] == 200


async def test_an_untrusted_proxy_cannot_choose_its_address() -> None:
    section, _ = tokens(ops={})
    async with serving(wire={**section, "limits": {"attempts_per_minute": 1}}) as served:
        for client in ("203.0.113.1", "203.0.113.2"):
            headers = {"X-Forwarded-For": client, "Authorization": "Bearer wrong"}
            status, _ = await served.get("/v1/status", headers=headers)
        assert status == 429


# -- what a token may do ------------------------------------------------------------------------


async def test_scopes_and_bindings_hold_and_who_is_refused_reaches_no_turn() -> None:
    recorder = Recorder()
    section, made = tokens(
        reader={"scopes": ["read"]},
        bound={"scopes": ["chat"], "channels": ["irc"], "peers": ["ann", "bob"]},
    )
    async with serving(Scripted(Script(say("x"))), recorder, wire=section) as served:
        async with served.socket(**bearer(made["reader"])) as socket:
            answer = await socket.call("chat.send", content="x")
            assert answer["error"]["code"] == -32002
            assert "chat" in answer["error"]["data"]["action"]
            assert "result" in await socket.call("status")
            assert (await socket.call("reload"))["error"]["code"] == -32002
        async with served.socket(**bearer(made["bound"])) as socket:
            assert (await socket.call("status"))["error"]["code"] == -32002
            for claim in (
                {},
                {"channel": "irc"},
                {"channel": "irc", "peer": "eve"},
                {"channel": "cli", "peer": "ann"},
            ):
                answer = await socket.call("chat.send", content="x", **claim)
                assert answer["error"]["code"] == -32002, claim
            assert recorder.before == []
            await socket.send("chat.send", content="x", channel="irc", peer="bob")
            assert (await socket.until("done"))["session"] == "main:irc:local:bob"
        for path, body in (("/v1/turns", {"content": "x"}), ("/v1/operations/reload", {})):
            assert (await served.post(path, body, **bearer(made["reader"])))[0] == 403
    assert len(recorder.before) == 1


async def test_a_turn_is_cancelled_by_its_owner_and_by_operators_alone() -> None:
    hold = asyncio.Event()

    async def wait() -> None:
        await hold.wait()

    section, made = tokens(ann={}, bob={}, ops={"scopes": ["chat", "operate"]})
    script = Script([wait, *say("x")])
    async with (
        serving(Scripted(script), wire=section) as served,
        served.socket(**bearer(made["ann"])) as ann,
        served.socket(**bearer(made["bob"])) as bob,
        served.socket(**bearer(made["ops"])) as ops,
    ):
        for canceller, allowed in ((bob, False), (ops, True), (ann, True)):
            turn = (await ann.result("chat.send", content="x"))["turn"]
            answer = await canceller.call("chat.cancel", turn=turn)
            assert ("result" in answer) is allowed
            if not allowed:
                assert answer["error"]["code"] == -32006
                await ann.result("chat.cancel", turn=turn)
            await ann.until("done")
