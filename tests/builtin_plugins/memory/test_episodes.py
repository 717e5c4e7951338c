"""Turns are kept, found, kept apart by scope, and forgotten whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builtin_plugins.stores import differences, opened_store

from hookgate import EmbeddingError, Fence, Message, Said, SessionKey, Text
from hookgate.builtin_plugins.memory import tables
from hookgate.builtin_plugins.memory.domain import ASSISTANT, USER, Hit, Utterance
from hookgate.builtin_plugins.memory.recall import ranker
from hookgate.builtin_plugins.memory.recall import turns as rows
from hookgate.builtin_plugins.memory.recall.episodes import Episodes
from hookgate.builtin_plugins.memory.recall.index import SITTING_SECONDS, TurnIndex
from hookgate.builtin_plugins.memory.recall.lines import (
    FIRST_TOKENS,
    HEADER,
    LEAST_TOKENS,
    MORE,
    Packing,
    blocks_of,
    line_of,
)
from hookgate.builtin_plugins.storage.conversations import SqlConversations
from hookgate.builtin_plugins.storage.engine.opening import open_store
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.host import SystemClock
from hookgate.kit.vectors import small_talk

if TYPE_CHECKING:
    from hookgate.builtin_plugins.storage.store import SqlStore

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

START = datetime(2024, 2, 29, 12, 0, tzinfo=UTC)
A, B = "session:a", "peer:cli:local:main"
SESSION = SessionKey("demo", "cli", "local", "main")


def utterance(number: int, text: str, scope: str = A, **more: Any) -> Utterance:
    values: dict[str, Any] = {
        "id": f"msg_{number}",
        "scope": scope,
        "session": "s",
        "turn": f"turn_{number}",
        "at": START + timedelta(minutes=number),
        "speaker": USER,
        "text": text,
        "provenance": "external_user",
    }
    return Utterance(**(values | more))


class Topics:
    """An embedder whose vectors say which of a few topics a text has."""

    dimension = 4
    topics = (("dog", "puppy", "pet"), ("car", "engine"), ("rain", "sun"))

    def __init__(self, fingerprint: str = "topics") -> None:
        self.fingerprint = fingerprint
        self.broken = False
        self.embedded: list[str] = []
        self.asked: list[str] = []

    def _of(self, text: str) -> list[float]:
        return [*(any(word in text.lower() for word in topic) for topic in self.topics), 0.1]

    async def embed(self, texts: Sequence[str]) -> Floats:
        if self.broken:
            raise EmbeddingError("the model is gone")
        self.embedded += texts
        vectors = np.array([self._of(text) for text in texts], np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def embed_query(self, text: str) -> Floats:
        self.asked.append(text)
        vectors = await self.embed([text])
        self.embedded.pop()
        return vectors[0]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    where = {} if request.param == "sqlite" else {"url": request.getfixturevalue("url")}
    opened = await open_store(StorageSettings(**where), tmp_path)
    assert opened.durable, opened.problem
    await opened.migrate("memory", tables.METADATA, tables.SCRIPTS)
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def episodes(store: SqlStore) -> Episodes:
    return made(store)


def made(store: SqlStore, embedder: Topics | None = None, **more: Any) -> Episodes:
    return Episodes(store, now=lambda: START, embedder=lambda: embedder, **more)


async def texts(
    episodes: Episodes, query: str, scopes: Sequence[str] = (A,), **more: Any
) -> list[str]:
    return [hit.text for hit in await episodes.search(scopes, query, **more)]


async def forget(store: SqlStore, scopes: Sequence[str] | None = None, **which: Any) -> int:
    return await store.write(lambda c: rows.forget_pieces(c, scopes=scopes, **which))


async def rows_of(store: SqlStore, table: sa.Table = tables.TURNS) -> Sequence[Any]:
    return await store.read(lambda connection: connection.execute(sa.select(table)).all())


DOG = utterance(0, "My dog is called Luna.", taint=frozenset({"tool:x"}))
TALK = [utterance(n, f"Number {n} was a day like others.") for n in range(1, 31)]


# -- found -------------------------------------------------------------------------


async def test_what_was_said_long_ago_is_found_as_it_was_said(episodes: Episodes) -> None:
    assert await episodes.learn([DOG, *TALK]) == 31
    best = (await episodes.search([A], "what's my dog's name?", 5))[0]
    assert best == Hit(
        id="msg_0", kind="turn", text=DOG.text, at=DOG.at, score=best.score, why=("word: dog",),
        scope=A, taint=frozenset({"tool:x"}), provenance="external_user", session="s",
        turn="turn_0", speaker=USER,
    )  # fmt: skip


async def test_it_is_found_after_a_restart_with_its_taint(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        await made(store).learn([DOG])
        assert await differences(store, tables.METADATA) == []
    async with opened_store(tmp_path) as store:
        (hit,) = await made(store).search([A], "the dog")
        assert (hit.text, hit.taint) == (DOG.text, {"tool:x"})


async def test_small_talk_finds_nothing(episodes: Episodes) -> None:
    await episodes.learn([DOG])
    for query in ("thanks!", "?!", "", "what is it"):
        assert await episodes.search([A], query) == []
    assert await episodes.search([], "dog") == []


async def test_a_message_that_no_turn_has_to_do_with_finds_nothing(store: SqlStore) -> None:
    episodes = made(store, Topics())
    await episodes.learn([DOG, *TALK[:3]])
    assert await texts(episodes, "the opera") == []
    await episodes.embed_waiting()
    assert await texts(episodes, "the car and its engine") == []
    assert (await texts(episodes, "and my pet"))[0] == DOG.text


async def below(episodes: Episodes, query: str, **more: Any) -> bool:
    """Whether a message is below the floor, so that nothing is found for it."""
    told: list[float] = []
    hits = await episodes.search([A], query, floor=told.append, **more)
    assert not (told and hits)
    return bool(told)


class Instruments(Topics):
    """An embedder whose topics no line of small talk is about."""

    topics = (("cello", "instrument"), ("tandem",), ("harvester",))


CELLO = utterance(30, "I have learned the cello.")


async def test_a_message_that_no_turn_answers_is_below_the_floor(store: SqlStore) -> None:
    episodes = made(store, Instruments())
    await episodes.learn([CELLO, *TALK[:9], utterance(40, "Hahaha, good number!")])
    assert not await below(episodes, "hahaha number")  # no vectors yet, so nobody can tell
    await episodes.embed_waiting()
    assert await below(episodes, "hahaha number")
    assert await texts(episodes, "hahaha number") != []
    assert not await below(episodes, "which instrument was it")
    # What the model sees anyway answers nothing.
    assert await below(episodes, "which instrument was it", without=[CELLO.turn])


async def test_what_is_new_is_found_by_its_words_before_the_floor_counts(store: SqlStore) -> None:
    episodes = made(store, Instruments())
    await episodes.learn([CELLO, *TALK[:9]])
    await episodes.embed_waiting()
    assert await below(episodes, "hahaha, by bicycle")
    await episodes.learn([utterance(41, "We came by bicycle.")])
    assert not await below(episodes, "hahaha, by bicycle")


async def test_what_the_assistant_said_goes_with_what_it_answers(episodes: Episodes) -> None:
    await episodes.learn(
        [
            utterance(1, "What is 17 times 23?"),
            utterance(2, "That makes 391.", speaker=ASSISTANT),
            utterance(3, "Recommend a film."),
            utterance(4, "You could watch Spirited Away.", speaker=ASSISTANT),
        ]
    )
    assert await texts(episodes, "which film was it", limit=2) == [
        "Recommend a film.",
        "You could watch Spirited Away.",
    ]


async def test_what_is_said_in_other_words_is_found_by_meaning(store: SqlStore) -> None:
    embedder = Topics()
    episodes = made(store, embedder)
    await episodes.learn([*TALK[:9], utterance(40, "Our puppy ate a shoe.", session="other")])
    assert "Our puppy ate a shoe." not in (await texts(episodes, "what about my pet", limit=1))
    assert await episodes.embed_waiting() == 10
    assert await episodes.embed_waiting() == 0
    best = (await episodes.search([A], "what about my pet", 1))[0]
    assert (best.text, best.why) == ("Our puppy ate a shoe.", ("means nearly the same",))
    embedder.broken = True
    assert await texts(episodes, "shoe", limit=1) == ["Our puppy ate a shoe."]


async def test_an_answer_is_found_beside_its_question(episodes: Episodes) -> None:
    await episodes.learn(
        [
            *TALK[:9],
            utterance(40, "Which instrument would you learn?", speaker=ASSISTANT, session="o"),
            utterance(41, "The cello, without a doubt!", session="o"),
            *[replace(one, id=f"{one.id}b", session="p") for one in TALK[9:15]],
        ]
    )
    hits = await episodes.search([A], "the instrument to learn", 2)
    assert [hit.text for hit in hits][1] == "The cello, without a doubt!"
    assert hits[1].why == ("beside a found one",)


async def test_who_is_named_has_said_it(episodes: Episodes) -> None:
    said = [
        utterance(1, "I play chess on Sundays", speaker="Mel", session="1"),
        utterance(2, "I play chess on Sundays", speaker="Ann", session="2"),
    ]
    await episodes.learn(said)
    for name, other in (("Mel", "Ann"), ("Ann", "Mel")):
        hits = await episodes.search([A], f"When does {name} play chess?")
        assert [hit.speaker for hit in hits] == [name, other]
        assert f"said by {name}" in hits[0].why
        assert f"said by {name}" not in hits[1].why


async def test_a_name_in_a_question_does_not_turn_its_meaning(store: SqlStore) -> None:
    episodes = made(store, embedder := Topics())
    said = [
        utterance(1, "Doggy, hello there", speaker="Mel", session="1"),
        utterance(2, "An engine, as ever", speaker="Doggy", session="2"),
    ]
    await episodes.learn(said)
    await episodes.embed_waiting()
    # The name of the second speaker sounds like a topic; what is asked about is another one.
    assert (await texts(episodes, "Doggy and the car"))[0] == "An engine, as ever"
    assert "Doggy" in embedder.asked


async def test_what_was_said_at_a_time_that_is_named_comes_first(episodes: Episodes) -> None:
    said = [
        utterance(1, "We went hiking", at=datetime(2023, 5, 20, tzinfo=UTC), session="1"),
        utterance(2, "We went hiking", at=datetime(2023, 9, 20, tzinfo=UTC), session="2"),
    ]
    await episodes.learn(said)
    for month, first in (("May", "msg_1"), ("September", "msg_2")):
        hits = await episodes.search([A], f"Where did we hike in {month} 2023?")
        assert hits[0].id == first
        assert f"of the time: {month.lower()} 2023" in hits[0].why


async def test_a_silence_ends_a_sitting_and_what_flows_within_it(episodes: Episodes) -> None:
    later = START + timedelta(seconds=2 * SITTING_SECONDS)
    said = [utterance(1, "The cello is loud", at=START), utterance(2, "Blue, mostly", at=later)]
    await episodes.learn(said)
    hits = await episodes.search([A], "cello")
    assert [(hit.text, hit.score > 0) for hit in hits] == [
        ("The cello is loud", True),
        ("Blue, mostly", False),
    ]


async def test_of_equals_the_newest_comes_first_and_the_order_is_always_the_same(
    episodes: Episodes,
) -> None:
    said = [utterance(n, "Tea again", session=str(n)) for n in range(20)]
    await episodes.learn(said)
    first = await episodes.search([A], "tea", 7)
    assert [hit.id for hit in first] == [f"msg_{n}" for n in range(19, 12, -1)]
    assert await episodes.search([A], "tea", 7) == first


async def test_what_the_model_sees_anyway_and_what_came_later_is_left_out(
    episodes: Episodes,
) -> None:
    said = [utterance(n, f"Tea number {n}") for n in range(4)]
    await episodes.learn(said)
    assert set(await texts(episodes, "tea", without={"turn_1", "turn_3"})) == {
        "Tea number 0",
        "Tea number 2",
    }
    assert set(await texts(episodes, "tea", as_of=said[1].at)) == {"Tea number 0", "Tea number 1"}


async def test_a_long_answer_is_kept_in_pieces_and_the_piece_is_found(episodes: Episodes) -> None:
    long = "\n\n".join(f"Chapter {n}. " + f"word{n} " * 60 for n in range(20))
    await episodes.learn([utterance(1, long, speaker=ASSISTANT)])
    (best, *_) = await episodes.search([A], "word17")
    assert "word17" in best.text
    assert len(best.text) <= 1000
    assert best.id.startswith("msg_1#")


async def test_many_turns_are_ranked_by_those_that_seem_near(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranker, "ALL_ROWS", 10)
    monkeypatch.setattr(ranker, "NEAR_ROWS", 8)
    episodes = made(store, Topics())
    await episodes.learn([*TALK, utterance(40, "Our puppy ate a shoe.", session="other")])
    await episodes.embed_waiting(64)
    assert (await texts(episodes, "what about my pet", limit=1)) == ["Our puppy ate a shoe."]
    assert (await texts(episodes, "number 7", limit=1)) == ["Number 7 was a day like others."]


# -- vectors -----------------------------------------------------------------------


async def test_rows_keep_their_size_when_their_vectors_come(store: SqlStore) -> None:
    episodes = made(store, Topics("one"))
    await episodes.learn(TALK)
    size = sa.text(
        "SELECT sum(coalesce(length(vector), 0) + length(fingerprint)),"
        " count(*) FILTER (WHERE fingerprint = '') FROM memory_turn"
    )

    async def kept() -> Any:
        return await store.read(lambda connection: connection.execute(size).one())

    before, waiting = await kept()
    assert waiting == len(TALK)
    await episodes.embed_waiting(64)
    assert await kept() == (before, 0)


async def test_vectors_of_another_embedder_are_made_anew(store: SqlStore) -> None:
    await made(store, first := Topics("one")).learn([DOG])
    assert await made(store, first).embed_waiting() == 1
    episodes = made(store, second := Topics("two"))
    assert "means nearly the same" not in (await episodes.search([A], "my pet is a dog"))[0].why
    assert await episodes.embed_waiting() == 1
    assert second.asked[1:] == [DOG.text]
    assert "means nearly the same" in (await episodes.search([A], "my pet is a dog"))[0].why


class Caching(Topics):
    """An embedder that has read the message of a turn."""

    def cached(self, text: str) -> Floats | None:
        return np.array(self._of(text), np.float32) if text == DOG.text else None


async def test_a_message_that_was_just_asked_by_is_learned_with_its_vector(
    store: SqlStore,
) -> None:
    episodes = made(store, embedder := Caching())
    await episodes.learn([DOG, utterance(1, "A fine name!", speaker=ASSISTANT)])
    assert embedder.asked == []
    assert "means nearly the same" in (await episodes.search([A], "my pet"))[0].why
    assert await episodes.embed_waiting() == 1
    assert embedder.asked == ["my pet", "A fine name!"]
    assert embedder.embedded == [*small_talk()]


async def test_while_somebody_waits_no_second_vector_is_begun(store: SqlStore) -> None:
    episodes = made(store, Topics())
    await episodes.learn(TALK[:3])
    assert await episodes.embed_waiting(busy=lambda: True) == 1
    assert await episodes.embed_waiting(busy=lambda: False) == 2


async def test_without_an_embedder_or_with_a_broken_one_nothing_waits(store: SqlStore) -> None:
    await made(store).learn([DOG])
    assert await made(store).embed_waiting() == 0
    embedder = Topics()
    embedder.broken = True
    assert await made(store, embedder).embed_waiting() == 0
    assert await texts(made(store, embedder), "dog") == [DOG.text]


# -- scopes ------------------------------------------------------------------------


async def test_no_scope_sees_what_was_said_in_another(episodes: Episodes) -> None:
    await episodes.learn([DOG, replace(DOG, scope=B, text="My dog is called Rex.")])
    assert await texts(episodes, "dog") == [DOG.text]
    assert await texts(episodes, "dog", [B]) == ["My dog is called Rex."]
    assert await texts(episodes, "dog", ["session:c"]) == []
    assert len(await texts(episodes, "dog", [A, B])) == 2
    for scope in ("a", "session:", "global:x"):
        with pytest.raises(ValueError, match="found scope"):
            await episodes.search([scope], "dog")
        with pytest.raises(ValueError, match="found scope"):
            await episodes.learn([replace(DOG, scope=scope)])


words = st.sampled_from(["dog", "cat", "tea", "rain", "car"])
sentences = st.lists(words, min_size=1, max_size=4).map(" ".join)
scopes = st.sampled_from([A, B, "agent:x", "shared:y"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), scopes, sentences),
        st.tuples(st.just("forget"), scopes, st.integers(0, 12)),
        st.tuples(st.just("embed"), scopes, st.just(0)),
        st.tuples(st.just("search"), scopes, sentences),
    ),
    min_size=4,
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
async def test_a_search_returns_what_is_there_in_its_scopes_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, Any]]
) -> None:
    async with opened_store(tmp_path_factory.mktemp("store")) as store:
        await store.migrate("memory", tables.METADATA, tables.SCRIPTS)
        episodes, there = made(store, Topics()), dict[tuple[str, str], str]()
        for number, (step, scope, value) in enumerate(steps):
            match step:
                case "learn":
                    await episodes.learn([utterance(number, value, scope)])
                    there[scope, f"turn_{number}"] = value
                case "forget":
                    await forget(store, scopes=[scope], turns=[f"turn_{value}"])
                    there.pop((scope, f"turn_{value}"), None)
                case "embed":
                    await episodes.embed_waiting()
                case _:
                    hits = await episodes.search([scope], value, 99)
                    found = {(hit.scope, hit.turn): hit.text for hit in hits}
                    here = {key: text for key, text in there.items() if key[0] == scope}
                    # Where no turn has any of the words, there may be nothing to find.
                    shared = any(set(text.split()) & set(value.split()) for text in here.values())
                    assert found == here or (not found and not shared)
                    again = made(store, Topics())
                    assert await again.search([scope], value, 99) == hits


# -- exactly once --------------------------------------------------------------------


def of_session(said: Said) -> list[Utterance]:
    message = said.message
    if message.role == "tool":
        return []
    return [
        Utterance(
            id=message.id, scope=f"session:{said.session}", session=str(said.session),
            turn=message.turn, at=message.created, speaker=message.role, text=message.text,
            taint=message.taint, provenance=message.provenance.value,
        )
    ]  # fmt: skip


@pytest.fixture
async def conversations(store: SqlStore) -> SqlConversations:
    return SqlConversations(store, SystemClock())


async def say(conversations: SqlConversations, *said: str, turn: str = "t") -> None:
    messages = [Message(role="user", parts=(Text(text),), turn=turn) for text in said]
    await conversations.append(SESSION, messages, fence=Fence())


HERE = f"session:{SESSION}"


async def test_what_is_said_is_learned_once_by_whichever_gateway(
    store: SqlStore, conversations: SqlConversations
) -> None:
    one, other = made(store), made(store)
    await say(conversations, *[f"tea {n}" for n in range(230)])
    counts = await asyncio.gather(
        one.follow(conversations, of_session), other.follow(conversations, of_session)
    )
    assert sum(counts) == 230
    await say(conversations, "tea at last")
    assert await other.follow(conversations, of_session) == 1
    assert await one.follow(conversations, of_session) == 0
    assert len(await texts(one, "tea", [HERE], limit=999)) == 231


async def test_a_message_that_comes_twice_at_once_is_kept_once(episodes: Episodes) -> None:
    twice = utterance(1, "My dog is called Luna.")
    assert await episodes.learn([twice, utterance(2, "I have a cat."), twice]) == 2
    assert await episodes.learn([twice]) == 0


async def test_a_kill_while_learning_leaves_nothing_half_done(
    store: SqlStore, conversations: SqlConversations, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(conversations, "tea", "coffee")

    def killed(*_: Any, **__: Any) -> int:
        raise LookupError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(rows, "add_pieces", killed)
        with pytest.raises(LookupError):
            await made(store).follow(conversations, of_session)
    assert await rows_of(store) == []
    assert await rows_of(store, tables.CURSORS) == []
    assert await made(store).follow(conversations, of_session) == 2


async def test_what_is_forgotten_while_it_is_read_is_not_learned(
    store: SqlStore, conversations: SqlConversations
) -> None:
    await say(conversations, "my secret", turn="gone")
    await say(conversations, "my tea", turn="kept")

    class Slow:
        """Conversations of which a turn is forgotten, by another gateway, behind a page."""

        forgotten = False

        async def since(self, cursor: str = "", *, limit: int = 500) -> Any:
            page = await conversations.since(cursor, limit=limit)
            if not self.forgotten:
                self.forgotten = True
                await conversations.forget(SESSION, turns=["gone"])
                await forget(store, session=str(SESSION), turns=["gone"])
            return page

    slow: Any = Slow()
    assert await made(store).follow(slow, of_session) == 1
    assert [row.text for row in await rows_of(store)] == ["my tea"]


async def test_a_message_that_is_learned_again_is_left_as_it_is(episodes: Episodes) -> None:
    assert await episodes.learn([DOG]) == 1
    assert await episodes.learn([DOG, replace(DOG, text="My dog is called Rex.")]) == 0
    assert await texts(episodes, "dog") == [DOG.text]


# -- forgotten -----------------------------------------------------------------------


async def test_forgetting_leaves_no_row_and_nothing_in_memory(store: SqlStore) -> None:
    episodes = made(store, Topics())
    said = [replace(DOG, session="x"), utterance(1, "A dog", session="y"), utterance(2, "Dogs", B)]
    await episodes.learn(said)
    await episodes.embed_waiting()
    assert len(await texts(episodes, "dog", [A, B])) == 3
    assert await forget(store, session="x") == 1
    assert set(await texts(episodes, "dog", [A, B])) == {"A dog", "Dogs"}
    assert await forget(store, turns=["turn_1", "turn_9"]) == 1
    assert await texts(episodes, "dog", [A, B]) == ["Dogs"]
    assert await forget(store, scopes=[B]) == 1
    assert await texts(episodes, "dog", [A, B]) == []
    assert await rows_of(store) == []
    assert await rows_of(store, tables.SCOPES) == []


async def test_a_scope_that_was_forgotten_begins_anew_for_every_gateway(store: SqlStore) -> None:
    one, other = made(store), made(store)
    await one.learn([DOG, *TALK[:3]])
    assert await texts(other, "dog", limit=1) == [DOG.text]
    await forget(store, scopes=[A])
    await one.learn([utterance(7, "A dog again"), *TALK[3:6]])
    assert await texts(other, "dog", limit=1) == ["A dog again"]
    assert len(await texts(other, "dog", limit=99)) == 4


async def test_another_gateways_turns_vectors_and_forgetting_are_seen(store: SqlStore) -> None:
    one, other = made(store, Topics()), made(store, Topics())
    await one.learn([DOG])
    assert await texts(other, "dog") == [DOG.text]
    await one.learn([utterance(1, "Our puppy ate a shoe.", session="o")])
    await one.embed_waiting()
    hits = await other.search([A], "and the pet")
    assert {hit.why for hit in hits} == {("means nearly the same",)}
    await forget(store, turns=["turn_0"])
    assert await texts(other, "the dog and the pet") == ["Our puppy ate a shoe."]


# -- bounds --------------------------------------------------------------------------


async def test_the_oldest_of_a_scope_go_where_there_are_too_many(store: SqlStore) -> None:
    episodes = made(store, most_turns=3)
    await episodes.learn([utterance(n, f"Tea {n}") for n in range(2)])
    assert len(await texts(episodes, "tea")) == 2
    await episodes.learn([utterance(n, f"Tea {n}") for n in range(2, 5)])
    assert set(await texts(episodes, "tea")) == {"Tea 2", "Tea 3", "Tea 4"}
    assert len(await rows_of(store)) == 3


async def test_memory_holds_the_scopes_that_were_searched_last(store: SqlStore) -> None:
    episodes = made(store, most_bytes=1)
    for number in range(3):
        await episodes.learn([utterance(number, "Tea", f"session:{number}")])
        assert await texts(episodes, "tea", [f"session:{number}"]) == ["Tea"]
    assert len(episodes.in_memory) == 1
    assert await texts(episodes, "tea", ["session:0"]) == ["Tea"]


async def test_a_search_measures_the_scopes_that_it_reads_and_no_others(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[TurnIndex] = []
    size = TurnIndex.bytes.fget
    assert size is not None

    def noted(index: TurnIndex) -> int:
        measured.append(index)
        return int(size(index))

    monkeypatch.setattr(TurnIndex, "bytes", property(noted))
    episodes = made(store)
    for number in range(20):
        await episodes.learn([utterance(number, "Tea", f"session:{number}")])
        assert await texts(episodes, "tea", [f"session:{number}"]) == ["Tea"]
    assert len(measured) <= 2 * len(episodes.in_memory) == 40


hits = st.builds(
    Hit, id=st.uuids().map(str), kind=st.just("turn"), text=st.text(max_size=80), at=st.just(START),
    score=st.floats(0, 1), why=st.just(()), scope=st.just(A), speaker=st.sampled_from(["", "Mel"]),
)  # fmt: skip


@given(st.lists(hits, max_size=20), st.integers(0, 2 * FIRST_TOKENS))
def test_packing_keeps_the_order_and_is_never_over_the_budget(
    found: list[Hit], budget: int
) -> None:
    lines, packing = [line_of(hit, "", len) for hit in found], Packing(budget, len, ())
    for line in lines:
        if packing.full:
            break
        packing.take(line)

    for taken, room in (
        (packing.first, min(budget, FIRST_TOKENS) - len(HEADER)),
        (packing.more, budget - FIRST_TOKENS - len(MORE)),
    ):
        headings = {line.sitting: len(line.heading) + 1 for line in taken}
        left = room - sum(line.tokens + 1 for line in taken) - sum(headings.values())
        assert not taken or left >= 0
        assert taken == [line for line in lines if line in taken]
        # What is left out fits nowhere, looked at or not, unless hardly anything does.
        heading = max((len(line.heading) + 1 for line in lines), default=0)
        assert left < LEAST_TOKENS or all(
            line.tokens + 1 + heading > left for line in lines if line not in packing.lines
        )


def test_lines_stand_below_the_heading_of_their_sitting() -> None:
    first = datetime(2026, 3, 1, 9, 5, tzinfo=UTC)
    said = [
        (first, "main:cli:local:me", "user", "I have a dog."),
        (first + timedelta(minutes=2), "main:cli:local:me", "assistant", "How nice."),
        (first + timedelta(minutes=3), "main:telegram:home:me", "user", "Hi."),
        (first + timedelta(days=1), "main:cli:local:me", "user", "She is 4."),
    ]
    packing = Packing(1000, len, ())
    for at, session, who, text in reversed(said):
        hit = Hit(
            id="1", kind="turn", text=text, at=at, score=1, why=(), scope=A,
            session=session, speaker=who,
        )  # fmt: skip
        packing.take(line_of(hit, said[0][1], len))
    ((block, _),) = blocks_of(packing)
    assert block.text.splitlines()[1:] == [
        "[2026-03-01]",
        "- user: I have a dog.",
        "- assistant: How nice.",
        "[2026-03-01, in another session by telegram]",
        "- user: Hi.",
        "[2026-03-02]",
        "- user: She is 4.",
    ]


async def test_nothing_but_zero_bytes_and_halves_of_pairs_is_lost(episodes: Episodes) -> None:
    await episodes.learn([utterance(1, "tea\0 and \ud800 Ärger 東京")])
    (found,) = await texts(episodes, "ärger")
    assert found.startswith("tea and ")
    assert await texts(episodes, "東京") == [found]


async def test_what_says_nothing_does_not_stand_between_neighbours(episodes: Episodes) -> None:
    said = [
        utterance(1, "We should name the boat."),
        utterance(2, "Noted.", speaker=ASSISTANT),
        utterance(3, "Seagull, then."),
        utterance(4, "Noted.", speaker=ASSISTANT),
        utterance(5, "Bread is cheap in the market hall."),
        utterance(6, "The market hall opens at nine, and closes on Mondays.", speaker=ASSISTANT),
    ]
    await episodes.learn(said)
    found = [hit.turn for hit in await episodes.search([A], "How did we name the boat?")]
    assert found[:2] == ["turn_1", "turn_3"]
    assert {"turn_2", "turn_4"}.isdisjoint(found[:3])


async def test_a_turn_is_not_shown_what_its_user_has_only_asked(episodes: Episodes) -> None:
    said = [
        utterance(1, "Where does my sister live?"),
        utterance(2, "My sister lives in Nice. Where should we meet?"),
        utterance(3, "Where does your sister live?", speaker="Ann"),
    ]
    await episodes.learn(said)
    question = "Where does my sister live?"
    every = {hit.turn for hit in await episodes.search([A], question)}
    shown = {hit.turn for hit in await episodes.search([A], question, floor=lambda _: None)}
    assert every == {"turn_1", "turn_2", "turn_3"}, "who looks for it finds it"
    assert shown == {"turn_2", "turn_3"}


async def test_what_was_only_asked_is_no_measure_of_what_is_shown(episodes: Episodes) -> None:
    question, later = "Where does my sister live?", timedelta(days=3)
    answer, beside = "My sister has found a flat in Nice.", "It rains and rains here."
    said = [
        utterance(1, answer),
        *(replace(utterance(n, "A day like others."), at=START + later) for n in range(2, 5)),
        replace(utterance(5, beside), at=START + later),
    ]
    await episodes.learn(said)

    async def worth() -> dict[str, float]:
        hits = await episodes.search([A], question, floor=lambda _: None)
        return {hit.text: hit.score / hits[0].score for hit in hits}

    before = await worth()
    await episodes.learn([replace(utterance(6, question), at=START + later)])
    after = await worth()

    assert before[answer] == after[answer] == 1
