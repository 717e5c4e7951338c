"""The examples installed together, as packages of third parties, and what the operator says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# Both are built and installed.
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"

# The product is imported once, with nothing of third parties; each line of settings is then
# read in a process of its own, since what has been imported stays.
LIST_PLUGINS = """
import json, os, sys
from hookgate import Gateway, Settings
Gateway(Settings.model_validate({"plugins": {"entry_points": False}}))
assert not [name for name in sys.modules if name.startswith("hookgate_")]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        gateway = Gateway(Settings.model_validate(json.loads(line)))
        rows = {info.name + " " + info.origin: info.state for info in gateway.plugins.infos()}
        imported = [name for name in sys.modules if name.startswith("hookgate_")]
        print(json.dumps({"rows": rows, "imported": sorted(imported)}), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print("null", flush=True)
"""

BLOCKLIST = "blocklist hookgate-blocklist 0.1.0"
SECOND = "second_provider hookgate-second-provider 0.1.0"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which both examples are built and installed, without a network."""
    target = tmp_path_factory.mktemp("site")
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--disable-pip-version-check", "--target", str(target)),
        *(str(EXAMPLES / "blocklist"), str(EXAMPLES / "second_provider")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


Listed = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def plugins(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listed]:
    """Return what lists the plugins of a gateway with the given ``[plugins]`` settings."""
    home = tmp_path_factory.mktemp("home")
    with subprocess.Popen(
        [sys.executable, "-c", LIST_PLUGINS],
        env={**os.environ, "PYTHONPATH": str(site), "HOME": str(home)},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, listed = process.stdin, process.stdout

        def plugins(**options: Any) -> dict[str, Any]:
            print(json.dumps({"home": str(home), "plugins": options}), file=given, flush=True)
            found: dict[str, Any] | None = json.loads(listed.readline())
            assert found is not None, "the gateway was not made; standard error says why"
            return found

        yield plugins
        given.close()
        assert process.wait(60) == 0


def test_installed_plugins_run_beside_the_builtin_ones_and_replace_none(plugins: Listed) -> None:
    rows = plugins()["rows"]
    assert (rows[BLOCKLIST], rows[SECOND]) == ("running", "running")
    assert rows["providers builtin"] == "running"


def test_replacement_is_the_operators_line(plugins: Listed) -> None:
    rows = plugins(replace={"providers": "second_provider"})["rows"]
    assert rows["providers builtin"] == "replaced"
    assert rows["providers hookgate-second-provider 0.1.0"] == "running"


def test_what_the_operator_does_not_allow_is_not_even_imported(plugins: Listed) -> None:
    found = plugins(allow=["hookgate-blocklist==0.1.0"])
    assert (found["rows"][BLOCKLIST], found["rows"][SECOND]) == ("running", "disabled")
    assert found["imported"] == ["hookgate_blocklist"]


def test_other_version_than_the_allowed_one_is_not_imported(plugins: Listed) -> None:
    found = plugins(allow=["hookgate-blocklist==0.2"])
    assert found["rows"][BLOCKLIST] == "disabled"
    assert found["imported"] == []


def test_plugin_can_be_switched_off_by_name(plugins: Listed) -> None:
    rows = plugins(disable=["blocklist"])["rows"]
    assert rows[BLOCKLIST] == "disabled"
