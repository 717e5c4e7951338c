from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from tests.support.wire import bearer, tokens

from hookgate import Gateway
from hookgate.builtin_plugins.storage.settings import DATABASE_NAME
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.builtin_plugins.storage.switches import SqlSwitches
from hookgate.core.domain.ports import SWITCHES, Switch
from hookgate.core.gateway.access.tokens import token_book
from hookgate.core.settings.schema import Settings
from hookgate.sessions import FileSwitches

if TYPE_CHECKING:
    from tests.builtin_plugins.storage.conftest import OpenStore


async def test_of_two_who_have_seen_one_version_one_sets_it(
    store: SqlStore, tmp_path: Path
) -> None:
    switches = SqlSwitches(store, FileSwitches(tmp_path))
    assert await switches.get("a") == Switch("a")
    for version in range(2):
        made = await asyncio.gather(*(switches.put("a", n, version=version) for n in range(5)))
        (winner,) = [one for one in made if one is not None]
        assert await switches.get("a") == winner
        assert winner.version == version + 1


async def test_what_another_gateway_sets_is_told_at_the_next_look(
    store: SqlStore, tmp_path: Path
) -> None:
    here, there = (SqlSwitches(store, FileSwitches(tmp_path / name)) for name in "ab")
    heard: list[Switch] = []
    here.watch("a", heard.append)
    await there.put("a", {"on": False}, version=0)
    await there.put("a", {"on": True}, version=1)
    await there.put("b", 1, version=0)
    assert heard == []
    await here.look()
    await here.look()
    assert heard == [Switch("a", {"on": True}, 2)]


async def test_a_copy_in_the_home_folder_that_cannot_be_written_is_said_and_made_up_for(
    store: SqlStore, tmp_path: Path
) -> None:
    said: list[str] = []
    switches = SqlSwitches(store, FileSwitches(tmp_path), tell=said.append)
    place = tmp_path / "switches.json"
    place.mkdir()
    assert await switches.put("a", 1, version=0) == Switch("a", 1, 1)
    assert "switches.json cannot be written" in said[-1]
    place.rmdir()
    await switches.look()
    assert said[-1] == ""
    assert await FileSwitches(tmp_path).get("a") == Switch("a", 1, 1)


async def test_a_database_that_cannot_be_read_is_said_until_it_can(
    opened: OpenStore, tmp_path: Path
) -> None:
    store, said = await opened(), list[str]()
    switches = SqlSwitches(store, FileSwitches(tmp_path), tell=said.append)
    await store.write(lambda c: c.execute(sa.text("ALTER TABLE storage_switches RENAME TO x")))
    await switches.look()
    assert "is not heard of" in said[-1]
    await store.write(lambda c: c.execute(sa.text("ALTER TABLE x RENAME TO storage_switches")))
    await switches.look()
    assert said[-1] == ""


async def test_a_start_without_the_store_revives_no_token_and_turns_nothing_on(
    tmp_path: Path,
) -> None:
    section, made = tokens(ann={}, bob={})
    settings = Settings.model_validate({"home": tmp_path, "gateway": section})

    def refused(gate: Gateway) -> dict[str, bool]:
        book = token_book(gate.host)
        return {name: book.redeem(token) is None for name, token in made.items()}

    async with Gateway(settings, builtin=("control", "storage")) as gate:
        await token_book(gate.host).revoke("ann")
        await gate.host[SWITCHES].put("acme.off", True, version=0)
    (tmp_path / "revoked-tokens.json").unlink()
    database = tmp_path / DATABASE_NAME
    sound = database.read_bytes()
    database.write_bytes(b"damaged" * 1000)
    async with Gateway(settings, builtin=("control", "storage")) as gate:
        assert not gate.host.status()["durable"]
        assert refused(gate) == {"ann": True, "bob": False}
        assert (await gate.host[SWITCHES].get("acme.off")).value is True
        await token_book(gate.host).revoke("bob")
    # What was revoked while the store was away stays so when it is back.
    database.write_bytes(sound)
    async with Gateway(settings, builtin=("control", "storage")) as gate:
        assert gate.host.status()["durable"]
        assert refused(gate) == {"ann": True, "bob": True}
    assert bearer(made["ann"])
