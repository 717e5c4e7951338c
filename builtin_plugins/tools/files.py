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
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath

from hookgate.kit.content.files import open_file, open_folder, read_up_to

SUPPORTED = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether this system can walk a path without following links. Windows cannot."""


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
        folder = open_folder(root.joinpath(*folders), root)
        opened.callback(os.close, folder)
        file = open_file(name, folder)
        opened.callback(os.close, file)
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "a folder")
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file")
        data = read_up_to(file, max_bytes + 1)
    cut = len(data) > max_bytes
    # A character that the cut goes through is left out, not shown as damage.
    text = getincrementaldecoder("utf-8")("replace").decode(data[:max_bytes], final=not cut)
    return text, cut


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
