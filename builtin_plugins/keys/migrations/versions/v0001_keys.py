"""Create the table of keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "keys_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "keys_key",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("terms", sa.Text, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("made", sa.Text, nullable=False),
        sa.Column("rotated", sa.Text, nullable=False),
        sa.Column("revoked", sa.Text, nullable=False),
    )
    op.create_index("ix_keys_key_digest", "keys_key", ["digest"])
