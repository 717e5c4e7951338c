"""Create the tables of questions and of the gateways that ask them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "storage_0004"
down_revision = "storage_0003"


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "storage_questions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("asked", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("answered_by", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
    )
    op.create_index("storage_questions_by_state", "storage_questions", ["state", "asked"])
    op.create_table(
        "storage_askers",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
    )
