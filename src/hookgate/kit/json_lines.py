"""Records in a file: one JSON object a line, put aside when it has grown large.

A process that is killed while it writes leaves a line without an end. That line is ended
before the next one is written, and passed over when the file is read.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from hookgate.core.domain.ports import Secrets
from hookgate.core.settings.secret_store import masked_json

__all__ = ["JsonLines", "JsonLinesWriter", "read_json_lines"]


class JsonLines:
    """Appends records to a file. Every method blocks, and may be called from any thread.

    Args:
        path: The file.
        max_bytes: It is put aside, and a new one begun, before it grows past this.
        keep: So many files that were put aside are kept.
        secrets: Masks what must not be seen. People send such files around.

    Attributes:
        appended: How many records the last `write` has appended, all of them where it returned.
    """

    def __init__(self, path: Path, *, max_bytes: int, keep: int, secrets: Secrets) -> None:
        self._path = path
        self._secrets = secrets
        self._max_bytes = max_bytes
        self._keep = keep
        self._file: FileIO | None = None
        self._size = 0
        self._lock = Lock()
        self.appended = 0

    def write(self, *records: Mapping[str, Any]) -> None:
        """Append records.

        Raises:
            OSError: They could not be written, or not all of them.
        """
        texts = [orjson.dumps(record, default=str) for record in records]
        whole = b"\n".join(texts).decode()
        if self._secrets.redact(whole) != whole:
            texts = [masked_json(self._secrets, text) for text in texts]
        lines = deque([text + b"\n" for text in texts])
        with self._lock:
            self.appended = 0
            while lines:
                if self._file is None:
                    self._open()
                if self._size and self._size + len(lines[0]) > self._max_bytes:
                    self._put_aside()
                    self._open()
                fitting = bytearray(lines.popleft())
                while lines and self._size + len(fitting) + len(lines[0]) <= self._max_bytes:
                    fitting += lines.popleft()
                self._append(fitting)

    def _append(self, text: bytes | bytearray) -> None:
        assert self._file is not None
        try:
            written = self._file.write(text)
        except OSError:
            self._close()
            raise
        self._size += written
        self.appended += text.count(b"\n", 0, written)
        if written < len(text):
            # A full disk takes a part. Opened again, the torn line is ended first.
            self._close()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def close(self) -> None:
        """Close the file; the next `write` opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Session keys stand in it: nobody else is to read it.
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        # Unbuffered: lines are written by one call, and at most the last of them is torn.
        self._file = FileIO(handle, "ab")
        self._size = os.fstat(handle).st_size
        if self._size and os.pread(handle, 1, self._size - 1) != b"\n":
            self._file.write(b"\n")
            self._size += 1

    def _put_aside(self) -> None:
        self._close()
        for number in range(self._keep, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(older)
        if self._keep == 0:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


GATHER_SECONDS = 1.0
"""How long the first record waits for others: to wake a thread costs ten times a line."""

AGAIN_SECONDS = 10.0
"""How long records wait that could not be written: a disk may have room again."""


class JsonLinesWriter:
    """Hands records to a `JsonLines` on a thread: as many at once as come within a moment.

    What cannot be written waits, and is tried again by itself.

    Args:
        file: Where they go.
        failed: Told that records cannot be written, and why, each time that it is tried.
        worked: Told once all that waited has been written after that.
        capacity: Records that may wait; the oldest is dropped when there are more.
    """

    def __init__(
        self,
        file: JsonLines,
        *,
        failed: Callable[[OSError], None],
        worked: Callable[[], None] = lambda: None,
        capacity: int = 10_000,
    ) -> None:
        self._file = file
        self._failed = failed
        self._worked = worked
        self._is_bad = False
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=capacity)
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[bool] | None = None

    def add(self, record: Mapping[str, Any]) -> None:
        """Take one record; never waits."""
        self._waiting.append(record)
        if self._timer is None and (self._task is None or self._task.done()):
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._begin)

    async def flush(self) -> None:
        """Wait until all that was added has been written, or could not be."""
        if self._task is not None:
            await asyncio.wait([self._task])
        while self._waiting and await self._hand_over():
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Write what still waits, and close the file."""
        await self.flush()
        await asyncio.to_thread(self._file.close)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._hand_over(), name="json_lines")
        self._task.add_done_callback(self._go_on)

    def _go_on(self, _: asyncio.Task[bool]) -> None:
        """Have a moment pass for what has come meanwhile, too."""
        if self._waiting and self._timer is None:
            wait = AGAIN_SECONDS if self._is_bad else GATHER_SECONDS
            self._timer = asyncio.get_running_loop().call_later(wait, self._begin)

    async def _hand_over(self) -> bool:
        """Write what waits; say whether that was possible."""
        records = list(self._waiting)
        self._waiting.clear()
        try:
            await asyncio.to_thread(self._file.write, *records)
        except OSError as error:
            left = [*records[self._file.appended :], *self._waiting]
            self._waiting.clear()
            self._waiting.extend(left)
            self._is_bad = True
            self._failed(error)
            return False
        if self._is_bad:
            self._is_bad = False
            self._worked()
        return True


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a file, oldest first; lines that are no record are passed over."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(record, dict):
                yield record
