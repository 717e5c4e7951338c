"""Writing a file so that whoever reads it finds all of it, or what was there before."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO
from uuid import uuid4


def write_whole(
    path: Path,
    content: bytes | Callable[[IO[bytes]], object],
    *,
    durable: bool,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    replace: bool = True,
) -> None:
    """Put `content` into the file `path`. It blocks.

    Folders above it are made where they are missing, for their owner alone.

    Args:
        path: The file; one that is there already is replaced, a link itself and not its target.
        content: What it will hold, or what writes it.
        durable: Whether it has to be on the disk when this returns.
        mode: Who may read it: its owner alone, where nothing else is said.
        owner: The user and the group to whom it belongs, where not to this process's.
        replace: Whether one that is there already is replaced.

    Raises:
        FileExistsError: There is one, and it is not to be replaced.
        OSError: It could not be written, or is a device, a pipe or a socket; what was there before
            is still there.
    """
    if not path.name or (path.exists() and not (path.is_file() or path.is_dir())):
        # In place of `/dev/null`, a file would be in the way of the whole system.
        said = "found no regular file, expected one, or a free name: nothing is put in its place"
        raise OSError(errno.EINVAL, said, str(path))
    # One by one: `parents=True` makes those in between as the umask has it.
    for above in reversed(path.parents):
        if not above.exists():
            above.mkdir(mode=0o700, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            if owner is not None and owner != (os.getuid(), os.getgid()):
                os.fchown(handle, *owner)
            if mode != 0o600:
                os.fchmod(handle, mode)
            if isinstance(content, bytes):
                file.write(content)
            else:
                content(file)
            if durable:
                file.flush()
                os.fsync(handle)
        if replace:
            fresh.replace(path)
        else:
            os.link(fresh, path)
            fresh.unlink()
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
