"""A database as the first version of the store left it, with conversations in it."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hookgate.builtin_plugins.storage import migrate
from hookgate.builtin_plugins.storage.migrate import PluginTables
from hookgate.builtin_plugins.storage.tables import MESSAGES, SCRIPTS
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.turn import Fence, SessionKey

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.conversations import SqlConversations
    from hookgate.builtin_plugins.storage.store import SqlStore

SESSIONS = ("demo:cli:local:main", "demo:cli:local:other")
TURNS = 3
START = datetime(2030, 1, 1, tzinfo=UTC)


def fill(connection: sa.Connection, folder: Path) -> None:
    """Make the tables of the first version, and write `TURNS` turns into each session."""
    versions = folder / "first" / "versions"
    versions.mkdir(parents=True)
    shutil.copy(SCRIPTS / "versions" / "v0001_conversations.py", versions)
    migrate.upgrade(
        connection, PluginTables("storage", sa.MetaData(), versions.parent), allowed=True
    )
    with connection.begin():
        known = sa.MetaData()
        known.reflect(connection)
        for session in SESSIONS:
            _write(connection, known, session)


def _write(connection: sa.Connection, known: sa.MetaData, session: str) -> None:
    rows = []
    for number in range(1, TURNS + 1):
        for role in ("user", "assistant"):
            seq = len(rows)
            made = START + timedelta(minutes=2 * seq, seconds=SESSIONS.index(session))
            turn = f"turn_{number}"
            text = f"{role} {number}"
            message = Message(role=role, parts=(Text(text),), turn=turn, created=made)  # type: ignore[arg-type]
            rows.append(
                {
                    "session": session,
                    "turn_number": number,
                    "seq": seq,
                    "turn": turn,
                    "role": role,
                    "taint": "[]",
                    "body": json.dumps(message.to_json()),
                    "created": made,
                }
            )
    connection.execute(known.tables["storage_messages"].insert(), rows)
    connection.execute(
        known.tables["storage_sessions"].insert(),
        {
            "session": session,
            "fence": 7,
            "messages": len(rows),
            "turns": TURNS,
            "last_turn": f"turn_{TURNS}",
            "updated": made,
        },
    )


async def check(store: SqlStore, conversations: SqlConversations) -> None:
    """Assert that what `fill` wrote is there, in its order, and can be gone on with."""
    keys = [SessionKey.parse(session) for session in SESSIONS]
    words = [f"{role} {n}" for n in range(1, TURNS + 1) for role in ("user", "assistant")]
    fresh = Message(role="user", parts=(Text("fresh"),), turn="turn_9")
    for key in keys:
        await conversations.append(key, [fresh], fence=Fence())
        found = await conversations.history(key, turns=100)
        assert [message.text for message in found] == [*words, "fresh"]
        assert await conversations.taint(key, turns=100) == frozenset()
    query = sa.select(MESSAGES.c.position, MESSAGES.c.session, MESSAGES.c.seq)
    rows = await store.read(lambda c: c.execute(query.order_by(MESSAGES.c.position)).all())
    # Both took turns in saying something, and went on one after the other.
    mixed = [(session, seq) for seq in range(2 * TURNS) for session in SESSIONS]
    last = [(session, 2 * TURNS) for session in SESSIONS]
    assert [tuple(row) for row in rows] == [
        (place, *which) for place, which in enumerate((*mixed, *last), 1)
    ]
