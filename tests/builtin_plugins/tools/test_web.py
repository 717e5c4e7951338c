from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import httpx
import pytest
from aiohttp import web

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.builtin_plugins.tools.texts import TAINT, fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate.core.domain.tools import ToolResult


async def _pages(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/plain":
            return web.Response(text="hällo")
        case "/latin":
            body = "hällo".encode("latin-1")
            return web.Response(body=body, headers={"Content-Type": "text/plain; charset=latin-1"})
        case "/odd":
            body = gzip.compress(b"x" * 1000)
            return web.Response(body=body, headers={"Content-Type": "text/plain; charset=zlib"})
        case "/json":
            return web.json_response({"a": 1}, content_type="application/problem+json")
        case "/image":
            return web.Response(body=b"\x89PNG", content_type="image/png")
        case "/bomb":
            body = gzip.compress(b"y" * 3_000_000)
            return web.Response(
                body=body, headers={"Content-Encoding": "gzip"}, content_type="text/plain"
            )
        case _:
            return web.Response(status=404, text="not here")


@pytest.fixture
async def base() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path}", _pages)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


async def get(url: str, max_bytes: int = 10_000) -> ToolResult:
    async with httpx.AsyncClient() as client:
        return await fetch(client, url, max_bytes=max_bytes)


async def test_text_comes_back_with_its_status_and_tainted(base: str) -> None:
    result = await get(f"{base}/plain")
    assert result.content == "HTTP 200 OK (text/plain)\n\nhällo"
    assert result.taint == TAINT
    assert not result.is_error


async def test_charset_of_the_page_counts_where_it_is_a_charset(base: str) -> None:
    assert (await get(f"{base}/latin")).content.endswith("hällo")
    assert "\ufffd" in (await get(f"{base}/odd")).content


async def test_json_of_any_kind_is_text_and_an_image_is_not(base: str) -> None:
    assert (await get(f"{base}/json")).content.endswith('{"a": 1}')
    image = await get(f"{base}/image")
    assert image.is_error
    assert "image/png: expected text" in image.content
    assert image.taint == TAINT


async def test_long_answer_is_cut(base: str) -> None:
    result = await get(f"{base}/bomb", max_bytes=1000)
    assert result.content.endswith("y" * 1000 + "\n\n[cut after 1000 bytes]")
    assert len(result.content) < 1100


async def test_error_status_is_an_error_with_the_text_of_the_page(base: str) -> None:
    result = await get(f"{base}/none")
    assert result.is_error
    assert "HTTP 404 Not Found" in result.content
    assert result.content.endswith("not here")


@pytest.mark.parametrize(
    "url", ["not a url", "http://", "ftp://example/x", "http://[::1", "http://127.0.0.1:1/closed"]
)
async def test_address_that_cannot_be_fetched_is_an_error_result(url: str) -> None:
    result = await get(url)
    assert result.is_error
    assert "cannot be fetched" in result.content


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (EgressDeniedError("example.org is not granted"), r"\[plugin\.tools\] http_get"),
        (EgressFailedError("no connection"), "no connection"),
    ],
)
async def test_egress_errors_become_error_results(error: Exception, says: str) -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise error

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as client:
        result = await fetch(client, "https://example.org/", max_bytes=100)
    assert result.is_error
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(result.content)
