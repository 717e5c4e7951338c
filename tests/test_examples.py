"""Every example is installed as a third party's package would be, and its tests are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.support.types import checked

from hookgate import hookspecs
from hookgate.core.domain.errors import PluginError
from hookgate.core.plugins.manager import Plugins
from hookgate.core.settings.schema import PluginsSettings, Settings

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))
WRITING = (ROOT / "docs" / "writing-plugins.md").read_text(encoding="utf-8")
REFUSED = re.findall(
    r"```python\n(.*?)```\n\n```text\n(.*?)```",
    WRITING.partition("## When hookgate refuses a plugin")[2],
    re.DOTALL,
)

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def installed(example: Path, target: Path) -> Path:
    done = run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--disable-pip-version-check", "--target", target, example),
        cwd=target.parent,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.slow
@pytest.mark.timeout(240)
@each_example
def test_an_example_is_found_by_its_entry_point_and_passes_its_tests(
    example: Path, tmp_path: Path
) -> None:
    where = installed(example, tmp_path / "site")

    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    done = run(*command, example, cwd=tmp_path, PYTHONPATH=str(where))

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_examples_pass_mypy() -> None:
    done = checked(sorted(path for example in EXAMPLES for path in example.glob("hookgate_*")))

    assert done.returncode == 0, done.stdout


@each_example
def test_the_tools_of_an_example_are_installed_by_the_pip_that_python_brings(
    example: Path,
) -> None:
    # Dependency groups need pip 25.1; Python 3.11 brings 23.2.
    declared = tomllib.loads((example / "pyproject.toml").read_text(encoding="utf-8"))

    assert "pytest" in declared["project"]["optional-dependencies"]["dev"]
    assert "dependency-groups" not in declared
    assert "--group" not in WRITING


def test_the_guide_shows_the_example_as_it_is() -> None:
    example = ROOT / "examples" / "quiet-hours"
    shown = [part.partition("\n")[2] for part in WRITING.split("```") if "\n" in part]
    test = (example / "test_quiet_hours.py").read_text(encoding="utf-8")

    assert (example / "pyproject.toml").read_text(encoding="utf-8") in shown
    assert (example / "hookgate_quiet_hours.py").read_text(encoding="utf-8") in shown
    assert any(part.startswith("class FixedClock") and part.strip() in test for part in shown)


@pytest.mark.parametrize(("code", "said"), REFUSED, ids=range(len(REFUSED)))
def test_the_guide_says_word_for_word_why_a_plugin_is_refused(code: str, said: str) -> None:
    names: dict[str, Any] = {"hookimpl": hookspecs.hookimpl, "blocking": hookspecs.blocking}
    exec("class Plugin:\n    name = 'acme'\n" + textwrap.indent(code, "    "), names)
    settings = Settings(plugins=PluginsSettings(entry_points=False))

    with pytest.raises(PluginError) as refusal:
        Plugins.load(settings, builtin=(), extra=[names["Plugin"]])

    assert str(refusal.value).split() == said.split()


def test_the_guide_has_all_its_refusals_tested() -> None:
    assert len(REFUSED) == WRITING.count("```text")
