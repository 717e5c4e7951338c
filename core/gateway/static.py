"""A page of a plugin: files that a browser may keep for ever, and the shell that names them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from aiohttp import web

# A page is declared in every gateway, also in one that nobody serves: the server's library is
# imported where a request is answered.

TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
"""What a page may be made of, by the ends of the names."""

MOST_BYTES = 4 * 1024 * 1024
"""All files of one page together."""

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"
)
"""The content security policy of a page: nothing from elsewhere, no script in the page itself, and
no text that becomes one (https://www.w3.org/TR/CSP3/)."""

_FOR_EVER = "public, max-age=31536000, immutable"
_BASE = b"{{static}}"
_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)
"""What ``Accept-Encoding`` has in it where gzip is taken (RFC 9110, section 12.5.3)."""


@dataclass(frozen=True, slots=True)
class _File:
    """One file as it is sent.

    Attributes:
        body: Its bytes.
        packed: The same, compressed; None where that is no shorter.
        kind: Its media type.
    """

    body: bytes
    packed: bytes | None
    kind: str


class StaticPage:
    """The files of one folder of a package, read on the first request.

    ``index.html`` is the shell. It is asked for each time, and names the others below
    ``{{static}}``, which stands for a path with the digest of them all: they are kept by browsers
    and never asked for again, and modules find each other by relative names.

    Args:
        package: The package that holds the folder.
        folder: Its name in the package.

    Raises:
        StartError: There is no such folder, or no ``index.html`` in it.
    """

    def __init__(self, package: str, folder: str) -> None:
        try:
            self._root = files(package).joinpath(folder)
        except ModuleNotFoundError as error:
            raise StartError(f"static files: no package {package!r}: {error}") from error
        if not self._root.joinpath("index.html").is_file():
            raise StartError(
                f"static files: expected {folder}/index.html in the package {package!r}"
            )
        self._loading = asyncio.Lock()
        self._files: dict[str, _File] = {}
        self._shell: _File | None = None
        self._digest = ""

    async def shell(self, request: web.Request) -> web.Response:
        """Serve the shell."""
        from aiohttp import web

        shell = await self._loaded()
        tag = f'"{self._digest}"'
        headers = {"Cache-Control": "no-cache", "ETag": tag, "Content-Security-Policy": PAGE_POLICY}
        # A proxy may have made it a weak one, or one of several.
        if tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        return _answer(request, shell, headers)

    @staticmethod
    async def to_shell(request: web.Request) -> web.Response:
        """Lead to the shell, whose relative names need the slash."""
        from aiohttp import web

        name = request.path.rpartition("/")[2]
        raise web.HTTPPermanentRedirect(f"{name}/")

    async def file(self, request: web.Request) -> web.Response:
        """Serve one file below the digest.

        Raises:
            WireError: There is none of this name, or not in this version.
        """
        await self._loaded()
        found = self._files.get(request.match_info["file"])
        if found is None or request.match_info["digest"] != self._digest:
            raise wire_error("not_found", "there is nothing at this path", action="load the page")
        return _answer(request, found, {"Cache-Control": _FOR_EVER})

    async def _loaded(self) -> _File:
        async with self._loading:
            if self._shell is None:
                await asyncio.to_thread(self._load)
        assert self._shell is not None, "it was loaded just now"
        return self._shell

    def _load(self) -> None:
        found: dict[str, bytes] = {}
        _read(self._root, "", found, MOST_BYTES)
        whole = hashlib.sha256()
        for name in sorted(found):
            whole.update(f"{name}\0{len(found[name])}\0".encode() + found[name])
        self._digest = whole.hexdigest()[:16]
        shell = found.pop("index.html").replace(_BASE, self._digest.encode())
        self._files = {name: _made(name, body) for name, body in found.items()}
        self._shell = _made("index.html", shell)


def _read(folder: Traversable, prefix: str, found: dict[str, bytes], most: int) -> None:
    """Read what a browser knows of `folder` and the folders in it; other files stay unserved."""
    for item in folder.iterdir():
        name = f"{prefix}{item.name}"
        if item.is_dir():
            _read(item, f"{name}/", found, most)
        elif _kind(name) is not None:
            found[name] = item.read_bytes()
            if sum(map(len, found.values())) > most:
                raise StartError(f"static files: found more than {most:,} bytes, expected fewer")


def _kind(name: str) -> str | None:
    return TYPES.get(f".{name.rpartition('.')[2]}")


def _made(name: str, body: bytes) -> _File:
    packed = gzip.compress(body, mtime=0)
    return _File(body, packed if len(packed) < len(body) else None, str(_kind(name)))


def _answer(request: web.Request, found: _File, headers: dict[str, str]) -> web.Response:
    from aiohttp import web

    body, more = found.body, {**headers, "Vary": "Accept-Encoding"}
    if found.packed is not None and _GZIP.search(request.headers.get("Accept-Encoding", "")):
        body, more["Content-Encoding"] = found.packed, "gzip"
    response = web.Response(body=body, headers=more, content_type=found.kind)
    if found.kind.startswith("text/") or found.kind == "application/json":
        response.charset = "utf-8"
    return response
