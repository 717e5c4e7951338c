"""Keep the taint of a session, what was forgotten of it, and the order of all commits."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "storage_0002"
down_revision = "storage_0001"

# What was there is put in the order in which it was said, each conversation in its own.
POSITIONS = """
    UPDATE storage_messages SET position = ranked.place
    FROM (
        SELECT session AS its_session, seq AS its_seq, row_number() OVER (
            ORDER BY latest, session, seq
        ) AS place
        FROM (
            SELECT session, seq, max(created) OVER (PARTITION BY session ORDER BY seq) AS latest
            FROM storage_messages
        ) AS said
    ) AS ranked
    WHERE session = ranked.its_session AND seq = ranked.its_seq
"""


def upgrade() -> None:
    """Add the columns, and the counter that numbers messages."""
    op.add_column(
        "storage_sessions", sa.Column("taint", sa.Text, nullable=False, server_default="[]")
    )
    op.add_column(
        "storage_sessions", sa.Column("forgotten", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column(
        "storage_messages", sa.Column("position", sa.BigInteger, nullable=False, server_default="0")
    )
    op.execute(POSITIONS)
    op.create_index("storage_messages_by_position", "storage_messages", ["position"], unique=True)
    op.create_table(
        "storage_positions",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO storage_positions (name, last) "
        "SELECT 'messages', coalesce(max(position), 0) FROM storage_messages"
    )
    op.drop_index("storage_sessions_by_fence", "storage_sessions")
