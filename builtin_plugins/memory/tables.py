"""The tables of memory: turns that are kept for recall, and facts with what they rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

T = TypeVar("T")

METADATA = sa.MetaData(info={"complete": True})

SCRIPTS = Path(__file__).parent / "migrations"

IN_ONE = 500
"""Values in one list of a statement."""


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield `values` in parts of which each may stand in one statement."""
    return (values[at : at + IN_ONE] for at in range(0, len(values), IN_ONE))


# -- turns ----------------------------------------------------------------------------

TURNS = sa.Table(
    "memory_turn",
    METADATA,
    sa.Column("scope", sa.Text, primary_key=True),
    # Counts the pieces of a scope, in the order in which they were kept.
    sa.Column("place", sa.BigInteger, primary_key=True, autoincrement=False),
    # The version of the scope at which this row was written last.
    sa.Column("stamp", sa.BigInteger, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    # Which piece of the message this is, from 0.
    sa.Column("part", sa.Integer, nullable=False),
    sa.Column("session", sa.Text, nullable=False),
    sa.Column("turn", sa.Text, nullable=False),
    # Microseconds since 1970 in UTC.
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("speaker", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    # A JSON array, sorted.
    sa.Column("taint", sa.Text, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
    # The numbers of its words in their order, 32 bits each, the lowest byte first.
    sa.Column("terms", sa.LargeBinary, nullable=False),
    sa.Column("signs", sa.Integer, nullable=False),
    # Of which embedder the vector is; "" where there is none yet.
    sa.Column("fingerprint", sa.Text, nullable=False),
    # A signed byte for each number.
    sa.Column("vector", sa.LargeBinary, nullable=True),
    sa.Index("memory_turn_by_message", "scope", "message", "part", unique=True),
    sa.Index("memory_turn_by_stamp", "scope", "stamp"),
    sa.Index("memory_turn_by_turn", "turn"),
    sa.Index("memory_turn_by_session", "session"),
    sa.Index("memory_turn_by_fingerprint", "fingerprint", "at"),
)

SCOPES = sa.Table(
    "memory_scope",
    METADATA,
    sa.Column("scope", sa.Text, primary_key=True),
    # Grows with every change of the scope's rows.
    sa.Column("version", sa.BigInteger, nullable=False),
    # The version at which rows were last taken away.
    sa.Column("removed", sa.BigInteger, nullable=False),
    # The place of the next row.
    sa.Column("next", sa.BigInteger, nullable=False),
)

CURSORS = sa.Table(
    "memory_cursor",
    METADATA,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("cursor", sa.Text, nullable=False),
    # Grows when something is forgotten: what was read before is to be read again.
    sa.Column("version", sa.BigInteger, nullable=False),
)

# -- facts and notes ------------------------------------------------------------------

# SQLite counts rows by itself only where the key is an INTEGER.
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")

FACTS = sa.Table(
    "memory_fact",
    METADATA,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("scope", sa.Text, nullable=False),
    # "fact", or "note": a text that was kept as it is.
    sa.Column("kind", sa.Text, nullable=False),
    # The subject as it is compared (`luna`, `user`, `user/sister` for one whose name nobody said),
    # and as it is shown. "" of a note.
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("subject_name", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    # The value as it is compared, and as it is shown. Of a note: a digest of its folded text.
    sa.Column("object", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    # Of a note: the text as parts of words are looked for in it; "" of a fact.
    sa.Column("folded", sa.Text, nullable=False),
    sa.Column("confidence", sa.Float, nullable=False),
    # Of the source that it was learned from first; all of them stand in `memory_fact_source`.
    sa.Column("speaker", sa.Text, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
    # A JSON array, sorted: the taint of all sources.
    sa.Column("taint", sa.Text, nullable=False),
    sa.Column("session", sa.Text, nullable=False),
    sa.Column("turn", sa.Text, nullable=False),
    # Times are ISO 8601 in UTC with microseconds: one form, which sorts as text.
    # When it held; null where nobody said, or where it goes on.
    sa.Column("valid_from", sa.Text),
    sa.Column("valid_to", sa.Text),
    # When it was learned, and since when it is not what is known any more.
    sa.Column("learned", sa.Text, nullable=False),
    sa.Column("superseded", sa.Text),
    # Why: `changed`, it held until then; `corrected`, it never did; `confirmed`, a better source
    # said the same and has a row of its own; `over`, it had ended before. And the message that
    # said so, with its turn and session.
    sa.Column("ending", sa.Text),
    sa.Column("ended_by", sa.Text),
    sa.Column("ended_turn", sa.Text),
    sa.Column("ended_session", sa.Text),
    sa.Index("memory_fact_by_id", "scope", "id", unique=True),
    sa.Index("memory_fact_by_subject", "scope", "subject", "relation", "number"),
    sa.Index("memory_fact_by_latest", "scope", "subject", "number"),
    sa.Index("memory_fact_by_object", "scope", "object", "number"),
    sa.Index("memory_fact_by_ending", "scope", "ended_by"),
    sa.Index("memory_fact_by_ending_turn", "scope", "ended_turn"),
    sa.Index("memory_fact_by_ending_session", "scope", "ended_session"),
    sa.Index("memory_fact_by_session", "scope", "session", "number"),
    sqlite_autoincrement=True,
)

SOURCES = sa.Table(
    "memory_fact_source",
    METADATA,
    sa.Column("fact", _NUMBER, primary_key=True, autoincrement=False),
    # The message that said so.
    sa.Column("said", sa.Text, primary_key=True),
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("session", sa.Text, nullable=False),
    sa.Column("turn", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("speaker", sa.Text, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("taint", sa.Text, nullable=False),
    sa.Column("confidence", sa.Float, nullable=False),
    sa.Index("memory_fact_source_by_message", "scope", "said"),
    sa.Index("memory_fact_source_by_turn", "scope", "turn"),
    sa.Index("memory_fact_source_by_session", "scope", "session"),
)

WORDS = sa.Table(
    "memory_fact_word",
    METADATA,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("word", sa.Text, primary_key=True),
    sa.Column("fact", _NUMBER, primary_key=True, autoincrement=False),
    sa.Index("memory_fact_word_by_fact", "fact"),
    sqlite_with_rowid=False,
)
