"""Create the table of calls that are open, and say of each call which windows it was charged to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "metering_0003"
down_revision = "metering_0002"


def upgrade() -> None:
    """Create the table and the columns; gateways that are known by now keep no open calls."""
    op.create_table(
        "metering_open",
        sa.Column("call", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("gateway", "held", "row")),
    )
    op.create_index("metering_open_by_gateway", "metering_open", ["gateway"])
    opens = sa.Column("opens", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("metering_gateway", opens)
    windows = sa.Column("windows", sa.Text, nullable=False, server_default="")
    op.add_column("metering_call", windows)
