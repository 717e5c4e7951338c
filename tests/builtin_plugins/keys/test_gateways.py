"""Keys of several gateways on one PostgreSQL, and of a store that does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.keys.conftest import chat, keyed, new
from tests.builtin_plugins.stores import differences
from tests.support.wire import Served, bearer

from hookgate import SWITCHES, StoreError
from hookgate.builtin_plugins.keys import tables
from hookgate.builtin_plugins.keys.book import KeyBook
from hookgate.builtin_plugins.storage.switches import POLL_SECONDS
from hookgate.ports import STORE


@pytest.mark.slow
async def test_a_key_that_is_revoked_at_one_gateway_is_none_at_the_other_within_a_second(
    url: str, tmp_path: Path
) -> None:
    assert POLL_SECONDS < 1.0, "how soon it is seen is not held by a clock"
    plugin = {"storage": {"url": url, "fallback": "refuse"}}
    async with (
        keyed(tmp_path / "one", plugin=plugin) as one,
        keyed(tmp_path / "two", plugin=plugin) as two,
    ):
        store: Any = one.gate.host[STORE]
        for end in ("revoke", "rotate"):
            key = await new(one, name="ci")
            # Made here, it is known there at once.
            assert (await chat(two, key, "ci"))[0] == 200
            async with two.socket(**bearer(key)) as socket:
                closed = asyncio.ensure_future(socket.closed())
                status, _ = await one.post(f"/v1/operations/keys.{end}", {"name": "ci"})
                assert status == 200
                assert await closed == 1008
            assert (await chat(two, key, "ci"))[0] == 401
            assert (await chat(one, key, "ci"))[0] == 401
        key = await new(one, name="other")
        async with two.socket(**bearer(key)) as socket:
            closed = asyncio.ensure_future(socket.closed())
            await one.post("/v1/operations/keys.change", {"name": "other", "models": ["other/*"]})
            assert await closed == 1008
        assert (await chat(two, key, "other"))[1]["ending"] == "failed"
        assert await differences(store, tables.METADATA) == []


async def test_while_the_store_does_not_answer_an_unknown_key_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keyed(tmp_path) as served:
        key, other = await new(served, name="ci"), await new(served, name="other")
        assert (await chat(served, key, "ci"))[0] == 200

        async def read(_: Any) -> Any:
            raise StoreError("it is gone")

        monkeypatch.setattr(served.gate.host[STORE], "read", read)
        status, answer = await served.get("/v1/status", **bearer(other))
        assert (status, answer["error"]["data"]["code"]) == (503, "not_checked")
        # One that is remembered is a key, as long as other gateways are heard of.
        assert (await served.get("/v1/status", **bearer(key)))[0] == 403
        monkeypatch.setattr(served.gate.host[SWITCHES], "behind", lambda: 60.0)
        assert (await served.get("/v1/status", **bearer(key)))[0] == 503


async def test_a_revoked_key_is_not_remembered(tmp_path: Path) -> None:
    async with keyed(tmp_path) as served:
        key = await new(served, name="ci")
        await served.post("/v1/operations/keys.revoke", {"name": "ci"})
        for _ in range(2):
            status, _ = await served.get("/v1/status", **bearer(key))
            assert status == 401
        assert not book_of(served)._known


async def test_a_key_that_is_revoked_while_it_is_read_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with keyed(tmp_path) as served:
        key = await new(served, name="ci")
        book, store = book_of(served), served.gate.host[STORE]
        read, reading, going = store.read, asyncio.Event(), asyncio.Event()

        async def slow(work: Any) -> Any:
            found = await read(work)
            reading.set()
            await going.wait()
            return found

        monkeypatch.setattr(store, "read", slow)
        finding = asyncio.create_task(book.find(key))
        await reading.wait()
        monkeypatch.setattr(store, "read", read)
        # Another gateway revokes it: its row first, then its word of it.
        rows = await book._records()
        await rows.change(rows.c.name == "ci", revoked="2026-11-27T00:00:00+00:00")
        switch = await served.gate.host[SWITCHES].get("keys.changed")
        await served.gate.host[SWITCHES].put("keys.changed", "x", version=switch.version)
        going.set()
        found = await finding
        assert found is not None
        assert found.row.revoked
        assert not book._known


def book_of(served: Served) -> KeyBook:
    book: KeyBook = served.gate.plugins.get("keys")._book  # type: ignore[union-attr]
    return book


async def test_while_the_store_is_replaced_by_memory_no_key_is_called_unknown(
    tmp_path: Path,
) -> None:
    async with keyed(tmp_path) as served:
        key = await new(served, name="ci")
    damage(tmp_path)
    async with keyed(tmp_path) as served:
        assert served.gate.host.degraded
        status, answer = await served.get("/v1/status", **bearer(key))
        assert (status, answer["error"]["data"]["code"]) == (503, "not_checked")
        status, answer = await served.post("/v1/keys", {"name": "more"})
        assert (status, answer["error"]["data"]["code"]) == (503, "store_failed")


def damage(home: Path) -> None:
    """Make the database one that cannot be read."""
    (file,) = home.rglob("*.db")
    for more in home.rglob(f"{file.name}-*"):
        more.unlink()
    file.write_bytes(b"no database" * 1000)
