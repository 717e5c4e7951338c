"""Create the table of answers that may be asked for twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compat_0003"
down_revision = "compat_0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "compat_answer",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("claim", sa.Text, nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
        sa.Column("runs_until", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_compat_answer_expires", "compat_answer", ["expires"])
