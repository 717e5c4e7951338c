"""The tables of facts: what is known, what it rests on, and the words that it is found by."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Float, Index, Integer, Table, Text

from hookgate.builtin_plugins.memory.tables.metadata import METADATA

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
