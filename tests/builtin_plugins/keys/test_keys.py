"""Keys of clients: what they let in, what they hold back, and how they end."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.keys.conftest import Named, chat, keyed, model, new, refused
from tests.builtin_plugins.stores import differences
from tests.support.script import Scripted, say, until
from tests.support.wire import bearer, tokens

from hookgate import Principal, Turn, hookimpl
from hookgate.builtin_plugins.keys import tables
from hookgate.ports import STORE

OPS = {"scopes": ["chat", "operate", "read"]}


class Seen:
    """Keeps who has started turns."""

    name = "seen"

    def __init__(self) -> None:
        self.principals: list[Principal] = []

    @hookimpl
    def before_turn(self, turn: Turn) -> None:
        self.principals.append(turn.principal)


def on_disk(home: Path) -> tuple[bytes, list[Any]]:
    """Return all that was written below the home folder, and the keys in the database."""
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    with closing(sqlite3.connect(next(home.rglob("*.db")))) as database:
        return kept, database.execute("select name, length(digest) from keys_key").fetchall()


async def test_a_key_lets_in_by_both_headers_and_is_kept_by_its_digest_alone(
    tmp_path: Path,
) -> None:
    seen = Seen()
    async with keyed(tmp_path, model(), seen) as served:
        key = await new(served, name="ci", modes=["guard"], on_ask="refuse", **{"for": "codex"})
        assert key.startswith("hgk_")
        for headers in (
            {"Authorization": f"Bearer {key}"},
            {"x-api-key": key},
            {"Authorization": f"Bearer {key}", "x-api-key": key},
        ):
            body = {"content": "x", "channel": "compat", "account": "ci"}
            assert (await served.post("/v1/turns", body, headers=headers))[0] == 200
        other = {"Authorization": f"Bearer {key}", "x-api-key": f"{key[:-1]}_"}
        assert (await served.get("/v1/status", headers=other))[0] == 401
        # `chat` is all that it has, at addresses under its own name.
        assert (await served.get("/v1/status", **bearer(key)))[0] == 403
        assert (await served.post("/v1/keys", {"name": "more"}, **bearer(key)))[0] == 403
        assert (await chat(served, key, "other"))[0] == 403
        assert (await chat(served, key, "ci", channel="cli"))[0] == 403
        store: Any = served.gate.host[STORE]
        assert await differences(store, tables.METADATA) == []
        (principal, *_) = seen.principals
        assert (principal.id, principal.key) == ("key:ci", "ci")
        claims = {name: principal.claims[name] for name in ("client", "modes", "on_ask")}
        assert claims == {"client": "codex", "modes": ("guard",), "on_ask": "refuse"}
        status, found = await served.get("/v1/keys")
        assert (status, found["keys"][0]["name"], found["keys"][0]["state"]) == (
            200,
            "ci",
            "active",
        )
        assert found["keys"][0]["by"] == "loopback"
        assert key not in json.dumps(found)
    kept, rows = on_disk(tmp_path)
    assert key[4:].encode() not in kept
    assert rows == [("ci", 64)]
    # It outlives the gateway.
    async with keyed(tmp_path, model()) as served:
        assert (await chat(served, key, "ci"))[0] == 200


async def test_an_unknown_key_is_told_how_one_is_made(tmp_path: Path) -> None:
    section, _ = tokens(ops=OPS)
    for wire in ({}, section):
        async with keyed(tmp_path, wire=wire) as served:
            for key in ("hgk_unknown", "sk-ant-whatever"):
                status, answer = await served.get("/v1/status", **bearer(key))
                assert status == 401
                assert "hookgate keys new" in answer["error"]["data"]["action"]
                assert "--for claude-code" in answer["error"]["data"]["action"]
            async with served.http.get(f"{served.url}/v1/status?key=hgk_unknown") as answer:
                assert answer.status == 401
                assert "query string" in (await answer.json())["error"]["message"]
    async with keyed(tmp_path, builtin=("control",)) as served:
        status, answer = await served.get("/v1/status", **bearer("sk-ant-whatever"))
        assert status == 401
        assert "keys new" not in answer["error"]["data"]["action"]


async def test_guessing_keys_is_counted(tmp_path: Path) -> None:
    wire = {"limits": {"attempts_per_minute": 3}}
    async with keyed(tmp_path, wire=wire) as served:
        key = await new(served, name="ci")
        assert (await chat(served, key, "ci"))[0] == 200
        found = [(await served.get("/v1/status", **bearer(f"hgk_{n}")))[0] for n in range(5)]
        assert found == [401, 401, 401, 429, 429]
        # Who was let in before is not shut out by others of the same address.
        assert (await chat(served, key, "ci"))[0] == 200


async def test_guesses_lock_out_no_key_that_comes_from_their_address_for_the_first_time(
    tmp_path: Path,
) -> None:
    wire = {"limits": {"attempts_per_minute": 3}}
    async with keyed(tmp_path, wire=wire) as served:
        key = await new(served, name="ci")
        guesses = (f"hgk_{'A' * 42}{number}" for number in range(5))
        found = [(await served.get("/v1/status", **bearer(guess)))[0] for guess in guesses]
        # One that has the form of a right one has the limit as well: it is not told apart.
        assert found == [401, 401, 401, 429, 429]
        assert (await served.get("/v1/status", **bearer("hgk_short")))[0] == 429
        assert (await chat(served, key, "ci"))[0] == 200
        assert (await served.post("/v1/keys/revoke", {"name": "ci"}))[0] == 200
        assert (await chat(served, key, "ci"))[0] == 401
        assert (await chat(served, key, "ci"))[0] == 429


async def test_a_key_that_is_revoked_or_rotated_ends_what_came_in_with_it(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        key, other = await new(served, name="ci"), await new(served, name="other")
        async with (
            served.socket(**bearer(key)) as socket,
            served.socket(**bearer(other)) as untouched,
        ):
            closed = asyncio.ensure_future(socket.closed())
            status, answer = await served.post("/v1/operations/keys.rotate", {"name": "ci"})
            assert status == 200
            assert await closed == 1008
            assert (await untouched.call("ping"))["result"]
        fresh = answer["key"]
        status, answer = await served.get("/v1/status", **bearer(key))
        assert status == 401
        async with served.socket(**bearer(fresh)) as socket:
            closed = asyncio.ensure_future(socket.closed())
            status, answer = await served.post("/v1/operations/keys.revoke", {"name": "ci"})
            assert (status, answer["name"]) == (200, "ci")
            assert await closed == 1008
        status, answer = await served.get("/v1/status", **bearer(fresh))
        assert status == 401
        assert "'ci' was revoked" in answer["error"]["message"]
        for operation in ("revoke", "rotate"):
            status, answer = await served.post(f"/v1/operations/keys.{operation}", {"name": "ci"})
            assert (status, answer["error"]["data"]["code"]) == (404, "not_found")
        # Its name is free again, and the old secrets stay what they are.
        again = await new(served, name="ci")
        assert (await chat(served, again, "ci"))[0] == 200
        assert (await chat(served, fresh, "ci"))[0] == 401
        assert (await served.get("/v1/keys"))[1]["keys"][0]["state"] == "active"
        found = await served.post("/v1/operations/audit.list", {})
    assert fresh not in json.dumps(found)
    kinds = [row["kind"] for row in found[1]["entries"]]
    assert kinds.count("key_made") == 3
    assert {"key_rotated", "key_revoked"} <= set(kinds)


async def test_a_turn_of_a_key_that_is_revoked_is_cancelled(tmp_path: Path) -> None:
    hold = asyncio.Event()

    class Slow:
        @hookimpl
        async def before_turn(self, turn: Turn) -> None:
            hold.set()
            await asyncio.sleep(60)

    async with keyed(tmp_path, model(), Slow()) as served:
        key = await new(served, name="ci")
        asking = asyncio.create_task(chat(served, key, "ci"))
        await hold.wait()
        await served.post("/v1/operations/keys.revoke", {"name": "ci"})
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not list(served.gate.host.running()))


async def test_a_key_ends_when_it_expires(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        assert "expected a length of time" in await refused(served, expires="soon")
        assert "which is over" in await refused(served, expires="2020-01-01")
        key = await new(served, name="ci", expires="1s")
        clock = served.gate.host.clock
        end = clock.now() + timedelta(seconds=1)
        await until(lambda: clock.now() > end)
        status, answer = await served.get("/v1/status", **bearer(key))
        assert (status, answer["error"]["message"]) == (401, "this token has expired")
        assert (await served.get("/v1/keys"))[1]["keys"][0]["state"] == "expired"


@pytest.mark.parametrize(
    ("networks", "forwarded", "status"),
    [
        (["10.0.0.0/8"], "10.1.2.3", 200),
        (["10.0.0.0/8"], "192.168.0.1", 401),
        (["192.168.0.1", "2001:db8::/32"], "2001:db8::7", 200),
        (["2001:db8::/32"], "2001:db9::7", 401),
        ([], "8.8.8.8", 200),
    ],
)
async def test_a_key_is_for_its_networks(
    networks: list[str], forwarded: str, status: int, tmp_path: Path
) -> None:
    section, made = tokens(ops=OPS)
    wire = {**section, "trusted_proxies": ["127.0.0.1"]}
    async with keyed(tmp_path, wire=wire) as served:
        key = await new(served, name="ci", addresses=networks, by=made["ops"])
        headers = {"X-Forwarded-For": forwarded, "Authorization": f"Bearer {key}"}
        body = {"content": "x", "channel": "compat", "account": "ci"}
        found, answer = await served.post("/v1/turns", body, headers=headers)
        assert found == status, answer
        assert "addresses" in await refused(served, addresses=["10.0.0"], by=made["ops"])


async def test_a_key_asks_its_models_and_sees_no_others(tmp_path: Path) -> None:
    provider = Scripted(Named(*(say("x") for _ in range(9))))
    agents = {"main": {"model": "script/one"}, "second": {"model": "script/two"}}
    async with keyed(tmp_path, provider, agents=agents) as served:
        key = await new(
            served, name="ci", models=["script/one"], agents=["main"], scopes=["chat", "read"]
        )
        status, found = await served.post("/v1/operations/models.list", {}, **bearer(key))
        assert (status, [row["model"] for row in found["models"]]) == (200, ["script/one"])
        found = (await served.post("/v1/operations/models.list", {}))[1]
        names = {row["model"] for row in found["models"]}
        assert names >= {"script/one", "script/two"}
        assert (await chat(served, key, "ci"))[0] == 200


# -- what it may use --------------------------------------------------------------------


async def test_a_key_has_budgets_and_limits_of_its_own(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        slow = await new(served, name="slow", rpm=2)
        poor = await new(served, name="poor", tokens=3, window="day")
        dear = await new(served, name="dear", usd="0.000001")
        free = await new(served, name="free")
        found = [(await chat(served, slow, "slow"))[1]["error"] for _ in range(3)]
        assert [one and one["code"] for one in found] == [None, None, "rate_limited"]
        error = (await chat(served, poor, "poor"))[1]["error"]
        assert error["code"] == "budget_exceeded"
        assert "day:" in error["message"]
        assert "hookgate keys change" in error["action"]
        assert (await chat(served, dear, "dear"))[1]["error"]["code"] == "budget_exceeded"
        assert (await chat(served, free, "free"))[1]["ending"] == "done"
        rows = (await served.get("/v1/keys"))[1]["keys"]
        limits = {row["name"]: row["limits"] for row in rows}
        assert limits["slow"] == {"rpm": 2}
        assert limits["poor"] == {"tokens": 3, "window": "day"}


async def test_a_key_is_changed_and_keeps_its_secret(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        change = "/v1/operations/keys.change"
        key = await new(served, name="ci", tokens=3, addresses=["127.0.0.1"], expires="1h")
        assert (await chat(served, key, "ci"))[1]["error"]["code"] == "budget_exceeded"
        async with served.socket(**bearer(key)) as socket:
            closed = asyncio.ensure_future(socket.closed())
            status, row = await served.post(
                change, {"name": "ci", "tokens": 1_000_000, "clear": ["addresses"]}
            )
            assert (status, row["limits"]) == (200, {"tokens": 1_000_000})
            assert await closed == 1008
        assert row["expires"]
        # What was counted so far goes on being counted.
        assert (await chat(served, key, "ci"))[1]["ending"] == "done"
        assert (await served.post(change, {"name": "ci", "tokens": 5}))[0] == 200
        assert (await chat(served, key, "ci"))[1]["error"]["code"] == "budget_exceeded"
        status, answer = await served.post(change, {"name": "ci", "clear": ["nothing"]})
        assert (status, "expected some of scopes" in answer["error"]["message"]) == (400, True)
        status, answer = await served.post(change, {"name": "nobody"})
        assert status == 404
        status, answer = await served.post(change, {"name": "ci", "expires": "2020-01-01"})
        assert (status, "which is over" in answer["error"]["message"]) == (400, True)


async def test_nobody_gives_a_key_more_than_they_have_by_changing_it(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["chat", "operate"], "models": ["script/*"]}, root=OPS)
    async with keyed(tmp_path, wire=section) as served:
        key = await new(served, name="ci", by=made["root"], models=["script/one"])
        change = "/v1/operations/keys.change"
        for more in ({"models": ["*"]}, {"scopes": ["chat", "read"]}, {"clear": ["models"]}):
            status, answer = await served.post(
                change, {"name": "ci", **more}, **bearer(made["ops"])
            )
            if "clear" in more:  # Without a list of its own it has its maker's.
                assert answer["limits"]["models"] == ["script/*"]
                assert answer["by"] == "token:ops"
            else:
                assert status == 403, answer
        assert (await chat(served, key, "ci"))[0] == 200


async def test_limits_that_nobody_holds_let_nobody_in(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        key, free = await new(served, name="ci", rpm=5), await new(served, name="free")
    async with keyed(tmp_path, builtin=("control", "storage", "keys")) as served:
        status, answer = await chat(served, key, "ci")
        assert (status, "no plugin holds them" in answer["error"]["message"]) == (401, True)
        assert (await chat(served, free, "free"))[0] == 200
        assert "no plugin that counts" in await refused(served, name="more", usd="5")


async def test_what_the_claims_of_a_key_cannot_say_refuses_its_calls(tmp_path: Path) -> None:
    class Keys:
        name = "others"

        @hookimpl
        def authenticate(self, credential: Any, request: Any) -> Principal | None:
            owner = Principal.owner()
            claims = {"budgets": [{"tokens": "many"}]}
            return Principal(
                id="key:odd", scopes=owner.scopes, bindings=owner.bindings, claims=claims
            )

    async with keyed(tmp_path, model(), Keys()) as served:
        _, answer = await served.post("/v1/turns", {"content": "x"}, **bearer("odd"))
        assert (answer["ending"], answer["error"]["code"]) == ("refused", "budget_unavailable")


# -- never more than its maker ------------------------------------------------------------


async def test_a_key_never_exceeds_the_rights_of_who_made_it(tmp_path: Path) -> None:
    section, made = tokens(
        ops={
            "scopes": ["chat", "operate"],
            "models": ["script/*"],
            "agents": ["main"],
            "channels": ["compat"],
            "expires": "2100-01-01T00:00:00Z",
        },
        root=OPS,
    )
    async with keyed(tmp_path, wire=section) as served:
        by = made["ops"]
        for more, what in (
            ({"scopes": ["chat", "approve"]}, "scope 'approve'"),
            ({"models": ["acme/*"]}, "models 'acme/*'"),
            ({"models": ["*"]}, "models '*'"),
            ({"agents": ["mai*"]}, "agents 'mai*'"),
            ({"channels": ["telegram"]}, "channel 'telegram'"),
            ({"channels": ["*"]}, "channel '*'"),
        ):
            assert what in await refused(served, by=by, name="more", **more), more
        key = await new(served, by=by, name="ci", expires="3000-01-01")
        await new(served, by=by, name="narrow", models=["script/one*"], agents=["main"])
        rows = {row["name"]: row for row in (await served.get("/v1/keys", **bearer(by)))[1]["keys"]}
        # What nobody asked for is what the maker has.
        assert rows["ci"]["limits"]["models"] == ["script/*"]
        assert rows["ci"]["expires"].startswith("2100-01-01")
        assert (await chat(served, key, "ci"))[0] == 200
        async with served.socket(**bearer(key)) as socket:
            closed = asyncio.ensure_future(socket.closed())
            done = await served.post(
                "/v1/operations/token.revoke", {"name": "ops"}, **bearer(made["root"])
            )
            assert done[0] == 200
            assert await closed == 1008
        status, answer = await chat(served, key, "ci")
        assert (status, "is not there any more" in answer["error"]["message"]) == (401, True)


async def test_what_a_maker_has_lost_its_keys_have_lost(tmp_path: Path) -> None:
    section, made = tokens(ops={"scopes": ["chat", "operate"], "models": ["script/*"]})
    async with keyed(tmp_path, wire=section) as served:
        key = await new(served, by=made["ops"], name="ci")
        assert (await chat(served, key, "ci"))[0] == 200
    section["tokens"]["ops"]["models"] = ["acme/*"]
    async with keyed(tmp_path, wire=section) as served:
        status, answer = await chat(served, key, "ci")
        assert (status, "has not the models" in answer["error"]["message"]) == (401, True)


async def test_a_key_makes_no_keys_whatever_its_scopes(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        key = await new(served, name="ops", scopes=["chat", "operate"], channels=["*"])
        await new(served, name="other")
        assert "the right to make keys" in await refused(served, by=key, name="ops-2")
        # Nor does it get another one's secret; to take one back it has the scope.
        status, answer = await served.post(
            "/v1/operations/keys.rotate", {"name": "other"}, **bearer(key)
        )
        assert (status, "the right to make keys" in answer["error"]["message"]) == (403, True)
        status, _ = await served.post(
            "/v1/operations/keys.revoke", {"name": "other"}, **bearer(key)
        )
        assert status == 200


async def test_one_name_is_one_key(tmp_path: Path) -> None:
    section, made = tokens(ops=OPS)
    async with keyed(tmp_path, wire=section) as served:
        by = bearer(made["ops"])
        first = (await served.post("/v1/keys", {"for": "codex"}, **by))[1]
        second = (await served.post("/v1/keys", {"for": "codex"}, **by))[1]
        assert (first["name"], second["name"]) == ("codex", "codex-2")
        why = await refused(served, by=made["ops"], name="codex")
        assert "there is a key called 'codex'" in why
        assert "there is a token called 'ops'" in await refused(served, by=made["ops"], name="ops")
        for name in ("Big", "a b", "../x", "x" * 65):
            assert "name" in await refused(served, by=made["ops"], name=name)


@pytest.mark.parametrize(
    ("client", "wanted"),
    [
        ("claude-code", ["ANTHROPIC_BASE_URL=https://m.example", "ANTHROPIC_AUTH_TOKEN=hgk_"]),
        ("anthropic", ["ANTHROPIC_BASE_URL=https://m.example", "ANTHROPIC_API_KEY=hgk_"]),
        ("openai", ["OPENAI_BASE_URL=https://m.example/v1", "OPENAI_API_KEY=hgk_"]),
        ("codex", ["HOOKGATE_KEY=hgk_", 'base_url="https://m.example/v1"']),
        ("opencode", ["HOOKGATE_KEY=hgk_", '"baseURL": "https://m.example/v1"']),
    ],
)
async def test_a_client_is_told_in_two_lines_how_it_comes_here(
    client: str, wanted: list[str], tmp_path: Path
) -> None:
    async with keyed(tmp_path) as served:
        status, made = await served.post("/v1/keys", {"for": client, "url": "https://m.example/"})
        assert status == 200
        assert len(made["lines"]) == 2
        for line, part in zip(made["lines"], wanted, strict=True):
            assert part in line
        assert "{{" not in "".join(made["lines"])
        assert ("web_search=disabled" in made["lines"][1]) == (client == "codex")
        searching = {"for": client, "name": "searching", "provider_tools": ["web_search*"]}
        assert "web_search" not in "".join((await served.post("/v1/keys", searching))[1]["lines"])
        # Rotated, it is told the same again; a wrong address is named.
        made = (await served.post("/v1/operations/keys.rotate", {"name": client}))[1]
        assert "http://127.0.0.1:0" in "".join(made["lines"])
        assert "url" in await refused(served, url="javascript:alert(1)")
        assert "for" in await refused(served, **{"for": "vim"})
