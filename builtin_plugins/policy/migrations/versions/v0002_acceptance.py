"""Let go of the table of the tools' digests, which `hookgate.kit.acceptance` has taken over."""

from __future__ import annotations

from alembic import op

revision = "policy_0002"
down_revision = "policy_0001"


def upgrade() -> None:
    """Drop the table, where it is there still: in a store that is new."""
    op.execute("DROP TABLE IF EXISTS policy_tool_pin")
