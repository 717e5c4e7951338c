"""Empty lists say how they are filled, and full ones are tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import CommandLine, Served

EMPTY = {
    "schedules list": "[plugin.schedules.jobs.NAME]",
    "channels list": "[plugin.channels.NAME]",
    "channels dead": "nothing was given up",
    "approvals list": "hookgate policy table",
    "approvals grants": "hookgate approvals resolve allow-always ID",
    "turns list": "hookgate chat",
    "audit list": "each tool call leaves rows here",
    "examples list": "nothing was learned from use so far",
    "token list": "hookgate token new NAME",
    "budgets show": "hookgate budgets set NAME",
    "wasm list": "hookgate wasm install FOLDER",
}


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


def test_an_empty_list_says_how_it_is_filled(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    told = {words: hookgate(*words.split()) for words in EMPTY}
    assert {ran.code for ran in told.values()} == {0}
    missing = {
        words: told[words].out for words, said in EMPTY.items() if said not in told[words].out
    }
    assert missing == {}


def test_a_list_is_a_table_on_eighty_columns(
    hookgate: CommandLine, serve: Callable[[], Served]
) -> None:
    serve()
    hookgate("turn", "what is 2*3?", "--peer", "ann")
    for words, heads in {
        "audit list": "at kind tool outcome session",
        "cards list": "id whose priority router tags state why",
        "accept list": "kind name waits why by at",
        "capabilities list": "id kind category available",
        "turns list --limit 1": "id started session ending",
    }.items():
        lines = hookgate(*words.split(), COLUMNS="100").out.splitlines()
        assert " ".join(lines[1].split()) == heads
        assert max(map(len, lines)) <= 100


def test_the_help_has_all_groups_and_a_sentence_for_each(hookgate: CommandLine) -> None:
    told = hookgate("--help").out
    for group in ("schedules", "channels", "approvals", "wasm", "models", "providers", "init"):
        assert f" {group} " in told
    assert "Commands of" not in told
