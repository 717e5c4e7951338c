"""Keep how far turns were heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "discovery_0002"
down_revision = "discovery_0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "discovery_cursor",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("cursor", sa.Text, nullable=False),
    )
