"""Create the table of the notes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "memory_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "memory_note",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
    )
    op.create_index("memory_note_by_scope", "memory_note", ["scope", "created"])
