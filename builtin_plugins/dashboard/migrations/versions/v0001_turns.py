"""Create the table of the last turns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "dashboard_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "dashboard_turn",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("parent", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("own", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("milliseconds", sa.Float, nullable=False),
        sa.Column("ending", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("degraded", sa.Text, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("tainted", sa.Boolean, nullable=False),
        sa.Column("called", sa.BigInteger, nullable=False),
        sa.Column("denied", sa.BigInteger, nullable=False),
        sa.Column("plugins", sa.Text, nullable=False),
        sa.Column("tools", sa.Text, nullable=False),
        sa.Column("calls", sa.Text, nullable=False),
        sa.Column("told", sa.Text, nullable=False),
    )
    op.create_index("dashboard_turn_by_place", "dashboard_turn", ["place"])
    op.create_index("dashboard_turn_by_root", "dashboard_turn", ["root"])
