"""`hookgate plugins new`: what it writes works as it is."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine
from tests.support.loading import load
from tests.support.types import checked

from hookgate.cli.commands.plugins import PluginKind, package

ROOT = Path(__file__).parents[2]
KINDS = pytest.mark.parametrize("kind", list(PluginKind), ids=str)


def run(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(cwd)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


HOOKS = {
    PluginKind.RULE: "before_tool_call",
    PluginKind.TOOL: "list_tools",
    PluginKind.PROVIDER: "list_providers",
    PluginKind.CARDS: "list_cards",
}


@KINDS
def test_a_new_plugin_loads_with_the_hook_of_its_kind(kind: PluginKind, tmp_path: Path) -> None:
    package("acme_new", tmp_path / "made", kind)

    made = runpy.run_path(str(tmp_path / "made" / "hookgate_acme_new.py"), run_name="acme_new")

    assert HOOKS[kind] in load(made["Plugin"]).infos()[0].hooks


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a new package of each kind."""
    folder = tmp_path_factory.mktemp("packages")
    for kind in PluginKind:
        name = f"acme_{kind[:3]}"
        package(name, folder / name, kind)
    return folder


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_the_tests_of_new_packages_pass(packages: Path) -> None:
    # One process for all: what takes long is to import hookgate.
    folders = sorted(packages.iterdir())
    config = folders[0] / "pyproject.toml"

    done = run("pytest", "-q", "-p", "no:cacheprovider", "-c", config, *folders, cwd=packages)

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{2 * len(PluginKind)} passed" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_new_packages_pass_mypy_and_ruff(packages: Path) -> None:
    types = checked(sorted(packages.glob("*/hookgate_*.py")))
    lint = run("ruff", "check", ".", cwd=packages)
    form = run("ruff", "format", "--check", ".", "--line-length", "100", cwd=packages)

    assert types.returncode == 0, types.stdout
    assert f"in {len(PluginKind)} source files" in types.stdout
    assert lint.returncode == 0, lint.stdout
    assert form.returncode == 0, form.stdout


def test_the_command_says_what_it_wrote_and_what_comes_next(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    ran = hookgate("plugins", "new", "acme_words", str(tmp_path / "made"), "--tool")

    assert ran.code == 0
    assert "pip install -e" in ran.out
    assert "def count_words" in (tmp_path / "made" / "hookgate_acme_words.py").read_text()
    assert (
        "python-version: ${{ matrix.python }}"
        in (tmp_path / "made" / ".github" / "workflows" / "test.yml").read_text()
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Acme", "expected 2 to 41 small letters"),
        ("acme-rules", "expected 2 to 41 small letters"),
        ("acme_", "end with no underscore"),
        ("../acme", "expected 2 to 41 small letters"),
        ("class", "expected 2 to 41 small letters"),
        ("policy", 'replace = { policy = "acme_policy" }'),
    ],
)
def test_a_name_that_cannot_be_a_plugins_is_refused(
    name: str, said: str, hookgate: CommandLine, tmp_path: Path
) -> None:
    ran = hookgate("plugins", "new", name, str(tmp_path / "made"))

    assert ran.code == 1
    assert said in ran.err
    assert not (tmp_path / "made").exists()


def test_nothing_is_overwritten(hookgate: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    ran = hookgate("plugins", "new", "acme_rules", str(tmp_path))

    assert ran.code == 1
    assert "nothing is overwritten" in ran.err
    assert [path.name for path in tmp_path.glob("*.py")] == []


def test_two_kinds_at_once_are_refused(hookgate: CommandLine, tmp_path: Path) -> None:
    ran = hookgate("plugins", "new", "acme", str(tmp_path / "made"), "--tool", "--cards")

    assert ran.code == 2
    assert "more than one" in ran.err


def test_a_tool_begins_with_the_messages_that_ask_for_it(
    hookgate: CommandLine, tmp_path: Path
) -> None:
    words = ("plugins", "new", "acme_words", str(tmp_path / "made"))
    ran = hookgate(*words, "--tool", "--example", 'say "hi"', "--example", "how long is it")
    assert ran.code == 0
    text = (tmp_path / "made" / "hookgate_acme_words.py").read_text()
    assert '    "say \\"hi\\"",\n    "how long is it",\n' in text
    ran = hookgate(*words[:2], "acme_rules", str(tmp_path / "other"), "--example", "hi")
    assert ran.code != 0
    assert "--tool" in ran.err
    assert not (tmp_path / "other").exists()
