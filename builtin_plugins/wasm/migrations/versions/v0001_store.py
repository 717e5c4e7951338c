"""Create the tables of what guests keep."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "wasm_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "wasm_namespace",
        sa.Column("plugin", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "wasm_value",
        sa.Column("plugin", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
    )
