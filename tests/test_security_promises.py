"""SECURITY.md promises nothing that no test holds."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PROMISED = TEXT.partition("## What is promised")[2].partition("## What is not promised")[0]
ROWS = [
    line.split("|")[1:3]
    for line in PROMISED.splitlines()
    if line.startswith("|") and not line.startswith(("| promise", "|---"))
]


def test_a_promise_names_tests_that_exist() -> None:
    assert ROWS
    named = {promise.strip(): TEST.findall(held_by) for promise, held_by in ROWS}

    assert [promise for promise, tests in named.items() if not tests] == []
    assert [
        f"{path}::{name} of: {promise}"
        for promise, tests in named.items()
        for path, name in tests
        if name not in functions(path)
    ] == []


@cache
def functions(path: str) -> set[str]:
    """The names of all functions in a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return set(re.findall(r"^ *(?:async )?def (\w+)\(", text, re.MULTILINE))


def test_what_is_not_promised_is_said_too() -> None:
    assert "Python plugins are trusted code" in TEXT.partition("## What is not promised")[2]
