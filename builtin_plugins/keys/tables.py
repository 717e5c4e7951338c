"""What is kept of keys."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, MetaData, Text, update

from hookgate.builtin_plugins.keys.operations import KeyLife
from hookgate.kit.records import Field, Record
from hookgate.kit.records.statements import insert_new

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = MetaData(info={"complete": True})


class ClientKey(KeyLife, Record):  # type: ignore[misc]  # as `Record` itself
    """A key, without its secret."""

    __tablename__ = "keys_key"
    metadata = METADATA

    name: str = Field(primary_key=True)
    digest: str = Field(index=True)
    """SHA-256 of the secret, in hex: of 256 random bits, which need neither salt nor stretching."""
    terms: str = Field(sa_type=Text)
    """What it may do, as JSON."""


KEYS = ClientKey.table


def add(connection: Connection, row: ClientKey) -> bool:
    """Keep a new key; False where one of its name holds. One that was revoked leaves its name."""
    values = row.model_dump()
    if insert_new(connection, KEYS, values):
        return True
    free = update(KEYS).where(KEYS.c.name == row.name, KEYS.c.revoked != "")
    return connection.execute(free.values(**values)).rowcount > 0
