"""What is kept for clients. Times are seconds since 1970."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, MetaData, delete, select, update

from hookgate.kit.records import Field, Record

SCRIPTS = Path(__file__).parent / "migrations"
METADATA = MetaData(info={"complete": True})


class KeptResponse(Record):
    """A response that a client can ask for again, with what it was asked for."""

    __tablename__ = "compat_response"
    metadata = METADATA

    principal: str = Field(primary_key=True)
    """The id of whose it is: nobody else finds it."""
    id: str = Field(primary_key=True)
    made: int
    expires: int = Field(index=True)
    runs_until: int
    """While it runs in the background: when it counts as lost, unless it is heard of before."""
    cancelled: bool
    """Whether somebody wants it to end."""
    body: bytes
    """The input and the response, as they were shown: compressed JSON."""


class HiddenRound(Record):
    """What stands behind an answer, as far as its client was not shown it."""

    __tablename__ = "compat_round"
    metadata = METADATA

    key: str = Field(primary_key=True)
    """The digest of the answer and of all before it, as they were shown, and of whose it is."""
    answer: str = Field(index=True)
    """The digest of the answer alone."""
    session: str
    """The client's session that it was given in."""
    made: int = Field(index=True)
    messages: bytes
    """The messages in its place: compressed JSON; empty once they are not kept any longer."""


def forget_rounds(connection: Connection, kept: int, known: int, most: int) -> None:
    """Forget what was hidden.

    Args:
        connection: The store.
        kept: Since when it is kept; of what is older it is known that there was something.
        known: Since when that is known.
        most: How many of the latest are known at most.
    """
    rows = HiddenRound.table
    old = update(rows).where(rows.c.made < kept, rows.c.messages != b"")
    connection.execute(old.values(messages=b""))
    latest = select(rows.c.made).order_by(rows.c.made.desc()).offset(most).limit(1)
    beyond = connection.execute(latest).scalar()
    connection.execute(delete(rows).where(rows.c.made <= max(beyond or 0, known)))


class KeptAnswer(Record):
    """An answer that whoever sends its request again gets once more."""

    __tablename__ = "compat_answer"
    metadata = METADATA

    principal: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    """What the client has named its request, or what it is."""
    digest: str
    """SHA-256 of the path and the body, in hex."""
    claim: str
    """Tells which of two that came at once is the first."""
    expires: int = Field(index=True)
    runs_until: int
    """While it runs: when it counts as lost, unless it is heard of before; then 0."""
    body: bytes
    """Headers and frames: compressed JSON."""
