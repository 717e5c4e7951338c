"""A question on the terminal: all that a person has to see before they answer."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from hookgate.cli.talk import print_question

QUESTION: dict[str, Any] = {
    "title": "May Bash run?",
    "description": "What it does: git push to origin.",
    "severity": "warning",
    "tool": "Bash",
    "plugin": "client",
    "flags": {"sends_externally": True},
    "arguments_text": '{"command": "git push origin"}',
}


def printed(**more: Any) -> str:
    out = io.StringIO()
    print_question(Console(file=out, width=100), {**QUESTION, **more})
    return out.getvalue()


def test_what_calls_like_it_have_in_common_is_shown_before_they_are_allowed() -> None:
    shown = printed(family={"program": "git push", "remote": "origin\x1b[2J"})
    assert "family: program git push, remote origin" in shown
    assert "\x1b" not in shown


def test_a_call_without_a_family_shows_none() -> None:
    assert "family" not in printed()
    assert "family" not in printed(family={})
