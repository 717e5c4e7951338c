from __future__ import annotations

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL as WireURL

from hookgate.builtin_plugins.egress.connection import _wire_url
from hookgate.kit.url_grants import (
    Grant,
    Grants,
    NotGrantedError,
    shown,
    target_of,
)


@pytest.mark.parametrize(
    ("grant", "url"),
    [
        ("https://api.example.com/*", "https://api.example.com/"),
        ("https://api.example.com/*", "https://api.example.com"),
        ("https://api.example.com/*", "https://API.Example.COM:443/x?y=1#z"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/chat"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/"),
        ("https://api.example.com/v1/*", "https://api.example.com/v2/../v1/chat"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/a%2Fb"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/%E2%82%AC"),
        ("https://api.example.com/exact", "https://api.example.com/exact?any=query"),
        ("https://*.example.com/*", "https://a.b.example.com/x"),
        ("http://127.0.0.1:11434/*", "http://127.0.0.1:11434/api"),
        ("http://[::1]:80/*", "http://[0:0:0:0:0:0:0:1]/x"),
        ("https://bücher.example/*", "https://BÜCHER.example/"),
        ("https://bücher.example/*", "https://xn--bcher-kva.example/"),
        ("https://xn--bcher-kva.example/*", "https://bücher.example/"),
        ("https://*.bücher.example/*", "https://a.xn--bcher-kva.example/"),
    ],
)
def test_a_url_within_the_grant_is_covered(grant: str, url: str) -> None:
    Grants([grant]).check(httpx.URL(url))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "api.example.com",
        "http:api.example.com",
        "https://api.example.com",
        "ftp://api.example.com/*",
        "HTTPS://api.example.com/*",
        "https://*/*",
        "https://*.com/*",
        "https://*.0.0.1/*",
        "https://a.*.example.com/*",
        "https://api*.example.com/*",
        "https://**.example.com/*",
        "https://api.example.com:*/*",
        "https://api.example.com:/*",
        "https://api.example.com:0/*",
        "https://api.example.com:65536/*",
        "https://api.example.com:99999999999/*",
        "https://user@api.example.com/*",
        "https://user:pass@api.example.com/*",
        "https://api.example.com./*",
        "https://api..example.com/*",
        "https://-api.example.com/*",
        "https://api.example.com/v1*",
        "https://api.example.com/*/x",
        "https://api.example.com/v1/**",
        "https://api.example.com/v1/../*",
        "https://api.example.com/v1/%2e%2e/*",
        "https://api.example.com/v1/*?x=1",
        "https://api.example.com/v1/*#x",
        "https://api.example.com\\/*",
        "https://api.example.com/a b/*",
        " https://api.example.com/*",
        "https://127.1/*",
        "https://2130706433/*",
        "https://0x7f000001/*",
        "https://0177.0.0.1/*",
        "https://127.0.0.1./*",
        "https://[::1/*",
        "https://[fe80::1%25eth0]/*",
        "https://[::ffff:127.0.0.1]x/*",
        "https://exa%6dple.com/*",
        f"https://{'a' * 64}.example.com/*",
        f"https://{'a.' * 130}example.com/*",
    ],
)
def test_a_pattern_outside_the_grammar_is_refused_and_shown(text: str) -> None:
    with pytest.raises(ValueError, match="expected a URL pattern") as caught:
        Grant.parse(text)
    assert repr(text)[:60] in str(caught.value)


def test_a_client_without_grants_reaches_nothing() -> None:
    with pytest.raises(NotGrantedError, match="no URL is granted"):
        Grants([]).check(httpx.URL("https://example.com/"))


def test_an_error_shows_no_user_and_no_query() -> None:
    url = httpx.URL("https://user:secret@example.com:8443/a?key=secret#secret")
    assert shown(url) == "https://example.com:8443/a"


HOSTS = st.sampled_from(
    ["api.example.com", "127.0.0.1", "[::1]", "[2606:4700::1]", "bücher.example", "a_b.example"]
)
PATHS = st.text(
    st.sampled_from("ab/.%2eEfF5cC\\;:@&=+$,~'()*|^[]üß "), max_size=24
) | st.sampled_from(["/%2e%2e/x", "/a/%252e%252e/b", "//evil.example/x", "/a/..;/b"])
QUERIES = st.text(st.sampled_from("ab=&%2e+/?:@ü;|\"'"), max_size=12)


@given(HOSTS, st.none() | st.integers(0, 65_535), PATHS, QUERIES)
@example("api.example.com", None, "/v1/%2e%2e/admin", "a=%2e")
def test_what_is_connected_to_and_sent_is_what_was_checked(
    host: str, port: int | None, path: str, query: str
) -> None:
    authority = host if port is None else f"{host}:{port}"
    try:
        url = httpx.URL(f"http://{authority}/{path}?{query}")
        target = target_of(url)
    except (httpx.InvalidURL, NotGrantedError):
        return
    wire = _wire_url(target)
    assert isinstance(wire, WireURL)
    assert wire.raw_host == target.host
    assert wire.port == target.port
    assert wire.raw_path == target.path
    sent = f"{target.path}?{target.query}" if target.query else target.path
    assert wire.raw_path_qs == sent
    # aiohttp takes a URL of yarl's as it is.
    assert WireURL(wire) is wire


@given(st.text(max_size=60))
@example("https://api.example.com/*")
def test_any_text_is_either_a_grant_or_refused(text: str) -> None:
    try:
        grant = Grant.parse(text)
    except ValueError:
        return
    assert grant.scheme in ("http", "https")
    assert 1 <= grant.port <= 65_535


@given(PATHS)
def test_below_a_prefix_no_reading_of_the_path_climbs_out(path: str) -> None:
    from urllib.parse import unquote

    try:
        target = Grants(["http://api.example.com/v1/*"]).check(
            httpx.URL(f"http://api.example.com/v1/{path}")
        )
    except (httpx.InvalidURL, NotGrantedError):
        return
    once, twice = unquote(target.path), unquote(unquote(target.path))
    for reading in (target.path, once, twice, once.replace("\\", "/")):
        assert reading.startswith("/v1/")
        assert ".." not in reading.split("/")
