"""Notes of earlier versions are facts in their own words: none is lost."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Column, MetaData, Table, Text, insert, inspect, select
from tests.builtin_plugins.memory.facts.telling import NOON, facts
from tests.builtin_plugins.stores import differences, opened_store

from hookgate.builtin_plugins.memory.facts.rows import iso
from hookgate.builtin_plugins.memory.recall.words import fold
from hookgate.builtin_plugins.memory.tables import FACTS, METADATA, SCRIPTS

COUNT = 1203
"""More than the migration moves at once, and no multiple of it."""


def earlier(folder: Path) -> tuple[MetaData, Path]:
    """Return the tables as they were, and scripts that make them."""
    versions = folder / "scripts" / "versions"
    versions.mkdir(parents=True)
    shutil.copy(SCRIPTS / "versions" / "v0001_notes.py", versions)
    metadata = MetaData()
    names = ("id", "scope", "text", "folded", "taint", "provenance", "session", "turn", "created")
    Table("memory_note", metadata, *(Column(name, Text) for name in names))
    return metadata, folder / "scripts"


async def test_the_migration_takes_over_every_note(tmp_path: Path) -> None:
    metadata, scripts = earlier(tmp_path)
    written = [
        {
            "id": f"note_{number}",
            "scope": f"session:main:web:bot:{number % 7}",
            "text": f"Note {number}: the Dog is Luna{number}",
            "folded": fold(f"Note {number}: the Dog is Luna{number}"),
            "taint": '["tool:http_get"]' if number % 2 else "[]",
            "provenance": "external_user",
            "session": "main:web:bot:1",
            "turn": f"turn_{number}",
            "created": iso(NOON + timedelta(seconds=number)),
        }
        for number in range(COUNT)
    ]
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", metadata, scripts)
        table = metadata.tables["memory_note"]
        await store.write(lambda connection: connection.execute(insert(table), written))
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", METADATA, SCRIPTS)
        assert await differences(store, METADATA) == []
        tables = await store.read(lambda connection: inspect(connection).get_table_names())
        assert "memory_note" not in tables
        for number in (0, 499, 500, 501, COUNT - 1):
            row = written[number]
            query = select(FACTS).where(FACTS.c.id == row["id"])
            found = await store.read(
                lambda connection, query=query: connection.execute(query).one()
            )
            assert found.kind == "note"
            for name in ("scope", "text", "folded", "taint", "provenance", "session", "turn"):
                assert getattr(found, name) == row[name]
            assert found.learned == row["created"]
            hits = await store.read(
                lambda connection, row=row, number=number: facts().search(
                    [str(row["scope"])], f"who is luna{number}?", connection, at=NOON
                )
            )
            assert [hit.id for hit in hits][:1] == [row["id"]]
        exported = await store.read(
            lambda connection: [
                row
                for number in range(7)
                for row in facts().export([f"session:main:web:bot:{number}"], connection)
            ]
        )
        assert {row["id"] for row in exported} == {row["id"] for row in written}
