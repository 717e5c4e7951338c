"""Who a credential stands for is asked of the settings, then of plugins, and of nobody else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
from tests.core.gateway.test_chat import Gate
from tests.support.script import Recorder, Script, Scripted, say, until
from tests.support.wire import Served, bearer, serving, tokens

from hookgate import (
    Claim,
    Credential,
    ModelRef,
    ModelRequest,
    Principal,
    Refusal,
    Turn,
    hookimpl,
)

ALICE = Principal(
    id="key:alice", key="alice", scopes=frozenset(("chat", "read")), bindings=(Claim(),)
)


class Keys:
    """A plugin that knows keys."""

    name = "known"

    def __init__(self, **keys: Any) -> None:
        self.keys = keys
        self.asked: list[Credential] = []

    @hookimpl
    async def authenticate(self, credential: Credential, request: Any) -> Principal | None:
        self.asked.append(credential)
        await asyncio.sleep(0)
        found = self.keys.get(credential.value)
        if isinstance(found, Exception):
            raise found
        if isinstance(found, timedelta):
            # From now on, and not from when the test began: the machine may be busy.
            return replace(ALICE, expires=datetime.now(UTC) + found)
        return found  # type: ignore[no-any-return] - some of the tests' are junk


def model() -> Scripted:
    return Scripted(Script(*(say("hello") for _ in range(9))))


def with_key(value: str) -> dict[str, dict[str, str]]:
    return {"headers": {"x-api-key": value}}


async def refused(served: Served, **more: Any) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with served.socket(hello=False, **more):
            raise AssertionError("it was let in")
    return caught.value.status


@pytest.mark.parametrize("listed", [False, True], ids=["without tokens", "with tokens"])
async def test_whom_a_plugin_knows_is_let_in_by_every_form(listed: bool) -> None:
    section, _ = tokens(ops={}) if listed else ({}, {})
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, wire=section) as served:
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 200
        assert (await served.get("/v1/status", **bearer("k_alice")))[0] == 200
        for more in (
            with_key("k_alice"),
            bearer("k_alice"),
            {"protocols": ["hookgate", "bearer.k_alice"]},
        ):
            async with served.socket(**more) as socket:
                assert socket.heard[0]["params"]["principal"] == "key:alice"
    assert [item.kind for item in keys.asked] == [
        *("x-api-key", "bearer", "x-api-key", "bearer", "subprotocol")
    ]
    assert {item.client for item in keys.asked} == {"127.0.0.1"}


async def test_whom_a_plugin_knows_opens_a_socket_by_its_first_frame() -> None:
    section, _ = tokens(ops={})
    async with (
        serving(model(), Keys(k_alice=ALICE), wire=section) as served,
        served.socket(hello=False) as socket,
    ):
        await socket.raw.send_json(
            {"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": "k_alice"}}
        )
        assert (await socket.next())["result"]["principal"] == "key:alice"


async def test_a_token_of_the_settings_is_no_plugins_business_and_may_be_an_api_key() -> None:
    section, made = tokens(ops={"scopes": ["read"]})
    keys = Keys()
    async with serving(model(), keys, wire=section) as served:
        for more in (bearer(made["ops"]), with_key(made["ops"])):
            assert (await served.get("/v1/status", **more))[0] == 200
    assert keys.asked == []


@pytest.mark.parametrize("plugins", [(), (Keys(),)], ids=["nobody to ask", "nobody knows it"])
async def test_who_shows_an_unknown_key_does_not_become_the_owner(plugins: Any) -> None:
    async with serving(model(), *plugins) as served:
        assert (await served.get("/v1/status"))[0] == 200
        for more in (bearer("k_x"), with_key("k_x"), {"headers": {"Authorization": "Basic YTpi"}}):
            status, answer = await served.get("/v1/status", **more)
            assert (status, answer["error"]["data"]["code"]) == (401, "unauthorized")
            assert "send none" in answer["error"]["data"]["action"]
            assert await refused(served, **more) == 401
        # A script whose variable is empty shows nothing.
        for headers in ({"Authorization": "Bearer "}, {"x-api-key": ""}):
            assert (await served.get("/v1/status", headers=headers))[0] == 200


async def test_failures_of_every_form_count_together_and_nobody_is_asked_any_more() -> None:
    section, made = tokens(ops={})
    keys = Keys(k_alice=ALICE, k_broken=RuntimeError("no"), k_junk=replace(ALICE, id="loopback"))
    wire = {**section, "limits": {"attempts_per_minute": 6}}
    async with serving(model(), keys, wire=wire) as served:
        assert (await served.get("/v1/status", **bearer("k_x")))[0] == 401
        assert (await served.get("/v1/status", **with_key("k_x")))[0] == 401
        assert await refused(served, protocols=["hookgate", "bearer.k_x"]) == 401
        assert (await served.get("/v1/status", **with_key("k_broken")))[0] == 503
        assert (await served.get("/v1/status", **with_key("k_junk")))[0] == 503
        async with served.socket(hello=False) as socket:
            await socket.raw.send_json(
                {"jsonrpc": "2.0", "id": 1, "method": "auth", "params": {"token": "k_x"}}
            )
            assert await socket.closed() == 1008
        asked = len(keys.asked)
        for value in ("k_alice", "k_x"):
            assert (await served.get("/v1/status", **bearer(value)))[0] == 429
            assert (await served.get("/v1/status", **with_key(value)))[0] == 429
        assert (await served.get("/v1/status", **with_key(made["ops"])))[0] == 200
    assert asked == len(keys.asked) == 6


async def test_a_key_that_was_right_before_passes_a_lock_until_it_is_right_no_more() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, wire={"limits": {"attempts_per_minute": 1}}) as served:
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 200
        assert (await served.get("/v1/status", **with_key("k_x")))[0] == 401
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 200
        assert (await served.get("/v1/status", **bearer("k_alice")))[0] == 429, "another form"
        del keys.keys["k_alice"]
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 401
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 429
    assert [asked.value for asked in keys.asked] == ["k_alice", "k_x", "k_alice", "k_alice"]


async def test_the_owner_is_not_shut_out_by_the_wrong_keys_of_others() -> None:
    async with serving(model(), wire={"limits": {"attempts_per_minute": 1}}) as served:
        assert (await served.get("/v1/status", **bearer("k_x")))[0] == 401
        assert (await served.get("/v1/status", **bearer("k_x")))[0] == 429
        assert (await served.get("/v1/status"))[0] == 200


async def test_guesses_made_side_by_side_are_no_more_than_those_made_in_a_row() -> None:
    going = asyncio.Event()

    class Slow(Keys):
        @hookimpl
        async def authenticate(self, credential: Credential, request: Any) -> Principal | None:
            self.asked.append(credential)
            await going.wait()
            return self.keys.get(credential.value)

    keys = Slow(k_alice=ALICE)
    async with serving(model(), keys, wire={"limits": {"attempts_per_minute": 4}}) as served:
        guesses = [
            asyncio.create_task(served.get("/v1/status", **with_key(f"k_{number}")))
            for number in range(30)
        ]
        await until(lambda: len(keys.asked) == 4)
        going.set()
        statuses = sorted(status for status, _ in await asyncio.gather(*guesses))
    assert statuses == [401] * 4 + [429] * 26
    assert len(keys.asked) == 4


async def test_behind_a_lock_keys_that_cannot_be_guessed_are_asked_about_one_at_a_time() -> None:
    running: list[int] = []

    class Slow(Keys):
        @hookimpl
        async def authenticate(self, credential: Credential, request: Any) -> Principal | None:
            running.append(1)
            found = await super().authenticate(credential, request)
            most.append(len(running))
            running.pop()
            return found

    most: list[int] = []
    form = "hgk_" + "A" * 41
    keys = Slow(**{f"{form}__": ALICE})
    async with serving(model(), keys, wire={"limits": {"attempts_per_minute": 4}}) as served:
        for number in range(4):
            assert (await served.get("/v1/status", **with_key(f"k_{number}")))[0] == 401
        del keys.asked[:]
        values = [f"{form}{number}" for number in range(10, 20)] + [f"{form}__"] * 3 + ["k_x"]
        asks = (served.get("/v1/status", **with_key(value)) for value in values)
        found = [status for status, _ in await asyncio.gather(*asks)]
    assert found == [429] * 10 + [200] * 3 + [429]
    assert len(keys.asked) == 13
    assert max(most) == 1


async def test_right_keys_side_by_side_are_all_let_in() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, wire={"limits": {"attempts_per_minute": 2}}) as served:
        asks = (served.get("/v1/status", **with_key("k_alice")) for _ in range(30))
        assert {status for status, _ in await asyncio.gather(*asks)} == {200}


@pytest.mark.parametrize(
    "junk",
    [
        "alice",
        True,
        {"id": "key:alice"},
        replace(ALICE, scopes=frozenset(("root",))),  # type: ignore[arg-type]
        replace(ALICE, scopes="chat, operate"),  # type: ignore[arg-type]
        replace(ALICE, scopes=["chat"]),  # type: ignore[arg-type]
        replace(ALICE, id=""),
        replace(ALICE, id="token:ops"),
        replace(ALICE, id="a\nb"),
        replace(ALICE, bindings=None),  # type: ignore[arg-type]
        replace(ALICE, bindings=("cli",)),  # type: ignore[arg-type]
        replace(ALICE, agents="main"),  # type: ignore[arg-type]
        replace(ALICE, expires=datetime(2999, 1, 1)),
        replace(ALICE, expires="2999"),  # type: ignore[arg-type]
        replace(ALICE, key=None),  # type: ignore[arg-type]
    ],
)
async def test_a_principal_that_cannot_be_lets_nobody_in(junk: Any) -> None:
    async with serving(model(), Keys(k_junk=junk)) as served:
        status, answer = await served.get("/v1/status", **with_key("k_junk"))
        assert (status, answer["error"]["data"]["code"]) == (503, "not_checked")
        assert await refused(served, **with_key("k_junk")) == 503


async def test_a_plugin_that_fails_refuses_and_the_credential_is_not_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    keys = Keys(k_very_secret=KeyError("k_very_secret is not in the table"))
    async with serving(model(), keys) as served:
        status, answer = await served.get("/v1/status", **with_key("k_very_secret"))
        assert status == 503
        assert "k_very_secret" not in json.dumps(answer)
    logged = capfd.readouterr().err
    assert "is not in the table" in logged
    assert "k_very_secret" not in logged
    assert "k_very_secret" not in repr(keys.asked)


async def test_more_than_one_credential_is_refused_and_nobody_asked() -> None:
    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys) as served:
        both = {"Authorization": "Bearer k_alice", "x-api-key": "k_bob"}
        assert (await served.get("/v1/status", headers=both))[0] == 401
        twice = [("x-api-key", "k_alice"), ("x-api-key", "k_alice")]
        assert (await served.get("/v1/status", headers=twice))[0] == 401
        more = {"protocols": ["hookgate", "bearer.k_alice"], **with_key("k_alice")}
        assert await refused(served, **more) == 401
    assert keys.asked == []


async def test_a_plugin_may_say_why_a_key_that_it_knows_lets_nobody_in() -> None:
    refusal = Refusal(code="gone", message="this key is over", action="ask for another one")
    keys = Keys(k_over=refusal, k_alice=ALICE)
    wire = {"limits": {"attempts_per_minute": 3}}
    async with serving(model(), keys, wire=wire) as served:
        for _ in range(3):
            status, answer = await served.get("/v1/status", **with_key("k_over"))
            assert (status, answer["error"]["message"]) == (401, "this key is over")
            assert answer["error"]["data"] == {
                "code": "unauthorized",
                "action": "ask for another one",
            }
        # It counts as a failure of its address.
        assert (await served.get("/v1/status", **with_key("k_over")))[0] == 429
        assert await refused(served, **with_key("k_over")) == 429


async def test_claims_reach_the_turn_and_those_that_are_none_let_nobody_in() -> None:
    recorder = Recorder()
    claims = {"acme": {"plan": "gold"}}
    known = replace(ALICE, claims=claims)
    assert hash(known) == hash(ALICE)
    assert known != ALICE
    odd = [replace(ALICE, claims=one) for one in (["gold"], {1: "gold"}, None)]  # type: ignore[arg-type]
    keys = Keys(k_gold=known, **{f"k_odd{n}": one for n, one in enumerate(odd)})
    async with serving(model(), recorder, keys) as served:
        assert (await served.post("/v1/turns", {"content": "x"}, **with_key("k_gold")))[0] == 200
        for n in range(len(odd)):
            assert (await served.get("/v1/status", **with_key(f"k_odd{n}")))[0] == 503
    assert recorder.turns[0].principal.claims == claims


# -- what a key may do ------------------------------------------------------------------


async def test_a_key_reaches_its_agents_alone() -> None:
    recorder = Recorder()
    agents = {"main": {"model": "script/one"}, "billing": {"model": "script/one"}}
    bindings = [{"agent": "billing", "channel": "shop"}]
    narrow = replace(ALICE, agents=("bill*",))
    async with serving(
        model(), recorder, Keys(k_narrow=narrow), agents=agents, bindings=bindings
    ) as served:
        body = {"content": "x", "channel": "shop"}
        assert (await served.post("/v1/turns", body, **with_key("k_narrow")))[0] == 200
        status, answer = await served.post("/v1/turns", {"content": "x"}, **with_key("k_narrow"))
        assert (status, answer["error"]["data"]["code"]) == (403, "not_allowed")
        assert "main" in answer["error"]["message"]
        assert len(recorder.before) == 1
        await until(lambda: bool(recorder.turns))
        (turn,) = recorder.turns
        assert (turn.principal.key, turn.agent.name) == ("alice", "billing")


async def test_a_turn_within_a_turn_reaches_the_keys_agents_alone() -> None:
    agents = {"main": {"model": "script/one"}, "billing": {"model": "script/one"}}
    failures: list[Exception] = []

    class Delegates:
        @hookimpl
        def lifespan(self, host: Any) -> Any:
            from contextlib import nullcontext

            self.host = host
            return nullcontext()

        @hookimpl
        async def tag_turn(self, turn: Any) -> None:
            try:
                await self.host.nested_turn(turn, "do it", agent="billing")
            except Exception as error:
                failures.append(error)

    keys = Keys(k_narrow=replace(ALICE, agents=("main",)))
    async with serving(model(), Delegates(), keys, agents=agents) as served:
        status, _ = await served.post("/v1/turns", {"content": "x"}, **with_key("k_narrow"))
        assert status == 200
    assert [getattr(error, "code", "") for error in failures] == ["not_allowed"]


async def test_a_key_is_answered_by_its_models_alone() -> None:
    scripted = model()
    agents = {"main": {"model": "script/big", "fallback": ["script/small"]}}
    keys = Keys(
        k_small=replace(ALICE, models=("script/small",)), k_none=replace(ALICE, models=("a/*",))
    )
    async with serving(scripted, keys, agents=agents) as served:
        status, answer = await served.post("/v1/turns", {"content": "x"}, **with_key("k_small"))
        assert (status, answer["ending"]) == (200, "done")
        status, answer = await served.post("/v1/turns", {"content": "x"}, **with_key("k_none"))
        assert (answer["ending"], answer["error"]["code"]) == ("failed", "not_allowed")
    assert [str(request.model) for request in scripted.scripts[0].requests] == ["script/small"]


async def test_no_plugin_puts_a_model_there_that_the_key_does_not_allow() -> None:
    class Upgrade:
        @hookimpl
        def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest:
            return replace(request, model=ModelRef("script", "big"))

    scripted = model()
    agents = {"main": {"model": "script/small"}}
    keys = Keys(k_small=replace(ALICE, models=("script/small",)), k_all=ALICE)
    async with serving(scripted, Upgrade(), keys, agents=agents) as served:
        status, answer = await served.post("/v1/turns", {"content": "x"}, **with_key("k_small"))
        assert (answer["ending"], answer["error"]["code"]) == ("failed", "not_allowed")
        assert "script/big" in answer["error"]["message"]
        assert not scripted.scripts[0].requests
        status, answer = await served.post("/v1/turns", {"content": "x"}, **with_key("k_all"))
        assert (status, answer["ending"]) == (200, "done")


async def test_settings_limit_a_token_in_the_same_way() -> None:
    agents = {"main": {"model": "script/one"}, "billing": {"model": "script/one"}}
    section, made = tokens(
        narrow={"agents": ["billing"]},
        poor={"models": ["script/two"]},
        old={"expires": "2020-01-01T00:00:00Z"},
    )
    async with serving(model(), wire=section, agents=agents) as served:
        statuses = {
            name: await served.post("/v1/turns", {"content": "x"}, **bearer(token))
            for name, token in made.items()
        }
    assert statuses["narrow"][0] == 403
    assert statuses["poor"][1]["error"]["code"] == "not_allowed"
    assert statuses["old"][0] == 401
    assert "expired" in statuses["old"][1]["error"]["message"]


# -- the end of a key -------------------------------------------------------------------


async def test_an_expired_key_is_refused_and_counted() -> None:
    keys = Keys(k_old=replace(ALICE, expires=datetime(2020, 1, 1, tzinfo=UTC)))
    async with serving(model(), keys, wire={"limits": {"attempts_per_minute": 1}}) as served:
        assert (await served.get("/v1/status", **with_key("k_old")))[0] == 401
        assert (await served.get("/v1/status", **with_key("k_old")))[0] == 429


async def test_a_socket_is_closed_when_its_key_expires() -> None:
    soon = timedelta(seconds=0.3)
    began = datetime.now(UTC)
    async with (
        serving(model(), Keys(k_soon=soon)) as served,
        served.socket(hello=False, **with_key("k_soon")) as socket,
    ):
        assert await socket.closed() == 1008
        assert datetime.now(UTC) >= began + soon


async def test_a_frame_after_the_end_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    async with (
        serving(model(), Keys(k_soon=replace(ALICE, expires=soon))) as served,
        served.socket(**with_key("k_soon")) as socket,
    ):
        assert await socket.result("ping") == {"pong": True}
        # As after a night in which the machine slept, and its timers with it.
        clock = served.gate.host.clock
        monkeypatch.setattr(type(clock), "now", lambda _: soon)
        await socket.send("ping")
        assert await socket.closed() == 1008


async def test_a_turn_that_was_to_be_finished_without_its_client_ends_with_its_key() -> None:
    gate, recorder = Gate(), Recorder()
    keys = Keys(k_soon=timedelta(seconds=0.5))
    async with serving(
        Scripted(Script(gate.stops())), keys, recorder, wire={"on_disconnect": "finish"}
    ) as served:
        async with served.socket(**with_key("k_soon")) as socket:
            await socket.send("chat.send", content="x")
            await gate.reached.wait()
        await until(lambda: len(recorder.turns) == 1)
    turn = recorder.turns[0]
    assert (turn.ending, str(turn.error)) == ("cancelled", "the token has expired")


# -- a key that is taken back -------------------------------------------------------------


async def test_a_key_that_is_taken_back_ends_what_came_in_with_it_and_nothing_else() -> None:
    gate, recorder = Gate(), Recorder()
    section, made = tokens(alice={})
    keys = Keys(k_alice=ALICE, k_bob=replace(ALICE, id="key:bob", key="bob"))
    wire = {**section, "on_disconnect": "finish"}
    script = Script(gate.stops())
    async with serving(Scripted(script), keys, recorder, wire=wire) as served:
        async with (
            served.socket(**with_key("k_alice")) as idle,
            served.socket(**with_key("k_bob")) as other,
            # A token of the settings may have the name of a key: it is not the plugin's to end.
            served.socket(**bearer(made["alice"])) as named,
        ):
            async with served.socket(**with_key("k_alice")) as gone:
                await gone.send("chat.send", content="x")
                await gate.reached.wait()
            closed = asyncio.ensure_future(idle.closed())
            del keys.keys["k_alice"]
            served.gate.host.end_key("alice")
            assert await closed == 1008
            await until(lambda: len(recorder.turns) == 1)
            assert await other.result("ping") == {"pong": True}
            assert await named.result("ping") == {"pong": True}
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 401
    turn = recorder.turns[0]
    assert (turn.ending, str(turn.error)) == ("cancelled", "the key was taken back")


async def test_a_key_that_is_taken_back_while_it_is_looked_up_lets_nobody_in() -> None:
    looked, going = asyncio.Event(), asyncio.Event()

    class Slow(Keys):
        @hookimpl
        async def authenticate(self, credential: Credential, request: Any) -> Principal | None:
            found = self.keys.get(credential.value)
            looked.set()
            await going.wait()
            return found

    async with serving(model(), Slow(k_alice=ALICE)) as served:
        asking = asyncio.ensure_future(served.get("/v1/status", **with_key("k_alice")))
        await looked.wait()
        served.gate.host.end_key("alice")
        going.set()
        assert (await asking)[0] == 401
        # One that is given anew, under the same name, is another one.
        assert (await served.get("/v1/status", **with_key("k_alice")))[0] == 200


async def test_a_key_that_is_taken_back_while_its_request_arrives_starts_nothing() -> None:
    recorder = Recorder()
    arriving = asyncio.Event()

    async def body() -> Any:
        yield b'{"content":'
        arriving.set()
        await asyncio.sleep(30)
        yield b'"x"}'

    keys = Keys(k_alice=ALICE)
    async with serving(model(), keys, recorder) as served:
        headers = {"x-api-key": "k_alice", "Content-Type": "application/json"}
        asking = asyncio.ensure_future(
            served.http.post(f"{served.url}/v1/turns", data=body(), headers=headers)
        )
        await arriving.wait()
        await until(lambda: len(keys.asked) == 1)
        await until(lambda: bool(served.server._keyed))
        served.gate.host.end_key("alice")
        with pytest.raises(aiohttp.ClientError):
            await asking
        assert served.gate.host.running() == ()
    assert recorder.turns == []
