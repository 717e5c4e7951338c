from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select
from tests.builtin_plugins.memory.facts.telling import (
    ME,
    NOON,
    facts,
    known,
    opened,
    rows,
    shown,
    utterance,
)

from hookgate.builtin_plugins.memory.domain import FullError, Note
from hookgate.builtin_plugins.memory.tables import SOURCES, WORDS

OTHER = "peer:telegram:bot:other"
LATER = NOON + timedelta(days=1)

SENTENCES = (
    "My dog is called Luna.",
    "My dog is called Rex.",
    "I live in Rome.",
    "I moved to Oslo.",
    "I no longer live in Oslo.",
    "I moved from Oslo to Bergen.",
    "No, I live in Paris, not Rome.",
    "I like tea.",
    "I hate tea.",
    "I don't like tea any more.",
    "No, Luna is the cat.",
    "Luna is 4.",
    "I quit my job at Acme.",
    "I work at Acme.",
    "My sister Ann lives in Rome.",
)


def left_over(connection: Connection) -> int:
    """Return how many words and sources there are of facts that there are not."""
    numbers = {row.number for scope in (ME, OTHER) for row in rows(connection, scope)}
    held = [*connection.scalars(select(WORDS.c.fact)), *connection.scalars(select(SOURCES.c.fact))]
    return sum(number not in numbers for number in held)


def test_a_fact_of_one_message_goes_and_one_of_two_stays() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("My dog is called Luna and I like tea.", 1),
                utterance("My dog's name is Luna.", 2),
            ],
            connection,
        )
        assert memory.forget([ME], connection, said=["msg_1"]) == 1
        (row,) = known(connection, LATER)
        assert (shown(row), row.turn) == ("user | dog | Luna", "turn_2")
        assert memory.forget([ME], connection, turns=["turn_2"]) == 1
        assert rows(connection) == []
        assert left_over(connection) == 0


def test_what_a_forgotten_message_had_ended_holds_again() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("I live in Rome.", 1),
                utterance("I moved to Oslo.", 2),
                utterance("I like tea.", 3),
                utterance("I no longer like tea.", 4),
            ],
            connection,
        )
        memory.forget([ME], connection, turns=["turn_2", "turn_4"])
        assert [shown(row) for row in known(connection, LATER)] == [
            "user | lives in | Rome",
            "user | likes | tea",
        ]
        assert all(row.valid_to is None and row.ending is None for row in rows(connection))


def test_a_place_that_another_one_has_taken_since_stays_past() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("I live in Rome.", 1),
                utterance("I moved to Oslo.", 2),
                utterance("I moved to Bergen.", 3),
            ],
            connection,
        )
        memory.forget([ME], connection, said=["msg_2"])
        assert [shown(row) for row in known(connection, LATER)] == ["user | lives in | Bergen"]
        assert [shown(row) for row in rows(connection)] == [
            "user | lives in | Rome",
            "user | lives in | Bergen",
        ]
        memory.forget([ME], connection, said=["msg_3"])
        assert [shown(row) for row in known(connection, LATER)] == ["user | lives in | Rome"]


def test_what_is_left_decides_the_taint() -> None:
    memory = facts()
    with opened() as connection:
        memory.learn(
            [
                utterance("I like tea.", 1, taint=frozenset({"tool:a"})),
                utterance("I like tea.", 2, taint=frozenset({"tool:b"})),
            ],
            connection,
        )
        assert [row.taint for row in rows(connection)] == ['["tool:a", "tool:b"]']
        memory.forget([ME], connection, said=["msg_1"])
        assert [row.taint for row in rows(connection)] == ['["tool:b"]']


def test_forgetting_ids_sessions_and_everything_touches_no_other_scope() -> None:
    memory = facts()
    with opened() as connection:
        told = [utterance(text, number) for number, text in enumerate(SENTENCES[:3])]
        memory.learn(told, connection)
        memory.learn([utterance("I live in Rome.", 1, scope=OTHER)], connection)
        mine = [row.id for row in rows(connection)]
        assert memory.forget([OTHER], connection, ids=mine) == 0
        assert memory.forget([ME], connection, ids=mine[:1]) == 1
        assert memory.forget([ME], connection, sessions=["main:telegram:bot:me"]) == 2
        assert memory.forget([ME], connection, everything=True) == 0
        assert len(rows(connection, OTHER)) == 1
        assert memory.forget([OTHER], connection, everything=True) == 1
        assert left_over(connection) == 0


def test_notes_are_found_by_their_words_and_are_bounded() -> None:
    memory = facts(max_notes=1)
    note = Note(id="note_1", scope=ME, text="The gate code is on the fridge.", created=NOON)
    with opened() as connection:
        assert memory.note(note, connection) == note
        with pytest.raises(FullError, match="1 notes"):
            memory.note(Note(id="note_2", scope=ME, text="More", created=NOON), connection)
        memory.note(Note(id="note_3", scope=OTHER, text="More", created=NOON), connection)
        (hit,) = memory.search([ME], "where is the gate code?", connection, at=LATER)
        assert (hit.kind, hit.id, hit.text) == ("note", "note_1", note.text)
        assert memory.forget([ME], connection, ids=["note_1"]) == 1
        assert memory.search([ME], "where is the gate code?", connection, at=LATER) == []


def test_a_note_that_says_the_same_takes_the_place_with_the_later_time_and_both_taints() -> None:
    memory = facts(max_notes=1)
    first = Note(id="note_1", scope=ME, text="Likes tea", taint=frozenset({"x"}), created=NOON)
    second = replace(
        first, id="note_2", text="likes TEA", taint=frozenset({"y"}), turn="t", created=LATER
    )
    with opened() as connection:
        memory.note(first, connection)
        again = memory.note(second, connection)
        assert again == replace(second, id="note_1", taint=frozenset({"x", "y"}))
        (row,) = memory.export([ME], connection)
        assert (row["id"], row["text"], row["taint"], row["learned"]) == (
            "note_1",
            "likes TEA",
            ["x", "y"],
            LATER.isoformat(timespec="microseconds"),
        )


STEP = st.tuples(
    st.sampled_from([ME, OTHER]),
    st.one_of(st.sampled_from(SENTENCES), st.integers(0, 11)),
    st.booleans(),
)


@given(st.lists(STEP, max_size=12))
def test_whatever_is_said_and_forgotten_scopes_stay_apart(
    steps: list[tuple[str, str | int, bool]],
) -> None:
    memory = facts()
    with opened() as connection, opened() as alone:
        for number, (scope, step, tainted) in enumerate(steps):
            taint = frozenset({"tool:x"}) if tainted else frozenset()
            for place in (connection, alone) if scope == ME else (connection,):
                if isinstance(step, str):
                    said = utterance(step, number, scope=scope, taint=taint)
                    memory.learn([said], place)
                else:
                    memory.forget([scope], place, said=[f"msg_{step}"])
        # What others say and forget changes nothing of what is known of me.
        names = ("subject", "relation", "object", "taint", "valid_to", "superseded", "ending")
        assert [[getattr(row, name) for name in names] for row in rows(connection)] == [
            [getattr(row, name) for name in names] for row in rows(alone)
        ]
        assert left_over(connection) == 0
        for scope in (ME, OTHER):
            hits = memory.search([scope], "Luna Rex dog live like work Ann", connection, at=LATER)
            assert {hit.scope for hit in hits} <= {scope}
            held = [row for row in known(connection, LATER, scope) if row.relation == "lives in"]
            assert len({row.subject for row in held}) == len(held)


@given(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=8), st.data())
def test_all_messages_forgotten_leave_nothing(told: list[str], data: st.DataObject) -> None:
    memory = facts()
    with opened() as connection:
        memory.learn([utterance(text, number) for number, text in enumerate(told)], connection)
        for number in data.draw(st.permutations(range(len(told)))):
            memory.forget([ME], connection, said=[f"msg_{number}"])
        assert rows(connection) == []
        assert connection.scalar(select(func.count()).select_from(WORDS)) == 0
        assert connection.scalar(select(func.count()).select_from(SOURCES)) == 0
