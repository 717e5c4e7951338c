"""The tables of memory: turns that are kept for recall, and facts with what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

T = TypeVar("T")

METADATA = MetaData(info={"complete": True})

SCRIPTS = Path(__file__).parent / "migrations"

IN_ONE = 500
"""Values in one list of a statement."""


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield `values` in parts of which each may stand in one statement."""
    return (values[at : at + IN_ONE] for at in range(0, len(values), IN_ONE))


# -- turns ----------------------------------------------------------------------------

TURNS = Table(
    "memory_turn",
    METADATA,
    Column("scope", Text, primary_key=True),
    # Counts the pieces of a scope, in the order in which they were kept.
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    # The version of the scope at which this row was written last.
    Column("stamp", BigInteger, nullable=False),
    Column("message", Text, nullable=False),
    # Which piece of the message this is, from 0.
    Column("part", Integer, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text, nullable=False),
    # Microseconds since 1970 in UTC.
    Column("at", BigInteger, nullable=False),
    Column("speaker", Text, nullable=False),
    Column("text", Text, nullable=False),
    # A JSON array, sorted.
    Column("taint", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    # The numbers of its words in their order, 32 bits each, the lowest byte first.
    Column("terms", LargeBinary, nullable=False),
    Column("signs", Integer, nullable=False),
    # Of which embedder the vector is; "" where there is none yet.
    Column("fingerprint", Text, nullable=False),
    # A signed byte for each number.
    Column("vector", LargeBinary, nullable=True),
    Index("memory_turn_by_message", "scope", "message", "part", unique=True),
    Index("memory_turn_by_stamp", "scope", "stamp"),
    Index("memory_turn_by_turn", "turn"),
    Index("memory_turn_by_session", "session"),
    Index("memory_turn_by_fingerprint", "fingerprint", "at"),
)

SCOPES = Table(
    "memory_scope",
    METADATA,
    Column("scope", Text, primary_key=True),
    # Grows with every change of the scope's rows.
    Column("version", BigInteger, nullable=False),
    # The version at which rows were last taken away.
    Column("removed", BigInteger, nullable=False),
    # The place of the next row.
    Column("next", BigInteger, nullable=False),
)

CURSORS = Table(
    "memory_cursor",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("cursor", Text, nullable=False),
    # Grows when something is forgotten: what was read before is to be read again.
    Column("version", BigInteger, nullable=False),
)

# -- facts and notes ------------------------------------------------------------------

# SQLite counts rows by itself only where the key is an INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

FACTS = Table(
    "memory_fact",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    # "fact", or "note": a text that was kept as it is.
    Column("kind", Text, nullable=False),
    # The subject as it is compared (`luna`, `user`, `user/sister` for one whose name nobody said),
    # and as it is shown. "" of a note.
    Column("subject", Text, nullable=False),
    Column("subject_name", Text, nullable=False),
    Column("relation", Text, nullable=False),
    # The value as it is compared, and as it is shown. Of a note: a digest of its folded text.
    Column("object", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("text", Text, nullable=False),
    # Of a note: the text as parts of words are looked for in it; "" of a fact.
    Column("folded", Text, nullable=False),
    Column("confidence", Float, nullable=False),
    # Of the source that it was learned from first; all of them stand in `memory_fact_source`.
    Column("speaker", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    # A JSON array, sorted: the taint of all sources.
    Column("taint", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text, nullable=False),
    # Times are ISO 8601 in UTC with microseconds: one form, which sorts as text.
    # When it held; null where nobody said, or where it goes on.
    Column("valid_from", Text),
    Column("valid_to", Text),
    # When it was learned, and since when it is not what is known any more.
    Column("learned", Text, nullable=False),
    Column("superseded", Text),
    # Why: `changed`, it held until then; `corrected`, it never did; `confirmed`, a better source
    # said the same and has a row of its own; `over`, it had ended before. And the message that
    # said so, with its turn and session.
    Column("ending", Text),
    Column("ended_by", Text),
    Column("ended_turn", Text),
    Column("ended_session", Text),
    Index("memory_fact_by_id", "scope", "id", unique=True),
    Index("memory_fact_by_subject", "scope", "subject", "relation", "number"),
    Index("memory_fact_by_latest", "scope", "subject", "number"),
    Index("memory_fact_by_object", "scope", "object", "number"),
    Index("memory_fact_by_ending", "scope", "ended_by"),
    Index("memory_fact_by_ending_turn", "scope", "ended_turn"),
    Index("memory_fact_by_ending_session", "scope", "ended_session"),
    Index("memory_fact_by_session", "scope", "session", "number"),
    sqlite_autoincrement=True,
)

SOURCES = Table(
    "memory_fact_source",
    METADATA,
    Column("fact", _NUMBER, primary_key=True, autoincrement=False),
    # The message that said so.
    Column("said", Text, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("session", Text, nullable=False),
    Column("turn", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("speaker", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("taint", Text, nullable=False),
    Column("confidence", Float, nullable=False),
    Index("memory_fact_source_by_message", "scope", "said"),
    Index("memory_fact_source_by_turn", "scope", "turn"),
    Index("memory_fact_source_by_session", "scope", "session"),
)

WORDS = Table(
    "memory_fact_word",
    METADATA,
    Column("scope", Text, primary_key=True),
    Column("word", Text, primary_key=True),
    Column("fact", _NUMBER, primary_key=True, autoincrement=False),
    Index("memory_fact_word_by_fact", "fact"),
    sqlite_with_rowid=False,
)
