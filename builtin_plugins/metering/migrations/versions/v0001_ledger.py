"""Create the tables of the ledger, and of its sums by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "metering_0001"
down_revision = None

COUNTS = (
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cache_write_hour_tokens",
    "audio_input_tokens",
    "image_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "audio_output_tokens",
    "image_output_tokens",
)
OF_CALL = ("agent", "channel", "account", "principal", "key", "cause", "plugin", "tool")
TALLIES = ("calls", "refused", "failed", "estimated", "unpriced")
MONEY = ("cost_dollars", "cost_rest", "saved_dollars", "saved_rest")


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "metering_call",
        sa.Column("id", sa.Text, primary_key=True),
        *_texts("writer"),
        *_numbers("seq"),
        *_texts("at", "day", "turn", "session", *OF_CALL, "provider", "model"),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("iteration", sa.Integer, nullable=False),
        *_texts("status", "kind"),
        sa.Column("sent", sa.Boolean, nullable=False),
        sa.Column("reported", sa.Boolean, nullable=False),
        *_numbers(*COUNTS),
        sa.Column("cost", sa.BigInteger),
        *_numbers("saved"),
        *_texts("price"),
    )
    op.create_index("metering_call_by_place", "metering_call", ["writer", "seq"], unique=True)
    op.create_index("metering_call_by_session", "metering_call", ["session", "at"])
    op.create_table(
        "metering_mark", sa.Column("writer", sa.Text, primary_key=True), *_numbers("seq")
    )
    for table, words in (
        ("metering_day", ("day", *OF_CALL)),
        ("metering_session_day", ("day", "session", *OF_CALL)),
    ):
        op.create_table(
            table,
            sa.Column("id", sa.Text, primary_key=True),
            *_texts(*words, "provider", "model"),
            *_numbers(*COUNTS, *TALLIES, *MONEY),
        )
        op.create_index(f"{table}_by_day", table, ["day"])
    op.create_index("metering_session_day_by_session", "metering_session_day", ["session", "day"])
