"""Every command in the documents is one that the command line, or make, knows."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hookgate.builtin_plugins import BUILTIN
from hookgate.builtin_plugins.wasm.packages.manifest import parse_manifest
from hookgate.cli.app import app
from hookgate.core.plugins.manager import Plugins
from hookgate.core.settings.schema import Settings

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path
    for folder in (ROOT, ROOT / "docs", *(ROOT / "docs").glob("*/"), *(ROOT / "examples").glob("*"))
    for path in folder.glob("*.md")
)
TEXT = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}:{text[: match.start()].count(chr(10)) + 1}", match[1])
        for path, text in TEXT.items()
        for match in re.finditer(rf"```{language}\n(.*?)```", text, re.DOTALL)
    ]


def lines(program: str) -> list[tuple[str, list[str]]]:
    found = []
    for where, block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == program:
                found.append((where, words[1:]))
    return found


COMMANDS = lines("hookgate")
TARGETS = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


def test_there_are_commands_to_look_at() -> None:
    assert len(COMMANDS) > 10
    assert lines("make")


def brought_by_examples() -> set[tuple[str, ...]]:
    """Commands of packages that are not installed here; their own tests run them."""
    pages = (ROOT / "examples").glob("*/pyproject.toml")
    projects = [tomllib.loads(page.read_text(encoding="utf-8"))["project"] for page in pages]
    points = [project["entry-points"].get("hookgate.commands", {}) for project in projects]
    return {tuple(name.split(".")) for table in points for name in table}


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[" ".join(row[1]) for row in COMMANDS])
def test_a_command_is_known_with_its_options(
    where: str, words: list[str], runner: CliRunner
) -> None:
    if any(tuple(words[: len(one)]) == one for one in brought_by_examples()):
        pytest.skip("the command comes with an example")
    # Everything is parsed before `--help` is answered.
    done = runner.invoke(app, [*words, "--help"])

    assert done.exit_code == 0, f"{where}: {done.output}"
    assert "Usage:" in done.output


@pytest.mark.parametrize("words", [["nosuch"], ["plugins", "lst"], ["chat", "--pear", "x"]])
def test_a_command_that_is_not_known_would_be_found(words: list[str], runner: CliRunner) -> None:
    assert runner.invoke(app, [*words, "--help"]).exit_code == 2


@pytest.mark.parametrize(("where", "words"), lines("make"))
def test_a_make_target_exists(where: str, words: list[str]) -> None:
    assert words[0] in TARGETS, where


MANIFEST = re.compile(r"^module = ", re.MULTILINE)
SETTINGS = [
    (where, block)
    for where, block in blocks("toml")
    if not where.startswith("examples/") and "[project]" not in block and not MANIFEST.search(block)
]
MANIFESTS = [(where, block) for where, block in blocks("toml") if MANIFEST.search(block)]


@pytest.mark.parametrize(("where", "block"), SETTINGS, ids=[row[0] for row in SETTINGS])
def test_settings_in_the_documents_are_valid(
    where: str, block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = tomllib.loads(block)
    # An installed plugin of the page's own story is not installed here.
    plugins = data.pop("plugins", {})
    third_party = {
        name: section for name, section in data.get("plugin", {}).items() if name not in BUILTIN
    }
    for name in third_party:
        del data["plugin"][name]
    # A page may show one table of an agent without the others.
    for agent in data.get("agents", {}).values():
        agent.setdefault("model", "demo/demo")

    settings = Settings.model_validate({**data, "home": tmp_path / "home"})
    loaded = Plugins.load(settings, builtin=BUILTIN)

    assert {info.name for info in loaded.infos()} >= set(BUILTIN), where
    assert Settings.model_validate({"plugins": plugins}).plugins


@pytest.mark.parametrize(("where", "block"), MANIFESTS, ids=[row[0] for row in MANIFESTS])
def test_manifests_of_the_sandbox_in_the_documents_are_valid(where: str, block: str) -> None:
    assert parse_manifest(block, where).name


IMPORTS = re.compile(r"^from hookgate[\w.]* import (?:\([^)]*\)|[^(\n]+)$", re.MULTILINE)


def test_what_the_documents_import_is_there() -> None:
    found = [(where, line) for where, block in blocks("python") for line in IMPORTS.findall(block)]
    assert len(found) > 50
    for where, line in found:
        try:
            exec(line, {})
        except ImportError as missing:
            pytest.fail(f"{where}: {missing}")


def test_the_plugin_in_the_readme_is_accepted() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(code, names)
    settings = Settings.model_validate({"plugins": {"entry_points": False}})

    plugins = Plugins.load(settings, builtin=(), extra=[names["Plugin"]])

    assert [info.hooks for info in plugins.infos()] == [("before_tool_call",)]
