"""Changing a file of another runtime's: what is asked for, and nothing else of it.

A file is written only where the tier of a record cedes it. Comments, unknown keys and the order
of lines stay byte for byte, since the text is changed and not written anew; whether it says then
what it ought to is looked at before it is written.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from hookgate.builtin_plugins.inventory.record import CapabilityRecord, affordance, refusal
from hookgate.builtin_plugins.inventory.sources import (
    RuntimeDisconnectedError,
    UnsupportedCapabilityWriteError,
)
from hookgate.builtin_plugins.inventory.writing import (
    Edit,
    TranscodeError,
    applied,
    json_text,
    same,
    toml_text,
    yaml_text,
)
from hookgate.kit.content.files import inside, read_text
from hookgate.kit.content.problems import ContentError

BACKUP = ".hookgate-backup"
"""The end of the name of the file as it was before the last change."""

FILE_BYTES = 1024 * 1024
PATIENCE = 10.0
PAUSE = 0.02
TRIES = 5


class _Format(Protocol):
    def read(self, text: str) -> dict[str, Any]: ...

    def change(self, text: str, edit: Edit) -> str: ...


_FORMATS: Mapping[str, _Format] = {
    ".toml": toml_text,
    ".json": json_text,
    ".jsonc": json_text,
    ".yaml": yaml_text,
    ".yml": yaml_text,
}


def transcoded(text: str, kind: str, edit: Edit) -> str:
    """Return a text with one edit made.

    Args:
        text: The text of a file.
        kind: The end of the file's name: ``.toml``, ``.json``, ``.jsonc``, ``.yaml``, ``.yml``.
        edit: What is to be changed.

    Raises:
        TranscodeError: It cannot be read, or cannot be changed without touching more of it.
    """
    form = _FORMATS[kind]
    before = form.read(text)
    after = form.change(text, edit)
    if not same(form.read(after), applied(before, edit)):
        raise TranscodeError(f"{'.'.join(edit.path)} cannot be changed alone: change it by hand")
    return after


def transcode(
    record: CapabilityRecord,
    action: str,
    home: Path,
    name: str,
    decide: Callable[[str], Edit | None],
) -> None:
    """Change one file of a home, whole or not at all. It blocks.

    Args:
        record: What is changed, as it is now; its tier has to cede the file.
        action: What is done to it, for messages.
        home: The folder that the file must not leave.
        name: The file, within `home`.
        decide: Returns the edit for the text that it is given; None for nothing to do. It is
            asked again where somebody else has written meanwhile.

    Raises:
        UnsupportedCapabilityWriteError: The file is not ceded, or cannot be changed so.
        RuntimeDisconnectedError: Somebody else writes it all the time.
        OSError: It cannot be written; it is as it was.
    """
    if why := refusal(record, action):
        raise UnsupportedCapabilityWriteError(why)
    if affordance(record).path != "transcoder":
        raise UnsupportedCapabilityWriteError(f"{record.id} stands in no file that is ceded")
    try:
        path = inside(home, name, file=home / name)
        with _locked(path):
            for _ in range(TRIES):
                text = read_text(path, max_bytes=FILE_BYTES)[0] if path.exists() else ""
                _FORMATS[path.suffix].read(text)
                edit = decide(text)
                if edit is None:
                    return
                after = transcoded(text, path.suffix, edit)
                if after == text or _replaced(path, text, after):
                    return
    except (ContentError, TranscodeError) as error:
        raise UnsupportedCapabilityWriteError(f"{home / name}: {error}") from None
    raise RuntimeDisconnectedError(f"{path} is written by somebody else all the time")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a file, against others who change it this way."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path.with_name(f".{path.name}.hookgate-lock"), flags, 0o600)
    try:
        until = time.monotonic() + PATIENCE
        while not _taken(descriptor):
            if time.monotonic() > until:
                raise RuntimeDisconnectedError(f"{path} is being changed by another process")
            time.sleep(PAUSE)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _replaced(path: Path, before: str, after: str) -> bool:
    """Put a text in the place of another one; False where that one is not there any more."""
    mode, owner = 0o600, None
    if path.exists():
        status = path.stat()
        mode, owner = status.st_mode & 0o777, (status.st_uid, status.st_gid)
        raw = path.read_bytes()
        # A byte order mark is passed over in reading, and stays.
        mark = b"\xef\xbb\xbf" if raw.startswith(b"\xef\xbb\xbf") else b""
        _written(path.with_name(path.name + BACKUP), raw, mode, owner)
    else:
        raw, mark = b"", b""
    if raw != mark + before.encode():
        return False
    fresh = path.with_name(f".{path.name}.hookgate-new")
    _write(fresh, mark + after.encode(), mode, owner)
    if (path.read_bytes() if path.exists() else b"") != raw:
        fresh.unlink()
        return False
    fresh.replace(path)
    _settle(path.parent)
    return True


def _written(path: Path, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    fresh = path.with_name(f".{path.name}.hookgate-new")
    _write(fresh, content, mode, owner)
    fresh.replace(path)


def _write(path: Path, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    """Write a file that nobody reads yet. One that a process left when it was killed goes."""
    with suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if owner is not None and owner != (os.getuid(), os.getgid()):
            os.fchown(file.fileno(), *owner)
        os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Have a new name of a file on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
