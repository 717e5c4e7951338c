"""The tables of the plugin ``channels``."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, text

SCRIPTS = Path(__file__).parents[1] / "migrations"

METADATA = MetaData(info={"complete": True})

EVENTS = Table(
    "channels_event",
    METADATA,
    Column("channel", Text, primary_key=True),
    # Which of our accounts it came to: a platform numbers the events of each by themselves. "" in
    # rows from before accounts were kept, of events that were done.
    Column("account", Text, primary_key=True),
    # The platform's id of the event.
    Column("id", Text, primary_key=True),
    # Whom the answer goes to, and to nobody else; "" as above.
    Column("peer", Text, nullable=False),
    # Their order: microseconds since 1970 when it came in.
    Column("position", BigInteger, nullable=False),
    # `waiting` for its turn, or `done`.
    Column("state", Text, nullable=False),
    # The gateway that sees to it.
    Column("owner", Text, nullable=False),
    # The message as JSON; "" once it is done.
    Column("message", Text, nullable=False),
    # What a platform that waits for the answer is answered with, as JSON; else "".
    Column("answer", Text, nullable=False),
    # Account and peer as JSON; "" of what came in before there was this.
    Column("conversation", Text, nullable=False, server_default=""),
    Index("channels_event_by_state", "state", "channel", "position"),
    Index("channels_event_by_position", "channel", "position"),
    Index(
        "channels_event_by_conversation",
        "channel",
        "conversation",
        "position",
        sqlite_where=text("state = 'waiting'"),
        postgresql_where=text("state = 'waiting'"),
    ),
)

TURNS = Table(
    "channels_turn",
    METADATA,
    Column("turn", Text, primary_key=True),
    Column("channel", Text, nullable=False),
    Column("account", Text, nullable=False, server_default=""),
    Column("event", Text, nullable=False),
    Column("session", Text, nullable=False),
    # The id of the message that shows the answer while it is written; "" where there is none.
    Column("live", Text, nullable=False),
    Index("channels_turn_by_event", "channel", "account", "event"),
)

DELIVERIES = Table(
    "channels_delivery",
    METADATA,
    # Also the key of idempotency.
    Column("id", Text, primary_key=True),
    Column("position", BigInteger, nullable=False),
    # What is said together: where one part is dead, those behind it are.
    Column("batch", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("peer", Text, nullable=False),
    # The rest of the address and the message, as JSON.
    Column("body", Text, nullable=False),
    # `waiting` or `dead`.
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    # Milliseconds since 1970: when it is tried next, and when it is of no use any more (0: never).
    Column("due", BigInteger, nullable=False),
    Column("expires", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Index("channels_delivery_by_peer", "channel", "state", "account", "peer", "position"),
)

CURSORS = Table(
    "channels_cursor",
    METADATA,
    Column("channel", Text, primary_key=True),
    Column("cursor", Text, nullable=False),
)

LEASES = Table(
    "channels_lease",
    METADATA,
    # `gateway:ID` for a gateway that runs, `poll:CHANNEL` for who polls.
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    # Milliseconds since 1970.
    Column("until", BigInteger, nullable=False),
)
