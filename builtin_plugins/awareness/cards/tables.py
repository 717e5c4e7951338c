"""The digests of cards in the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

from hookgate.kit.records import Field, Record

SCRIPTS = Path(__file__).parents[1] / "migrations"
METADATA = MetaData()


class Pin(Record):
    """What is known of one card."""

    __tablename__ = "awareness_pin"
    metadata = METADATA

    id: str = Field(primary_key=True)
    """The card's id."""
    approved: str
    """The digest that was approved, SHA-256 in hex; "" where none was."""
    seen: str
    """The digest that was seen last."""
    source: str
    """Where the card was declared."""
    changed: str
    """When it last changed, ISO 8601 in UTC."""
