"""Where the gateway of a home folder runs: it leaves a note, since its port may be any.

The note also holds the key by which the gateway proves itself
(`hookgate.core.gateway.access.peer`), so it is for its owner alone, and nobody else's is believed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import ConfigError, HookgateError

if TYPE_CHECKING:
    from hookgate.core.settings.file import Source

NOTE = "gateway.json"

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class NoteError(HookgateError):
    """There is a note, and it cannot be believed; the text says what to do."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """What the note says of a gateway that runs.

    Attributes:
        pid: Its process.
        url: Where it listens.
        key: What it proves itself by.
    """

    pid: int
    url: str
    key: str = field(repr=False)


def address(host: str, port: int) -> str:
    """Return the URL by which a gateway that listens on `host` is reached from this machine."""
    host = _ANY.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def running_gateway(home: Path) -> RunningGateway | None:
    """Return what the note in the folder `home` says, or None where no gateway has left one.

    Its process is there; whether what listens is that process is not known yet.

    Raises:
        NoteError: It may be somebody else's: it is a link, or owned, readable or replaceable by
            others; it was copied from another folder; or it says something else than notes say.
    """
    from hookgate.core.settings.key_file import read_key_file

    path = home / NOTE
    try:
        text = read_key_file(path, missing_ok=True)
    except ConfigError as error:
        raise NoteError(f"{error}; or delete it, and restart the gateway") from None
    if text is None:
        return None
    try:
        said = json.loads(text)
        running = RunningGateway(int(said["pid"]), str(said["url"]), str(said["key"]))
        if said["home"] != _folder(home):
            raise NoteError(f"{path} is the note of another folder, and was copied here: delete it")
    except (ValueError, KeyError, TypeError):
        raise NoteError(
            f"{path}: found no process, address and key, expected the note of a gateway of this "
            "version: restart the gateway, or delete the note where none runs"
        ) from None
    # A gateway that was killed could not take its note away.
    return running if lives(running.pid) else None


def _folder(home: Path) -> str:
    """Return what a copy of a folder does not share with it."""
    status = home.stat()
    return f"{status.st_dev}:{status.st_ino}"


def lives(pid: int) -> bool:
    """Whether a process of this user's (of anybody's, for root) has the id `pid`."""
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return pid > 0


def write_note(home: Path, running: RunningGateway) -> None:
    """Say where this process's gateway listens.

    Raises:
        OSError: The note cannot be written; an older one does not stay.
    """
    from hookgate.core.settings.whole_file import write_whole

    path = home / NOTE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        said = {"pid": running.pid, "url": running.url, "key": running.key, "home": _folder(home)}
        write_whole(path, json.dumps(said).encode(), durable=False)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise


def take_note_away(home: Path) -> None:
    """Take this process's note away, unless a gateway that was started later has left its own."""
    with suppress(OSError, NoteError):
        running = running_gateway(home)
        if running is not None and running.pid == os.getpid():
            (home / NOTE).unlink()


@contextmanager
def placed_problems(source: Source) -> Iterator[None]:
    """Give file and line to the problems that plugins find within a ``with`` block."""
    from hookgate.core.settings.file import complete_problems

    try:
        yield
    except ConfigError as error:
        raise ConfigError(complete_problems(error.problems, source)) from error
