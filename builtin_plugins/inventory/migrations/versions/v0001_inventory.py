"""Create the tables of the records, of toggles and of installed skills."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "inventory_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "inventory_capability",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("source", sa.Text, nullable=False, index=True),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "inventory_source",
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("synced", sa.Text, nullable=False),
    )
    op.create_table(
        "inventory_toggle",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("changed", sa.Text, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
    )
    op.create_table(
        "inventory_skill",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=True),
        sa.Column("runtime", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("changed", sa.Text, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
    )
