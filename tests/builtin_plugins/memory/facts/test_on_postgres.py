"""The same stories on a real PostgreSQL server."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from tests.builtin_plugins.memory.facts.telling import ME, facts, rows, stories, told, wrong_in
from tests.builtin_plugins.stores import differences

from hookgate.builtin_plugins.memory.tables import METADATA, SCRIPTS
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings

if TYPE_CHECKING:
    from sqlalchemy import Connection

pytestmark = pytest.mark.slow

OTHER = "peer:telegram:bot:other"


async def test_facts_are_learned_found_moved_and_forgotten(url: str, tmp_path: Path) -> None:
    store = await open_store(StorageSettings(url=SecretStr(url)), tmp_path)
    try:
        assert store.durable, store.problem
        await store.migrate("memory", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []
        memory = facts()

        def tell(connection: Connection) -> None:
            memory.learn([], connection)
            for story in stories("stories.toml"):
                wrong = wrong_in(story, connection)
                assert wrong == [], story.name
                memory.forget([ME], connection, everything=True)

        await store.write(tell)

        def move(connection: Connection) -> None:
            said = told(["My dog is called Luna.", "I live in Rome.", "I moved to Oslo."])
            memory.learn(said, connection)
            exported = [dict(row) for row in memory.export([ME], connection)]
            imported = memory.import_(
                [row | {"scope": OTHER, "id": f"{row['id']}x"} for row in exported], connection
            )
            assert imported.new == len(exported) == 3
            at = said[-1].at + timedelta(minutes=1)
            hits = memory.search([OTHER], "what's my dog's name?", connection, at=at)
            assert "dog: Luna" in hits[0].text
            assert memory.forget([ME], connection, sessions=[said[0].session]) == 3
            assert rows(connection) == []
            assert len(rows(connection, OTHER)) == 3
            assert memory.forget([OTHER], connection, said=[said[2].id]) == 1
            assert [row.value for row in rows(connection, OTHER)] == ["Luna", "Rome"]

        await store.write(move)
    finally:
        await store.close()
