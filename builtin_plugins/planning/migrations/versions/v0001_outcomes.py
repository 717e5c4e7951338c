"""Create the table of outcomes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "planning_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "planning_outcome",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("turn", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("steers", sa.Boolean, nullable=False),
    )
    op.create_index("planning_outcome_by_time", "planning_outcome", ["scope", "at", "turn"])
