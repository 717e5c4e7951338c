from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hookgate.builtin_plugins.storage.settings import StorageSettings

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
