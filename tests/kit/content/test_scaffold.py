"""Scaffolds write what templates say, and nothing over what is there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from hookgate.kit.content.problems import ContentError
from hookgate.kit.content.scaffold import filled, quoted, scaffold


def test_a_folder_of_templates_is_filled_with_its_layout(tmp_path: Path) -> None:
    (tmp_path / "dot_ci").mkdir()
    (tmp_path / "dot_ci" / "run.tmpl").write_text("cost: $$1 for $name")
    (tmp_path / "$name.py.tmpl").write_text("'$name'")
    (tmp_path / "notes.md").write_text("no template")

    made = filled(tmp_path, {"name": "dot_x"})

    assert made == {"dot_x.py": "'dot_x'", ".ci/run": "cost: $1 for dot_x"}


def test_files_are_written_and_those_of_one_person_are_nobody_elses(tmp_path: Path) -> None:
    written = scaffold(tmp_path / "in", {"a/b": "1", "c": "2"}, private=True)

    assert [path.read_text() for path in written] == ["1", "2"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in written}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "in").stat().st_mode) == 0o700


@pytest.mark.parametrize("there", ["a file", "a link", "a full folder"])
def test_what_is_there_is_not_overwritten(tmp_path: Path, there: str) -> None:
    target = tmp_path / "new"
    if there == "a file":
        target.write_text("mine")
    elif there == "a link":
        target.symlink_to("gone")
    else:
        (target / "mine").mkdir(parents=True)

    with pytest.raises(ContentError, match="nothing is overwritten"):
        scaffold(target, {"a": "1"})

    assert not list(tmp_path.rglob("a"))
    assert not (tmp_path / "gone").exists()


def test_beside_others_a_file_is_new_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert scaffold(tmp_path, {"new": "1"}, fresh=False) == [tmp_path / "new"]

    with pytest.raises(ContentError, match="a file of this name already"):
        scaffold(tmp_path, {"mine": "1"}, fresh=False)

    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("text", ["1", "true", "NULL", "0x1f", "_a"])
def test_what_yaml_takes_for_something_else_is_quoted(text: str) -> None:
    assert quoted(text) == f'"{text}"'
    assert quoted("weekly-report") == "weekly-report"
