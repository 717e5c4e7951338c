from __future__ import annotations

from pathlib import Path

import pytest
from tests.builtin_plugins.discovery.folders import manifest, problems, skill, write

from hookgate.builtin_plugins.discovery.sources.manifests import read_skill
from hookgate.builtin_plugins.discovery.sources.scaffold import Kind, check_path, create
from hookgate.kit.content.problems import ContentError

KINDS: list[tuple[Kind, set[str]]] = [
    ("tool", {"CAPABILITY.yaml", "schema.json"}),
    ("skill", {"CAPABILITY.yaml", "SKILL.md"}),
    ("extension", {"CAPABILITY.yaml"}),
    ("channel", {"CAPABILITY.yaml"}),
]


@pytest.mark.parametrize(("kind", "files"), KINDS)
@pytest.mark.parametrize("name", ["weekly-report", "12", "true", "1e5", "no", "0x1f"])
def test_what_is_written_passes_its_own_check(
    tmp_path: Path, kind: Kind, files: set[str], name: str
) -> None:
    written = create(kind, name, tmp_path / "new" / "folder")
    assert {path.name for path in written} == files
    found = check_path(tmp_path)
    assert problems(found) == []
    (declared,) = found.declared
    assert (declared.row.id, declared.row.kind) == (f"{kind}:{name}", kind)
    assert declared.row.load is not None
    detail = declared.row.load()
    assert bool(detail.content) == (kind == "skill")
    assert (detail.schema is not None) == (kind == "tool")


def test_a_written_skill_is_one_by_itself_too(tmp_path: Path) -> None:
    create("skill", "weekly-report", tmp_path)
    reading = read_skill(tmp_path / "weekly-report" / "SKILL.md")
    assert problems(reading) == []


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_examples_are_written_as_they_were_said(tmp_path: Path, kind: Kind) -> None:
    said = ["12*7", 'what\'s up: "rain"?', "true", "ça va \\ bien", "- # no comment"]
    create(kind, "weather", tmp_path, said)
    found = check_path(tmp_path)
    assert problems(found) == []
    assert found.declared[0].row.examples == tuple(said)


def test_an_example_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match="an example of 201 characters, expected at most 200"):
        create("skill", "weather", tmp_path / "in", ["x" * 201])
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "mine" / "notes.txt", "mine")
    with pytest.raises(ContentError, match="nothing is overwritten"):
        create("skill", "mine", tmp_path)
    assert [one.name for one in path.parent.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("skill", "Weekly"),
        ("skill", "a_b"),
        ("tool", "../out"),
        ("tool", "a/b"),
        ("tool", ".."),
        ("tool", ""),
        ("channel", "x" * 65),
        ("extension", "a\nb"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(tmp_path: Path, kind: Kind, name: str) -> None:
    with pytest.raises(ContentError, match="found the name"):
        create(kind, name, tmp_path / "in")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "file", "")
    with pytest.raises(ContentError, match="found"):
        create("skill", "a", file)


def test_a_path_may_be_a_file_of_each_sort_or_a_folder(tmp_path: Path) -> None:
    own = manifest(tmp_path / "own")
    other = skill(tmp_path / "other")
    listed = write(tmp_path / "c.yaml", "- {name: x, description: y}\n")
    assert [one.row.id for one in check_path(own).declared] == ["skill:own"]
    assert [one.row.id for one in check_path(other).declared] == ["skill:other"]
    assert [one.row.id for one in check_path(listed).declared] == ["extension:x"]
    assert len(check_path(tmp_path).declared) == 2


def test_what_holds_no_capability_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "found no capability" in problems(check_path(tmp_path / "empty"))[0]
    assert "a file called x.txt" in problems(check_path(write(tmp_path / "x.txt", "")))[0]
