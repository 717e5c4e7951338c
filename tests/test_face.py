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


def test_every_name_of_the_face_is_there() -> None:
    assert hookgate.__all__
    assert [name for name in hookgate.__all__ if getattr(hookgate, name, None) is None] == []
    assert {*hookgate.__all__} <= {*dir(hookgate)}


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


def test_examples_import_from_the_face_what_the_face_has() -> None:
    wrong = {path: behind_the_face(path.read_text(encoding="utf-8")) for path in EXAMPLES}

    assert wrong
    assert {str(path): lines for path, lines in wrong.items() if lines} == {}


def test_the_documentation_imports_from_the_face_what_the_face_has() -> None:
    shown = {path: FENCE.findall(path.read_text(encoding="utf-8")) for path in PAGES}

    assert any(shown.values())
    assert [
        f"{path.relative_to(ROOT)}: {line}"
        for path, texts in shown.items()
        for text in texts
        if "import" in text
        for line in behind_the_face(text)
    ] == []
