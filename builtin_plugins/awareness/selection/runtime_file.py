"""The file that shows which cards a session's model got to read last, for people who wonder."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from hookgate.kit.content.writing import write_whole

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FILE", "place_of", "prune", "write"]

FILE = "CAPABILITIES.md"

_DAY = 86_400.0


def place_of(home: Path, session: str) -> Path:
    """Return the path of a session's file: each session has a folder of its own.

    Args:
        home: The gateway's home folder.
        session: The session's key. Its SHA-256 names the folder: keys hold what peers sent.
    """
    name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return home / "runtime" / name / FILE


def write(path: Path, text: str) -> None:
    """Put `text` there, whole, for nobody else to read. It blocks.

    It is not synced to the disk: it is there to be looked at, not to be kept.

    Raises:
        OSError: It could not be written.
    """
    write_whole(path, text.encode("utf-8", "replace"), durable=False)


def prune(home: Path, keep_days: float, now: float | None = None) -> int:
    """Remove the folders of sessions that had no card for `keep_days`; return how many.

    It blocks. Nothing is removed but what `write` puts there.
    """
    now = time.time() if now is None else now
    removed = 0
    try:
        folders = list((home / "runtime").iterdir())
    except OSError:
        return 0
    for folder in folders:
        try:
            old = (folder / FILE).stat().st_mtime < now - keep_days * _DAY
        except OSError:
            continue
        if old and not folder.is_symlink():
            with suppress(OSError):  # what cannot be removed is tried again at the next start
                (folder / FILE).unlink()
                folder.rmdir()
                removed += 1
    return removed
