"""Create the table of hidden rounds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compat_0002"
down_revision = "compat_0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "compat_round",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("made", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_compat_round_answer", "compat_round", ["answer"])
    op.create_index("ix_compat_round_made", "compat_round", ["made"])
