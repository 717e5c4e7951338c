"""What is kept for clients. Times are seconds since 1970."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

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
