from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.memory.facts.telling import NOON, facts, opened

from hookgate import SessionKey, new_id
from hookgate.builtin_plugins.memory.domain import FullError, Note, scope_of, scopes_of
from hookgate.builtin_plugins.memory.settings import MemorySettings

if TYPE_CHECKING:
    from sqlalchemy import Connection

LATER = NOON + timedelta(days=1)


@pytest.fixture
def connection() -> Iterator[Connection]:
    with opened() as connection:
        yield connection


def keep(connection: Connection, text: str, scope: str = "a", *, minute: int = 0) -> Note:
    note = Note(
        id=new_id("note"),
        scope=scope,
        text=text,
        provenance="external_user",
        session="s",
        turn="t",
        created=NOON + timedelta(minutes=minute),
    )
    return facts(max_notes=9).note(note, connection)


def found(connection: Connection, query: str, scope: str = "a", limit: int = 5) -> list[str]:
    return [hit.text for hit in facts().search([scope], query, connection, at=LATER, limit=limit)]


def test_most_words_win_and_of_equals_the_newest(connection: Connection) -> None:
    keep(connection, "red bike", minute=1)
    keep(connection, "red car and bike", minute=0)
    keep(connection, "blue bike", minute=2)
    keep(connection, "nothing of it", minute=3)
    assert found(connection, "red car bike") == ["red car and bike", "red bike", "blue bike"]
    assert found(connection, "bike", limit=1) == ["blue bike"]


def test_case_and_width_of_letters_do_not_matter_in_any_script(connection: Connection) -> None:
    keep(connection, "ÄRGER in Zürich, ﬁle №5, ΣΊΣΥΦΟΣ, 犬")
    for query in ("ärger", "ZÜRICH", "file", "σίσυφοσ", "犬", "Ａrger ärger"):
        assert found(connection, query) != [], query


def test_no_scope_sees_finds_or_removes_anothers_notes(connection: Connection) -> None:
    mine = keep(connection, "my secret", "a")
    keep(connection, "your secret", "b")
    assert found(connection, "secret", "a") == ["my secret"]
    assert found(connection, "secret", "b") == ["your secret"]
    assert found(connection, "secret", "c") == []
    assert not facts().forget(["b"], connection, ids=[mine.id])
    assert found(connection, "secret", "a") == ["my secret"]
    assert keep(connection, "my secret", "b").id != mine.id


def test_a_removed_note_is_gone(connection: Connection) -> None:
    kept = keep(connection, "old news")
    assert facts().forget(["a"], connection, ids=[kept.id])
    assert not facts().forget(["a"], connection, ids=[kept.id])
    assert found(connection, "news") == []


def test_a_full_scope_takes_no_more_and_others_are_not_full(connection: Connection) -> None:
    for number in range(9):
        keep(connection, f"note {number}")
    with pytest.raises(FullError, match="9 notes"):
        keep(connection, "one more")
    keep(connection, "one more", "b")


part = st.text("ab:/%*", max_size=3)
keys = st.builds(SessionKey, part, part, part, part)


@pytest.mark.parametrize("scope", ["session", "peer"])
def test_whom_a_stranger_names_as_its_peer_reads_nobodys_memory(scope: str) -> None:
    share = {"ours": [{"peer": "bob"}], "theirs": [{"channel": "wasm.desk", "peer": "bob"}]}
    settings = MemorySettings.model_validate({"scope": scope, "share": share})
    bob, named, other = (
        scopes_of(SessionKey("main", channel, "local", "bob"), settings)
        for channel in ("cli", "wasm.desk", "wasm.other")
    )
    assert "shared:ours" in bob.read
    assert "shared:theirs" in named.read
    assert not set(bob.read) & set(named.read)
    assert not set(bob.read) & set(other.read)
    assert not set(named.read) & set(other.read)


@given(keys, keys)
def test_two_sessions_share_a_scope_only_where_they_are_alike(
    one: SessionKey, two: SessionKey
) -> None:
    assert (scope_of(one, "session") == scope_of(two, "session")) is (one == two)
    alike = (one.agent, one.account, one.peer) == (two.agent, two.account, two.peer)
    assert (scope_of(one, "peer") == scope_of(two, "peer")) is alike
    assert scope_of(one, "peer") != scope_of(two, "session")
