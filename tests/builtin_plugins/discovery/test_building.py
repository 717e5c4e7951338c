from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builtin_plugins.discovery.searching import row, vector

from hookgate.builtin_plugins.discovery.index import IndexQuery
from hookgate.builtin_plugins.discovery.index import build as building
from hookgate.builtin_plugins.discovery.index.build import Material

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.builtin_plugins.discovery.index import Index
    from hookgate.builtin_plugins.discovery.index.build import IndexDraft
    from hookgate.core.domain.descriptors import Capability

ROWS = [row("send_mail", "Send a mail."), row("web_page", "Read a page."), row("clock", "Tell it.")]


def take(
    material: Material, draft: IndexDraft, fingerprint: str = "fake:1", dimension: int = 64
) -> None:
    texts = draft.missing
    if texts:
        made = np.stack([vector(text, fingerprint, dimension) for text in texts.values()])
        material.take(fingerprint, list(texts), made)


def made(material: Material, rows: Sequence[Capability], version: int = 1) -> Index:
    draft = material.draft(version, rows, "fake:1")
    take(material, draft)
    return material.index(draft)


def test_nothing_is_missing_of_rows_that_have_not_changed() -> None:
    material = Material(background=("thanks", "hello"))
    assert made(material, ROWS).dense is not None
    again = material.draft(2, list(reversed(ROWS)), "fake:1")
    assert not again.missing
    assert material.index(again).dense is not None


def test_only_the_text_of_a_new_row_is_missing() -> None:
    material = Material()
    made(material, ROWS)
    draft = material.draft(2, [*ROWS, row("book", "Book a trip. Pay for it now.")], "fake:1")
    assert list(draft.missing.values()) == ["book. Book a trip. Pay for it now."]


def test_small_talk_is_embedded_first_and_is_no_row() -> None:
    material = Material(background=("thanks", "hello"))
    draft = material.draft(1, ROWS, "fake:1")
    assert list(draft.missing.values())[:2] == ["thanks", "hello"]
    take(material, draft)
    index = material.index(draft)
    assert index.background is not None
    assert index.background.shape == (2, 64)
    assert len(index) == len(ROWS)


def test_rows_that_say_the_same_are_embedded_once() -> None:
    twins = [row("mail", "Send."), row("mail", "Send.", kind="skill")]
    assert len(Material().draft(1, twins).missing) == 1


def test_meaning_takes_part_once_nearly_all_vectors_are_there() -> None:
    material = Material()
    rows = [row(f"tool{number}", "Does it.") for number in range(100)]
    draft = material.draft(1, rows, "fake:1")
    texts = list(draft.missing.items())

    def more(first: int, last: int) -> bool:
        keys = [key for key, _ in texts[first:last]]
        material.take("fake:1", keys, np.stack([vector(text) for _, text in texts[first:last]]))
        return material.index(draft).dense is not None

    assert not more(0, 94)
    assert more(94, 95)
    assert more(95, 100)


@pytest.mark.parametrize("dimension", [64, 32])
def test_vectors_of_another_embedder_are_made_anew(dimension: int) -> None:
    material = Material(background=("thanks",))
    old = made(material, ROWS)
    draft = material.draft(2, ROWS, "fake:2")
    assert len(draft.missing) == 4
    assert material.index(draft).dense is None
    take(material, draft, "fake:2", dimension)
    index = material.index(draft)
    assert index.dense is not None
    assert index.dense.fingerprint == "fake:2"
    assert index.dense.store.dimension == dimension
    assert old.dense is not None
    assert old.dense.fingerprint == "fake:1"
    query = IndexQuery.of("mail").with_vectors([vector("mail", "fake:1")])
    assert len(old.search(query).places) == 3


def test_one_text_of_another_embedder_does_not_make_a_whole_index() -> None:
    material = Material()
    made(material, ROWS)
    draft = material.draft(2, [*ROWS, row("book")], "fake:1")
    material.take("fake:2", list(draft.missing), vector("book", "fake:2")[None])
    assert material.index(draft).dense is None


def test_without_an_embedder_what_is_there_is_kept() -> None:
    material = Material()
    made(material, ROWS)
    draft = material.draft(2, ROWS, "")
    assert not draft.missing
    assert material.index(draft).dense is not None


def test_vectors_that_nobody_uses_are_left_behind_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "SLACK", 20)
    material = Material(background=("thanks",))
    first = made(material, [row("log", "number first")])
    for version in range(2, 60):
        index = made(material, [row("log", f"number {version}")], version)
    assert material.store is not None
    assert len(material.store) <= 2 * 2 + 20 + 1
    assert index.background is not None
    assert len(index.background) == 1
    # Who still searches the first version finds it.
    query = IndexQuery.of("xyzzy").with_vectors([vector("number first", "fake:1")])
    assert first.search(query, mode="dense").cosines[0] > 0.5


def test_many_vectors_are_searched_approximately_and_few_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "ANN_VECTORS", 50)
    material = Material()
    rows = [row(f"tool{number}", f"does thing{number}") for number in range(60)]
    many = made(material, rows)
    assert many.dense is not None
    assert many.dense.store.approximate
    query = IndexQuery.of("thing17").with_vectors([vector("tool17 does thing17", "fake:1")])
    assert many.search(query, count=3).places[0] == 17
    few = made(material, rows[:20], 2)
    assert few.dense is not None
    assert not few.dense.store.approximate
    assert few.search(query, count=3).places[0] == 17


def test_many_vectors_are_searched_exactly_without_faiss_and_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "ANN_VECTORS", 50)
    monkeypatch.setitem(sys.modules, "faiss", None)
    material = Material()
    rows = [row(f"tool{number}", f"does thing{number}") for number in range(60)]
    many = made(material, rows)
    assert many.dense is not None
    assert not many.dense.store.approximate
    query = IndexQuery.of("thing17").with_vectors([vector("tool17 does thing17", "fake:1")])
    assert many.search(query, count=3).places[0] == 17
    assert "pip install 'hookgate[faiss]'" in material.slow
    made(material, rows[:20], 2)
    assert material.slow == ""
    made(material, rows, 3)
    monkeypatch.undo()
    monkeypatch.setattr(building, "ANN_VECTORS", 50)
    again = made(material, rows, 4)
    assert again.dense is not None
    assert again.dense.store.approximate
    assert material.slow == ""


def test_nothing_is_saved_before_anything_is_made() -> None:
    material = Material()
    assert material.saved() is None
    material.draft(1, [])
    assert material.saved() is not None


def test_restored_material_lacks_nothing() -> None:
    material = Material(background=("thanks",))
    made(material, ROWS)
    saved = material.saved()
    assert saved is not None
    restored = Material(background=("thanks",))
    restored.restore(saved)
    assert not restored.draft(1, ROWS, "fake:1").missing
    assert len(restored.draft(1, ROWS, "fake:2").missing) == 4
    # What another embedder has made stays until the new one's vectors come.
    kept = restored.saved()
    assert kept is not None
    assert kept.fingerprint == "fake:1"
    assert kept.store is saved.store
