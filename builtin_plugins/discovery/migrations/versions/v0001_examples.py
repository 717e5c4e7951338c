"""Create the table of the examples."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "discovery_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "discovery_example",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("capability", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("learned", sa.BigInteger, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "discovery_example_by_capability", "discovery_example", ["scope", "capability", "used"]
    )
    op.create_index("discovery_example_by_scope", "discovery_example", ["scope", "used"])
    op.create_index("discovery_example_by_use", "discovery_example", ["used"])
