"""Reading files below granted folders, and texts from granted addresses."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from codecs import getincrementaldecoder
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path, PurePath

from hookgate import EgressDeniedError, EgressFailedError, ToolResult
from hookgate.kit.content.files import open_file, open_folder, read_up_to
from hookgate.kit.modules import httpx

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


# -- Fetching text from granted addresses ----------------------------------------

TAINT = frozenset({"tool:http_get"})

_TEXTS = ("text/", "application/json", "application/xml", "application/javascript")
_SUFFIXES = ("+json", "+xml")
_CHARSETS = ("ascii", "big5", "cp", "euc", "gb", "iso", "koi8", "mac", "shift", "utf-8", "utf-16")


async def fetch(client: httpx.AsyncClient, url: str, *, max_bytes: int) -> ToolResult:
    """Get `url` and return what it says as text, at most `max_bytes` of it.

    Args:
        client: Reaches the granted addresses only; it refuses the others and redirects
            to them.
        url: The address.
        max_bytes: The rest of a longer answer is not read.
    """
    try:
        async with client.stream(
            "GET", url, headers={"Accept": "text/*, */json;q=0.9"}, follow_redirects=True
        ) as got:
            media = got.headers.get("content-type", "").partition(";")[0].strip().lower()
            if not _is_text(media):
                return _error(
                    f"{url} is {media}: expected text, JSON or XML; nothing of it was read"
                )
            data, cut = await _read(got, max_bytes)
            head = f"HTTP {got.status_code} {got.reason_phrase} ({media or 'no content type'})"
            note = f"\n\n[cut after {max_bytes} bytes]" if cut else ""
            text = f"{head}\n\n{_decode(data, got.charset_encoding)}{note}"
            return _error(text) if got.is_error else ToolResult(content=text, taint=TAINT)
    except EgressDeniedError as error:
        return _error(f"{error}. The operator grants addresses in `[plugin.tools] http_get`.")
    except (EgressFailedError, httpx.HTTPError, httpx.InvalidURL) as error:
        return _error(f"{url} cannot be fetched: {error}")


async def _read(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > max_bytes:
            return bytes(data[:max_bytes]), True
    return bytes(data), False


def _is_text(media: str) -> bool:
    return not media or media.startswith(_TEXTS) or media.endswith(_SUFFIXES)


def _decode(data: bytes, charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except LookupError:
        name = "utf-8"
    # Python's codecs hold more than character sets: `zlib` unpacks, `idna` is quadratic.
    return data.decode(name if name.startswith(_CHARSETS) else "utf-8", "replace")


def _error(text: str) -> ToolResult:
    return ToolResult(content=text, is_error=True, status="failed", taint=TAINT)
