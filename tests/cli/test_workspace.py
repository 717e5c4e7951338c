from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

SKILL = "---\nname: tea\ndescription: Brew tea.\n---\nBoil water.\n"


@pytest.fixture
def builtin_plugins() -> None:
    """All of them: what a workspace brings belongs to many."""


@pytest.fixture
def clone(hookgate: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned repository in which one stands."""
    skill = hookgate.home / "clone" / ".hookgate" / "capabilities" / "tea" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    monkeypatch.chdir(hookgate.home / "clone")
    return hookgate.home / "clone"


def skills(hookgate: CommandLine) -> set[str]:
    ran = hookgate("--local", "capabilities", "list", "--json")
    assert ran.code == 0, ran.err
    return {row["id"] for row in ran.json["capabilities"]} & {"skill:tea"}


@pytest.mark.slow
def test_a_workspace_counts_once_it_was_accepted_and_until_it_changes(
    hookgate: CommandLine, clone: Path
) -> None:
    assert skills(hookgate) == set()
    notice = hookgate("--local", "status", "--json").json["notices"]["workspace capabilities"]
    assert f"hookgate workspace accept {clone}" in notice
    shown = hookgate("workspace", "show", "--json").json
    assert shown["state"] == "new"
    assert shown["files"] == [".hookgate/capabilities/tea/SKILL.md"]
    wrong = hookgate("workspace", "accept", "--digest", "0" * 64)
    assert wrong.code == 1
    assert "look at it again" in wrong.err
    assert skills(hookgate) == set()
    ran = hookgate("workspace", "accept", str(clone), "--digest", shown["digest"])
    assert ran.code == 0
    assert "accepted" in ran.out
    assert skills(hookgate) == {"skill:tea"}
    (clone / ".hookgate" / "capabilities" / "tea" / "more.md").write_text("More.")
    assert skills(hookgate) == set()
    assert hookgate("workspace", "show", "--json").json["state"] == "changed"
    assert hookgate("workspace", "forget", "--json").json["state"] == "new"


def test_a_person_is_shown_the_files_and_asked(hookgate: CommandLine, clone: Path) -> None:
    refused = hookgate("workspace", "accept", stdin="n\n")
    assert refused.code == 1
    assert ".hookgate/capabilities/tea/SKILL.md" in refused.err
    assert hookgate("workspace", "show", "--json").json["state"] == "new"
    assert hookgate("workspace", "accept", stdin="y\n").code == 0
    assert hookgate("workspace", "show", "--json").json["state"] == "accepted"
