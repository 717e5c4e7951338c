"""Create the table of what was accepted, and take over what plugins kept of it before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "acceptance_0001"
down_revision = None

# Table -> its columns: name, digest, seen, detail, accepted_by.
_BEFORE = {
    "policy_tool_pin": ("'tool'", "tool", "accepted", "seen", "identity", "accepted_by"),
    "awareness_pin": ("'card'", "id", "approved", "seen", "''", "''"),
}


def upgrade() -> None:
    """Create the table."""
    text = ("digest", "seen", "detail", "accepted_by", "changed")
    op.create_table(
        "acceptance",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in text),
    )
    there = sa.inspect(op.get_bind()).get_table_names()
    for table, columns in _BEFORE.items():
        if table in there:
            op.execute(
                "INSERT INTO acceptance (kind, name, digest, seen, detail, accepted_by, changed) "
                f"SELECT {', '.join(columns)}, changed FROM {table}"
            )
            op.drop_table(table)
