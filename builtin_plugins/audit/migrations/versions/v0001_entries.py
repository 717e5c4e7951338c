"""Create the table of the audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "audit_0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "audit_entry",
        sa.Column("chain", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("turn", sa.Text, nullable=False),
        sa.Column("session", sa.Text, nullable=False),
        sa.Column("call", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("audit_entry_by_time", "audit_entry", ["at", "chain", "seq"])
    op.create_index("audit_entry_by_turn", "audit_entry", ["turn"])
    op.create_index("audit_entry_by_session", "audit_entry", ["session", "at"])
