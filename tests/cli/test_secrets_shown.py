"""What the command line prints holds no secret, with a gateway that runs and without one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.cli.conftest import CommandLine

SECRET = 'sk-quokka "1/2":0123456789'
COMMANDS = (
    ("chat", f"/say it is {SECRET} again"),
    ("chat", "--json", f"/say it is {SECRET} again"),
    ("chat", "/call calculate " + json.dumps({"expression": SECRET})),
    ("turn", "--explain", f"/say it is {SECRET} again"),
    ("turn", "--explain", "--json", f"/say it is {SECRET} again"),
    ("sessions", "list"),
    ("sessions", "show"),
    ("sessions", "show", "--json"),
    ("audit", "list"),
    ("audit", "list", "--json"),
    ("audit", "export"),
    ("status", "--json"),
    ("config", "show"),
    ("config", "show", "--json"),
    ("discover", f"what is {SECRET}?"),
    ("sessions", "show", SECRET),
    ("call", "session.history", "--params", json.dumps({"session": SECRET})),
    ("call", "chat.send", "--params", json.dumps({"content": f"/say {SECRET}", "peer": SECRET})),
    ("call", "no.such", "--params", json.dumps({"key": SECRET})),
)


@pytest.mark.parametrize("running", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_no_command_prints_a_secret(
    hookgate: CommandLine, serve: Callable[[], object], running: bool
) -> None:
    hookgate.config(f"[secrets]\nkey = {json.dumps(SECRET)}\n")
    if running:
        serve()
    printed = {}
    for words in COMMANDS:
        ran = hookgate(*words)
        printed[words] = f"{ran.out}\n{ran.err}"
    assert [words for words, text in printed.items() if "quokka" in text] == []
    assert "it is [redacted] again" in printed[COMMANDS[0]]
    assert "[redacted]" in printed["sessions", "show"]
