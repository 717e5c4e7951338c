from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.memory.notes import (
    MAX_WORDS,
    FullError,
    Note,
    ProcessNotes,
    scope_of,
    words_of,
)
from hookgate.builtin_plugins.memory.scopes import scopes_of
from hookgate.builtin_plugins.memory.settings import MemorySettings
from hookgate.core.domain.messages import new_id
from hookgate.core.domain.turn import SessionKey

if TYPE_CHECKING:
    from collections.abc import Iterable

START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)


def note(text: str, scope: str = "a", *, minute: int = 0, taint: Iterable[str] = ()) -> Note:
    return Note(
        id=new_id("note"),
        scope=scope,
        text=text,
        taint=frozenset(taint),
        provenance="external_user",
        session="s",
        turn="t",
        created=START + timedelta(minutes=minute),
    )


@pytest.fixture
def notes() -> ProcessNotes:
    return ProcessNotes()


async def found(notes: ProcessNotes, query: str, scope: str = "a", limit: int = 5) -> list[str]:
    return [hit.text for hit in await notes.search(scope, words_of(query), limit=limit)]


async def test_note_comes_back_as_it_was_kept(notes: ProcessNotes) -> None:
    kept = await notes.add(note("The dog is called Luna.", taint={"tool:x", "a"}), limit=9)
    assert await notes.search("a", ["luna"], limit=5) == [kept]
    assert kept.taint == {"tool:x", "a"}
    assert kept.created == START


async def test_most_words_win_and_of_equals_the_newest(notes: ProcessNotes) -> None:
    await notes.add(note("red bike", minute=1), limit=9)
    await notes.add(note("red car and bike", minute=0), limit=9)
    await notes.add(note("blue bike", minute=2), limit=9)
    await notes.add(note("nothing of it", minute=3), limit=9)
    assert await found(notes, "red car bike") == ["red car and bike", "red bike", "blue bike"]
    assert await found(notes, "bike", limit=1) == ["blue bike"]


async def test_case_and_width_of_letters_do_not_matter_in_any_script(notes: ProcessNotes) -> None:
    await notes.add(note("ÄRGER in Zürich, ﬁle №5, ΣΊΣΥΦΟΣ, 犬"), limit=9)
    for query in ("ärger", "ZÜRICH", "file", "σίσυφοσ", "犬", "Ａrger ärger"):
        assert await found(notes, query) != [], query


async def test_signs_of_the_query_language_are_plain_characters(notes: ProcessNotes) -> None:
    await notes.add(note("it cost 100% of a_b"), limit=9)
    await notes.add(note("it cost 1000 of aXb"), limit=9)
    assert await notes.search("a", ["100%"], limit=5) != []
    assert len(await notes.search("a", ["a_b"], limit=5)) == 1
    assert await notes.search("a", ["%"], limit=5) == await notes.search("a", ["100%"], limit=5)
    assert await notes.search("a", [], limit=5) == []


async def test_no_scope_sees_finds_or_removes_anothers_notes(notes: ProcessNotes) -> None:
    mine = await notes.add(note("my secret", "a"), limit=9)
    await notes.add(note("your secret", "b"), limit=9)
    assert await found(notes, "secret", "a") == ["my secret"]
    assert await found(notes, "secret", "b") == ["your secret"]
    assert await found(notes, "secret", "c") == []
    assert not await notes.remove("b", mine.id)
    assert await found(notes, "secret", "a") == ["my secret"]
    same = await notes.add(note("my secret", "b", taint={"x"}), limit=9)
    assert same.id != mine.id
    assert (await notes.search("a", ["secret"], limit=5))[0].taint == frozenset()


async def test_removed_note_is_gone(notes: ProcessNotes) -> None:
    kept = await notes.add(note("old news"), limit=9)
    assert await notes.remove("a", kept.id)
    assert not await notes.remove("a", kept.id)
    assert await found(notes, "news") == []


async def test_same_text_again_is_one_note_with_the_later_time_and_both_taints(
    notes: ProcessNotes,
) -> None:
    first = await notes.add(note("Likes tea", taint={"x"}), limit=1)
    again = await notes.add(note("likes TEA", minute=5, taint={"y"}), limit=1)
    assert again == replace(again, id=first.id, taint=frozenset({"x", "y"}))
    assert again.created == START + timedelta(minutes=5)
    assert await notes.search("a", ["tea"], limit=5) == [again]


async def test_full_scope_takes_no_more_and_others_are_not_full(notes: ProcessNotes) -> None:
    for number in range(3):
        await notes.add(note(f"note {number}"), limit=3)
    with pytest.raises(FullError, match="3 notes"):
        await notes.add(note("one more"), limit=3)
    await notes.add(note("one more", "b"), limit=3)


def test_words_of_a_query_are_its_telling_ones() -> None:
    assert words_of("What's my dog's name?") == ["dog", "name"]
    assert words_of("what is it") == ["what", "is", "it"]
    assert words_of("room 7 in 東 東") == ["room", "7", "東"]
    assert words_of("?!") == []
    assert len(words_of(" ".join(f"w{number}" for number in range(99)))) == MAX_WORDS


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
