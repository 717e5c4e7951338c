"""Create the table of lanes, which gateways on one database take."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "storage_0005"
down_revision = "storage_0004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "storage_lanes",
        sa.Column("session", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
    )
