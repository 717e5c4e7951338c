"""The files of the page: what is in them, and how much they weigh."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from benchmarks.weight import tabs
from tests.support.wire import serving

from hookgate.builtin_plugins import dashboard

STATIC = Path(dashboard.__file__).parent / "static"
OWN = sorted(path for path in STATIC.rglob("*.*") if "vendor" not in path.parts)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]


def name_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


def test_what_others_wrote_is_named_with_its_licence_and_digest() -> None:
    listed = json.loads((STATIC / "vendor" / "VENDORED.json").read_text("utf-8"))
    there = {path.name for path in (STATIC / "vendor").iterdir()} - {"VENDORED.json"}
    assert {one["file"] for one in listed} == there
    for one in listed:
        body = (STATIC / "vendor" / one["file"]).read_bytes()
        assert hashlib.sha256(body).hexdigest() == one["sha256"]
        assert one["license"] and one["version"]


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_a_script_is_short_and_makes_no_markup(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= 300
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text)
    assert not re.search(r"https?://(?!www\.w3\.org)[a-z]", text)


def imports(path: Path) -> set[Path]:
    """Return what a script loads at once, itself included."""
    named = re.findall(r'^import .*? from "(\..*?)";', path.read_text("utf-8"), re.M)
    return {path}.union(*(imports((path.parent / name).resolve()) for name in named))


def test_what_is_loaded_first_is_small() -> None:
    first = {STATIC / "page.css", STATIC / "index.html", *imports(STATIC / "page.js")}
    assert len(first) >= 10
    assert sum(len(gzip.compress(path.read_bytes())) for path in first) <= 60 * 1024


def test_all_of_it_is_small() -> None:
    packed = {path: len(gzip.compress(path.read_bytes())) for path in STATIC.rglob("*.*")}
    assert sum(packed.values()) <= 160 * 1024
    assert sum(path.read_text("utf-8").count("\n") for path in SCRIPTS) <= 4500


async def test_it_is_served_and_gone_where_it_is_off() -> None:
    from hookgate.builtin_plugins.dashboard.plugin import Plugin

    for plugins, status in (((Plugin(),), 200), ((), 404)):
        async with serving(*plugins) as served:
            for path in ("/ui", "/ui/"):
                async with served.http.get(served.url + path) as answer:
                    assert answer.status == status
                    assert ("<title>" in await answer.text()) == (status == 200)


def test_what_ten_tabs_are_weighed_with_is_what_a_tab_asks_for() -> None:
    followed: set[str] = set()
    for view in ("index", "home", "turns"):
        text = (STATIC / "views" / f"{view}.js").read_text("utf-8")
        for named in re.findall(r"(?:on: |TELLING = )\[(.*?)\]", text):
            followed |= set(json.loads(f"[{named}]"))
    assert set(tabs.TYPES) == followed
