"""Commands that take in what an export of another home wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import FEW, CommandLine


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return (*FEW, "memory", "discovery", "embedding", "planning")


@pytest.fixture
def home(hookgate: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return hookgate


def written(name: str, rows: list[dict[str, Any]]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def note(number: int, **more: Any) -> dict[str, Any]:
    at = "2024-05-15T12:00:00+00:00"
    whose = {"speaker": "user", "provenance": "external_user", "taint": [], "confidence": 1}
    source = {"said": "m", "session": "", "turn": "", "at": at, **whose}
    return {
        **dict.fromkeys(("session", "turn", "subject", "subject_name", "relation", "value"), ""),
        **whose,
        "format": "hookgate-fact-1",
        "kind": "note",
        "scope": "session:main:cli:local:me",
        "learned": at,
        "sources": [source],
        "id": f"n{number}",
        "text": f"Invoice {number} is due",
        **more,
    }


def test_facts_and_notes_are_taken_in_and_what_was_said_is_left_out(home: CommandLine) -> None:
    said = {"kind": "turn", "format": "of a turn"}
    file = written("theirs.jsonl", [note(1), said, note(2)])
    assert home("memory", "import", file).out == "2 rows added, 0 known already\n"
    done = home("memory", "import", file, "--trusted", "--json").json
    assert done == {"new": 0, "known": 2}
    rows = [json.loads(line) for line in home("memory", "export").out.splitlines()]
    assert [row["taint"] for row in rows] == [["import:theirs.jsonl"]] * 2


def test_what_an_export_has_written_comes_in_whatever_stands_in_its_texts(
    home: CommandLine,
) -> None:
    file = written("theirs.jsonl", [note(1, text="one\u2028two\u2029three\x85four\x0cfive")])
    home("memory", "import", file, "--trusted")
    assert home("memory", "export", "--out", "mine.jsonl").code == 0
    content = Path("mine.jsonl").read_bytes()
    assert "\u2028" in content.decode()
    # As editors of some systems save it.
    Path("mine.jsonl").write_bytes(b"\xef\xbb\xbf" + content)
    assert home("memory", "import", "mine.jsonl").out == "0 rows added, 1 known already\n"


def test_all_rows_are_looked_at_before_any_is_taken_in(home: CommandLine) -> None:
    rows = [note(number) for number in range(620)]
    refused = home("memory", "import", written("x.jsonl", [*rows, {"format": "x"}]))
    assert refused.code == 1
    assert "row 621" in refused.err
    assert home("memory", "export").out == ""
    done = home("memory", "import", written("x.jsonl", rows), "--json").json
    assert done == {"new": 620, "known": 0}


def test_examples_of_another_home_are_taken_in(home: CommandLine) -> None:
    row = {"capability": "tool:calculate", "text": "what is 17*23?", "count": 2}
    file = written("examples.jsonl", [row])
    said = "1 example added, 0 known already, 0 left out\n"
    assert home("examples", "import", file, "--scope", "agent:demo").out == said
    (line,) = home("examples", "export").out.splitlines()
    assert json.loads(line) == row
    assert home("examples", "import", written("none.jsonl", []), "--json").json == {
        "new": 0,
        "known": 0,
        "left_out": 0,
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "expected a file that `hookgate WHAT export --out FILE` wrote"),
        ("{}\n[1]\n", "found list in line 2 of x.jsonl, expected an object"),
    ],
)
def test_a_file_that_is_no_export_is_refused(home: CommandLine, text: str, said: str) -> None:
    Path("x.jsonl").write_text(text)
    for what in ("memory", "examples"):
        refused = home(what, "import", "x.jsonl")
        assert (refused.code, said.replace("WHAT", what) in refused.err) == (1, True), refused.err


def test_a_file_has_to_be_named_and_there(home: CommandLine) -> None:
    assert "FILE" in home("memory", "import").err
    assert "none.jsonl" in home("examples", "import", "none.jsonl").err
