"""What was accepted, in the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

from hookgate.kit.records import Field, Record

SCRIPTS = Path(__file__).parent / "migrations"
# Where one of those is there, the scripts take over what is in it.
BEFORE = ("policy_tool_pin", "awareness_pin")
METADATA = MetaData(info={"complete": True, "instead_of": BEFORE})


class Accepted(Record):
    """What is known of one thing."""

    __tablename__ = "acceptance"
    metadata = METADATA

    kind: str = Field(primary_key=True)
    """``tool``, ``card``, ``guest``, or a kind of a plugin's own."""
    name: str = Field(primary_key=True)
    digest: str
    """What was accepted; "" where nothing was."""
    seen: str
    """The digest that was seen last."""
    detail: str
    """What was accepted, in JSON: it says later what has changed."""
    accepted_by: str
    """The principal who accepted it; "" where it was the first of its name."""
    changed: str
    """When this row last changed, ISO 8601 in UTC."""
