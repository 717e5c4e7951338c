from __future__ import annotations

import pytest
from tests.cli.conftest import CommandLine


@pytest.fixture
def builtin_plugins() -> None:
    """All of them."""


def test_a_first_settings_file_is_written_and_is_right(hookgate: CommandLine) -> None:
    ran = hookgate("init")
    path = hookgate.home / ".hookgate" / "config.toml"
    assert ran.code == 0
    assert f"wrote {path}" in ran.out
    assert "policy profile: balanced" in ran.out
    text = path.read_text(encoding="utf-8")
    assert 'profile = "balanced"' in text
    assert "# http_get" in text or "# clock" in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert hookgate("config", "check").code == 0


def test_nothing_is_overwritten(hookgate: CommandLine) -> None:
    assert hookgate("init").code == 0
    ran = hookgate("init")
    assert ran.code == 1
    assert "nothing is overwritten" in ran.err
    other = hookgate.home / "elsewhere" / "mine.toml"
    data = hookgate("init", str(other), "--json").json
    assert data["file"] == str(other)
    assert data["tools"] > 5
    assert hookgate("--config", str(other), "config", "check").code == 0


def test_a_place_that_cannot_be_written_is_told(hookgate: CommandLine) -> None:
    (hookgate.home / "file").write_text("")
    ran = hookgate("init", str(hookgate.home / "file" / "config.toml"))
    assert ran.code == 1
    assert "expected a folder that can be written" in ran.err
