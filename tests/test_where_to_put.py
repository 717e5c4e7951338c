"""What is often added is added in few places, and `docs/where-to-put.md` leads to all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest
from benchmarks.weight.source import weighed

from hookgate import Effect, Usage
from hookgate.builtin_plugins.channels.settings import Kind

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "where-to-put.md").read_text(encoding="utf-8")
PRODUCT = sorted(
    path
    for folder in ("core", "builtin_plugins", "src")
    for path in (ROOT / folder).rglob("*.py")
    if not path.is_relative_to(ROOT / "src" / "hookgate" / "core")
    and not path.is_relative_to(ROOT / "src" / "hookgate" / "builtin_plugins")
)
TEXTS = {path: path.read_text(encoding="utf-8") for path in PRODUCT}

COUNT, VERDICT, KIND = 4, 5, 3
"""So many files of the product a new one of each is written in at most."""


def row(start: str) -> str:
    """Return the row of the page that begins with `start`."""
    [found] = [line for line in PAGE.splitlines() if line.startswith(f"| {start}")]
    return found


def missed(found: list[str], row: str) -> list[str]:
    """Return the files that `row` leads to neither by name nor by folder."""
    places = re.findall(r"`((?:core|builtin_plugins|src)/[\w/.]+)`", row)
    return [
        path
        for path in found
        if not any(path == one or (one.endswith("/") and path.startswith(one)) for one in places)
    ]


def files_with(*words: str) -> list[Path]:
    """Return the files of the product that have all of `words` in them, in whatever case."""
    return [path for path in PRODUCT if all(word in TEXTS[path].lower() for word in words)]


def shown(found: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in found]


@pytest.mark.parametrize("count", sorted(Usage.MEDIA))
def test_a_count_of_usage_is_named_in_four_files(count: str) -> None:
    word = re.compile(rf"\b{count.removesuffix('_tokens')}(_tokens)?\b")
    found = shown([path for path in PRODUCT if word.search(TEXTS[path])])
    assert len(found) <= COUNT, found
    assert missed(found, row("another count of tokens")) == []


def effects(node: ast.AST) -> set[str]:
    """Return the verdicts that are told apart within one list, type, table or match."""
    if not isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict | ast.Match | ast.ClassDef):
        return set()
    if isinstance(node, ast.ClassDef):
        parts = [one.targets[0] for one in node.body if isinstance(one, ast.Assign)]
        return {part.id.lower() for part in parts if isinstance(part, ast.Name)}
    return {
        part.value if isinstance(part, ast.Constant) else part.attr.lower()
        for part in ast.walk(node)
        if (isinstance(part, ast.Constant) and isinstance(part.value, str))
        or (isinstance(part, ast.Attribute) and ast.unparse(part.value) == "Effect")
    }


def test_verdicts_are_told_apart_in_five_files() -> None:
    words = {effect.word for effect in Effect}
    found = shown(
        [
            path
            for path in files_with(*words)
            if any(words <= effects(node) for node in ast.walk(ast.parse(TEXTS[path])))
        ]
    )
    assert len(found) <= VERDICT, found
    assert missed(found, row("another verdict")) == []


@pytest.mark.parametrize("kind", sorted({*get_args(Kind)} - {"json"}))
def test_a_kind_of_channel_is_named_in_three_files(kind: str) -> None:
    found = shown(
        [
            path
            for path in files_with(kind)
            if path.stem == kind
            or any(
                isinstance(node, ast.Constant) and node.value == kind
                for node in ast.walk(ast.parse(TEXTS[path]))
            )
        ]
    )
    assert len(found) <= KIND, found
    assert missed(found, row("another kind of channel")) == []


LINES = 4000
"""Lines of code above which a plugin says on its page why."""
LARGER = ("compat", "discovery", "memory", "metering", "policy", "providers", "wasm")


@pytest.mark.parametrize("name", LARGER)
def test_a_large_plugin_says_on_its_page_why_it_is(name: str) -> None:
    page = (ROOT / "docs" / "plugins" / f"{name}.md").read_text(encoding="utf-8")
    assert "It has more than 4,000 lines of code, since " in page


@pytest.mark.slow
def test_no_other_plugin_is_large() -> None:
    for folder in sorted((ROOT / "builtin_plugins").iterdir()):
        mine = [path for path in PRODUCT if path.is_relative_to(folder)]
        # Of all lines some are no code, so few plugins are to be counted.
        if folder.name not in LARGER and sum(TEXTS[path].count("\n") for path in mine) > LINES:
            assert sum(weighed(path).code for path in mine) <= LINES, folder.name
