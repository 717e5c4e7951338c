from __future__ import annotations

from pathlib import Path

import pytest
from tests.builtin_plugins.awareness.card_files import write_card

from hookgate.builtin_plugins.awareness.cards.folders import (
    BODY_CHARS,
    CardFolder,
    CardScan,
    check_path,
    create,
)
from hookgate.kit.content.problems import ContentError


def problems(found: CardScan) -> list[str]:
    return [str(problem) for problem in found.problems]


@pytest.mark.parametrize(
    "card_id", ["weekly-report", "a", "123", "1.5", "true", "null", "no", "A_b.c-D", "x" * 64]
)
def test_a_new_card_is_one_without_any_problem(tmp_path: Path, card_id: str) -> None:
    path = create(card_id, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / f"{card_id}.md"
    strict = CardFolder(path=path.parent, origin="user", strict=True)
    found = check_path(path, [strict])
    assert problems(found) == []
    (card,) = found.cards
    assert (card.id, card.origin) == (card_id, "user")
    assert BODY_CHARS[0] <= len(card.text) <= BODY_CHARS[1]
    assert card.triggers.keywords


def test_a_new_card_explains_its_keys(tmp_path: Path) -> None:
    text = create("a", tmp_path).read_text()
    head = text.split("---")[1]
    for key in ("session_types", "inject_at", "flags", "tools", "priority", "token_budget"):
        assert key in head
    assert head.count("#") >= 10


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = write_card(tmp_path / "mine.md")
    before = path.read_bytes()
    with pytest.raises(ContentError, match="nothing is overwritten"):
        create("mine", tmp_path)
    (tmp_path / "link.md").symlink_to("gone.md")
    with pytest.raises(ContentError, match="nothing is overwritten"):
        create("link", tmp_path)
    assert path.read_bytes() == before
    assert not (tmp_path / "gone.md").exists()


@pytest.mark.parametrize(
    "card_id", ["", "../out", "a/b", "..", ".a", "a b", "a:b", "x" * 65, "a\nb", "README", "readme"]
)
def test_an_id_that_cannot_be_used_is_refused(tmp_path: Path, card_id: str) -> None:
    with pytest.raises(ContentError, match="found the id"):
        create(card_id, tmp_path / "in")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    file = write_card(tmp_path / "file.md")
    with pytest.raises(ContentError, match=r"file\.md: found file exists, expected a folder"):
        create("a", file)
    with pytest.raises(ContentError, match="expected a folder that can be written"):
        create("a", file / "below")


def test_a_path_may_be_a_card_or_a_folder(tmp_path: Path) -> None:
    first = write_card(tmp_path / "a.md")
    write_card(tmp_path / "b.md")
    assert [card.id for card in check_path(first).cards] == ["a"]
    assert [card.id for card in check_path(tmp_path).cards] == ["a", "b"]


def test_what_is_no_card_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "found no card" in problems(check_path(tmp_path / "empty"))[0]
    for name in ("x.txt", "README.md", ".hidden.md", "x.MD"):
        path = write_card(tmp_path / name, "x")
        assert f"found a file called {name}, expected a card" in problems(check_path(path))[0]
    assert problems(check_path(tmp_path / "gone.md"))
    assert problems(check_path(tmp_path / "gone" / "gone.md"))


def test_a_file_is_checked_as_safely_as_it_is_read(tmp_path: Path) -> None:
    write_card(tmp_path / "away" / "a.md")
    (tmp_path / "a.md").symlink_to("away/a.md")
    found = check_path(tmp_path / "a.md")
    assert found.cards == ()
    assert "found a link" in problems(found)[0]


def test_a_card_is_judged_by_the_folder_that_it_is_in(tmp_path: Path) -> None:
    path = write_card(tmp_path / "a.md", more="notes: x\n")
    assert check_path(path).cards[0].origin == "workspace"
    strict = CardFolder(path=tmp_path, origin="user", strict=True)
    assert check_path(path, [strict]).cards == ()
    trusted = CardFolder(path=tmp_path, origin="repo", trusted=True)
    assert check_path(tmp_path, [trusted]).cards[0].trusted
