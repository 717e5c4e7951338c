"""Keep what the calls have in common that were allowed together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "policy_0003"
down_revision = "policy_0002"


def upgrade() -> None:
    """Add the column; what was allowed before is about no family."""
    op.add_column("policy_grant", sa.Column("family", sa.Text, nullable=False, server_default=""))
