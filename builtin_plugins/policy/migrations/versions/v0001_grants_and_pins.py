"""Create the tables of the grants and of the tools' digests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "policy_0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    grant = ("scope", "tool", "plugin", "tool_digest", "arguments", "shown", "agent", "session")
    op.create_table(
        "policy_grant",
        sa.Column("id", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in grant),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("tainted", sa.Boolean, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("allowed_by", sa.Text, nullable=False),
        sa.Column("allowed_at", sa.Text, nullable=False),
        sa.Column("expires", sa.Text, nullable=False),
    )
    op.create_index("policy_grant_by_session", "policy_grant", ["session", "tool"])
    pin = ("accepted", "seen", "identity", "accepted_by", "changed")
    op.create_table(
        "policy_tool_pin",
        sa.Column("tool", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in pin),
    )
