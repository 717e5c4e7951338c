"""Writing a file so that whoever reads it finds all of it, or what was there before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pathlib import Path


def write_whole(path: Path, content: bytes, *, durable: bool) -> None:
    """Put `content` into the file `path`, for its owner alone to read. It blocks.

    Folders above it are made where they are missing, for their owner alone.

    Args:
        path: The file; one that is there already is replaced, a link itself and not its target.
        content: What it will hold.
        durable: Whether it has to be on the disk when this returns.

    Raises:
        OSError: It could not be written; what was there before is still there.
    """
    # One by one: `parents=True` makes those in between as the umask has it.
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        # Its name is on the disk once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
