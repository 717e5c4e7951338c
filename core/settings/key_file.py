"""Reading a file that holds a key, and nothing that others could have put there.

Whose it is and who may change it decides, for the file and for each folder on the way to it:

==================  =========================  =============================================
where it lies       who owns file and folder   modes
==================  =========================  =============================================
anywhere            this user                  file 0600 or 0400; folder not writable for
                                               others
anywhere            root                       file 0640 or less: its group reads, root alone
                                               writes; folder not writable for others
a read-only mount   root or this user          file 0644 or less; the folder's do not count
==================  =========================  =============================================

The second and third row are how Docker, Kubernetes and systemd hand secrets in. Links are
followed, and never out of the folder: Kubernetes has ``key`` lead to ``..data/key``, and swaps
what ``..data`` leads to. Whoever can make a link in such a folder could put the key there itself.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from hookgate.core.domain.errors import ConfigError, Problem

MAX_KEY_FILE = 65_536
"""The longest key file, in bytes. Keys are short; a longer file is some other file."""

_LINKS = 8
"""Links that are followed on the way to one file. Kubernetes makes two."""

_TRIES = 3
"""Times that a file is looked for whose folder is swapped meanwhile."""

_ROOT = 0
_GONE = (errno.ENOENT, errno.ENOTDIR)
_A_LINK = (errno.ELOOP, errno.EMLINK)

# O_NONBLOCK: a named pipe must not hold whoever opens it.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def read_key_file(path: Path, *, missing_ok: bool = False) -> str | None:
    """Return what a key file holds, without white space around it.

    The file is opened once, and what is checked is what was opened: a regular file that this
    user or root owns, and that nobody else can change or, but for mounted secrets, read. The
    same holds for its folder: who can write there can put another file in its place.

    Args:
        path: The file.
        missing_ok: Return None where there is no such file.

    Raises:
        ConfigError: It is not safe to use or cannot be read; the text names the command
            that mends it.
    """
    for left in reversed(range(_TRIES)):
        try:
            data = _read(path)
            break
        except OSError as error:
            if left and error.errno in _GONE and path.is_symlink():
                continue
            if missing_ok and error.errno in _GONE:
                return None
            raise _unreadable(path, error) from None
    if len(data) > MAX_KEY_FILE:
        raise _problem(path, f"more than {MAX_KEY_FILE} bytes", "a key and nothing else")
    try:
        return data.decode().strip()
    except UnicodeDecodeError:
        raise _problem(path, "bytes that are not UTF-8", "a key as UTF-8 text") from None


def _read(path: Path) -> bytes:
    """Return the beginning of the file, a little more than a key has.

    Raises:
        OSError: It cannot be opened.
        ConfigError: It is not safe to use.
    """
    with ExitStack() as opened:
        place, links = path.parent, 0
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, folder)
        _check_folder(path, place, folder)
        names = [path.name]
        while True:
            name = names.pop(0)
            try:
                descriptor = os.open(name, _FLAGS, dir_fd=folder)
            except OSError as error:
                if error.errno not in _A_LINK or links == _LINKS:
                    raise
                links += 1
                names[:0] = _steps(path, os.readlink(name, dir_fd=folder))
                continue
            opened.callback(os.close, descriptor)
            place /= name
            if not names:
                _check_file(path, place, descriptor)
                return os.read(descriptor, MAX_KEY_FILE + 1)
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            _check_folder(path, place, descriptor)
            folder = descriptor


def _steps(path: Path, target: str) -> list[str]:
    """Return the names on the way that a link shows.

    Raises:
        ConfigError: It leads out of its folder.
    """
    steps = PurePosixPath(target).parts
    if not steps or target.startswith("/") or ".." in steps:
        raise _problem(path, "a link that leads out of its folder", "the key file itself")
    return list(steps)


def _is_read_only(descriptor: int) -> bool:
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)


def _check_folder(path: Path, place: Path, folder: int) -> None:
    """Refuse a folder in which others could have put something."""
    status = os.fstat(folder)
    _check_owner(path, place, status)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022 and not _is_read_only(folder):
        raise _problem(
            path,
            f"a folder that others may write to (mode {mode:04o})",
            f"0700: run `chmod 700 {shlex.quote(str(place))}`",
        )


def _check_file(path: Path, place: Path, file: int) -> None:
    """Refuse what others could read or change."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise _problem(path, "something that is not a file", "a regular file that holds the key")
    _check_owner(path, place, status)
    if _is_read_only(file):
        most, expected = 0o644, "0644 or less on a read-only mount"
    elif status.st_uid == os.geteuid():
        most, expected = 0o600, "0600 (or 0400)"
    else:
        most, expected = 0o640, "0640 or less for a file of root's"
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~most or not mode & 0o444:
        how = f"run `chmod {most:o} {shlex.quote(str(place))}`"
        raise _problem(path, f"mode {mode:04o}", f"{expected}: {how}")


def _check_owner(path: Path, place: Path, status: os.stat_result) -> None:
    ours = os.geteuid()
    if status.st_uid not in (_ROOT, ours):
        raise _problem(
            path,
            f"{place} owned by user {status.st_uid}",
            f"user {ours}{' or root' if ours else ''}: "
            f"run `chown {ours} {shlex.quote(str(place))}`",
        )


def _unreadable(path: Path, error: OSError) -> ConfigError:
    if error.errno in _A_LINK:
        return _problem(path, "a link that leads in a circle", "the key file itself")
    found = (error.strerror or "an error").lower()
    return _problem(path, found, "a file with mode 0600 that holds the key")


def _problem(path: Path, found: str, expected: str) -> ConfigError:
    problem = Problem(file=str(path), key=path.name, found=found, expected=expected)
    return ConfigError([problem])
