"""Create the tables of budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "metering_0002"
down_revision = "metering_0001"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "metering_window",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("lasting", sa.Boolean, nullable=False),
        sa.Column("settled", sa.BigInteger, nullable=False),
        sa.Column("leased", sa.BigInteger, nullable=False),
        sa.Column("lost", sa.BigInteger, nullable=False),
        sa.Column("asked", sa.BigInteger, nullable=False),
        sa.Column("touched", sa.BigInteger, nullable=False),
    )
    op.create_index("metering_window_by_touched", "metering_window", ["touched"])
    op.create_table(
        "metering_lease",
        sa.Column("gateway", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("answered", sa.BigInteger, nullable=False),
    )
    op.create_index("metering_lease_by_key", "metering_lease", ["key"])
    op.create_table(
        "metering_gateway",
        sa.Column("gateway", sa.Text, primary_key=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
    )
