"""The installed plugin in a real gateway, with a real database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hookgate import ConfigError, Gateway, Settings

SCHEMA = """
CREATE TABLE cards (
    id TEXT PRIMARY KEY,
    name TEXT,
    description TEXT,
    text TEXT NOT NULL,
    router_tags TEXT,           -- a JSON array of texts
    keywords TEXT,              -- likewise
    priority INTEGER NOT NULL DEFAULT 5
)
"""

BILLING = ("billing", "Billing", "Invoices and refunds", "Ask for the invoice's number.")


def write(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with one card, whose name a URL must escape."""
    path = tmp_path / "our cards #1?.db"
    write(path, SCHEMA)
    write(
        path,
        "INSERT INTO cards VALUES (?, ?, ?, ?, ?, ?, ?)",
        *BILLING,
        '["money"]',
        '["invoice", "refund"]',
        7,
    )
    return path


def gateway(home: Path, path: Path) -> Gateway:
    config = Settings.model_validate({"home": home, "plugin": {"database_cards": {"path": path}}})
    return Gateway(config, builtin=("providers",))


async def test_rows_are_cards_that_are_not_trusted(tmp_path: Path, database: Path) -> None:
    async with gateway(tmp_path, database) as running:
        (card,) = running.host.cards.view().values()

    assert (card.id, card.name, card.description, card.text) == BILLING
    assert card.triggers.router_tags == ("money",)
    assert card.triggers.keywords == ("invoice", "refund")
    assert (card.priority, card.origin, card.trusted) == (7, "plugin", False)
    assert card.source_ref == f"{database}#billing"


async def test_cards_are_capabilities_that_selectors_see(tmp_path: Path, database: Path) -> None:
    async with gateway(tmp_path, database) as running:
        turn = await running.chat("/say hello")

    assert turn.snapshot.capabilities.of_kind("card").keys() == {"card:billing"}


@pytest.mark.parametrize(
    "row",
    [
        {"id": "bad", "text": "", "priority": 5},
        {"id": "bad", "text": "x" * 60_000, "priority": 5},
        {"id": "bad", "text": "t", "priority": 99},
        {"id": "bad", "text": "t", "priority": 5, "keywords": "{not json"},
        {"id": "bad", "text": "t", "priority": 5, "router_tags": '"no array"'},
        {"id": "bad", "text": b"\xff\xfe", "priority": 5},
    ],
    ids=["empty", "long", "priority", "json", "array", "bytes"],
)
async def test_bad_row_is_skipped_and_the_others_load(
    tmp_path: Path, database: Path, row: dict[str, object]
) -> None:
    columns, marks = ", ".join(row), ", ".join("?" for _ in row)
    write(database, f"INSERT INTO cards ({columns}) VALUES ({marks})", *row.values())
    async with gateway(tmp_path, database) as running:
        assert running.host.cards.view().keys() == {"billing"}


async def test_reload_reads_the_database_again(tmp_path: Path, database: Path) -> None:
    async with gateway(tmp_path, database) as running:
        write(database, "INSERT INTO cards (id, text) VALUES ('kitchen', 'Soup at noon.')")
        write(database, "DELETE FROM cards WHERE id = 'billing'")
        await running.reload()
        assert running.host.cards.view().keys() == {"kitchen"}


async def test_database_that_is_not_there_costs_its_cards_alone_and_is_not_made(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "missing.db"
    async with gateway(tmp_path, missing) as running:
        turn = await running.chat("/say hello")
        assert running.host.cards.view() == {}

    assert turn.answer == "hello"
    assert not missing.exists()


def test_path_must_be_given(tmp_path: Path) -> None:
    config = Settings.model_validate({"home": tmp_path})

    with pytest.raises(ConfigError, match=r"plugin\.database_cards.*path"):
        Gateway(config, builtin=("providers",))
