"""What plugin authors import: one place, complete, typed, and light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import hookgate

ROOT = Path(__file__).parent.parent
ROOMS = [
    path.stem
    for path in sorted((ROOT / "src" / "hookgate").glob("*.py"))
    if path.stem not in {"__init__", "__main__", "demo", "gateway", "hookspecs"}
]
FENCE = re.compile(r"```python\n(.*?)```", re.S)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("name", hookgate.__all__)
def test_every_name_of_the_face_is_there(name: str) -> None:
    assert getattr(hookgate, name) is not None
    assert name in dir(hookgate)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_names_what_is_there_and_says_what_it_is_for(room: str) -> None:
    module = import_module(f"hookgate.{room}")

    assert module.__doc__
    assert f"`hookgate.{room}`" in (hookgate.__doc__ or "")


def test_a_name_that_the_face_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Verdikt'"):
        _ = hookgate.Verdikt


def test_importing_the_face_loads_nothing_behind_it() -> None:
    code = "import sys, hookgate; print([m for m in sys.modules if m.startswith('hookgate.')])"

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"


def test_naming_what_plugins_mark_and_return_starts_no_server_and_no_database() -> None:
    code = (
        "import sys; from hookgate import Card, Flags, Refusal, Tool, Verdict, hookimpl;"
        "print([m for m in ('aiohttp', 'sqlalchemy', 'numpy', 'httpx') if m in sys.modules])"
    )

    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"


def behind_the_face(source: str) -> list[str]:
    """Names that `source` imports from behind the face although the face has them."""
    return [
        f"line {node.lineno}: {alias.name} from {node.module}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hookgate.")
        for alias in node.names
        if alias.name in hookgate.__all__
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_from_the_face_what_the_face_has(path: Path) -> None:
    assert behind_the_face(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_documentation_imports_from_the_face_what_the_face_has(path: Path) -> None:
    shown = FENCE.findall(path.read_text(encoding="utf-8"))

    assert [line for text in shown if "import" in text for line in behind_the_face(text)] == []
