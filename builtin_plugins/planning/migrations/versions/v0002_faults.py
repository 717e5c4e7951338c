"""Say of each turn what went wrong in it, in which session, and why it went so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "planning_0002"
down_revision = "planning_0001"


def upgrade() -> None:
    """Add the columns; of turns of before nothing of it is known."""
    for name in ("fault", "session", "reason"):
        op.add_column(
            "planning_outcome", sa.Column(name, sa.Text, nullable=False, server_default="")
        )
