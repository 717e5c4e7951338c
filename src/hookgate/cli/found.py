"""Where the gateway of a home folder runs: it leaves a note, since its port may be any."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hookgate.core.config_file import Source

__all__ = ["Running", "address", "leave_note", "placed_problems", "running_gateway"]

NOTE = "gateway.json"

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that runs.

    Attributes:
        pid: Its process.
        url: Where it listens.
    """

    pid: int
    url: str


def address(host: str, port: int) -> str:
    """Return the URL by which a gateway that listens on `host` is reached from this machine."""
    host = _ANY.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def running_gateway(home: Path) -> Running | None:
    """Return the gateway that runs in the folder `home`, or None where none does."""
    path = home / NOTE
    try:
        # A token is shown to whom the note names, so it must be our own.
        if path.stat().st_uid not in (os.geteuid(), 0):
            return None
        said = json.loads(path.read_text("utf-8"))
        running = Running(int(said["pid"]), str(said["url"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        os.kill(running.pid, 0)
    except PermissionError:
        return running  # It lives, and is another user's.
    except OSError:
        return None  # It was killed, and could not take its note away.
    return running


@contextmanager
def leave_note(home: Path, url: str) -> Iterator[None]:
    """Say for the length of a ``with`` block where this process's gateway listens."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = home / NOTE
    fresh = home / f".{NOTE}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump({"pid": os.getpid(), "url": url}, file)
    fresh.replace(path)
    try:
        yield
    finally:
        # A gateway that was started after this one has left its own.
        running = running_gateway(home)
        if running is not None and running.pid == os.getpid():
            with suppress(OSError):
                path.unlink()


@contextmanager
def placed_problems(source: Source) -> Iterator[None]:
    """Give file and line to the problems that plugins find within a ``with`` block."""
    from hookgate.core.config_file import complete_problems

    try:
        yield
    except ConfigError as error:
        raise ConfigError(complete_problems(error.problems, source)) from error
