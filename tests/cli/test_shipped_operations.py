"""The help of commands that operations bring is known without a gateway, while nobody adds any."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.commands_table import text
from tests.support.examples import sampled
from typer.testing import CliRunner

from hookgate.cli import operation_commands
from hookgate.cli.app import app


def test_the_file_is_what_a_gateway_says() -> None:
    assert operation_commands.SHIPPED.read_text(encoding="utf-8") == text(), "run `make docs`"


@pytest.mark.parametrize("words", [["cards", "--help"], ["token", "revoke", "--help"]])
def test_help_starts_no_gateway(words: list[str], runner: CliRunner, started: list[str]) -> None:
    done = runner.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert {"cards": "cards a message would", "token": "Revoke"}[words[0]] in done.output, (
        done.output
    )
    assert started == []


def test_a_plugin_that_is_off_brings_no_commands(runner: CliRunner, started: list[str]) -> None:
    done = runner.invoke(app, ["-p", "no:control", "token", "--help"])
    assert "Revoke an access token" not in done.output
    assert started == []


def test_where_a_builtin_is_replaced_its_commands_are_its_successors(
    runner: CliRunner, started: list[str], tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('[plugins]\nreplace = { memory = "nobody" }\n')
    refused = runner.invoke(app, ["memory", "search", "--help"])
    others = runner.invoke(app, ["cards", "--help"])
    assert (refused.exit_code, "switched off or replaced" in refused.output) == (1, True)
    assert (others.exit_code, "cards a message would" in others.output) == (0, True)
    assert started == []


@pytest.mark.parametrize(
    "held", sampled([None, b"", b"[{", b"{}", b'[{"plugin": "control"}]', b"\xff"])
)
def test_where_the_file_is_missing_or_damaged_a_gateway_is_asked(
    held: bytes | None,
    runner: CliRunner,
    started: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "operations.json"
    if held is not None:
        path.write_bytes(held)
    monkeypatch.setattr(operation_commands, "SHIPPED", path)
    done = runner.invoke(app, ["token", "revoke", "--help"])
    assert (done.exit_code, "Revoke" in done.output) == (0, True), done.output
    assert started
