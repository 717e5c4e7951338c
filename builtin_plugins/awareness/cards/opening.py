"""Opening a folder, and files in it, so that nothing leads out of it.

A folder is opened once, and each file once, relative to it and without following a link;
what is asked of a file is asked of what was opened. So nothing that is swapped, renamed or
linked in between changes where the bytes come from.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from hookgate.kit.content.problems import ContentError, Problem

if TYPE_CHECKING:
    from pathlib import Path

# Where a system lacks these, it cannot open a file relative to a folder either: then the
# folder is a problem, and nothing in it is read.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# O_NONBLOCK: a named pipe must not hold whoever opens it.
_FILE = os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


class Stamp(NamedTuple):
    """What changes when a file does; times in nanoseconds."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def open_folder(path: Path, within: Path | None = None) -> int:
    """Return a descriptor of a folder, to be closed.

    Args:
        path: The folder.
        within: A folder above it, below which no link is followed; None to follow links.

    Raises:
        OSError: It is not there, is no folder, or is reached over a link below `within`.
        ValueError: No folder can have this path.
    """
    if within is None:
        return os.open(path, _FOLDER)
    descriptor = os.open(within, _FOLDER)
    for part in path.relative_to(within).parts:
        above = descriptor
        try:
            descriptor = os.open(part, _FOLDER | _NO_LINK, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def look_at(folder: int, name: str, file: str, *, max_bytes: int, linked: bool) -> Stamp:
    """Return the stamp of a file without opening it.

    What it is says nothing yet about what `read_at` opens. But to open a device is to use it,
    and a file that has not changed need not be opened.

    Args:
        folder: A descriptor of the folder.
        name: The file's name in it.
        file: Its path, for messages.
        max_bytes: The largest size.
        linked: Whether it may have several hard links.

    Raises:
        ContentError: It is no regular file of the folder alone, or is too large.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        _refuse(file, why(error), "a text file that can be read")
    return _checked(status, file, max_bytes=max_bytes, linked=linked)


def read_at(
    folder: int, name: str, file: str, *, max_bytes: int, linked: bool
) -> tuple[bytes, Stamp]:
    """Return what a file holds, and its stamp.

    The arguments are those of `look_at`. Of a file that grows meanwhile, one byte more than
    `max_bytes` is returned.

    Raises:
        ContentError: It is no regular file of the folder alone, or is too large.
    """
    try:
        opened = os.open(name, _FILE, dir_fd=folder)
        try:
            stamp = _checked(os.fstat(opened), file, max_bytes=max_bytes, linked=linked)
            return _read(opened, max_bytes + 1), stamp
        finally:
            os.close(opened)
    except OSError as error:
        _refuse(file, why(error), "a text file that can be read")


def why(error: OSError | ValueError) -> str:
    """Return why something could not be opened, for a message."""
    reason = error.strerror if isinstance(error, OSError) else "a path that no file can have"
    return (reason or "an error").lower()


def _checked(status: os.stat_result, file: str, *, max_bytes: int, linked: bool) -> Stamp:
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        found = _KINDS.get(kind, "a device")
        _refuse(file, found, "a regular file: copy it into the folder")
    if status.st_nlink != 1 and not linked:
        found = f"a file with {status.st_nlink} hard links"
        _refuse(file, found, "a file with one: copy it into the folder")
    if status.st_size > max_bytes:
        _refuse(file, f"{status.st_size} bytes", f"at most {max_bytes}: make it shorter")
    return Stamp(
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )


def _read(descriptor: int, size: int) -> bytes:
    """Return the first `size` bytes of a file, or all that it has."""
    parts = []
    while size > 0 and (part := os.read(descriptor, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _refuse(file: str, found: str, expected: str) -> NoReturn:
    raise ContentError(Problem(file=file, found=found, expected=expected)) from None
