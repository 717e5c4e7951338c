from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest
from tests.builtin_plugins.discovery.searching import (
    FakeEmbedder,
    broken,
    row,
    snapshot,
    vector,
)
from tests.builtin_plugins.turns import TurnedClock

from hookgate.builtin_plugins.discovery.index import Index, Surroundings
from hookgate.builtin_plugins.discovery.index import build as building
from hookgate.builtin_plugins.discovery.index import engine as engine_module
from hookgate.builtin_plugins.discovery.index.build import Material
from hookgate.builtin_plugins.discovery.index.engine import (
    QUERY_CHARS,
    RETRY_SECONDS,
    SAVE_SECONDS,
    SearchEngine,
)
from hookgate.builtin_plugins.discovery.learn.lessons import Learned
from hookgate.core.domain.events import Event, Standings
from hookgate.kit.vectors import small_talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate.builtin_plugins.discovery.index import SearchResult
    from hookgate.core.domain.descriptors import Capability
    from hookgate.core.registry.snapshots import CapabilityIndex

ROWS = [
    row("send_mail", "Send a mail to somebody."),
    row("web_page", "Read a page."),
    row("clock", "Tell the hour."),
    row("careful", "Be careful with mail.", kind="card"),
]
NO_ROW = "xyzzy"


class World:
    """What an engine stands in: an embedder, a clock, and what was said of its parts."""

    def __init__(self, path: Path | None = None) -> None:
        self.embedder: FakeEmbedder | None = FakeEmbedder()
        self.clock = TurnedClock()
        standings = Standings(publish=self.hear)
        self.degraded, self.notices = standings.degraded, standings.notices
        self.said: list[str] = []
        self.engine = SearchEngine(
            Surroundings(
                embedder=lambda: self.embedder,
                standing=standings,
                path=path,
                clock=self.clock.monotonic,
            )
        )

    def hear(self, event: Event) -> None:
        if event.type == "degraded":
            self.said.append(event.data["why"])

    @property
    def model(self) -> FakeEmbedder:
        assert self.embedder is not None
        return self.embedder

    async def find(self, rows: CapabilityIndex, text: str, **more: Any) -> SearchResult:
        return await self.engine.find(rows, text, **{"limit": 5, **more})

    def embedded(self) -> list[str]:
        """Return the texts that were embedded since this was asked, without small talk."""
        texts = [text for text in self.model.texts if text not in small_talk()]
        self.model.texts.clear()
        return texts


@asynccontextmanager
async def world(path: Path | None = None) -> AsyncIterator[World]:
    made = World(path)
    try:
        yield made
    finally:
        await made.engine.close()


def names(folder: Path) -> list[str]:
    return [found.name for found in folder.iterdir()]


def ids(finding: SearchResult) -> list[str]:
    return [found.row.id for found in finding.found]


# -- what is found ------------------------------------------------------------


async def test_what_fits_is_found_with_its_scores_by_part() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        finding = await made.find(rows, "mail somebody")
        first = finding.found[0]
        assert first.row.id == "tool:send_mail"
        assert first.words == ("mail", "somebodi")
        assert 0 < first.relevance <= 1
        assert first.dense > 0.3
        assert 0 < first.lexical <= 1
        assert finding.dense
        assert finding.version == 1
        assert finding.milliseconds.keys() == {"index", "embed", "search"}
        assert made.engine.problem == ""
        relevances = [found.relevance for found in finding.found]
        assert relevances == sorted(relevances, reverse=True)


async def test_cards_are_not_searched() -> None:
    async with world() as made:
        finding = await made.find(snapshot(ROWS), "careful mail", limit=10)
        assert ids(finding) == ["tool:send_mail"]


async def test_chance_match_of_a_greeting_selects_nothing_without_vectors() -> None:
    async with world() as made:
        made.embedder = None
        rows = snapshot([row("evening_report", "Good evening report."), *ROWS])
        assert ids(await made.find(rows, "good evening Angela", floor=0.45)) == []
        assert ids(await made.find(rows, "the report Angela", floor=0.45)) == [
            "tool:evening_report"
        ]


@pytest.mark.parametrize("text", ["", " ", "???", "\ud800", "the of and", "x" * 100_000])
async def test_message_that_says_nothing_finds_nothing_by_words(text: str) -> None:
    async with world() as made:
        assert ids(await made.find(snapshot(ROWS), text)) == []
        await made.engine.ready(snapshot(ROWS))
        await made.find(snapshot(ROWS), text)


async def test_nothing_is_found_where_there_is_nothing() -> None:
    async with world() as made:
        empty = snapshot([])
        assert ids(await made.find(empty, "mail")) == []
        index = await made.engine.ready(empty)
        assert len(index) == 0
        assert ids(await made.find(empty, "mail")) == []


async def test_limit_and_floor_are_kept() -> None:
    async with world() as made:
        rows = snapshot([row(f"mail{at}", "send mail") for at in range(30)])
        assert len((await made.find(rows, "mail", limit=7)).found) == 7
        assert (await made.find(rows, "mail", limit=0)).found == ()
        assert (await made.find(rows, "mail", floor=1.0)).found == ()


async def test_beginning_and_end_of_a_huge_message_are_searched() -> None:
    async with world() as made:
        rows = snapshot([*ROWS, row("middle", "zebra")])
        text = f"mail {'lorem ' * QUERY_CHARS} zebra {'ipsum ' * QUERY_CHARS} what hour"
        assert set(ids(await made.find(rows, text))) == {"tool:send_mail", "tool:clock"}


async def test_message_is_embedded_once() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        for _ in range(3):
            await made.find(rows, "send a mail now. then read a page")
        assert made.model.queries == ["send a mail now. then read a page"]
        clauses = [text for text in made.embedded() if text.startswith(("send a mail now", "then"))]
        assert len(clauses) == 2


async def test_message_and_its_clauses_are_asked_for_together_where_that_is_possible() -> None:
    class Together(FakeEmbedder):
        asked: ClassVar[list[list[str]]] = []

        async def embed_parts(self, text: str, spans: Sequence[tuple[int, int]]) -> list[Any]:
            texts = [text, *(text[start:end] for start, end in spans)]
            self.asked.append(texts)
            return [vector(one, self.fingerprint) for one in texts]

    async with world() as made:
        made.embedder = Together()
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        finding = await made.find(rows, "send a mail now. then read a page")

        assert Together.asked == [
            ["send a mail now. then read a page", "send a mail now", "then read a page"]
        ]
        assert made.model.queries == []
        assert finding.dense


async def test_learned_examples_bring_up_what_nothing_else_speaks_for() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        learned = Learned(["tool:clock"], vector("is it late", "fake:1")[None])
        taught = await made.find(rows, "is it late", learned=learned)
        assert ids(taught)[0] == "tool:clock"
        assert taught.found[0].dense == pytest.approx(1, abs=1e-3)


async def test_a_tag_in_the_message_is_enough_to_be_looked_at() -> None:
    rows = snapshot(
        [
            row("clock", "Tell what time it is today and tomorrow in a city like Oslo."),
            row("outside", "Look ahead for a place.", tags=("rain", "ice cream")),
            row("greeter", "Greet.", tags=("thanks", "you")),
        ]
    )
    async with world() as made:
        made.embedder = None
        asked = await made.find(rows, "will it rain in Oslo tomorrow", floor=0.45)
        assert ids(asked) == ["tool:clock", "tool:outside"]
        assert [one.tag for one in asked.found] == ["", "rain"]
        assert asked.found[1].relevance < 0.45
        # All words of a tag have to be there, and small talk is no evidence.
        assert ids(await made.find(rows, "ice on the road tomorrow", floor=0.45)) == ["tool:clock"]
        assert ids(await made.find(rows, "thanks, how are you", floor=0.45)) == []


async def test_status_says_while_words_alone_count() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        made.model.gate.clear()
        assert not (await made.find(rows, "mail")).dense
        (said,) = made.notices.values()
        assert "being made" in said
        assert "by words alone" in said
        made.model.gate.set()
        await made.engine.ready(rows)
        assert made.notices == {}
        made.embedder = None
        await made.find(rows, "mail")
        assert "there is no embedder: search goes by words alone" in made.notices.values()


async def test_status_says_what_makes_a_search_of_many_vectors_quicker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "ANN_VECTORS", 2)
    monkeypatch.setitem(sys.modules, "faiss", None)
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense
        (said,) = made.notices.values()
        assert "found no faiss" in said
        assert "pip install 'hookgate[faiss]'" in said
        assert made.degraded == {}


async def test_a_turn_waits_for_a_model_that_is_soon_loaded() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        made.model.loaded = False
        assert (await made.find(rows, "mail", patient=False)).dense


async def test_a_turn_does_not_wait_for_a_model_that_takes_long_to_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "LOAD_SECONDS", 0.01)
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        made.model.loaded = False
        made.model.loading.clear()
        found = await made.find(rows, "mail", patient=False)
        assert ids(found) == ["tool:send_mail"]
        assert not found.dense
        assert made.engine.problem == ""
        made.model.loading.set()
        assert (await made.find(rows, "mail", patient=False)).dense


# -- versions -------------------------------------------------------------------


async def test_rows_that_have_not_changed_are_not_embedded_again() -> None:
    async with world() as made:
        await made.engine.ready(snapshot(ROWS))
        assert len(made.embedded()) == 3
        await made.engine.ready(snapshot(list(reversed(ROWS)), 2))
        assert made.embedded() == []
        await made.engine.ready(snapshot([*ROWS, row("book", "Book a trip.")], 3))
        assert made.embedded() == ["book. Book a trip."]


async def test_deleted_row_is_found_in_the_older_snapshot_alone() -> None:
    async with world() as made:
        old, new = snapshot(ROWS), snapshot(ROWS[1:], 2)
        await made.engine.ready(old)
        await made.engine.ready(new)
        for text in ("send mail somebody", "mail"):
            assert "tool:send_mail" not in ids(await made.find(new, text))
            assert ids(await made.find(old, text))[0] == "tool:send_mail"
        await made.engine.ready(snapshot(ROWS[1:2], 3))
        # Versions older than those that are kept are indexed again.
        assert ids(await made.find(old, "mail"))[0] == "tool:send_mail"
        assert "tool:send_mail" not in ids(await made.find(new, "mail"))


async def test_older_version_is_indexed_once_while_it_is_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as made:
        versions = [snapshot(ROWS[at % 3 :], at + 1) for at in range(4)]
        for rows in versions:
            await made.engine.ready(rows)
        drafted: list[int] = []
        draft = Material.draft

        def noting(self: Material, version: int, *args: Any) -> Any:
            drafted.append(version)
            return draft(self, version, *args)

        monkeypatch.setattr(Material, "draft", noting)
        for _ in range(3):
            assert (await made.find(versions[1], "page")).version == 2
            assert (await made.find(versions[3], "mail")).version == 4
        assert drafted == [2]


async def test_row_that_came_back_is_found_again_and_not_embedded_again() -> None:
    async with world() as made:
        await made.engine.ready(snapshot(ROWS))
        await made.engine.ready(snapshot(ROWS[1:], 2))
        made.embedded()
        await made.engine.ready(snapshot(ROWS, 3))
        assert ids(await made.find(snapshot(ROWS, 3), "mail"))[0] == "tool:send_mail"
        assert made.embedded() == []


def versioned(version: int) -> list[Capability]:
    """Rows of which each names its version in words and meaning."""
    return [row(f"mail{at}", f"send mail number{at} at version{version}") for at in range(12)]


async def test_reload_under_load_shows_whole_versions_alone() -> None:
    async with world() as made:
        newest = snapshot(versioned(1))
        done = asyncio.Event()
        looked = 0

        async def look(number: int) -> None:
            nonlocal looked
            while not done.is_set():
                rows = newest
                finding = await made.find(rows, f"send mail number{number % 12}", limit=20)
                said = {found.row.description.rsplit("version")[1] for found in finding.found}
                assert said == {str(rows.version)}
                assert finding.version == rows.version
                assert len(finding.found) == 12
                looked += 1
                await asyncio.sleep(0)

        lookers = [asyncio.create_task(look(number)) for number in range(20)]
        for version in range(2, 32):
            newest = snapshot(versioned(version), version)
            await made.engine.index_of(newest)
            await asyncio.sleep(0.002)
        await made.engine.ready(newest)
        done.set()
        await asyncio.gather(*lookers)
        assert looked >= 20
        assert (await made.find(newest, "mail number3")).dense


async def test_cancelled_search_leaves_the_index_of_its_version_whole() -> None:
    async with world() as made:
        for version in range(1, 25):
            rows = snapshot([row(f"word{version}x{at}") for at in range(40)], version)
            task = asyncio.create_task(made.find(rows, "mail"))
            await asyncio.sleep(0.0005 * (version % 5))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        last = await made.engine.ready(rows)
        words = last.lexical.table.words
        assert sorted(words.values()) == list(range(len(words)))
        assert ids(await made.find(rows, "word24x7"))[0] == "tool:word24x7"


# -- vectors ----------------------------------------------------------------------


async def test_words_alone_are_searched_until_the_vectors_are_there() -> None:
    async with world() as made:
        made.model.gate.clear()
        rows = snapshot(ROWS)
        finding = await made.find(rows, "mail")
        assert ids(finding) == ["tool:send_mail"]
        assert not finding.dense
        assert made.model.queries == []
        made.model.gate.set()
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense


async def test_new_rows_are_found_by_words_before_their_vectors_are_there() -> None:
    async with world() as made:
        many = [row(f"tool{at}", f"does thing{at}") for at in range(200)]
        await made.engine.ready(snapshot(many))
        made.model.gate.clear()
        few = snapshot([*many, row("zebra", "stripes")], 2)
        finding = await made.find(few, "zebra stripes")
        assert ids(finding)[0] == "tool:zebra"
        assert finding.dense
        half = snapshot([*many, *(row(f"zebra{at}", "stripes") for at in range(50))], 3)
        finding = await made.find(half, "zebra7 stripes")
        assert ids(finding)[0] == "tool:zebra7"
        # With so many rows that have none, vectors take no part at all.
        assert not finding.dense
        made.model.gate.set()
        await made.engine.ready(half)
        assert (await made.find(half, "zebra7 stripes")).dense


async def test_embedder_that_fails_is_said_and_tried_again_later() -> None:
    async with world() as made:
        made.model.failing = broken("the model is gone")
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert ids(await made.find(rows, "mail")) == ["tool:send_mail"]
        why = made.degraded["discovery: vectors"]
        assert why == "the model is gone; search goes by words alone"
        assert made.engine.problem == "the model is gone"
        made.model.failing = None
        made.embedded()
        made.clock.advance(RETRY_SECONDS - 1)
        assert not (await made.find(rows, "mail")).dense
        await made.engine.ready(rows)
        assert made.embedded() == []
        made.clock.advance(2)
        # The rows are the same: a search is enough to try again.
        await made.find(rows, "mail")
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense
        assert made.degraded == {}
        assert made.engine.problem == ""


@pytest.mark.parametrize("error", [broken(), RuntimeError("a bug of a plugin")])
async def test_message_that_cannot_be_embedded_is_searched_by_words(error: Exception) -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        made.model.failing = error
        finding = await made.find(rows, "send mail")
        assert ids(finding)[0] == "tool:send_mail"
        assert not finding.dense
        assert str(error) in made.degraded["discovery: vectors"]
        made.model.failing = None
        assert (await made.find(rows, "send mail")).dense
        assert made.degraded == {}
        assert made.engine.problem == ""


async def test_failure_that_no_embedder_may_have_leaves_the_words() -> None:
    async with world() as made:
        made.model.failing = ZeroDivisionError("by zero")
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert ids(await made.find(rows, "mail")) == ["tool:send_mail"]
        assert made.engine.problem == "the embedder failed: ZeroDivisionError: by zero"


async def test_same_problem_is_said_once() -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        made.model.failing = broken()
        for text in ("one mail", "two mails", "three mails"):
            await made.find(rows, text)
        assert len(made.said) == 1


async def test_embedder_that_comes_late_is_used() -> None:
    async with world() as made:
        late, made.embedder = made.embedder, None
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert not (await made.find(rows, "mail")).dense
        made.embedder = late
        await made.find(rows, "mail")
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense


@pytest.mark.parametrize("dimension", [64, 32])
async def test_another_embedder_makes_all_vectors_anew(dimension: int) -> None:
    async with world() as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense
        made.embedder = FakeEmbedder("fake:2", dimension)
        # Vectors of the two do not compare: until the new ones are there, words alone count.
        assert (await made.find(rows, "mail")).dense
        assert not (await made.find(rows, "hour")).dense
        index = await made.engine.ready(rows)
        assert index.dense is not None
        assert index.dense.fingerprint == "fake:2"
        assert len(made.embedded()) == 3
        finding = await made.find(rows, "mail")
        assert finding.dense
        assert ids(finding)[0] == "tool:send_mail"
        assert made.model.queries == ["mail"]
        assert (await made.find(rows, "hour")).dense


async def test_another_embedder_and_another_row_at_once_leave_no_half_index() -> None:
    async with world() as made:
        await made.engine.ready(snapshot(ROWS))
        made.embedder = FakeEmbedder("fake:2", 16)
        rows = snapshot([*ROWS, row("book", "Book a trip.")], 2)
        await made.engine.ready(rows)
        assert len(made.embedded()) == 4
        for text, wanted in (("hour", "tool:clock"), ("trip", "tool:book")):
            finding = await made.find(rows, text)
            assert finding.dense
            assert ids(finding)[0] == wanted


async def test_closing_does_not_wait_for_an_embedder_that_hangs() -> None:
    made = World()
    made.model.gate.clear()
    await made.engine.index_of(snapshot(ROWS))
    await asyncio.sleep(0)
    await made.engine.close()
    await made.engine.close()
    assert not made.model.gate.is_set()


# -- what may be shown ---------------------------------------------------------------


def crowd(count: int = 1500) -> list[Capability]:
    """So many rows that not all of them are candidates, the last of them of another kind."""
    rows = [row(f"mail{at}", "send mail to people") for at in range(count)]
    return [*rows, *(row(f"letter{at}", "mail", kind="skill") for at in range(3))]


@pytest.mark.parametrize("dense", [True, False])
async def test_what_may_be_shown_is_found_behind_all_that_may_not(dense: bool) -> None:
    async with world() as made:
        if not dense:
            made.embedder = None
        rows = snapshot(crowd())
        await made.engine.ready(rows)
        finding = await made.find(
            rows, "send mail to people", shown=lambda one: one.kind == "skill"
        )
        assert sorted(ids(finding)) == ["skill:letter0", "skill:letter1", "skill:letter2"]


async def test_nothing_is_found_where_nothing_may_be_shown() -> None:
    async with world() as made:
        rows = snapshot(crowd(300))
        await made.engine.ready(rows)
        assert (await made.find(rows, "send mail", shown=lambda _: False)).found == ()


async def test_large_corpora_are_searched_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "INLINE_VECTORS", 10)
    async with world() as made:
        rows = snapshot(crowd(100))
        await made.engine.ready(rows)
        finding = await made.find(rows, "mail", shown=lambda one: one.kind == "skill")
        assert len(finding.found) == 3
        many = await asyncio.gather(*(made.find(rows, f"mail{at}") for at in range(50)))
        assert [ids(one)[0] for one in many] == [f"tool:mail{at}" for at in range(50)]


async def test_what_is_off_topic_is_not_looked_for_in_ever_more_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    search = Index.search

    def noting(self: Index, *args: Any, count: int, **more: Any) -> Any:
        counts.append(count)
        return search(self, *args, count=count, **more)

    monkeypatch.setattr(Index, "search", noting)
    async with world() as made:
        rows = snapshot(crowd(1000))
        await made.engine.ready(rows)
        chatter = small_talk()[0]
        assert (await made.find(rows, chatter, floor=0.45)).found == ()
        assert len(counts) == 1


# -- kept on disk ----------------------------------------------------------------------


async def test_second_start_embeds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        await made.engine.ready(snapshot(ROWS))
    async with world(path) as again:
        index = await again.engine.index_of(snapshot(ROWS, 7))
        assert index.dense is not None
        assert index.background is not None
        assert ids(await again.find(snapshot(ROWS, 7), "mail"))[0] == "tool:send_mail"
        assert again.model.texts == []
        assert again.degraded == {}


async def test_start_without_the_model_does_not_lose_the_vectors(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        await made.engine.ready(snapshot(ROWS))
    async with world(path) as without:
        without.embedder = None
        await without.engine.ready(snapshot(ROWS[1:]))
    async with world(path) as failing:
        failing.embedder = FakeEmbedder("none", 0)
        failing.model.failing = broken()
        await failing.engine.ready(snapshot(ROWS[:2]))
    async with world(path) as again:
        await again.engine.ready(snapshot(ROWS))
        assert again.model.texts == []


async def test_vectors_of_another_embedder_are_not_taken_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        await made.engine.ready(snapshot(ROWS))
    async with world(path) as again:
        again.embedder = FakeEmbedder("fake:2", 16)
        await again.engine.ready(snapshot(ROWS))
        assert len(again.embedded()) == 3
        assert (await again.find(snapshot(ROWS), "mail")).dense
        assert again.degraded == {}


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "text", "folder"])
async def test_damaged_file_is_said_and_made_anew(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        await made.engine.ready(snapshot(ROWS))
    data = bytearray(path.read_bytes())
    match damage:
        case "flip":
            data[len(data) // 2] ^= 0xFF
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("hello")
        case _:
            path.unlink()
            path.mkdir()
    async with world(path) as again:
        again.model.gate.clear()
        assert ids(await again.find(snapshot(ROWS), "mail")) == ["tool:send_mail"]
        assert again.degraded["discovery: index"].endswith("; it is made anew")
        again.model.gate.set()
        await again.engine.ready(snapshot(ROWS))
        assert (await again.find(snapshot(ROWS), "mail")).dense
        assert ("discovery: index" in again.degraded) == (damage == "folder")
    if damage != "folder":
        async with world(path) as third:
            await third.engine.ready(snapshot(ROWS))
            assert third.model.texts == []


async def test_place_that_cannot_be_written_is_said_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("in the way")
    path = tmp_path / "folder" / "index.npz"
    async with world(path) as made:
        rows = snapshot(ROWS)
        await made.engine.ready(rows)
        assert (await made.find(rows, "mail")).dense
        assert "cannot be written" in made.degraded["discovery: index"]
        (tmp_path / "folder").unlink()
        await made.engine.save(now=True)
        assert made.degraded == {}
        assert path.is_file()


async def test_two_engines_may_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as one, world(path) as other:
        await asyncio.gather(
            one.engine.ready(snapshot(ROWS)), other.engine.ready(snapshot(ROWS[:2]))
        )
        await asyncio.gather(*(made.engine.save(now=True) for made in (one, other) * 3))
        assert one.degraded == other.degraded == {}
    assert names(tmp_path) == ["index.npz"]
    async with world(path) as third:
        await third.engine.ready(snapshot(ROWS))
        assert third.degraded == {}


async def test_closing_while_vectors_are_made_keeps_those_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "BATCH", 40)
    path = tmp_path / "index.npz"
    rows = snapshot([row(f"tool{at}", f"does thing{at}") for at in range(400)])
    made = World(path)
    await made.engine.index_of(rows)
    made.model.most = 200
    await made.model.hung.wait()
    await made.engine.close()
    done = len(made.model.texts)
    assert done < 500
    async with world(path) as again:
        await again.engine.ready(rows)
        assert len(again.model.texts) <= 400 + len(small_talk()) - done + 40
        assert again.degraded == {}


async def test_file_is_not_written_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        await made.engine.ready(snapshot(ROWS))
        assert path.is_file()
        path.unlink()
        await made.engine.ready(snapshot([*ROWS, row("book", "Book a trip.")], 2))
        assert not path.exists()
        made.clock.advance(SAVE_SECONDS + 1)
        await made.engine.ready(snapshot([*ROWS, row("hotel", "Book a room.")], 3))
        assert path.is_file()
        path.unlink()
    # Nothing has changed since.
    assert not path.exists()


async def test_vectors_on_disk_are_those_that_were_made(tmp_path: Path) -> None:
    path = tmp_path / "index.npz"
    async with world(path) as made:
        one = await made.engine.ready(snapshot(ROWS))
    async with world(path) as again:
        other = await again.engine.ready(snapshot(ROWS))
    assert one.dense is not None
    assert other.dense is not None
    assert one.dense.ready is not None
    assert other.dense.ready is not None
    assert np.array_equal(one.dense.ready, other.dense.ready)
