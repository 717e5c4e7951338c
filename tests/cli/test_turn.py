from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Served

QUESTION = "what is 17*23, and what time is it?"


def names(data: Any) -> list[str]:
    return [row["name"] for row in data["rows"]]


def check_explained(out: str) -> None:
    """The waterfall names hooks, plugins, the model, the tools and their tokens, in order."""
    lines = out.splitlines()
    tool = next(number for number, line in enumerate(lines) if "▸ calculate" in line)
    model = next(number for number, line in enumerate(lines) if "● model" in line)
    judged = [number for number, line in enumerate(lines) if "before_tool_call" in line]
    assert model < judged[0] < tool
    decided = next(lines[number] for number in judged if "policy" in lines[number])
    assert "ALLOW" in decided
    assert lines[tool].rstrip().endswith("391")
    assert "tokens in" in lines[model]
    assert "done in" in out
    assert "model    2 calls" in out


@pytest.mark.slow
def test_a_turn_is_explained_end_to_end_in_a_process_of_its_own(hookgate: CommandLine) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hookgate", "turn", QUESTION, "--explain"],
        env=hookgate.environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "17*23 = 391" in done.stdout
    assert "▸ calculate" in done.stderr
    check_explained(done.stdout)


def test_a_turn_is_explained_by_the_gateway_that_runs(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    served = serve()
    ran = hookgate("turn", QUESTION, "--explain", "--peer", "ada")
    assert ran.code == 0
    check_explained(ran.out)
    assert served.gateway.host.hooks.spans is None
    (session,) = hookgate("sessions", "list", "--json").json["sessions"]
    assert session["session"] == "demo:cli:local:ada"


def test_the_waterfall_is_json_for_programs(hookgate: CommandLine) -> None:
    data = hookgate("turn", QUESTION, "--explain", "--json").json
    assert data["ending"] == "done"
    assert "391" in data["text"]
    assert data["usage"]["input_tokens"] == sum(c["input_tokens"] for c in data["model_calls"])
    assert len(data["model_calls"]) == 2
    assert data["context"][0]["budget"] == 5000
    rows = data["rows"]
    assert [row["at_ms"] for row in rows] == sorted(row["at_ms"] for row in rows)
    assert all(row["ms"] >= 0 for row in rows)
    tools = [row for row in rows if row["kind"] == "tool"]
    assert {row["name"] for row in tools} == {"calculate", "clock"}
    judged = [row for row in rows if row["name"] == "before_tool_call"]
    assert "policy" in {row["plugin"] for row in judged}
    assert max(row["at_ms"] for row in judged) <= min(row["at_ms"] for row in tools)
    assert data["milliseconds"] > 0


def test_without_explain_nothing_is_measured(hookgate: CommandLine) -> None:
    data = hookgate("turn", "hello", "--json").json
    assert data["rows"] == []
    assert data["model_calls"]


def test_hooks_that_had_nothing_to_say_can_be_left_out(hookgate: CommandLine) -> None:
    whole = hookgate("turn", QUESTION, "--explain").out
    brief = hookgate("turn", QUESTION, "--explain", "--quiet").out
    assert "nothing" in whole
    assert "nothing" not in brief
    assert "before_tool_call" in brief


def test_a_failed_turn_says_why_and_ends_with_1(hookgate: CommandLine) -> None:
    ran = hookgate("turn", "/fail auth", "--explain")
    assert ran.code == 1
    assert "failed in" in ran.out
    assert "error" in ran.out


def test_a_turn_of_its_own_has_a_session_of_its_own(hookgate: CommandLine) -> None:
    sessions = {hookgate("turn", "hello", "--json").json["session"] for _ in range(2)}
    assert len(sessions) == 2


def test_what_a_tool_returns_cannot_move_the_cursor(hookgate: CommandLine) -> None:
    ran = hookgate("turn", "/say \x1b[2J\x1b]0;title\x07 done", "--explain")
    assert "\x1b" not in ran.out + ran.err
    assert "\\x1b[2J" in ran.out


def test_a_question_is_denied_where_nobody_can_answer_it(hookgate: CommandLine) -> None:
    notes = hookgate.home / "notes"
    notes.mkdir()
    (notes / "notes.txt").write_text("hello")
    hookgate.config(f"[plugin.tools]\nread_roots = [{json.dumps(str(notes))}]\n"
                    'http_get = ["https://collector.example/*"]\n')  # fmt: skip
    text = '/call read_file {"path": "notes.txt"}\n/then\n'
    text += '/call http_get {"url": "https://collector.example/?x=1"}'
    ran = hookgate("turn", text)
    assert ran.code == 0
    said = " ".join(ran.err.split())
    assert "Denied: you are asked in a conversation alone" in said
    assert "`hookgate chat` without a message" in said
    assert "http_get: denied" in ran.err
