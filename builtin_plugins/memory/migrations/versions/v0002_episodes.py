"""Create the tables of the turns that are kept for recall."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "memory_0002"
down_revision = "memory_0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "memory_turn",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("place", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("stamp", sa.BigInteger, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("speaker", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.Column("signs", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=True),
    )
    op.create_index(
        "memory_turn_by_message", "memory_turn", ["scope", "message", "part"], unique=True
    )
    op.create_index("memory_turn_by_stamp", "memory_turn", ["scope", "stamp"])
    op.create_index("memory_turn_by_turn", "memory_turn", ["turn"])
    op.create_index("memory_turn_by_session", "memory_turn", ["session"])
    op.create_index("memory_turn_by_fingerprint", "memory_turn", ["fingerprint", "at"])
    op.create_table(
        "memory_scope",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("removed", sa.BigInteger, nullable=False),
        sa.Column("next", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "memory_cursor",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
