from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest
from tests.builtin_plugins.discovery.folders import problems, write

from hookgate.builtin_plugins.discovery.sources.collection import (
    installed_extensions,
    read_catalogue,
)
from hookgate.core.host import PluginInfo


def point(name: str, *, dist: str = "acme", version: str = "1.2", summary: str = "") -> EntryPoint:
    """Return an entry point of an installed distribution."""
    head = f"Metadata-Version: 2.1\nName: {dist}\nVersion: {version}\n"
    text = head + (f"Summary: {summary}\n" if summary else "")

    class Installed(Distribution):
        def read_text(self, filename: str) -> str | None:
            return text if filename == "METADATA" else None

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    found = EntryPoint(name, "acme.plugin", "hookgate")
    vars(found).update(dist=Installed())
    return found


def test_an_installed_plugin_is_available_where_it_runs() -> None:
    infos = [
        PluginInfo(name="runs", origin="acme 1.2"),
        PluginInfo(name="idle", origin="acme 1.2", state="disabled", reason="the settings say so"),
        PluginInfo(name="tools", origin="acme 1.2"),
    ]
    points = [
        point("runs", summary="Gives  you \x1b gifs."),
        point("idle"),
        point("own_tools"),
        point("elsewhere"),
    ]
    found, wrong = installed_extensions(infos, {"tools": "own_tools"}, points)
    assert wrong == []
    rows = {one.row.name: one.row for one in found}
    assert list(rows) == ["elsewhere", "idle", "own_tools", "runs"]
    assert rows["runs"].id == "extension:runs"
    assert rows["runs"].description == "Gives you gifs."
    assert rows["runs"].source_ref == "acme==1.2"
    assert {name for name, row in rows.items() if row.available} == {"runs", "own_tools"}
    whys = {one.row.name: one.why for one in found}
    assert whys["runs"] == ""
    assert whys["idle"] == "its plugin does not run: disabled, the settings say so"
    assert whys["elsewhere"] == "its plugin does not run"
    assert rows["idle"].description == "A plugin of the distribution acme."


def test_a_plugin_whose_name_cannot_be_shown_is_named() -> None:
    found, wrong = installed_extensions([], {}, [point("<system>")])
    assert found == []
    assert "'<system>'" in str(wrong[0])


TOML = """\
[[extensions]]
name = "giphy"
description = "Finds moving pictures."
category = "media"
tags = ["gif", "search"]
requiredSecrets = ["GIPHY_API_KEY"]

[[extensions]]
name = "soon"
description = "Not there yet."
available = false
"""

YAML = """\
extensions:
- name: giphy
  description: Finds moving pictures.
  category: media
  tags: [gif, search]
  required_secrets: [GIPHY_API_KEY]
- {name: soon, description: Not there yet., available: false}
"""


@pytest.mark.parametrize(("file", "text"), [("e.toml", TOML), ("e.yaml", YAML), ("e", YAML[12:])])
def test_a_catalogue_is_read_from_toml_and_yaml(tmp_path: Path, file: str, text: str) -> None:
    path = write(tmp_path / file, text)
    reading = read_catalogue(path)
    assert problems(reading) == []
    giphy, soon = (declared.row for declared in reading.found)
    assert (giphy.id, giphy.kind, giphy.category) == ("extension:giphy", "extension", "media")
    assert giphy.tags == ("gif", "search")
    assert giphy.required_secrets == ("GIPHY_API_KEY",)
    assert giphy.available
    assert not soon.available
    assert soon.category == "extension"
    assert soon.source_ref.startswith(f"{path}:")


def test_a_wrong_entry_is_named_with_its_line_and_the_others_stay(tmp_path: Path) -> None:
    text = TOML + '[[extensions]]\nname = "a b"\nsort = 1\n[[extensions]]\nname = "soon"\n'
    path = write(tmp_path / "e.toml", text + 'description = "Again."\n')
    reading = read_catalogue(path)
    assert [declared.row.name for declared in reading.found] == ["giphy", "soon"]
    found = "\n".join(problems(reading))
    assert f"{path}:14: `extensions[2].sort`: found a key that is not known, which" in found
    assert f'{path}:13: `extensions[2].name`: found the text "a b"' in found
    assert "`extensions[2].description`: found nothing" in found
    assert "each extension once" in found


@pytest.mark.parametrize(
    ("file", "text", "what"),
    [
        ("e.toml", "a = [", "no TOML value"),
        ("e.toml", "x = " + "[" * 5000, "brackets nested too deep"),
        ("e.toml", "extensions = 1", "a list of extensions"),
        ("e.toml", "", "a list of extensions"),
        ("e.yaml", "a", "a list of extensions"),
        ("e.yaml", "- a", "keys and values, with `name`, `description`"),
        ("e.yaml", "&a [b]", "an anchor"),
    ],
)
def test_a_catalogue_that_is_none_is_named(tmp_path: Path, file: str, text: str, what: str) -> None:
    reading = read_catalogue(write(tmp_path / file, text))
    assert reading.found == ()
    assert what in problems(reading)[0]


def test_a_missing_catalogue_is_named(tmp_path: Path) -> None:
    assert "no such file" in problems(read_catalogue(tmp_path / "gone.toml"))[0]
