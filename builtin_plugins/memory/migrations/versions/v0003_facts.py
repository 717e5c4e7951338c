"""Create the tables of facts, and take over the notes: a note is a fact in its own words."""

from __future__ import annotations

from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "memory_0003"
down_revision = "memory_0002"

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
BATCH = 500


def upgrade() -> None:
    """Create the tables, move the notes, and drop the table that they were in."""
    _facts()
    _sources()
    _words()
    _take_over()
    op.drop_index("memory_note_by_scope", "memory_note")
    op.drop_table("memory_note")


def _facts() -> None:
    op.create_table(
        "memory_fact",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("id", "scope", "kind")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("subject", "subject_name")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("relation", "object", "value")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("text", "folded")),
        sa.Column("confidence", sa.Float, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("speaker", "provenance")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("taint", "session", "turn")),
        sa.Column("valid_from", sa.Text),
        sa.Column("valid_to", sa.Text),
        sa.Column("learned", sa.Text, nullable=False),
        sa.Column("superseded", sa.Text),
        *(sa.Column(name, sa.Text) for name in ("ending", "ended_by")),
        *(sa.Column(name, sa.Text) for name in ("ended_turn", "ended_session")),
        sqlite_autoincrement=True,
    )
    op.create_index("memory_fact_by_id", "memory_fact", ["scope", "id"], unique=True)
    op.create_index(
        "memory_fact_by_subject", "memory_fact", ["scope", "subject", "relation", "number"]
    )
    op.create_index("memory_fact_by_latest", "memory_fact", ["scope", "subject", "number"])
    op.create_index("memory_fact_by_object", "memory_fact", ["scope", "object", "number"])
    op.create_index("memory_fact_by_ending", "memory_fact", ["scope", "ended_by"])
    op.create_index("memory_fact_by_ending_turn", "memory_fact", ["scope", "ended_turn"])
    op.create_index("memory_fact_by_ending_session", "memory_fact", ["scope", "ended_session"])
    op.create_index("memory_fact_by_session", "memory_fact", ["scope", "session", "number"])


def _sources() -> None:
    op.create_table(
        "memory_fact_source",
        sa.Column("fact", NUMBER, primary_key=True, autoincrement=False),
        sa.Column("said", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("scope", "session", "turn")),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "speaker", "provenance")),
        sa.Column("taint", sa.Text, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
    )
    for name, column in (("message", "said"), ("turn", "turn"), ("session", "session")):
        op.create_index(f"memory_fact_source_by_{name}", "memory_fact_source", ["scope", column])


def _words() -> None:
    op.create_table(
        "memory_fact_word",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("word", sa.Text, primary_key=True),
        sa.Column("fact", NUMBER, primary_key=True, autoincrement=False),
        sqlite_with_rowid=False,
    )
    op.create_index("memory_fact_word_by_fact", "memory_fact_word", ["fact"])


def _take_over() -> None:
    """Move the notes, the oldest first, and index their words."""
    # What a word is may change with the code; rows that are there already are to be found by the
    # words of today.
    from hookgate.builtin_plugins.memory.recall.words import terms_of

    connection = op.get_bind()
    meta = sa.MetaData()
    notes = sa.Table("memory_note", meta, autoload_with=connection)
    facts = sa.Table("memory_fact", meta, autoload_with=connection)
    words = sa.Table("memory_fact_word", meta, autoload_with=connection)
    rows = connection.execute(sa.select(notes).order_by(notes.c.created, notes.c.id)).mappings()
    last = 0
    for some in list(rows.partitions(BATCH)):
        connection.execute(facts.insert(), [_fact(dict(note)) for note in some])
        columns = (facts.c.number, facts.c.scope, facts.c.text)
        numbers = connection.execute(sa.select(*columns).where(facts.c.number > last)).all()
        last = max(number for number, _, _ in numbers)
        found = [
            {"scope": scope, "word": word, "fact": number}
            for number, scope, text in numbers
            for word in sorted(set(terms_of(text)))
        ]
        if found:
            connection.execute(words.insert(), found)


def _fact(note: dict[str, str]) -> dict[str, object]:
    return {
        **{name: note[name] for name in ("id", "scope", "text", "folded", "taint")},
        **{name: note[name] for name in ("provenance", "session", "turn")},
        "kind": "note",
        "subject": "",
        "subject_name": "",
        "relation": "",
        "object": sha256(note["folded"].encode("utf-8", "surrogatepass")).hexdigest(),
        "value": "",
        "confidence": 1.0,
        "speaker": "assistant",
        "learned": note["created"],
    }
