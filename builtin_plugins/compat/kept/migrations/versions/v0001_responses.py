"""Create the table of responses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compat_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "compat_response",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("made", sa.BigInteger, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("runs_until", sa.BigInteger, nullable=False),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_compat_response_expires", "compat_response", ["expires"])
