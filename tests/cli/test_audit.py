from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from functools import cache
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine


@cache
def made_once() -> Path:
    """Have a gateway record some calls, once; return its home."""
    hookgate = CommandLine(Path(tempfile.mkdtemp()))
    for text in ("what is 17*23?", "what time is it?"):
        assert hookgate("chat", text).code == 0
    return hookgate.home / ".hookgate"


def recorded(hookgate: CommandLine) -> Path:
    """Leave a record of some calls; return the store."""
    home = shutil.copytree(made_once(), hookgate.home / ".hookgate")
    return Path(home) / "hookgate.db"


@pytest.mark.slow
def test_the_record_is_verified_and_an_export_says_more(hookgate: CommandLine) -> None:
    store = recorded(hookgate)
    checked = hookgate("audit", "verify")
    assert (checked.code, checked.out) == (0, "ok 4 rows\n")
    out = hookgate.home / "export.jsonl"
    assert "wrote 4 rows" in hookgate("audit", "export", "--out", str(out)).out
    *rows, heads = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["kind"] for row in rows] == ["tool_decided", "tool_finished"] * 2
    assert len(heads["heads"]) == 2
    printed = hookgate("audit", "export", "--out", "-").out
    assert printed.splitlines()[: len(rows)] == out.read_text(encoding="utf-8").splitlines()[:-1]
    assert hookgate("audit", "verify", "--head", str(out)).code == 0

    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM audit_entry WHERE chain = ?", (rows[-1]["chain"],))
    assert hookgate("audit", "verify").code == 1
    (store.parent / "audit.head").unlink()
    assert hookgate("audit", "verify").code == 0
    checked = hookgate("audit", "verify", "--head", str(out))
    assert checked.code == 1
    assert "the exported head names it, and it is gone" in checked.out


def test_a_row_that_was_changed_is_named(hookgate: CommandLine) -> None:
    store = recorded(hookgate)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE audit_entry SET outcome = 'deny' WHERE seq = 2")
    checked = hookgate("audit", "verify")
    assert checked.code == 1
    assert "/2: its seal does not fit" in checked.out
    assert hookgate("audit", "verify", "--json").json["ok"] is False


def test_a_file_that_is_no_export_is_refused(hookgate: CommandLine) -> None:
    path = hookgate.home / "notes.txt"
    for text in ("", "hello", '{"heads": 3}', "[]"):
        path.write_text(text, encoding="utf-8")
        checked = hookgate("audit", "verify", "--head", str(path))
        assert checked.code == 1
        assert "expected" in checked.err
    assert hookgate("audit", "verify", "--head", str(hookgate.home / "gone")).code == 1
