"""Create the tables of events, turns, deliveries, cursors and leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "channels_0001"
down_revision = None


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "channels_event",
        sa.Column("channel", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        *_numbers("position"),
        *_texts("state", "owner", "message", "answer"),
    )
    by_state = ["state", "channel", "position"]
    op.create_index("channels_event_by_state", "channels_event", by_state)
    op.create_index("channels_event_by_position", "channels_event", ["channel", "position"])
    op.create_table(
        "channels_turn",
        sa.Column("turn", sa.Text, primary_key=True),
        *_texts("channel", "event", "session", "live"),
    )
    op.create_index("channels_turn_by_event", "channels_turn", ["channel", "event"])
    op.create_table(
        "channels_delivery",
        sa.Column("id", sa.Text, primary_key=True),
        *_numbers("position"),
        *_texts("batch", "channel", "account", "peer", "body", "state", "owner"),
        sa.Column("attempts", sa.Integer, nullable=False),
        *_numbers("due", "expires"),
        *_texts("error"),
    )
    by_peer = ["channel", "state", "account", "peer", "position"]
    op.create_index("channels_delivery_by_peer", "channels_delivery", by_peer)
    op.create_table(
        "channels_cursor", sa.Column("channel", sa.Text, primary_key=True), *_texts("cursor")
    )
    op.create_table(
        "channels_lease",
        sa.Column("name", sa.Text, primary_key=True),
        *_texts("holder"),
        *_numbers("until"),
    )
