"""Files of content: opened so that nothing leads out of their folder, and written whole.

A folder is opened once, and each file once, relative to it and without following a link; what
is asked of a file is asked of what was opened. So nothing that is swapped, renamed or linked in
between changes where the bytes come from.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple, NoReturn

from hookgate.core.settings.whole_file import write_whole
from hookgate.kit.content.problems import ContentError, Problem, shortened

__all__ = [
    "CONTENT_BYTES",
    "MANIFEST_BYTES",
    "Stamp",
    "decoded",
    "inside",
    "look_at",
    "open_file",
    "open_folder",
    "open_step",
    "read_at",
    "read_bytes",
    "read_text",
    "read_up_to",
    "stamp_of",
    "why",
    "write_whole",
]

MANIFEST_BYTES = 64 * 1024
"""The largest manifest, frontmatter or catalogue."""

CONTENT_BYTES = 256 * 1024
"""The largest SKILL.md or schema."""

SETTLED_NS = 2_000_000_000
"""A file system's time stamps are this coarse at worst, in nanoseconds (FAT)."""

BOM = "\ufeff"

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

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    def is_settled(self, read_ns: int) -> bool:
        """Whether a file that was read at `read_ns` cannot have changed since without a trace.

        One that had changed right before may have changed again within the same tick of the
        clock that stamps it.
        """
        return max(self.mtime_ns, self.ctime_ns) <= read_ns - SETTLED_NS


# -- opening -----------------------------------------------------------------


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
            descriptor = open_step(part, above)
        finally:
            os.close(above)
    return descriptor


def open_step(name: str | Path, at: int | None = None) -> int:
    """Return a descriptor of a folder that is no link; a name in the open folder `at`.

    Raises:
        OSError: It is not there, is no folder, or is a link.
    """
    return os.open(name, _FOLDER | _NO_LINK, dir_fd=at)


def open_file(name: str | Path, at: int | None = None) -> int:
    """Return a descriptor of what is no link; a name in the open folder `at`.

    What it is, `os.fstat` of it says.

    Raises:
        OSError: It is not there, is a link, or cannot be opened.
    """
    return os.open(name, _FILE, dir_fd=at)


def look_at(
    name: str | Path, *, at: int | None = None, file: str, max_bytes: int, linked: bool = True
) -> Stamp:
    """Return the stamp of a file without opening it.

    What it is says nothing yet about what `read_at` opens. But to open a device is to use it,
    and a file that has not changed need not be opened.

    Args:
        name: The file's path, or its name in the open folder `at`.
        at: A descriptor of its folder.
        file: Its path, for messages.
        max_bytes: The largest size.
        linked: Whether it may have several hard links, as installers make them.

    Raises:
        ContentError: It is no regular file, is in other folders too, or is too large.
    """
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError as error:
        _refuse(file, why(error), "a file that can be read")
    return _checked(status, file, max_bytes=max_bytes, linked=linked)


def read_at(
    name: str | Path, *, at: int | None = None, file: str, max_bytes: int, linked: bool = True
) -> tuple[bytes, Stamp]:
    """Return what a file holds, and its stamp.

    The arguments are those of `look_at`. Of a file that grows meanwhile, one byte more than
    `max_bytes` is returned.

    Raises:
        ContentError: It is no regular file, is in other folders too, or is too large.
    """
    try:
        opened = open_file(name, at)
        try:
            stamp = _checked(os.fstat(opened), file, max_bytes=max_bytes, linked=linked)
            return read_up_to(opened, max_bytes + 1), stamp
        finally:
            os.close(opened)
    except OSError as error:
        _refuse(file, why(error), "a file that can be read")


def read_up_to(descriptor: int, size: int) -> bytes:
    """Return the first `size` bytes of a file, or all that it has."""
    parts = []
    while size > 0 and (part := os.read(descriptor, min(size, 1 << 20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def why(error: OSError | ValueError | RuntimeError) -> str:
    """Return why something could not be opened, for a message."""
    if isinstance(error, OSError):
        return (error.strerror or "an error").lower()
    # A circle of links is a RuntimeError to `Path.resolve`.
    return (
        "a circle of links" if isinstance(error, RuntimeError) else "a path that no file can have"
    )


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
        path=file,
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
    )


# -- by paths ----------------------------------------------------------------


def inside(folder: Path, name: str, *, file: Path, key: str = "", line: int | None = None) -> Path:
    """Return the real path of ``folder / name``.

    Args:
        folder: What the path must not leave.
        name: The path, relative to `folder`.
        file: The file that names it, for the message.
        key: The key that names it.
        line: The line on which it is named.

    Raises:
        ContentError: The path is absolute, or leads out of the folder, by ``..`` or by a link.
    """

    def refuse(found: str, expected: str) -> NoReturn:
        raise ContentError(
            Problem(file=str(file), line=line, key=key, found=found, expected=expected)
        )

    if not name or "\0" in name or len(name) > 1024:
        refuse(f"the path {shortened(name)}", "the name of a file in the manifest's folder")
    try:
        root = folder.resolve(strict=True)
        real = (root / name).resolve()
    except (OSError, RuntimeError) as error:
        refuse(f"the path {shortened(name)} ({why(error)})", "a file that can be read")
    if Path(name).is_absolute() or not real.is_relative_to(root):
        refuse(
            f"the path {shortened(name)}, which leads out of {folder}",
            "a file in the manifest's folder: copy it there",
        )
    return real


def read_text(path: Path, *, max_bytes: int) -> tuple[str, Stamp]:
    """Return what a file holds, without a byte order mark, and its stamp.

    Args:
        path: Its real path, as `inside` gives it: a link is refused.
        max_bytes: The largest size.

    Raises:
        ContentError: It is missing, no regular file, too large, or no UTF-8.
    """
    raw, stamp = _read(path, max_bytes)
    return decoded(raw, str(path), max_bytes=max_bytes), stamp


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of a file.

    Args:
        path: Its real path, as `inside` gives it: a link is refused.
        max_bytes: The largest size.

    Raises:
        ContentError: It is missing, no regular file, or too large.
    """
    raw, _ = _read(path, max_bytes)
    if len(raw) > max_bytes:
        _refuse(str(path), f"more than {max_bytes} bytes", f"at most {max_bytes}")
    return raw


def _read(path: Path, max_bytes: int) -> tuple[bytes, Stamp]:
    look_at(path, file=str(path), max_bytes=max_bytes)
    return read_at(path, file=str(path), max_bytes=max_bytes)


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file without reading it.

    Raises:
        ContentError: It is missing, or no regular file.
    """
    return look_at(path, file=str(path), max_bytes=1 << 62)


def decoded(raw: bytes, file: str, *, max_bytes: int) -> str:
    """Return what the bytes of a file say, without a byte order mark.

    Args:
        raw: What was read of it: one byte more than `max_bytes`, if there are so many.
        file: The file, for messages.
        max_bytes: The largest size.

    Raises:
        ContentError: They are too many, or no UTF-8.
    """
    if len(raw) > max_bytes:
        _refuse(file, f"more than {max_bytes} bytes", f"at most {max_bytes}: make it shorter")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"a byte that is not UTF-8 ({raw[error.start]:#04x})"
        problem = Problem(file=file, line=line, found=found, expected="UTF-8 text")
        raise ContentError(problem) from None
    return text.removeprefix(BOM)


def _refuse(file: str, found: str, expected: str) -> NoReturn:
    raise ContentError(Problem(file=file, found=found, expected=expected)) from None
