"""The tables of the store's own: what the core keeps, and what is known of migrations.

They are SQLModel classes over a registry of their own. SQLModel's global metadata would
show every plugin the tables of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import registry
from sqlmodel import Field, SQLModel

SCRIPTS = Path(__file__).parent / "migrations"


class UtcTime(sa.TypeDecorator[datetime]):
    """A time in UTC: aware times only go in, and aware times come out."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[datetime | None], Any] | None:
        """Return what makes of a time what the driver takes; each row is written with one."""
        return _digits if dialect.name == "sqlite" else super().bind_processor(dialect)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return what is stored; SQLite has no time zones and keeps the digits."""
        return None if value is None else _in_utc(value)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return what was stored, aware."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


def _in_utc(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(f"found the time {value} without a zone: expected one in UTC")
    return value.astimezone(UTC)


def _digits(value: datetime | None) -> str | None:
    """Return a time as SQLAlchemy has SQLite keep it."""
    if value is None:
        return None
    own = value if value.tzinfo is UTC else _in_utc(value)
    return own.replace(tzinfo=None).isoformat(" ", "microseconds")


class StorageModel(SQLModel, registry=registry()):
    """Base of the store's own tables."""

    # Rows are made and read without a check, so what checks them is not made.
    model_config = {"defer_build": True}  # so is SQLModel's own


class SessionRow(StorageModel, table=True):
    """One conversation.

    Attributes:
        session: The session key, as `str(SessionKey)`.
        fence: The number of the fence that wrote last.
        messages: How many messages were written to it; also the `seq` of the next one.
        turns: The number of the newest turn.
        last_turn: The id of the newest turn.
        updated: When it was last written, in UTC.
        taint: What was added to it beside its messages: a JSON list.
        forgotten: How many of its messages are not there any more.
    """

    __tablename__ = "storage_sessions"
    __table_args__ = (sa.Index("storage_sessions_by_updated", "updated"),)

    session: str = Field(primary_key=True, sa_type=sa.Text)
    fence: int = Field(sa_type=sa.BigInteger)
    messages: int = Field(sa_type=sa.Integer)
    turns: int = Field(sa_type=sa.Integer)
    last_turn: str = Field(sa_type=sa.Text)
    updated: datetime = Field(sa_type=UtcTime)
    taint: str = Field(sa_type=sa.Text, sa_column_kwargs={"server_default": "[]"})
    forgotten: int = Field(sa_type=sa.Integer, sa_column_kwargs={"server_default": "0"})


class MessageRow(StorageModel, table=True):
    """One message of a conversation.

    Attributes:
        session: The session key.
        turn_number: The place of its turn in the conversation, from 1.
        turn: The id of that turn.
        seq: Its own place in the conversation, from 0.
        role: user, assistant or tool.
        taint: Where untrusted text in it came from: a JSON list.
        body: The whole message: the JSON of `Message.to_json`.
        created: When it was made, in UTC.
        position: Its place among the messages of all sessions, in the order of their commits.
    """

    __tablename__ = "storage_messages"
    __table_args__ = (sa.Index("storage_messages_by_position", "position", unique=True),)

    session: str = Field(primary_key=True, sa_type=sa.Text)
    turn_number: int = Field(primary_key=True, sa_type=sa.Integer)
    seq: int = Field(primary_key=True, sa_type=sa.Integer)
    turn: str = Field(sa_type=sa.Text)
    role: str = Field(sa_type=sa.Text)
    taint: str = Field(sa_type=sa.Text)
    body: str = Field(sa_type=sa.Text)
    created: datetime = Field(sa_type=UtcTime)
    position: int = Field(sa_type=sa.BigInteger, sa_column_kwargs={"server_default": "0"})


class PositionRow(StorageModel, table=True):
    """The last position that was given to a row of a table.

    Whoever takes positions holds this row until the commit. So they become visible in their
    order, whichever gateway writes, and none that is lower comes later; a sequence of the
    database gives numbers without waiting for those who have lower ones.

    Attributes:
        name: What is numbered: ``messages``.
        last: The highest position that was given.
    """

    __tablename__ = "storage_positions"

    name: str = Field(primary_key=True, sa_type=sa.Text)
    last: int = Field(sa_type=sa.BigInteger)


class SwitchRow(StorageModel, table=True):
    """One switch; see `hookgate.core.domain.ports.Switch`.

    Attributes:
        name: Its name.
        value: JSON.
        version: Grows by one with each change.
    """

    __tablename__ = "storage_switches"

    name: str = Field(primary_key=True, sa_type=sa.Text)
    value: str = Field(sa_type=sa.Text)
    version: int = Field(sa_type=sa.BigInteger)


class QuestionRow(StorageModel, table=True):
    """One question; see `hookgate.core.domain.ports.Question`.

    Attributes:
        id: Its id.
        state: ``waiting``, ``answered``, ``expired`` or ``withdrawn``.
        owner: The gateway that asked, an `AskerRow` where gateways share the database.
        subject: What it is about.
        body: All else that it says: JSON.
        asked: When it was asked, in UTC.
        answer: The answer: JSON; "" where there is none.
        answered_by: The id of the principal who answered, or "".
        why: Why it ended without an answer, or "".
    """

    __tablename__ = "storage_questions"
    __table_args__ = (sa.Index("storage_questions_by_state", "state", "asked"),)

    id: str = Field(primary_key=True, sa_type=sa.Text)
    state: str = Field(sa_type=sa.Text)
    owner: str = Field(sa_type=sa.Text)
    subject: str = Field(sa_type=sa.Text)
    body: str = Field(sa_type=sa.Text)
    asked: datetime = Field(sa_type=UtcTime)
    answer: str = Field(sa_type=sa.Text)
    answered_by: str = Field(sa_type=sa.Text)
    why: str = Field(sa_type=sa.Text)


class AskerRow(StorageModel, table=True):
    """A gateway whose questions wait, among several on one database.

    Attributes:
        owner: One run of a gateway.
        until: It has stopped where it has not said otherwise by then, by the database's clock.
    """

    __tablename__ = "storage_askers"

    owner: str = Field(primary_key=True, sa_type=sa.Text)
    until: datetime = Field(sa_type=UtcTime)


class LaneRow(StorageModel, table=True):
    """The lane of a session, among several gateways on one database.

    Attributes:
        session: The session key.
        epoch: Grows by one whenever somebody takes it.
        holder: The gateway that has it, or may take it alone until then; "" for nobody.
        until: It is free where its holder has not said otherwise by then, by the database's clock.
        wanted: The gateway that has asked for it first since it was taken, or "".
    """

    __tablename__ = "storage_lanes"

    session: str = Field(primary_key=True, sa_type=sa.Text)
    epoch: int = Field(sa_type=sa.BigInteger)
    holder: str = Field(sa_type=sa.Text)
    until: datetime = Field(sa_type=UtcTime)
    wanted: str = Field(sa_type=sa.Text)


class ScriptsRow(StorageModel, table=True):
    """The migration scripts that a plugin's tables were brought up to date with.

    Attributes:
        plugin: The plugin.
        digest: The SHA-256 of its scripts.
        version: The revision that they led to.
    """

    __tablename__ = "storage_scripts"

    plugin: str = Field(primary_key=True, sa_type=sa.Text)
    digest: str = Field(sa_type=sa.Text)
    version: str = Field(sa_type=sa.Text)


def _table(model: Any) -> sa.Table:
    found: sa.Table = model.__table__
    return found


METADATA = StorageModel.metadata
METADATA.info["complete"] = True
SESSIONS = _table(SessionRow)
MESSAGES = _table(MessageRow)
POSITIONS = _table(PositionRow)
SWITCH_ROWS = _table(SwitchRow)
QUESTION_ROWS = _table(QuestionRow)
ASKERS = _table(AskerRow)
LANE_ROWS = _table(LaneRow)


@sa.event.listens_for(POSITIONS, "after_create")
def _begin(table: sa.Table, connection: sa.Connection, **_: Any) -> None:
    """Begin to count, as the migration does that looks for messages which are there already."""
    connection.execute(sa.insert(table).values(name="messages", last=0))
