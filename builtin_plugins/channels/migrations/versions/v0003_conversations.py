"""Say of each event which conversation it belongs to, so that gateways keep its order together."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "channels_0003"
down_revision = "channels_0002"


def upgrade() -> None:
    """Add the column; what waits already has the order of its gateway."""
    conversation = sa.Column("conversation", sa.Text, nullable=False, server_default="")
    op.add_column("channels_event", conversation)
    waiting = sa.text("state = 'waiting'")
    op.create_index(
        "channels_event_by_conversation",
        "channels_event",
        ["channel", "conversation", "position"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
