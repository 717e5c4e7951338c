"""Reading files below granted folders, and nothing else.

The path is walked folder by folder from an open root, each step without following a
link. So there is no moment between a check and a use in which the path could come to
mean something else.
"""

from __future__ import annotations

import errno
import os
import stat
from codecs import getincrementaldecoder
from contextlib import ExitStack
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system can walk a path without following links. Windows cannot."""

if SUPPORTED:
    # O_NONBLOCK: opening a named pipe must not wait for somebody to write to it.
    _READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    _FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY


class FileRefusedError(ValueError):
    """The file lies outside the granted folders, or is none that can be read."""


def read_text(path: str, roots: Sequence[Path], *, max_bytes: int) -> tuple[str, bool]:
    """Return the text of a file below one of `roots`.

    Args:
        path: Relative to a root (the first one that has it counts), or absolute and below one.
        roots: Absolute folders. They may be links themselves; nothing below them may.
        max_bytes: So much of the file is read.

    Returns:
        The text, in which bytes that are no UTF-8 are replaced, and whether it was cut.

    Raises:
        FileRefusedError: There is no such file below the roots, or it is a folder, a link, a
            device, or not readable.
    """
    if not path or "\0" in path:
        raise FileRefusedError("found an empty path or one with a NUL: expected a file's path")
    asked = PurePath(path)
    if ".." in asked.parts:
        raise FileRefusedError(f"found `..` in {path!r}: expected a path without it")
    places = [
        (root, asked.relative_to(root) if asked.is_absolute() else asked)
        for root in roots
        if not asked.is_absolute() or asked.is_relative_to(root)
    ]
    missing = FileRefusedError(
        f"found no file {path!r} below the granted folders ({', '.join(map(str, roots))})"
    )
    for root, relative in places:
        try:
            return _read_below(root, relative, max_bytes)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FileRefusedError(_why(path, error)) from None
    raise missing


def _read_below(root: Path, relative: PurePath, max_bytes: int) -> tuple[str, bool]:
    *folders, name = relative.parts or (".",)
    with ExitStack() as opened:
        folder = os.open(root, _FOLDER)
        opened.callback(os.close, folder)
        for part in folders:
            folder = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            opened.callback(os.close, folder)
        file = os.open(name, _READ, dir_fd=folder)
        opened.callback(os.close, file)
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file")
        data = _read(file, max_bytes + 1)
    cut = len(data) > max_bytes
    # A character that the cut goes through is left out, not shown as damage.
    text = getincrementaldecoder("utf-8")("replace").decode(data[:max_bytes], final=not cut)
    return text, cut


def _read(file: int, size: int) -> bytes:
    chunks: list[bytes] = []
    while size > 0 and (chunk := os.read(file, min(size, 1 << 20))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _why(path: str, error: OSError) -> str:
    match error.errno:
        case errno.ELOOP:
            return f"{path!r} is a link, or leads through one: expected a path without links"
        case errno.EISDIR:
            return f"{path!r} is a folder: expected a file"
        case errno.ENOTDIR:
            return f"{path!r} leads through a file or a link: expected folders on the way"
        case errno.EACCES | errno.EPERM:
            return f"{path!r} may not be read by the gateway's user"
        case errno.EINVAL | errno.ENXIO:
            return f"{path!r} is a device, a pipe or a socket: expected a regular file"
        case _:
            return f"{path!r} cannot be read: {error.strerror}"
