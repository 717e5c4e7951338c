"""Say which examples came in by an import that nobody has vouched for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "discovery_0003"
down_revision = "discovery_0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column(
        "discovery_example",
        sa.Column("foreign", sa.Boolean, nullable=False, server_default=sa.false()),
    )
