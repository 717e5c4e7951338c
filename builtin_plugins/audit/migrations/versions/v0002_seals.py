"""Give every row of the audit a seal; rows that were written before have none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "audit_0002"
down_revision = "audit_0001"


def upgrade() -> None:
    """Add the columns."""
    for name in ("previous", "key", "seal"):
        op.add_column("audit_entry", sa.Column(name, sa.Text, nullable=False, server_default=""))
