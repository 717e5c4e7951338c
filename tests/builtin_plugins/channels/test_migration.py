"""What was kept before accounts were: it stays known, and what waited goes on."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Connection, MetaData, text
from tests.builtin_plugins.stores import differences, opened_store

from hookgate import ReceivedMessage
from hookgate.builtin_plugins.channels.book.events import (
    Events,
    ForeignEventError,
    Leases,
    event_key,
)
from hookgate.builtin_plugins.channels.book.tables import METADATA, SCRIPTS
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.builtin_plugins.storage.store import SqlStore
from hookgate.kit.testing.gateway import TurnedClock

WAITS = ReceivedMessage(id="e2", content="hello", account="acme", peer="ada")
EVENT = """
    INSERT INTO channels_event (channel, id, position, state, owner, message, answer)
    VALUES ('desk', :id, :position, :state, 'gateway_gone', :message, :answer)
"""
TURN = """
    INSERT INTO channels_turn (turn, channel, event, session, live)
    VALUES ('turn_1', 'desk', 'e2', 'main:desk:acme:ada', 'm1')
"""


async def written_before(store: SqlStore, scripts: Path) -> None:
    """Make the tables of the first version, with an event that is done and one that waits."""
    (scripts / "versions").mkdir(parents=True)
    shutil.copy(SCRIPTS / "versions" / "v0001_channels.py", scripts / "versions")
    await store.migrate("channels", MetaData(), scripts)

    def write(connection: Connection) -> None:
        done = {"id": "e1", "position": 1, "state": "done", "message": "", "answer": '"42"'}
        waits = json.dumps(asdict(WAITS))
        rest = {"id": "e2", "position": 2, "state": "waiting", "message": waits, "answer": ""}
        connection.execute(text(EVENT), [done, rest])
        connection.execute(text(TURN))

    await store.write(write)


async def check_that_it_goes_on(store: SqlStore) -> None:
    await store.migrate("channels", METADATA, SCRIPTS)
    assert await differences(store, METADATA) == []
    events = Events(store, Leases(store, TurnedClock(), "gateway_new"))
    # What is done is known, to whichever account it was; its answer is for nobody any more.
    again = [ReceivedMessage(id=number, account="acme", peer="ada") for number in ("e1", "e3")]
    assert [one.id for one in await events.take("desk", again)] == ["e3"]
    with pytest.raises(ForeignEventError):
        await events.answer(event_key("desk", again[0]), "ada")
    # What waits is taken up with its account and its turn, and is done then.
    assert await events.take("desk", [WAITS]) == []
    (left,) = await events.take_over(["desk"], 10)
    assert (left.message, left.turns) == (WAITS, (("turn_1", "main:desk:acme:ada", "m1"),))
    await events.finish(event_key("desk", left.message), answer='"done"')
    assert await events.answer(event_key("desk", WAITS), "ada") == '"done"'
    # The same id in another account was never seen.
    other = ReceivedMessage(id="e2", account="umbrella", peer="ada")
    assert await events.take("desk", [other]) == [other]
    # Once what is old is forgotten, its ids are free again.
    await events.prune(before=1, most=1000)
    assert await events.take("desk", again[:1]) == again[:1]


async def test_what_was_known_before_accounts_were_kept_is_known(tmp_path: Path) -> None:
    async with opened_store(tmp_path / "home") as store:
        await written_before(store, tmp_path / "scripts")
        await check_that_it_goes_on(store)


@pytest.mark.slow
async def test_what_was_known_before_is_known_on_postgresql(url: str, tmp_path: Path) -> None:
    store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
    assert store.durable, store.problem
    try:
        await written_before(store, tmp_path / "scripts")
        await check_that_it_goes_on(store)
    finally:
        await store.close()
