from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import FEW, CommandLine

CLOCK = "native:native:global:global:tool:clock"


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return (*FEW, "awareness", "discovery", "inventory", "wasm")


@pytest.mark.slow
def test_what_there_is_is_listed_switched_and_shown(hookgate: CommandLine) -> None:
    listed = hookgate("inventory", "list", "--runtime", "native", "--kind", "tool", "--limit", "3")
    off = hookgate("inventory", "disable", CLOCK)
    shown = hookgate("inventory", "show", CLOCK)
    only = hookgate("inventory", "list", "--status", "disabled", "--json").json
    on = hookgate("inventory", "enable", CLOCK, "--json")

    assert listed.code == 0
    assert "native/calculate" in listed.out
    assert "the next ones: --after 'native:native:global:global:tool:clock'" in listed.out
    assert "sources" in listed.out
    for said in (off, shown):
        assert (said.code, "disabled" in said.out, "can be done" in said.out) == (0, True, True)
    assert [row["id"] for row in only["records"]] == [CLOCK]
    assert on.json["record"]["status"] == "ready"


def test_a_skill_is_installed_from_a_file(hookgate: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("Warm the pot first.")
    done = hookgate(
        "inventory", "install", "tea", "--content", f"@{tmp_path / 'SKILL.md'}", "--json"
    )
    wrong = hookgate("inventory", "install", "x", "--kind", "connector", "--env", "KEY")
    harm = hookgate("inventory", "install", "x", "--kind", "connector", "--command", "sh",
                    "--args=-c", "--env", "A=b")  # fmt: skip

    assert done.json["record"]["id"] == "native:native:global:global:skill:tea"
    gone = hookgate("inventory", "install", "x", "--content", f"@{tmp_path / 'gone'}")

    assert (wrong.code, gone.code) == (2, 2)
    assert "cannot be read" in gone.err
    assert "expected NAME=VALUE" in wrong.err
    assert harm.code == 1
    assert "command and args: a shell, which runs whatever its arguments say" in harm.err


def test_what_is_not_there_is_told(hookgate: CommandLine) -> None:
    ran = hookgate("inventory", "disable", "native:nothing")

    assert ran.code == 1
    assert "found 'native:nothing', which nothing in the inventory is called" in ran.err
    assert "did you mean" in ran.err
