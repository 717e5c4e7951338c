"""Write owners so that no two of them have the same text."""

from __future__ import annotations

from urllib.parse import quote

import sqlalchemy as sa
from alembic import op

revision = "wasm_0002"
down_revision = "wasm_0001"

SAFE = " @.+-_~/#"
"""As in `key_text`, when this was written."""


def upgrade() -> None:
    """Escape the three parts of each owner.

    One with more than two ``:`` could be several peers, and nobody knows which: what it has is
    left as it is. It is no one's, since no peer's text has more than two.
    """
    connection = op.get_bind()
    found = sa.text("SELECT DISTINCT owner FROM wasm_value WHERE owner != ''")
    # The longest first: an escaped text is longer than what it stands for, so that the place to
    # which an owner is moved is free by then.
    for owner in sorted(connection.execute(found).scalars(), key=len, reverse=True):
        escaped = ":".join(quote(part, safe=SAFE) for part in owner.split(":"))
        if owner.count(":") == 2 and escaped != owner:
            connection.execute(
                sa.text("UPDATE wasm_value SET owner = :escaped WHERE owner = :owner"),
                {"escaped": escaped, "owner": owner},
            )
