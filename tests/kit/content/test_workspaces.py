from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hookgate.kit.content import workspaces
from hookgate.kit.content.problems import ContentError
from hookgate.kit.content.workspaces import CARDS, SKILLS, Workspaces, content_of

AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A cloned repository that brings a skill, and something that is none of ours."""
    folder = tmp_path / "clone"
    skill = folder / ".hookgate" / "capabilities" / "tea" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Brew tea.")
    (folder / "main.py").write_text("print()")
    return folder


def skill_of(folder: Path) -> Path:
    return folder / ".hookgate" / "capabilities" / "tea" / "SKILL.md"


def test_nothing_counts_before_somebody_has_accepted_it(tmp_path: Path, clone: Path) -> None:
    standing = Workspaces(tmp_path / "home").standing(clone)
    assert (standing.state, standing.copy) == ("new", None)
    assert standing.files == (".hookgate/capabilities/tea/SKILL.md",)
    told = standing.waiting(SKILLS)
    assert "1 file, that nobody has accepted: nothing of it counts" in told
    assert f"`hookgate workspace accept {clone}`" in told
    assert standing.waiting(CARDS) == ""


def test_what_counts_is_a_copy_of_what_was_accepted(tmp_path: Path, clone: Path) -> None:
    known = Workspaces(tmp_path / "home")
    standing = known.accept(clone, known.standing(clone).digest, AT)
    assert standing.state == "accepted"
    assert standing.waiting(SKILLS) == ""
    assert standing.copy is not None
    assert skill_of(standing.copy).read_text() == "Brew tea."
    assert not (standing.copy / "main.py").exists()
    assert stat.S_IMODE(standing.copy.stat().st_mode) == 0o700
    assert Workspaces(tmp_path / "home").standing(clone) == standing


@pytest.mark.parametrize("change", ["edit", "add", "rename", "remove"])
def test_any_change_is_asked_about_again(tmp_path: Path, clone: Path, change: str) -> None:
    known = Workspaces(tmp_path / "home")
    (clone / ".agentos" / "capabilities").mkdir(parents=True)
    (clone / ".agentos" / "capabilities" / "x").write_text("x")
    before = known.standing(clone).digest
    known.accept(clone, before, AT)
    skill = skill_of(clone)
    match change:
        case "edit":
            skill.write_text("Brew teA.")
        case "add":
            (skill.parent / "more.md").touch()
        case "rename":
            skill.rename(skill.with_name("SKILL.mD"))
        case "remove":
            skill.unlink()
    standing = known.standing(clone)
    assert (standing.state, standing.copy) == ("changed", None)
    with pytest.raises(ContentError, match="look at it again"):
        known.accept(clone, before, AT)
    assert known.accept(clone, standing.digest, AT).state == "accepted"


def test_what_was_accepted_is_bound_to_its_folder(tmp_path: Path, clone: Path) -> None:
    known = Workspaces(tmp_path / "home")
    known.accept(clone, known.standing(clone).digest, AT)
    clone.rename(tmp_path / "other")
    assert known.standing(tmp_path / "other").state == "new"
    (tmp_path / "link").symlink_to("other")
    known.accept(tmp_path / "link", known.standing(tmp_path / "other").digest, AT)
    assert known.standing(tmp_path / "other").state == "accepted"


def test_it_can_be_taken_back(tmp_path: Path, clone: Path) -> None:
    known = Workspaces(tmp_path / "home")
    assert not known.forget(clone)
    known.accept(clone, known.standing(clone).digest, AT)
    assert known.forget(clone)
    assert known.standing(clone).state == "new"
    assert list(known.path.iterdir()) == []


def test_no_link_is_followed_and_nothing_special_is_read(tmp_path: Path, clone: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "capabilities").mkdir(parents=True)
    (secret / "capabilities" / "key").write_text("hush")
    (secret / "key").write_text("hush")
    skill = skill_of(clone)
    (skill.parent / "link.md").symlink_to(secret / "key")
    (skill.parent / "folder").symlink_to(secret)
    os.mkfifo(skill.parent / "pipe")
    (clone / ".agentos").symlink_to(secret)
    assert list(content_of(clone)) == [".hookgate/capabilities/tea/SKILL.md"]


def test_a_file_that_becomes_a_link_after_the_look_at_it_is_not_read(
    tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("hush")
    look = os.stat

    def swapped(path: Any, **how: Any) -> os.stat_result:
        seen = look(path, **how)
        if path == "SKILL.md":
            skill_of(clone).unlink()
            skill_of(clone).symlink_to(tmp_path / "key")
        return seen

    monkeypatch.setattr(os, "stat", swapped)
    with pytest.raises(ContentError, match="too many levels"):
        content_of(clone)


def test_more_than_a_person_can_look_at_is_refused(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspaces, "MAX_BYTES", 20)
    skill_of(clone).with_name("more.md").write_text("x" * 20)
    with pytest.raises(ContentError, match="a person can look at"):
        content_of(clone)
    monkeypatch.setattr(workspaces, "MAX_BYTES", 1000)
    monkeypatch.setattr(workspaces, "MAX_DEPTH", 2)
    (skill_of(clone).parent / "a" / "b").mkdir(parents=True)
    with pytest.raises(ContentError, match="at most 2 deep"):
        content_of(clone)


def test_nothing_there_is_nothing_to_accept(tmp_path: Path) -> None:
    known = Workspaces(tmp_path / "home")
    assert known.standing(tmp_path).state == "nothing"
    with pytest.raises(ContentError, match="found nothing in it, expected skills or cards"):
        known.accept(tmp_path, "", AT)
