"""Fetching text from granted addresses."""

from __future__ import annotations

import codecs

import httpx

from hookgate import EgressDeniedError, EgressFailedError, ToolResult

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
