"""What a gateway loads before it is ready, and where it loads the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

UNUSED = (
    "alembic",
    "asyncpg",
    "cel_expr_python",
    "httpx",
    "packaging.requirements",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.ext.asyncio",
    "wasmtime",
)
"""Nothing that a gateway does without settings needs one of these."""

ASIDE = ("faiss", "genai_prices", "numpy", "onnxruntime", "tokenizers")
"""These take so long to import that the event loop would be held."""

START = """
import asyncio, json, sys, threading
from pathlib import Path

unused, aside = map(set, json.loads(sys.argv[1]))
held = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in unused | aside and threading.current_thread() is threading.main_thread():
            held.append(name)

sys.meta_path.insert(0, Watch())

async def main():
    from hookgate import Settings
    from hookgate.gateway import Gateway

    settings = Settings.model_validate({"home": sys.argv[2], "plugins": {"entry_points": False}})
    async with Gateway(settings) as gateway:
        at_start = sorted(unused & set(sys.modules))
        turns = [await gateway.chat(text) for text in ("what is 17*23?", "I live in Oslo.")]
        print(json.dumps([at_start, held, [turn.answer for turn in turns]]))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_start_loads_what_it_needs_and_turns_load_nothing_on_the_event_loop(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, json.dumps([UNUSED, ASIDE]), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at_start, held, answers = json.loads(done.stdout)
    assert at_start == []
    assert held == []
    assert "391" in answers[0]
