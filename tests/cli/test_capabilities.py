from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import FEW, CommandLine
from tests.cli.terminal import Terminal


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return (*FEW, "embedding", "discovery")


def bad_manifest(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / "CAPABILITY.yaml"
    path.write_text("name: a\nkind: toll\ndescription: x\ntags: y\nnotes: z\n")
    return path


def test_a_new_capability_is_written_and_passes_the_check(hookgate: CommandLine) -> None:
    ran = hookgate("capabilities", "new", "skill", "weekly-report")
    assert ran.code == 0
    folder = hookgate.home / ".hookgate" / "capabilities"
    assert str(folder / "weekly-report" / "SKILL.md") in ran.out
    checked = hookgate("capabilities", "validate", str(folder))
    assert (checked.code, checked.out) == (0, "ok 1 capability\n")
    assert (
        "skill:weekly-report" in hookgate("capabilities", "validate", "--json").json["capabilities"]
    )


def test_it_is_written_where_one_says(hookgate: CommandLine) -> None:
    place = hookgate.home / "elsewhere"
    ran = hookgate("capabilities", "new", "tool", "search", "--dir", str(place), "--json")
    assert ran.json["files"] == [
        str(place / "search" / "CAPABILITY.yaml"),
        str(place / "search" / "schema.json"),
    ]


def test_examples_are_given_by_an_option_and_not_asked_for_without_a_terminal(
    hookgate: CommandLine,
) -> None:
    words = ("capabilities", "new", "skill", "rain", "--example", "will it rain")
    assert hookgate(*words, "--example", "wellies or not?").code == 0
    folder = hookgate.home / ".hookgate" / "capabilities"
    assert '- "wellies or not?"\n' in (folder / "rain" / "CAPABILITY.yaml").read_text()
    ran = hookgate("capabilities", "new", "skill", "snow", stdin="will it snow\n\n")
    assert ran.code == 0
    assert "examples: []" in (folder / "snow" / "CAPABILITY.yaml").read_text()
    ran = hookgate(*words[:3], "hail", "--example", "x" * 201)
    assert ran.code == 1
    assert "found an example of 201 characters, expected at most 200" in ran.err


@pytest.mark.slow
def test_on_a_terminal_examples_are_asked_for(hookgate: CommandLine) -> None:
    with Terminal(hookgate.environ, "capabilities", "new", "skill", "rain") as terminal:
        terminal.expect("message: ")
        terminal.type("x" * 201)
        terminal.expect("expected at most 200")
        terminal.expect("message: ")
        terminal.type("will it rain")
        terminal.expect("message: ")
        terminal.type("")
        assert terminal.exit_code() == 0
    path = hookgate.home / ".hookgate" / "capabilities" / "rain" / "CAPABILITY.yaml"
    assert 'examples:\n- "will it rain"\n' in path.read_text()


def test_nothing_is_overwritten(hookgate: CommandLine) -> None:
    assert hookgate("capabilities", "new", "tool", "a").code == 0
    ran = hookgate("capabilities", "new", "tool", "a")
    assert ran.code == 1
    assert "nothing is overwritten" in ran.err


def test_all_problems_are_told_at_once_with_file_and_line(hookgate: CommandLine) -> None:
    path = bad_manifest(hookgate.home / "mine" / "a")
    ran = hookgate("capabilities", "validate", str(hookgate.home / "mine"))
    assert ran.code == 1
    assert f"error {path}:2:1  kind" in ran.out
    assert "expected one of tool, skill, extension, channel" in ran.out
    assert f"error {path}:4:1  tags" in ran.out
    assert f"warning {path}:5:1  notes" in ran.out
    data = hookgate("capabilities", "validate", str(path), "--json").json
    assert not data["ok"]
    assert [problem["line"] for problem in data["problems"]] == [2, 4, 5]


def test_without_a_path_all_folders_of_the_settings_are_checked(hookgate: CommandLine) -> None:
    path = bad_manifest(hookgate.home / "more" / "a")
    catalogue = hookgate.home / "gone.toml"
    hookgate.config(
        f'[plugin.discovery]\ndirs = ["{path.parent.parent}"]\ncatalogue = "{catalogue}"\n'
    )
    ran = hookgate("capabilities", "validate")
    assert ran.code == 1
    assert f"{path}:2" in ran.out
    assert f"{catalogue}" in ran.out


def test_wrong_usage_has_an_exit_code_of_its_own(hookgate: CommandLine) -> None:
    assert hookgate("capabilities", "validate", "/no/such/place").code == 2
    assert hookgate("capabilities", "new", "card", "a").code == 2
