from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.turns import make_host

from hookgate.builtin_plugins.storage.plugin import Plugin
from hookgate.builtin_plugins.storage.settings import StorageSettings
from hookgate.core.domain.errors import ConfigError

HOME = Path("/home/somebody/.hookgate")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ({}, "/home/somebody/.hookgate/hookgate.db"),
        ({"path": "data/h.db"}, "/home/somebody/.hookgate/data/h.db"),
        ({"path": "/var/lib/h.db"}, "/var/lib/h.db"),
    ],
)
def test_a_relative_path_starts_at_home(path: dict[str, str], expected: str) -> None:
    assert StorageSettings(**path).database(HOME) == Path(expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"url": "mysql://host/db"}, "begins with postgresql"),
        ({"url": "sqlite:///x.db"}, "set `path` instead"),
        ({"url": "postgresql://host/db", "path": "x.db"}, "either `path` .* or `url`"),
        ({"url": "postgresql://host/db", "url_file": "/run/url"}, "either `url` or `url_file`"),
        ({"url_file": "/run/url", "path": "x.db"}, "either `path` .* or `url`"),
        ({"queue": 0}, "greater than or equal to 1"),
        ({"fallback": "maybe"}, "'ephemeral' or 'refuse'"),
        ({"pth": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_meant_is_refused(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        StorageSettings(**section)


def test_a_password_in_the_url_does_not_show() -> None:
    settings = StorageSettings(url="postgresql://me:hush@host/db")  # type: ignore[arg-type]
    assert "hush" not in repr(settings)


def test_the_url_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("postgresql://me:hush@host/db\n")
    file.chmod(0o600)
    settings = StorageSettings(url_file=file)
    assert settings.shared
    assert settings.address() == "postgresql://me:hush@host/db"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file or directory in .*url, expected a file with mode 0600"),
        ("", "nothing in .*url, expected one line that begins with postgresql"),
        ("mysql://me:hush@host/db", "no URL of a PostgreSQL database in .*url"),
    ],
)
async def test_a_file_without_a_url_stops_the_start_and_names_the_key_to_change(
    tmp_path: Path, text: str | None, says: str
) -> None:
    file = tmp_path / "url"
    if text is not None:
        file.write_text(text)
        file.chmod(0o600)
    plugin = Plugin(StorageSettings(url_file=file))
    (problem,) = plugin.check_settings()
    assert problem.key == "plugin.storage.url_file"
    with pytest.raises(ConfigError, match=says) as told:
        async with plugin.lifespan(make_host(tmp_path)):
            pass
    assert "hush" not in str(told.value)
