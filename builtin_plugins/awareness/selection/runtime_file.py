"""The file that shows which cards a session's model got to read last, for people who wonder."""

from __future__ import annotations

import asyncio
import hashlib
import time
from contextlib import suppress
from pathlib import Path

from hookgate import Host
from hookgate.kit.content.files import write_whole
from hookgate.tasks import stop

FILE = "CAPABILITIES.md"

PART = "awareness runtime file"
"""What `status` calls a file that cannot be written."""

SECONDS = 1.0
"""A file that takes longer is told; and so long the end of the gateway waits for the rest."""

WAITING = 1024
"""So many sessions' files may wait to be written; of more, the oldest ones are not written."""

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


class ShownFiles:
    """Writes the files beside the turns, one at a time: no turn waits, or fails, for one.

    Of a session's file the newest text counts, and it is the one that stands there at last. A
    disk that hangs holds one thread, not one for each session.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._texts: dict[Path, str] = {}
        self._worker: asyncio.Task[None] | None = None
        self._writing: tuple[Path, asyncio.Future[None]] | None = None

    def put(self, path: Path, text: str) -> None:
        """Have `text` written to `path`, in place of one that waits."""
        self._texts.pop(path, None)
        self._texts[path] = text
        if len(self._texts) > WAITING:
            lost = next(iter(self._texts))
            del self._texts[lost]
            self._tell(lost, "too many others wait")
        if self._worker is None or self._worker.done():
            self._worker = self._host.spawn(self._write_all(), name="awareness.shown")

    async def close(self) -> None:
        """Write what waits, for `SECONDS` at most."""
        await stop(self._worker)
        try:
            async with asyncio.timeout(SECONDS):
                await self._write_all()
        except TimeoutError:
            self._host.log.warning("files of sessions are not written", part=PART)

    async def _write_all(self) -> None:
        await self._settle()
        while self._texts:
            path = next(iter(self._texts))
            text = self._texts.pop(path)
            self._writing = path, asyncio.ensure_future(asyncio.to_thread(write, path, text))
            await self._settle()

    async def _settle(self) -> None:
        """Wait for the file that is being written, and say what became of it.

        It is never cancelled: its thread would go on, and could end behind a newer text.
        """
        if self._writing is None:
            return
        path, writing = self._writing
        done, _ = await asyncio.wait([writing], timeout=SECONDS)
        if not done:
            self._tell(path, "it takes too long")
            await asyncio.wait([writing])
        self._writing = None
        if (error := writing.exception()) is None:
            self._host.standing(PART).good()
        else:
            self._tell(path, str(error))

    def _tell(self, path: Path, why: str) -> None:
        self._host.standing(PART).bad(f"{path} cannot be written: {why}")
