"""Create the tables of schedules and of what became of their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "schedules_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "schedules_schedule",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("missed", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "schedules_run",
        sa.Column("schedule", sa.Text, primary_key=True),
        sa.Column("planned", sa.Text, primary_key=True),
        sa.Column("first", sa.Text, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("more", sa.Boolean, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("gateway", sa.Text, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True)),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("ended", sa.Text, nullable=False),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
