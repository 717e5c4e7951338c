"""Create the table of switches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "storage_0003"
down_revision = "storage_0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "storage_switches",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
