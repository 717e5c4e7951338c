"""Find the rows of a tool, a call and an outcome without reading all of them."""

from __future__ import annotations

from alembic import op

revision = "audit_0003"
down_revision = "audit_0002"


def upgrade() -> None:
    """Create the indexes."""
    op.create_index("audit_entry_by_call", "audit_entry", ["call"])
    for name in ("tool", "outcome"):
        op.create_index(f"audit_entry_by_{name}", "audit_entry", [name, "at", "chain", "seq"])
