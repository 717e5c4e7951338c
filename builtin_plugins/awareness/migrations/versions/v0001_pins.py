"""Create the table of the cards' digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "awareness_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "awareness_pin",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("approved", sa.Text, nullable=False),
        sa.Column("seen", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("changed", sa.Text, nullable=False),
    )
