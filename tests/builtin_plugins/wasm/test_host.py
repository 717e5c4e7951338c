"""What guests may ask of the host beside requests: log, time, chance, environment, store."""

from __future__ import annotations

import base64
import json
import shutil
import time
from pathlib import Path
from typing import Any, cast

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import MetaData
from tests.builtin_plugins.egress.upstream import upstream
from tests.builtin_plugins.stores import differences, opened_store
from tests.builtin_plugins.wasm.conftest import Sandboxed, Started
from tests.builtin_plugins.wasm.folders import relay, tool, write_plugin
from tests.support.script import call, say

from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.wasm import tables
from hookgate.builtin_plugins.wasm.engine.calls import CallContext
from hookgate.builtin_plugins.wasm.engine.limits import Limits
from hookgate.builtin_plugins.wasm.host.functions import GuestCall, HostFunctions, serve_store
from hookgate.builtin_plugins.wasm.host.http import Door
from hookgate.builtin_plugins.wasm.packages.grants import Granted
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.builtin_plugins.wasm.tables import METADATA, Values
from hookgate.builtin_plugins.wasm.tools import owner_of
from hookgate.builtin_plugins.wasm.wire import REQUEST_BYTES, StoreRequest
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.turn import Address, Origin, Principal, SessionKey, TurnRequest
from hookgate.core.settings.secret_store import looks_secret
from hookgate.kit.records import MemoryStore

CANARY = "canary-of-the-guests"


async def test_a_line_of_the_log_is_masked_cut_and_says_who(
    started: Started, tmp_path: Path
) -> None:
    write_plugin(tmp_path / "plugins" / "talker", relay("log"), grants=["log"])
    async with started(secrets={"key": CANARY}) as sandboxed:
        with structlog.testing.capture_logs() as logged:
            sandboxed.gateway.host.log = structlog.get_logger()
            said = f"a\u001b[2J {CANARY} " + "x" * 5000
            assert await sandboxed.ask({"message": said, "level": "error"}) == {"ok": None}
        answer = await sandboxed.ask({"message": 3})
        assert answer["error"]["code"] == "bad_request"
    (line,) = [one for one in logged if one["event"] == "a guest says"]
    assert (line["plugin"], line["log_level"]) == ("talker", "error")
    assert CANARY not in line["said"]
    assert "\u001b" not in line["said"]
    assert len(line["said"]) <= 2000


async def test_the_time_and_chance_are_those_of_the_host(started: Started, tmp_path: Path) -> None:
    write_plugin(tmp_path / "plugins" / "a", relay("clock"), grants=["clock"])
    write_plugin(
        tmp_path / "plugins" / "b", relay("random", "draw"), grants=["random"], tools=[tool("draw")]
    )
    async with started() as sandboxed:
        before = time.time()
        told = (await sandboxed.ask({}))["ok"]
        assert before - 1 <= told["unix"] <= time.time() + 1
        assert told["monotonic"] > 0
        one = (await sandboxed.ask({"bytes": 16}, "draw"))["ok"]
        other = (await sandboxed.ask({"bytes": 16}, "draw"))["ok"]
        assert len(base64.b64decode(one)) == 16
        assert one != other
        refused = await sandboxed.ask({"bytes": 1_000_000}, "draw")
        assert refused["error"]["code"] == "bad_request"


async def test_the_environment_is_read_by_granted_names_and_tells_no_secret(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_TOWN", "Oslo")
    monkeypatch.setenv("GUEST_PLACE", CANARY)
    monkeypatch.delenv("GUEST_GONE", raising=False)
    grants = ["env:GUEST_TOWN", "env:GUEST_GONE"]
    write_plugin(tmp_path / "plugins" / "a", relay("env"), grants=grants)
    write_plugin(
        tmp_path / "plugins" / "b",
        relay("env", "key"),
        grants=["env:GUEST_PLACE"],
        tools=[tool("key")],
    )
    async with started(secrets={"key": CANARY}) as sandboxed:
        assert await sandboxed.ask({"name": "GUEST_TOWN"}) == {"ok": "Oslo"}
        assert await sandboxed.ask({"name": "GUEST_GONE"}) == {"ok": None}
        refused = await sandboxed.ask({"name": "GUEST_PLACE"})
        assert refused["error"]["code"] == "not_granted"
        row = (await sandboxed.rows())["b"]
    assert row["state"] == "broken"
    assert "is a secret" in row["why"]
    assert CANARY not in row["why"]


SECRETS = {
    "OPENAI_API_KEY": "0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_ACCESS_KEY_ID": "0123456789",
    "GITHUB_TOKEN": "0123456789",
    "DATABASE_URL": "/var/lib/data",
    "PGPASSWORD": "hunter22",
    "SENTRY_DSN": "somewhere",
    "STRIPE_KEY": "0123456789",
    "npm_config__auth": "0123456789",
    "MYSQL_PWD": "hunter22",
}
"""Values that say nothing by themselves: their names do."""

LOOKING = [
    "sk-proj-0123456789abcdef",
    "ghp_0123456789abcdef0123456789abcdef0123",
    "github_pat_0123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
    "postgresql://app:hunter22@db/app",
    "redis://:hunter22@cache:6379",
    "https://0123456789abcdef@errors.example/1",
    "Server=db;User Id=app;Password=hunter22",
    "-----BEGIN PRIVATE KEY-----",
]


async def test_a_secret_that_nobody_has_asked_for_is_told_by_its_name(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
        folder, own = tmp_path / "plugins" / name, name.lower()
        write_plugin(folder, relay("env", own), name=own, grants=[f"env:{name}"], tools=[tool(own)])
    async with started() as sandboxed:
        rows = (await sandboxed.operation("wasm.list"))["plugins"]
        assert not sandboxed.gateway.host.tools.view().keys() & {name.lower() for name in SECRETS}
    assert {row["name"].lower() for row in rows} == {name.lower() for name in SECRETS}
    for row in rows:
        assert row["state"] == "broken", row
        assert "secret" in row["why"]
        assert not any(value in row["why"] for value in SECRETS.values())


async def test_a_secret_that_nobody_has_asked_for_is_told_by_its_form(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_PLACE", "Oslo")
    write_plugin(tmp_path / "plugins" / "nosy", relay("env"), grants=["env:GUEST_PLACE"])
    async with started() as sandboxed:
        assert await sandboxed.ask({"name": "GUEST_PLACE"}) == {"ok": "Oslo"}
        for value in LOOKING:
            # It counts what stands there when it is read.
            monkeypatch.setenv("GUEST_PLACE", value)
            refused = await sandboxed.ask({"name": "GUEST_PLACE"})
            assert refused.get("error", {}).get("code") == "not_granted", value
            assert value not in json.dumps(refused)


async def test_where_a_secret_is_looked_for_no_guest_reads(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUEST_PLACE", "nothing to see")
    monkeypatch.setenv("GUEST_TOWN", "nothing either")
    by_settings, url = ["env:GUEST_PLACE"], "https://api.example.com/*"
    by_grant = ["env:GUEST_TOWN", f"secret:guest.town -> header @ {url}", f"http:{url}"]
    write_plugin(tmp_path / "plugins" / "a", relay("env"), grants=by_settings)
    write_plugin(tmp_path / "plugins" / "b", relay("env"), grants=by_grant, tools=[tool("other")])
    async with started(secrets={"guest_place": CANARY}) as sandboxed:
        rows = await sandboxed.rows()
    assert [rows[name]["state"] for name in "ab"] == ["broken", "broken"]
    assert "is a secret" in rows["a"]["why"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("TZ", "Europe/Oslo"), ("LANG", "nb_NO.UTF-8"), ("AUTHOR", "Ada"), ("REGION", "eu-1")),
        *(("KEYBOARD", "no"), ("HOMEPAGE", "https://example.com/a?b=c"), ("PWD", "/srv/app")),
    ],
)
def test_what_is_no_secret_is_not_taken_for_one(name: str, value: str) -> None:
    assert not looks_secret(name, value)


@pytest.mark.parametrize("name", REQUEST_BYTES)
async def test_a_request_that_is_too_long_for_its_function_is_refused_unread(
    name: str, started: Started, tmp_path: Path
) -> None:
    granted = Granted.parse(
        [{"http": "http:a.example", "store": "store:a", "env": "env:TZ"}.get(name, name)]
    )
    async with started() as sandboxed:
        host = sandboxed.gateway.host
        door = Door(host, WasmSettings(), "long", granted)
        functions = HostFunctions(host, door, None, granted)
        function = functions.of(GuestCall(plugin="long", granted=granted))[name]
        context = CallContext("long", Limits(), 0.0, 1, 1, 1.0)
        codes = [
            json.loads(cast("bytes", function(b"[" * size, context)))["error"]["code"]
            for size in (REQUEST_BYTES[name], REQUEST_BYTES[name] + 1)
        ]

    assert codes == ["bad_request", "limit"]


# -- the store -------------------------------------------------------------------------


@pytest.fixture
def keeper(tmp_path: Path) -> Path:
    grants = ["store:notes=1KB"]
    return write_plugin(tmp_path / "plugins" / "keeper", relay("store"), grants=grants)


async def test_values_are_kept_found_listed_and_deleted_and_outlive_the_gateway(
    started: Started, keeper: Path
) -> None:
    async with started() as sandboxed:
        assert await sandboxed.ask({"op": "get", "key": "a"}) == {"ok": None}
        for key in ("b", "a", "A", "a%", "ä"):
            assert await sandboxed.ask({"op": "set", "key": key, "value": f"is {key}"}) == {
                "ok": None
            }
        await sandboxed.ask({"op": "set", "key": "a", "value": "is new"})
    async with started() as sandboxed:
        assert await sandboxed.ask({"op": "get", "key": "a"}) == {"ok": "is new"}
        assert await sandboxed.ask({"op": "list", "key": "a"}) == {"ok": ["a", "a%"]}
        assert await sandboxed.ask({"op": "delete", "key": "a"}) == {"ok": True}
        assert await sandboxed.ask({"op": "delete", "key": "a"}) == {"ok": False}
        assert await sandboxed.ask({"op": "list"}) == {"ok": ["A", "a%", "b", "ä"]}


async def test_what_is_kept_for_one_peer_is_nobody_elses(started: Started, keeper: Path) -> None:
    async with started() as sandboxed:
        await sandboxed.ask({"op": "set", "key": "word", "value": "ada's"}, peer="ada")
        await sandboxed.ask({"op": "set", "key": "word", "value": "bob's"}, peer="bob")
        assert await sandboxed.ask({"op": "get", "key": "word"}, peer="ada") == {"ok": "ada's"}
        assert await sandboxed.ask({"op": "list"}, peer="carl") == {"ok": []}
        await sandboxed.ask({"op": "delete", "key": "word"}, peer="bob")
        assert await sandboxed.ask({"op": "get", "key": "word"}, peer="ada") == {"ok": "ada's"}


NAMES = st.text(st.sampled_from("ab:%é"), max_size=3)


@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
@example(("cli", "a", "b:c"), ("cli", "a:b", "c"))
def test_no_two_peers_own_the_same_values(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    owners = [owner_of(SessionKey("main", *key)) for key in (one, other)]
    assert (owners[0] == owners[1]) is (one == other)


async def test_a_separator_in_a_name_reads_nothing_of_anothers(
    started: Started, keeper: Path
) -> None:
    async with started() as sandboxed:

        async def ask(address: Address, asked: dict[str, str]) -> Any:
            finished = await sandboxed.gateway.host.call_tool(
                Principal.owner(),
                Origin(provenance=Provenance.EXTERNAL_USER, path="test"),
                address,
                "ask",
                asked,
            )
            return json.loads(finished.result.text)

        mine, theirs = Address("cli", "a", "b:c"), Address("cli", "a:b", "c")
        await ask(mine, {"op": "set", "key": "word", "value": "mine"})
        assert await ask(theirs, {"op": "get", "key": "word"}) == {"ok": None}
        assert await ask(theirs, {"op": "list"}) == {"ok": []}
        assert await ask(mine, {"op": "get", "key": "word"}) == {"ok": "mine"}


OLD = {
    "cli:local:ada": "cli:local:ada",
    "cli:local:é": "cli:local:%C3%A9",
    # This one's text is what the one before becomes.
    "cli:local:%C3%A9": "cli:local:%25C3%25A9",
    "": "",
    # Nobody knows whose these are.
    "cli:a:b:c": "cli:a:b:c",
}


async def check_that_owners_go_on(store: SqlStore, scripts: Path) -> None:
    (scripts / "versions").mkdir(parents=True)
    shutil.copy(tables.SCRIPTS / "versions" / "v0001_store.py", scripts / "versions")
    await store.migrate("wasm", MetaData(), scripts)
    rows = [
        {"plugin": "p", "namespace": "n", "owner": owner, "key": "k", "value": owner}
        for owner in OLD
    ]
    insert = tables.VALUES.insert().values(taint="[]", bytes=1)
    await store.write(lambda connection: bool(connection.execute(insert, rows).rowcount))
    await store.migrate("wasm", tables.METADATA, tables.SCRIPTS)
    values = tables.Values(store)
    for before, after in OLD.items():
        kept = await values.get("p", "n", after, "k")
        assert kept is not None
        assert kept.value == before
    # What nobody knows the owner of is read by none of those that it could be.
    for account, peer in (("a", "b:c"), ("a:b", "c")):
        owner = owner_of(SessionKey("main", "cli", account, peer))
        assert await values.get("p", "n", owner, "k") is None


async def test_values_of_before_are_their_peers_still(tmp_path: Path) -> None:
    async with opened_store(tmp_path / "home") as store:
        await check_that_owners_go_on(store, tmp_path / "scripts")


@pytest.mark.slow
async def test_values_of_before_are_their_peers_still_on_postgresql(
    url: str, tmp_path: Path
) -> None:
    store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
    assert store.durable, store.problem
    try:
        await check_that_owners_go_on(store, tmp_path / "scripts")
    finally:
        await store.close()


async def test_a_namespace_holds_no_more_than_its_quota(started: Started, keeper: Path) -> None:
    async with started() as sandboxed:
        full = await sandboxed.ask({"op": "set", "key": "a", "value": "x" * 1024})
        assert full["error"]["code"] == "limit"
        assert "1,024 are granted" in full["error"]["message"]
        large = {"op": "set", "key": "a", "value": "x" * 900}
        assert await sandboxed.ask(large) == {"ok": None}
        assert await sandboxed.ask(large) == {"ok": None}
        # Of another peer as well: the quota is the plugin's.
        other = await sandboxed.ask({"op": "set", "key": "b", "value": "x" * 100}, peer="bob")
        assert other["error"]["code"] == "limit"
        await sandboxed.ask({"op": "delete", "key": "a"})
        assert await sandboxed.ask({"op": "set", "key": "b", "value": "x" * 900}) == {"ok": None}
        many = [await sandboxed.ask({"op": "set", "key": f"k{n}", "value": ""}) for n in range(9)]
        assert "error" in many[-1]


async def test_what_a_plugin_has_kept_goes_when_it_is_removed_with_its_values(
    started: Started, keeper: Path
) -> None:
    async with started() as sandboxed:
        for peer in ("ada", "bob"):
            await sandboxed.ask({"op": "set", "key": "word", "value": "x" * 300}, peer=peer)
        kept = await sandboxed.operation("wasm.remove", name="keeper")
        assert (kept["removed"], kept["values"]) == (True, 0)
        # It lies in a folder of the settings, so that it has come back.
        assert (await sandboxed.ask({"op": "get", "key": "word"}, peer="ada"))["ok"]
        gone = await sandboxed.operation("wasm.remove", name="keeper", values=True)
        assert (gone["removed"], gone["values"]) == (True, 2)
        assert await sandboxed.ask({"op": "get", "key": "word"}, peer="ada") == {"ok": None}
        full = {"op": "set", "key": "a", "value": "x" * 900}
        assert await sandboxed.ask(full) == {"ok": None}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"op": "get", "key": "a", "namespace": "other"}, "not_granted"),
        ({"op": "set", "key": "a"}, "bad_request"),
        ({"op": "set", "value": "a"}, "bad_request"),
        ({"op": "set", "key": "a\u0000", "value": "a"}, "bad_request"),
        ({"op": "drop"}, "bad_request"),
        ({"op": "get", "key": "k" * 300}, "bad_request"),
    ],
)
async def test_what_is_no_request_to_the_store_is_told(
    asked: dict[str, Any], code: str, started: Started, keeper: Path
) -> None:
    async with started() as sandboxed:
        assert (await sandboxed.ask(asked))["error"]["code"] == code


async def test_without_a_store_the_guest_is_told_and_goes_on(
    started: Started, keeper: Path
) -> None:
    async with started(without=["storage"]) as sandboxed:
        answer = await sandboxed.ask({"op": "get", "key": "a"})
    assert answer["error"]["code"] == "unavailable"
    assert "storage" in answer["error"]["message"]


async def test_what_a_tainted_turn_keeps_taints_who_gets_it(started: Started, keeper: Path) -> None:
    keep = call(("c1", "ask", {"op": "set", "key": "page", "value": "as the page says"}))
    get = call(("c2", "ask", {"op": "get", "key": "page"}))
    one = {"model": "script/one"}
    agents = {"agents": {"main": one, "other": one}, "default_agent": "main"}
    async with started(keep, say("kept"), get, say("got it"), **agents) as sandboxed:
        tainted = await _turn(sandboxed, "keep this", taint=frozenset({"channel:mail"}))
        assert tainted.calls[0].result.text == '{"ok":null}'
        # Another session of the same peer, which nothing has tainted.
        clean = await _turn(sandboxed, "what was it?", taint=frozenset(), agent="other")
    result = clean.calls[0].result
    assert "as the page says" in result.text
    assert "channel:mail" in result.taint
    assert "channel:mail" in clean.taint


async def test_what_comes_back_by_http_taints_the_result_and_the_turn(
    started: Started, tmp_path: Path
) -> None:
    async with upstream() as server:
        base = f"http://127.0.0.1:{server.port}"
        write_plugin(tmp_path / "plugins" / "asking", relay("http"), grants=[f"http:GET {base}/*"])
        ask = call(("c1", "ask", {"url": f"{base}/x"}))
        async with started(ask, say("it said hello")) as sandboxed:
            turn = await _turn(sandboxed, "what does it say?", taint=frozenset())
    result = turn.calls[0].result
    assert json.loads(result.text)["ok"]["body"] == "hello"
    assert "wasm:asking" in result.taint
    assert "wasm:asking" in turn.taint


async def test_who_asks_for_nothing_taints_nothing(started: Started, keeper: Path) -> None:
    get = call(("c1", "ask", {"op": "get", "key": "page"}))
    async with started(get, say("nothing")) as sandboxed:
        turn = await _turn(sandboxed, "what was it?", taint=frozenset())
    assert turn.calls[0].result.taint == frozenset()


async def test_what_a_call_keeps_of_what_came_back_is_tainted_by_it() -> None:
    granted, values = (
        Granted.parse(["store:notes", "http:api.example.com"]),
        Values(MemoryStore(METADATA)),
    )
    keeping = GuestCall(plugin="p", granted=granted, taint=frozenset({"wasm:p"}))
    keep = b'{"op": "set", "key": "page", "value": "hello"}'
    await serve_store(values, keeping, StoreRequest.model_validate_json(keep))
    for asked in (b'{"op": "get", "key": "page"}', b'{"op": "list"}'):
        getting = GuestCall(plugin="p", granted=granted)
        request = StoreRequest.model_validate_json(asked)
        assert await serve_store(values, getting, request) in ("hello", ["page"])
        assert getting.taint == {"wasm:p"}


async def _turn(sandboxed: Sandboxed, text: str, *, taint: Any, agent: str | None = None) -> Any:
    request = TurnRequest(content=text, address=Address(), agent=agent, taint=taint)
    origin = Origin(provenance=Provenance.EXTERNAL_USER, path="test")
    handle = sandboxed.gateway.host.start_turn(Principal.owner(), origin, request)
    return await handle.wait()


async def test_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("wasm", tables.METADATA, tables.SCRIPTS)
        assert await differences(store, tables.METADATA) == []
