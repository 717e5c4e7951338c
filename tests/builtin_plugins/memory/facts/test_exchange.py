from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.memory.facts.telling import (
    ME,
    NOON,
    facts,
    known,
    opened,
    rows,
    shown,
    stories,
    told,
    utterance,
)
from tests.support.examples import sampled

from hookgate.builtin_plugins.memory.domain import Note
from hookgate.builtin_plugins.memory.facts.exchange import FactFormatError

if TYPE_CHECKING:
    from sqlalchemy import Connection

LATER = NOON + timedelta(days=1)


def lines(connection: Connection) -> list[str]:
    return [json.dumps(row) for row in facts().export([ME], connection)]


def read(text: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text]


@given(st.lists(st.sampled_from(stories("stories.toml")), min_size=1, max_size=3), st.booleans())
def test_what_is_exported_is_imported_as_it_was(some: list[Any], tainted: bool) -> None:
    memory = facts()
    taint = frozenset({"tool:x"}) if tainted else frozenset()
    note = Note(id="note_1", scope=ME, text="Likes TEA", created=NOON, taint=taint)
    with opened() as connection, opened() as other:
        for number, one in enumerate(one for story in some for one in told(story.said)[:10]):
            at = NOON + timedelta(minutes=number)
            said = utterance(one.text, number, at=at, speaker=one.speaker, taint=taint)
            memory.learn([said], connection)
        memory.note(note, connection)
        exported = lines(connection)
        first = memory.import_(read(exported), other)
        again = memory.import_(read(exported), other)
        assert (first.new, again.new, again.known) == (len(exported), 0, len(exported))
        assert lines(other) == exported
        assert known(other, LATER) == known(connection, LATER)
        question = "dog live like tea work sister Luna"
        assert {hit.taint for hit in memory.search([ME], question, other, at=LATER)} == {taint}


def test_the_same_from_two_stores_is_one_fact_of_two_sources() -> None:
    memory = facts()
    with opened() as connection, opened() as other:
        memory.learn([utterance("My dog is called Luna.", 1)], connection)
        memory.learn([utterance("My dog's name is Luna.", 2)], other)
        imported = memory.import_(read(lines(other)), connection)
        assert (imported.new, imported.known) == (0, 1)
        assert len(rows(connection)) == 1
        memory.forget([ME], connection, said=["msg_1"])
        assert [shown(row) for row in rows(connection)] == ["user | dog | Luna"]
        memory.forget([ME], connection, said=["msg_2"])
        assert rows(connection) == []


def test_of_two_homes_the_later_one_holds() -> None:
    memory = facts()
    with opened() as connection, opened() as other:
        memory.learn([utterance("I live in Rome.", 1)], connection)
        memory.learn([utterance("I live in Oslo.", 2)], other)
        mine, theirs = read(lines(connection)), read(lines(other))
        memory.import_(theirs, connection)
        memory.import_(mine, other)
        for place in (connection, other):
            assert [shown(row) for row in known(place, LATER)] == ["user | lives in | Oslo"]
            assert len(rows(place)) == 2


def row(**more: Any) -> dict[str, Any]:
    with opened() as connection:
        facts().learn([utterance("I live in Rome.", 1)], connection)
        return next(iter(facts().export([ME], connection))) | more


@pytest.mark.parametrize(
    ("wrong", "says"),
    sampled(
        [
            ({"format": "other"}, "found format 'other', expected 'hookgate-fact-1'"),
            ({"kind": "turn"}, "found kind 'turn'"),
            ({"scope": "everybody"}, "found scope 'everybody', expected one of `session:NAME`"),
            ({"scope": "peer:"}, "found scope"),
            ({"text": 7}, "found text 7, expected a text"),
            ({"text": "a\0b"}, "without the character NUL"),
            ({"value": "x" * 301}, "0 to 300 characters"),
            ({"id": ""}, "found id ''"),
            ({"subject": ""}, "found a fact without subject or relation"),
            ({"confidence": 2}, "found confidence 2, expected a number from 0 to 1"),
            ({"confidence": True}, "found confidence True"),
            ({"learned": "yesterday"}, "found learned 'yesterday', expected a time"),
            ({"learned": "2024-05-15T12:00:00"}, "expected a time"),
            ({"valid_to": 5}, "found valid_to 5"),
            ({"ending": "changed"}, "found ending 'changed'"),
            ({"taint": "tool:x"}, "found taint 'tool:x', expected a list"),
            ({"sources": None}, "found other `sources`"),
            ({"sources": ["m"]}, "found a source that is no object"),
            ({"sources": [{}]}, "found said None"),
        ],
        every=4,
    ),
)
def test_a_row_that_is_none_is_named_with_what_was_expected(
    wrong: dict[str, Any], says: str
) -> None:
    with opened() as connection, pytest.raises(FactFormatError) as raised:
        facts().import_([row(), row(**wrong)], connection)
    assert str(raised.value).startswith("row 2: ")
    assert says in str(raised.value)


def test_the_taint_of_a_source_cannot_be_left_out_of_its_fact() -> None:
    given_row = row()
    given_row["sources"][0]["taint"] = ["tool:x"]
    with opened() as connection:
        facts().import_([given_row], connection)
        (hit,) = facts().search([ME], "where do I live?", connection, at=LATER)
    assert hit.taint == {"tool:x"}


@given(
    st.dictionaries(
        st.sampled_from(sorted(row())),
        st.one_of(st.none(), st.text(max_size=5), st.integers(), st.lists(st.text(max_size=2))),
        max_size=3,
    )
)
def test_whatever_a_row_holds_it_is_read_or_named(wrong: dict[str, Any]) -> None:
    memory = facts()
    given_row = row() | wrong
    with opened() as connection:
        try:
            memory.import_([given_row], connection)
        except FactFormatError as error:
            assert "expected" in str(error)
        else:
            scope = str(given_row["scope"])
            exported = list(memory.export([scope], connection))
            assert len(exported) == 1
