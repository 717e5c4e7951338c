"""The examples installed together, as packages of third parties, and what the operator says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

LIST_PLUGINS = """
import json, sys
from hookgate import Gateway, Settings
gateway = Gateway(Settings.model_validate(json.loads(sys.argv[1])))
rows = {info.name + " " + info.origin: info.state for info in gateway.plugins.infos()}
imported = [name for name in sys.modules if name.startswith("hookgate_")]
print(json.dumps({"rows": rows, "imported": sorted(imported)}))
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


def plugins(site: Path, home: Path, **options: Any) -> dict[str, Any]:
    settings = json.dumps({"home": str(home), "plugins": options})
    done = subprocess.run(
        [sys.executable, "-c", LIST_PLUGINS, settings],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_installed_plugins_run_beside_the_builtin_ones_and_replace_none(
    site: Path, tmp_path: Path
) -> None:
    rows = plugins(site, tmp_path)["rows"]
    assert (rows[BLOCKLIST], rows[SECOND]) == ("running", "running")
    assert rows["providers builtin"] == "running"


def test_replacement_is_the_operators_line(site: Path, tmp_path: Path) -> None:
    rows = plugins(site, tmp_path, replace={"providers": "second_provider"})["rows"]
    assert rows["providers builtin"] == "replaced"
    assert rows["providers hookgate-second-provider 0.1.0"] == "running"


def test_what_the_operator_does_not_allow_is_not_even_imported(site: Path, tmp_path: Path) -> None:
    found = plugins(site, tmp_path, allow=["hookgate-blocklist==0.1.0"])
    assert (found["rows"][BLOCKLIST], found["rows"][SECOND]) == ("running", "disabled")
    assert found["imported"] == ["hookgate_blocklist"]


def test_other_version_than_the_allowed_one_is_not_imported(site: Path, tmp_path: Path) -> None:
    found = plugins(site, tmp_path, allow=["hookgate-blocklist==0.2"])
    assert found["rows"][BLOCKLIST] == "disabled"
    assert found["imported"] == []


def test_plugin_can_be_switched_off_by_name(site: Path, tmp_path: Path) -> None:
    rows = plugins(site, tmp_path, disable=["blocklist"])["rows"]
    assert rows[BLOCKLIST] == "disabled"
