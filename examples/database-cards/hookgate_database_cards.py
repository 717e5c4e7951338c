"""A hookgate plugin: capability cards from a SQLite database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from hookgate import Card, Section, Triggers, blocking, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate import Host

QUERY = "SELECT id, name, description, text, router_tags, keywords, priority FROM cards ORDER BY id"

TEXT_BYTES = 51_200
"""The longest text of a card, as for one in a file."""


class DatabaseCards(Section):
    """``[plugin.database_cards]``."""

    path: Path
    """The database file."""
    busy_seconds: float = Field(default=2.0, ge=0, le=20)
    """How long a database is waited for that somebody writes to."""


class Plugin:
    """Reads the cards when the gateway starts, and again when it reloads."""

    Settings = DatabaseCards

    def __init__(self, settings: DatabaseCards) -> None:
        self.settings = settings

    # `blocking`: SQLite blocks, so this runs on a thread and not on the event loop.
    @hookimpl
    @blocking
    def list_cards(self, host: Host) -> Sequence[Card]:
        """Return the cards. A row that is none is named in the log, and the others load."""
        path = self.settings.path.absolute()
        # Read-only: a database that is not there is an error, and not made.
        uri = f"{path.as_uri()}?mode=ro"
        cards = []
        with closing(
            sqlite3.connect(uri, uri=True, timeout=self.settings.busy_seconds)
        ) as database:
            database.row_factory = sqlite3.Row
            for row in database.execute(QUERY):
                try:
                    cards.append(card_of(row, f"{path}#{row['id']}"))
                except (TypeError, ValueError) as error:
                    host.log.warning("card skipped", card=str(row["id"]), error=str(error))
        return cards


def card_of(row: sqlite3.Row, source: str) -> Card:
    """Return the card of a row.

    Raises:
        TypeError: A value is of the wrong type.
        ValueError: A value is missing, too long, or no JSON.
    """
    text, priority = row["text"], row["priority"]
    if not isinstance(row["id"], str) or not row["id"]:
        raise TypeError("expected a text as its id")
    if not isinstance(text, str) or not text.strip():
        raise TypeError("expected a text")
    if len(text.encode()) > TEXT_BYTES:
        raise ValueError(f"found {len(text.encode())} bytes of text, expected {TEXT_BYTES} at most")
    if not isinstance(priority, int) or not 0 <= priority <= 20:
        raise ValueError(f"found the priority {priority!r}, expected 0 to 20")
    return Card(
        id=row["id"],
        name=row["name"] or "",
        description=row["description"] or "",
        text=text,
        triggers=Triggers(router_tags=words(row["router_tags"]), keywords=words(row["keywords"])),
        priority=priority,
        # Whoever writes to a database is not who runs the gateway: its cards are judged as
        # any third party's, and only the operator's own folders are trusted.
        origin="plugin",
        trusted=False,
        source_ref=source,
    )


def words(column: str | None) -> tuple[str, ...]:
    """Read a column that holds a JSON array of texts; NULL is an empty one.

    Raises:
        TypeError: It is something else.
        ValueError: It is no JSON.
    """
    found = json.loads(column) if column is not None else []
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise TypeError(f"expected a JSON array of texts, found {column!r:.60}")
    return tuple(found)
