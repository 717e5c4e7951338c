from __future__ import annotations

from pathlib import Path

import pytest

from hookgate.builtin_plugins.awareness.cards.listing import (
    MAX_CHARS,
    MAX_TOKENS,
    Reference,
    pointer,
    shipped_reference,
)
from hookgate.core.host import QuarterTokens
from hookgate.kit.content.problems import ContentError


def test_the_shipped_pages_are_there_and_can_be_read() -> None:
    reference = Reference((shipped_reference(),))
    assert {"architecture", "policy", "configuration"} <= set(reference.pages())
    for name in reference.pages():
        assert reference.read(name).startswith("#")


def test_an_earlier_folders_page_counts_and_frontmatter_is_left_out(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        folder.mkdir()
        (folder / "a.md").write_text(f"---\nname: a\n---\n{folder.name}", encoding="utf-8")
    (other / "b.md").write_text("b", encoding="utf-8")
    (other / "README.md").write_text("no page", encoding="utf-8")
    (other / ".hidden.md").write_text("no page", encoding="utf-8")
    reference = Reference((mine, tmp_path / "missing", other))
    assert list(reference.pages()) == ["a", "b"]
    assert reference.read("a") == "mine"


@pytest.mark.parametrize("name", ["../secret", "secret", "/etc/passwd", "a/../secret", "", "\0"])
def test_nothing_but_a_page_can_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "memory.md").write_text("page", encoding="utf-8")
    with pytest.raises(ContentError, match="expected one of memory"):
        Reference((folder,)).read(name)


def test_a_page_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "page.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ContentError, match="leads out"):
        Reference((folder,)).read("page")


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "memory.md").write_text("page", encoding="utf-8")
    with pytest.raises(ContentError, match="did you mean `memory`"):
        Reference((tmp_path,)).read("memroy")


def test_the_pointer_is_short_and_names_the_tools_that_are_there() -> None:
    text = pointer({"list_capabilities", "read_reference"})
    assert "`list_capabilities`" in text
    assert "`read_reference`" in text
    assert len(text) <= MAX_CHARS
    assert QuarterTokens().count(text) <= MAX_TOKENS
    assert "read_reference" not in pointer({"list_capabilities"})
    assert pointer({"read_reference"}) == ""
