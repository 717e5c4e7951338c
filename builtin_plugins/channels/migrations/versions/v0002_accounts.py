"""Name events by their account as well, and keep whom their answers are for."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "channels_0002"
down_revision = "channels_0001"

BEFORE = "channels_event_0001"

# Of an event that is done neither account nor peer is known any more: "" stands for both, which
# no message has. It stays known, to whichever account it comes again.
KEPT = """
    INSERT INTO channels_event
        (channel, account, id, peer, position, state, owner, message, answer)
    SELECT channel, '', id, '', position, state, owner, message, answer FROM channels_event_0001
"""
PLACED = """
    UPDATE channels_event SET account = :account, peer = :peer WHERE channel = :channel AND id = :id
"""
TURNED = "UPDATE channels_turn SET account = :account WHERE channel = :channel AND event = :id"


def upgrade() -> None:
    """Make the table anew with its longer key, and fill it from what was there."""
    op.drop_index("channels_event_by_state", "channels_event")
    op.drop_index("channels_event_by_position", "channels_event")
    op.rename_table("channels_event", BEFORE)
    names = ("state", "owner", "message", "answer")
    op.create_table(
        "channels_event",
        sa.Column("channel", sa.Text, primary_key=True),
        sa.Column("account", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("peer", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in names),
    )
    op.execute(KEPT)
    op.drop_table(BEFORE)
    by_state = ["state", "channel", "position"]
    op.create_index("channels_event_by_state", "channels_event", by_state)
    op.create_index("channels_event_by_position", "channels_event", ["channel", "position"])
    op.drop_index("channels_turn_by_event", "channels_turn")
    account = sa.Column("account", sa.Text, nullable=False, server_default="")
    op.add_column("channels_turn", account)
    _place()
    by_event = ["channel", "account", "event"]
    op.create_index("channels_turn_by_event", "channels_turn", by_event)


def _place() -> None:
    """Give events that wait, and the turns of them, the account and the peer of their message."""
    connection = op.get_bind()
    waiting = "SELECT channel, id, message FROM channels_event WHERE message != ''"
    for row in connection.execute(sa.text(waiting)).all():
        message = json.loads(row.message)
        this = {"channel": row.channel, "id": row.id, "account": message["account"]}
        connection.execute(sa.text(PLACED), {**this, "peer": message["peer"]})
        connection.execute(sa.text(TURNED), this)
