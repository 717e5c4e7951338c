"""Pages of plugins: files that are kept for ever, and a shell that is asked for each time."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.core.gateway.test_authenticate import model
from tests.support.wire import Served, serving, tokens

from hookgate import Routes, hookimpl
from hookgate.core.domain.errors import HookError
from hookgate.core.gateway import static

SHELL = '<!doctype html><title>A page</title><script type="module" src="{{static}}/a/app.js">'
SCRIPT = 'import {b} from "../b.js";\n' * 30


class Pages:
    """A plugin with a page."""

    name = "pages"

    def __init__(self, folder: str = "static", package: str = "page_of_a_test") -> None:
        self.made = (package, folder)

    @hookimpl
    def add_routes(self, host: Any, routes: Routes) -> None:
        routes.static("/ui", *self.made, why="a page without data")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a page in it."""
    folder = tmp_path / "page_of_a_test" / "static"
    (folder / "a").mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("SECRET = 1\n")
    (folder / "index.html").write_text(SHELL)
    (folder / "a" / "app.js").write_text(SCRIPT)
    (folder / "b.js").write_text("export const b = 1;\n")
    (folder / "notes.md").write_text("not for a browser\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "page_of_a_test", raising=False)
    return folder


async def get(served: Served, path: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    async with served.http.get(served.url + path, headers=headers, allow_redirects=False) as answer:
        return answer, await answer.read()


async def base_of(served: Served) -> str:
    """Return the path of the page's files."""
    _, body = await get(served, "/ui/")
    return "/ui/" + body.decode().partition('src="')[2].partition("/a/app.js")[0]


async def test_the_shell_names_files_that_are_kept_for_ever(package: Path) -> None:
    section, _ = tokens(ann={})
    async with serving(model(), Pages(), wire=section) as served:
        led, _ = await get(served, "/ui")
        assert (led.status, led.headers["Location"]) == (308, "ui/")
        shell, body = await get(served, "/ui/")
        assert shell.content_type == "text/html"
        assert shell.headers["Cache-Control"] == "no-cache"
        policy = shell.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        base = await base_of(served)
        assert len(base) == len("/ui/") + 16
        script, text = await get(served, f"{base}/a/app.js")
        assert (script.status, text.decode()) == (200, SCRIPT)
        assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert "immutable" in script.headers["Cache-Control"]
        tag = shell.headers["ETag"]
        for known, status in ((tag, 304), (f'"other", W/{tag}', 304), ('"other"', 200)):
            answer, _ = await get(served, "/ui/", **{"If-None-Match": known})
            assert answer.status == status
        assert b"{{" not in body


async def test_a_browser_that_takes_gzip_gets_it(package: Path) -> None:
    async with serving(model(), Pages()) as served:
        path = f"{await base_of(served)}/a/app.js"
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            cases = {
                **dict.fromkeys(("gzip", "br, GZIP;q=0.5", "gzip;q=1.0, br"), True),
                **dict.fromkeys(("identity", "br, gzip;q=0", "gzip; q=0.0, br", "xgzip"), False),
            }
            for taken, packed in cases.items():
                async with http.get(served.url + path, headers={"Accept-Encoding": taken}) as one:
                    assert ("Content-Encoding" in one.headers) == packed
                    assert one.headers["Vary"] == "Accept-Encoding"
                    body = await one.read()
                    assert (gzip.decompress(body) if packed else body).decode() == SCRIPT


async def test_nothing_beside_the_page_is_served(package: Path) -> None:
    async with serving(model(), Pages()) as served:
        base = await base_of(served)
        for path in (
            *(f"{base}/{name}" for name in ("notes.md", "index.html", "", "c.js", "a")),
            *(f"{base}/{name}" for name in ("../__init__.py", "%2e%2e/__init__.py", "a//app.js")),
            "/ui/0123456789abcdef/b.js",
        ):
            head = f"GET {path} HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n\r\n"
            assert b" 404 " in (await served.raw(head)).partition(b"\r\n")[0], path


async def test_a_changed_file_has_another_path(package: Path) -> None:
    async with serving(model(), Pages()) as served:
        before = await base_of(served)
    (package / "b.js").write_text("export const b = 2;\n")
    async with serving(model(), Pages()) as served:
        assert await base_of(served) != before


@pytest.mark.parametrize(
    "pages", [Pages("elsewhere"), Pages(package="no_such_package_of_a_test")], ids=["folder", "no"]
)
async def test_a_page_that_is_not_there_is_an_error_of_its_plugin(
    package: Path, pages: Pages
) -> None:
    with pytest.raises(HookError, match=r"static files: .*package"):
        async with serving(model(), pages):
            raise AssertionError("it started")


async def test_a_page_has_a_size(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "MOST_BYTES", 100)
    async with serving(model(), Pages()) as served:
        assert (await get(served, "/ui/"))[0].status == 500
