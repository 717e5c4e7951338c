"""Create the tables for conversations and for what is known of migrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "storage_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "storage_scripts",
        sa.Column("plugin", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
    )
    op.create_table(
        "storage_sessions",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.Integer, nullable=False),
        sa.Column("turns", sa.Integer, nullable=False),
        sa.Column("last_turn", sa.Text, nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("storage_sessions_by_fence", "storage_sessions", ["fence"])
    op.create_index("storage_sessions_by_updated", "storage_sessions", ["updated"])
    op.create_table(
        "storage_messages",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("turn_number", sa.Integer, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
    )
