from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.builtin_plugins.discovery.folders import manifest, problems, skill, write

from hookgate.builtin_plugins.discovery.sources import folders
from hookgate.builtin_plugins.discovery.sources import folders as scanner
from hookgate.builtin_plugins.discovery.sources.folders import (
    Root,
    Scan,
    roots_of,
    scan,
    shipped_folder,
)


def root(path: Path, **more: bool) -> Root:
    return Root(path=path, origin="settings", **more)


def ids(found: Scan) -> list[str]:
    return [declared.row.id for declared in found.declared]


def test_manifests_and_skills_are_found_at_any_depth_in_the_order_of_names(tmp_path: Path) -> None:
    manifest(tmp_path / "b")
    skill(tmp_path / "group" / "inner" / "deep")
    manifest(tmp_path / "a", SKILL_md="---\nname: other\ndescription: x\n---\n")
    skill(tmp_path / "a" / "nested")
    found = scan([root(tmp_path)])
    assert ids(found) == ["skill:a", "skill:nested", "skill:b", "skill:deep"]
    assert found.problems == ()


def test_a_root_may_be_a_capability_itself(tmp_path: Path) -> None:
    manifest(tmp_path / "own")
    assert ids(scan([root(tmp_path / "own")])) == ["skill:own"]


def test_folders_that_hold_something_else_are_passed_over(tmp_path: Path) -> None:
    for name in (".git", "node_modules", "own/assets", "own/references", "own/scripts"):
        skill(tmp_path / name / "template")
    skill(tmp_path / "own")
    skill(tmp_path / "assets" / "real")
    assert ids(scan([root(tmp_path)])) == ["skill:real", "skill:own"]


def test_the_first_folder_has_an_id_and_the_loser_is_named(tmp_path: Path) -> None:
    first = manifest(tmp_path / "1" / "same")
    second = skill(tmp_path / "2" / "same")
    found = scan([root(tmp_path / "1"), root(tmp_path / "2")])
    assert [declared.path for declared in found.declared] == [first]
    (problem,) = found.problems
    assert problem.severity == "warning"
    assert str(first) in str(problem)
    assert str(problem).startswith(str(second))
    assert [one.path for one in scan([root(tmp_path / "2"), root(tmp_path / "1")]).declared] == [
        second
    ]


def test_one_bad_file_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    manifest(tmp_path / "good")
    bad = manifest(tmp_path / "bad", "tags: 1\n")
    worse = write(tmp_path / "worse" / "SKILL.md", "nothing")
    found = scan([root(tmp_path)])
    assert ids(found) == ["skill:good"]
    assert [problem.file for problem in found.problems] == [str(bad), str(worse)]


def test_a_folder_of_skills_has_no_manifests(tmp_path: Path) -> None:
    manifest(tmp_path / "a", SKILL_md="---\nname: a\ndescription: x\n---\n")
    found = scan([root(tmp_path, skills_only=True)])
    assert [declared.path.name for declared in found.declared] == ["SKILL.md"]


@pytest.mark.parametrize("name", ["CAPABILITY.yml", "capability.yaml"])
def test_a_misspelt_manifest_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a" / name, "name: a\n")
    (problem,) = problems(scan([root(tmp_path)]))
    assert "expected the name CAPABILITY.yaml" in problem


def test_a_missing_folder_is_named_where_somebody_named_it(tmp_path: Path) -> None:
    assert scan([root(tmp_path / "gone")]).problems == ()
    assert "no such folder" in problems(scan([root(tmp_path / "gone", expected=True)]))[0]
    file = write(tmp_path / "file", "")
    assert "no folder" in problems(scan([root(file)]))[0]


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest(tmp_path / "a")
    (tmp_path / "locked").mkdir()
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(folders.os, "scandir", scandir)
    found = scan([root(tmp_path)])
    assert ids(found) == ["skill:a"]
    assert problems(found) == [
        f"{tmp_path / 'locked'}: found permission denied, expected a folder that can be read"
    ]


def test_a_linked_folder_counts_where_it_stays_within(tmp_path: Path) -> None:
    skill(tmp_path / "elsewhere" / "outer")
    skill(tmp_path / "root" / "hidden" / ".store" / "inner")
    (tmp_path / "root" / "inner").symlink_to("hidden/.store/inner")
    (tmp_path / "root" / "outer").symlink_to("../elsewhere/outer")
    (tmp_path / "root" / "circle").symlink_to(".")
    (tmp_path / "root" / "nowhere").symlink_to("gone")
    found = scan([root(tmp_path / "root")])
    assert ids(found) == ["skill:inner"]
    (problem,) = problems(found)
    assert problem.startswith(f"{tmp_path / 'root' / 'outer'}: found a link that leads out of")


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    manifest(tmp_path / "real" / "a")
    (tmp_path / "link").symlink_to("real")
    assert ids(scan([root(tmp_path / "link")])) == ["skill:a"]


def test_depth_has_an_end_that_is_named(tmp_path: Path) -> None:
    skill(tmp_path.joinpath(*"abcdefghij"))
    found = scan([root(tmp_path)])
    assert found.declared == ()
    assert "a deeper folder" in problems(found)[0]


def test_the_number_of_folders_has_an_end_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        skill(tmp_path / f"s{number}")
    monkeypatch.setattr(folders, "FOLDERS", 4)
    found = scan([root(tmp_path)])
    assert ids(found) == ["skill:s0", "skill:s1", "skill:s2"]
    assert len(problems(found)) == 1
    assert "more than 4 folders" in problems(found)[0]


def test_two_scans_are_equal_until_a_file_changes(tmp_path: Path) -> None:
    path = manifest(tmp_path / "a", SKILL_md="one")
    before = scan([root(tmp_path)])
    assert scan([root(tmp_path)]) == before
    write(path.parent / "SKILL.md", "two, longer")
    assert scan([root(tmp_path)]) != before


HOUR_NS = 3_600_000_000_000


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files seem old enough for their time stamps to be trusted."""
    real = time.time_ns
    monkeypatch.setattr(scanner.time, "time_ns", lambda: real() + HOUR_NS)


@pytest.mark.usefixtures("later")
def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    manifest(tmp_path / "a", schema_json='{"type": "object"}')
    skill(tmp_path / "b")
    manifest(tmp_path / "c", "zzz: 1\n")
    fresh = time.time() + HOUR_NS / 1e9
    os.utime(skill(tmp_path / "fresh"), (fresh, fresh))
    before = scan([root(tmp_path)])
    after = scan([root(tmp_path)], before)
    assert after == before
    old = {id(one) for one in before.declared}
    taken = [one.path.parent.name for one in after.declared if id(one) in old]
    assert taken == ["a", "b"]
    assert len(after.problems) == 1


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", ["manifest", "named", "beside", "gone", "link"])
def test_every_change_is_seen_by_a_later_scan(tmp_path: Path, change: str) -> None:
    path = manifest(tmp_path / "r" / "a", "skillContent: own.md\n", own_md="one")
    before = scan([root(tmp_path / "r")])
    if change == "manifest":
        manifest(path.parent, "category: new\n")
    elif change == "named":
        write(path.parent / "own.md", "two")
    elif change == "beside":
        write(path.parent / "schema.json", '{"type": "object", "properties": {"q": {}}}')
    elif change == "gone":
        (path.parent / "own.md").unlink()
    else:
        other = manifest(path.parent / "assets", "id: other\n")
        path.unlink()
        path.symlink_to(other.relative_to(path.parent))
    after = scan([root(tmp_path / "r")], before)
    assert after != before
    assert after == scan([root(tmp_path / "r")])


def test_the_folders_come_in_their_documented_order(tmp_path: Path) -> None:
    home, user, here = tmp_path / "gate", tmp_path / "user", tmp_path / "here"
    environ = {
        "HOOKGATE_CAPABILITY_DIRS": os.pathsep.join(["/one", "rel", "", "/one"]),
        "AGENTOS_CAPABILITY_DIRS": "/two",
    }
    roots = roots_of(
        home,
        environ=environ,
        user_home=user,
        workspace=here,
        folder=tmp_path / "settings",
        dirs=[Path("/three")],
        skill_dirs=[Path("/skills"), Path("/three")],
        accepted=here / "copy",
    )
    assert [one.path for one in roots] == [
        home / "capabilities",
        user / ".agentos" / "capabilities",
        here / "copy" / ".hookgate" / "capabilities",
        here / "copy" / ".agentos" / "capabilities",
        Path("/one"),
        tmp_path / "settings" / "rel",
        Path("/two"),
        Path("/three"),
        Path("/skills"),
        shipped_folder(),
    ]
    assert [one.path for one in roots if one.skills_only] == [Path("/skills")]
    assert [one.origin for one in roots if one.whose == "foreign"] == ["workspace", "workspace"]


def test_a_workspaces_folder_that_the_settings_name_counts_and_stays_foreign(
    tmp_path: Path,
) -> None:
    here = tmp_path / "here"
    roots = roots_of(
        tmp_path / "gate",
        environ={"HOOKGATE_CAPABILITY_DIRS": str(here / ".agentos" / "capabilities" / "some")},
        user_home=tmp_path / "user",
        workspace=here,
        folder=tmp_path,
        dirs=[here / ".hookgate" / "capabilities", here / "mine"],
    )
    assert [(one.path.name, one.whose) for one in roots[2:-1]] == [
        ("some", "foreign"),
        ("capabilities", "foreign"),
        ("mine", "own"),
    ]


def test_a_folder_that_is_named_twice_is_scanned_once(tmp_path: Path) -> None:
    here = tmp_path / "user"
    roots = roots_of(here / ".hookgate", environ={}, user_home=here, workspace=here, folder=here)
    assert len(roots) == 3
