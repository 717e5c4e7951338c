"""Reading a file of content: a regular file, inside its folder, small, and UTF-8."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

from hookgate.kit.content.problems import ContentError, Problem, shortened

__all__ = [
    "CONTENT_BYTES",
    "MANIFEST_BYTES",
    "Stamp",
    "decoded",
    "inside",
    "read_bytes",
    "read_text",
    "stamp_of",
]

MANIFEST_BYTES = 64 * 1024
"""The largest manifest, frontmatter or catalogue."""

CONTENT_BYTES = 256 * 1024
"""The largest SKILL.md or schema."""

BOM = "\ufeff"

# A path is checked before it is opened, and what was opened once more: by then another file
# may stand there. O_NONBLOCK: a named pipe must not hold whoever opens it.
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
)

Stamp = tuple[str, int, int, int]
"""A file's path, inode, size in bytes and time of change in nanoseconds."""


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
        refuse(f"the path {shortened(name)} ({_why(error)})", "a file that can be read")
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
    raw, stamp = _read(path, max_bytes, "a text file")
    return decoded(raw, str(path), max_bytes=max_bytes), stamp


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Return the bytes of a file.

    Args:
        path: Its real path, as `inside` gives it: a link is refused.
        max_bytes: The largest size.

    Raises:
        ContentError: It is missing, no regular file, or too large.
    """
    raw, _ = _read(path, max_bytes, "a file")
    if len(raw) > max_bytes:
        found, expected = f"more than {max_bytes} bytes", f"at most {max_bytes}"
        raise ContentError(Problem(file=str(path), found=found, expected=expected))
    return raw


def _read(path: Path, max_bytes: int, expected: str) -> tuple[bytes, Stamp]:
    """Return the bytes of a file, at most one more than `max_bytes`, and its stamp."""

    def refuse(found: str, expected: str) -> NoReturn:
        raise ContentError(Problem(file=str(path), found=found, expected=expected))

    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            refuse("something that is not a regular file", expected)
        descriptor = os.open(path, _READ)
    except OSError as error:
        refuse(_why(error), f"{expected} that can be read")
    with os.fdopen(descriptor, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            refuse("something that is not a regular file", expected)
        try:
            raw = opened.read(max_bytes + 1)
        except OSError as error:
            refuse(_why(error), f"{expected} that can be read")
    return raw, _stamp(path, status)


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
        found, expected = f"more than {max_bytes} bytes", f"at most {max_bytes}: make it shorter"
        raise ContentError(Problem(file=file, found=found, expected=expected))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        found = f"a byte that is not UTF-8 ({raw[error.start]:#04x})"
        problem = Problem(file=file, line=line, found=found, expected="UTF-8 text")
        raise ContentError(problem) from None
    return text.removeprefix(BOM)


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file without reading it.

    Raises:
        ContentError: It is missing, or no regular file.
    """
    try:
        status = os.lstat(path)
    except OSError as error:
        problem = Problem(file=str(path), found=_why(error), expected="a text file")
        raise ContentError(problem) from None
    if not stat.S_ISREG(status.st_mode):
        found = "something that is not a regular file"
        raise ContentError(Problem(file=str(path), found=found, expected="a text file"))
    return _stamp(path, status)


def _stamp(path: Path, status: os.stat_result) -> Stamp:
    return (str(path), status.st_ino, status.st_size, status.st_mtime_ns)


def _why(error: OSError | RuntimeError) -> str:
    reason = error.strerror if isinstance(error, OSError) else None
    return (reason or "a circle of links").lower()
