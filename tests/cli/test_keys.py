from __future__ import annotations

import pytest
from tests.cli.conftest import CommandLine


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return ("control", "storage", "keys", "metering")


def test_a_key_is_made_listed_and_revoked_by_commands(hookgate: CommandLine) -> None:
    ran = hookgate("keys", "new", "--for", "claude-code", "--expires", "90d", "--usd", "5")
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:" in ran.out
    (line,) = [line for line in ran.out.splitlines() if "ANTHROPIC_AUTH_TOKEN" in line]
    assert line.startswith("export ANTHROPIC_AUTH_TOKEN=hgk_")
    made = hookgate(
        *("keys", "new", "ci", "--models", "a/*", "--models", "b/*", "--rpm", "60", "--json")
    ).json
    assert made["lines"] == []
    rows = {row["name"]: row for row in hookgate("keys", "list", "--json").json["keys"]}
    assert rows["ci"]["limits"] == {"models": ["a/*", "b/*"], "rpm": 60}
    assert rows["claude-code"]["limits"] == {"usd": "5"}
    shown = hookgate("keys", "list").out
    assert made["key"] not in shown
    changed = hookgate("keys", "change", "ci", "--rpm", "9", "--clear", "models", "--json").json
    assert changed["limits"] == {"rpm": 9}
    assert hookgate("keys", "rotate", "ci", "--json").json["key"] != made["key"]
    assert "ci is revoked" in hookgate("keys", "revoke", "ci").out
    assert "ci" not in hookgate("keys", "list", "--json").out
    assert '"revoked"' in hookgate("keys", "list", "--all", "--json").out


def test_a_key_that_cannot_be_is_named(hookgate: CommandLine) -> None:
    for words, told in (
        (["--for", "vim"], "claude-code"),
        (["--scopes", "admin"], "operate"),
        (["--usd", "five"], "usd"),
        (["--expires", "soon"], "90d"),
        (["Big"], "name"),
    ):
        ran = hookgate("keys", "new", *words)
        assert ran.code == 1
        assert told in ran.err, words
