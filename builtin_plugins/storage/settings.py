"""The settings of the store: ``[plugin.storage]``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from hookgate import ConfigError, Problem, Section
from hookgate.settings import HomePath, read_key_file

DATABASE_NAME = "hookgate.db"
POSTGRES = ("postgresql+asyncpg://", "postgresql://", "postgres://")


class StorageSettings(Section):
    """``[plugin.storage]``: where the store is, and how it behaves."""

    path: HomePath = Path(DATABASE_NAME)
    """The SQLite file; a relative path starts at `home`. Local disks only, no network share."""
    url: SecretStr | None = None
    """A PostgreSQL database instead: `postgresql+asyncpg://user:password@host/database`."""
    url_file: Path | None = None
    """A file, mode 0600 or a mounted secret, that holds such a URL."""
    auto_upgrade: bool = True
    """Whether a start upgrades the tables; `false` refuses to start until `hookgate db upgrade`."""
    fallback: Literal["ephemeral", "refuse"] = "ephemeral"
    """What a start does when the database is damaged or gone: run in memory, or stop."""
    queue: int = Field(default=16_384, ge=1, le=1_000_000)
    """Writes that may wait at once; who comes later waits until there is room."""
    group_rows: int = Field(default=4096, ge=1, le=1_000_000)
    """The most rows that one commit takes together."""
    readers: int = Field(default=4, ge=1, le=64)
    """Threads that read."""
    lane_seconds: float = Field(default=60.0, gt=0, le=3600)
    """How long a turn waits while its session has one at another gateway (PostgreSQL)."""
    busy_seconds: float = Field(default=5.0, ge=0, le=600)
    """How long a write waits for another program that holds the SQLite file."""
    check_mb: int = Field(default=128, ge=0)
    """Files up to this size, in MiB, are checked page by page at start."""

    @field_validator("url")
    @classmethod
    def _is_postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(POSTGRES):
            raise ValueError(
                "expected a URL that begins with postgresql+asyncpg:// "
                "(for a SQLite file, set `path` instead)"
            )
        return url

    @model_validator(mode="after")
    def _one_place(self) -> StorageSettings:
        if self.url is not None and self.url_file is not None:
            raise ValueError("expected either `url` or `url_file`, and not both")
        if self.shared and "path" in self.model_fields_set:
            raise ValueError("expected either `path` (SQLite) or `url` (PostgreSQL), and not both")
        return self

    @property
    def shared(self) -> bool:
        """Whether it is a database of PostgreSQL's, and no file."""
        return self.url is not None or self.url_file is not None

    def address(self) -> str | None:
        """Return the URL of the database; None where it is SQLite's file. Reads `url_file`.

        Raises:
            ConfigError: The file is not safe to use or cannot be read, or holds no such URL.
        """
        if self.url_file is None:
            return None if self.url is None else self.url.get_secret_value()
        try:
            text = read_key_file(self.url_file) or ""
        except ConfigError as error:
            (problem,) = error.problems
            raise self._unread(problem.found, problem.expected) from None
        if not text.startswith(POSTGRES):
            found = "no URL of a PostgreSQL database" if text else "nothing"
            raise self._unread(found, "one line that begins with postgresql+asyncpg://")
        return text

    def _unread(self, found: str, expected: str) -> ConfigError:
        key = "plugin.storage.url_file"
        return ConfigError(
            [Problem(key=key, found=f"{found} in {self.url_file}", expected=expected)]
        )

    def database(self, home: Path) -> Path:
        """Return the SQLite file of a gateway whose home is `home`."""
        return (home.expanduser() / self.path).absolute()
