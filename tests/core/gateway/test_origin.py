from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from tests.support.wire import Served, serving

from hookgate.core.domain.errors import StartError, WireError
from hookgate.core.gateway.access.origin import (
    Authority,
    HostRule,
    OriginRule,
    Proxies,
    address_key,
    canonical_address,
    is_loopback_bind,
    read_authority,
)
from hookgate.core.gateway.app import ROUTES


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


# -- every host with every origin at every route ---------------------------------------

ALLOWED_HOST, ALLOWED_ORIGIN = "gateway.example", "https://app.example"

# What stands for the port is put in later. True: it is ours.
HOSTS = {
    "127.0.0.1:PORT": True,
    "localhost:PORT": True,
    "LOCALHOST:PORT": True,
    "[::1]:PORT": True,
    "gateway.example": True,
    "gateway.example:PORT": True,
    "evil.example": False,
    "evil.example:PORT": False,
    "127.0.0.1:1": False,
    "0.0.0.0:PORT": False,
    "localhost.evil.example:PORT": False,
    "127.0.0.1:PORT@evil.example": False,
}
ORIGINS = (
    None,
    "http://HOST",
    "https://HOST",
    "https://app.example",
    "https://evil.example",
    "http://localhost:1",
    "null",
    "*",
)


PROBES = ("/health", "/ready")


def right(method: str, path: str, upgrade: bool, host: str, origin: str | None) -> bool:
    """Whether a request may go on, by the rules alone: written without a look at the code."""
    if path in PROBES and host == "127.0.0.1:1":
        return True  # an address, whichever: no page has one for its name
    if not HOSTS[host]:
        return False
    if method == "GET" and not upgrade:
        return True
    # No page asks; our own page asks; a page asks that the settings name.
    return origin in (None, "http://HOST", "https://app.example")


async def status_of(
    served: Served, method: str, path: str, host: str, origin: str | None, upgrade: bool
) -> int:
    real = host.replace("PORT", str(served.listener.port))
    lines = [f"{method} {path} HTTP/1.1", f"Host: {real}", "Connection: close"]
    if upgrade:
        key = base64.b64encode(os.urandom(16)).decode()
        lines[-1] = "Connection: Upgrade"
        lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
    bodies = {
        "/v1/accept/forget": '{"kind":"tool","name":"x"}',
        "/v1/chat/cancel": '{"turn":"x"}',
        "/v1/chat/send": '{"content":"x"}',
        "/v1/events/unsubscribe": '{"request":"x"}',
        "/v1/request/cancel": '{"request":"x"}',
        "/v1/plugins/why": '{"name":"control"}',
        "/v1/sessions/delete": '{"session":"a:b:c:d"}',
        "/v1/sessions/export": '{"session":"a:b:c:d"}',
        "/v1/sessions/show": '{"session":"a:b:c:d"}',
        "/v1/token/revoke": '{"name":"x"}',
        "/v1/tools/call": '{"name":"x"}',
        "/v1/turns": '{"content":"x"}',
    }
    body = bodies.get(path, "{}" if method == "POST" else "")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    if origin is not None:
        lines.append(f"Origin: {origin.replace('HOST', real)}")
    answer = await served.raw("\r\n".join(lines) + "\r\n\r\n" + body)
    return int(answer.split(b" ", 2)[1])


def all_routes(served: Served) -> list[tuple[str, str]]:
    routes = []
    for route in served.listener.app[ROUTES]:
        assert route.resource is not None
        # With parameters that are right, 400 can only mean that the request was refused.
        path = route.resource.canonical.replace("{name}", "ping")
        if route.method == "GET" and path.endswith(("/history", "/export")):
            path += "?session=a:b:c:d"
        routes.append((route.method, path))
    return sorted(routes)


@pytest.mark.slow
async def test_twelve_hosts_with_eight_origins_at_every_route_are_judged_right() -> None:
    wrong, seen = [], 0
    wire = {"allowed_hosts": [ALLOWED_HOST], "allowed_origins": [ALLOWED_ORIGIN]}
    async with serving(wire=wire) as served:
        # Nothing can be accepted where no plugin has things of a kind, and a login needs a token:
        # a 400 of their own. Whose login is taken is tested with the sessions of browsers.
        left = {("POST", "/v1/accept/give"), ("POST", "/v1/session")}
        routes = [one for one in all_routes(served) if one[0] != "HEAD" and one not in left]
        for method, path in routes:
            upgrade = path == "/ws"
            for host in HOSTS:
                for origin in ORIGINS:
                    status = await status_of(served, method, path, host, origin, upgrade)
                    seen += 1
                    if (status not in (400, 403, 421)) != right(
                        method, path, upgrade, host, origin
                    ):
                        wrong.append((method, path, host, origin, status))
    assert wrong == []
    assert seen == len(routes) * 12 * 8
    assert len(routes) >= 12


# What haproxy, the kubelet, Consul and load balancers of clouds ask with, and what they may not.
ASKED = {
    "GET PATH HTTP/1.0": 200,
    "HEAD PATH HTTP/1.0": 200,
    "GET PATH HTTP/1.1": 400,  # a must of RFC 9112, section 3.2
    "GET PATH HTTP/1.1\r\nHost: 10.4.0.17:8080": 200,
    "GET PATH HTTP/1.1\r\nHost: 10.4.0.17": 200,
    "GET PATH HTTP/1.1\r\nHost: [fd00::17]:7200": 200,
    "GET PATH HTTP/1.1\r\nHost: evil.example": 421,
    "GET PATH HTTP/1.1\r\nHost: 127.1": 421,
    "GET PATH HTTP/1.1\r\nHost: 0.0.0.0:7200": 421,
    "GET PATH HTTP/1.1\r\nHost: [::]:7200": 421,
    "GET PATH HTTP/1.1\r\nHost: ": 400,
    "GET PATH HTTP/1.1\r\nHost: 10.0.0.1, evil.example": 400,
    "GET PATH HTTP/1.1\r\nHost: 10.0.0.1\r\nHost: 10.0.0.1": 400,
    "POST PATH HTTP/1.1\r\nContent-Length: 0": 400,
    "GET PATH HTTP/1.1\r\nX-Forwarded-For: 10.0.0.9": 400,
}


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("asked", ASKED)
async def test_a_probe_needs_no_host(asked: str, path: str) -> None:
    async with serving() as served:
        answer = await served.raw(asked.replace("PATH", path) + "\r\nConnection: close\r\n\r\n")
    assert int(answer.split(b" ", 2)[1]) == ASKED[asked]


@pytest.mark.parametrize("lines", ["HTTP/1.0", "HTTP/1.1\r\nHost: 10.4.0.17:8080"])
async def test_nothing_but_probes_goes_without_the_host(lines: str) -> None:
    async with serving() as served:
        probes = {("HEAD", "/"), *[(method, path) for path in PROBES for method in ("GET", "HEAD")]}
        routes = [route for route in all_routes(served) if route not in probes]
        for method, path in [*routes, ("GET", "/nowhere")]:
            answer = await served.raw(f"{method} {path} {lines}\r\nConnection: close\r\n\r\n")
            assert int(answer.split(b" ", 2)[1]) in (400, 421), (method, path)


# -- the parts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", Authority("localhost")),
        ("LocalHost:80", Authority("localhost", 80)),
        ("127.0.0.1:7200", Authority("127.0.0.1", 7200)),
        ("[::1]:7200", Authority("::1", 7200)),
        ("[0:0:0:0:0:0:0:1]:7200", Authority("::1", 7200)),
        ("a_b.example", Authority("a_b.example")),
        *[
            (text, None)
            for text in (
                "",
                ":7200",
                "localhost:",
                "localhost:0",
                "localhost:65536",
                "localhost:7200 ",
                " localhost",
                "local host",
                "user@localhost",
                "localhost:7200@evil",
                "localhost/evil",
                "localhost?",
                "localhost#",
                "localhost\\evil",
                "::1",
                "[::1",
                "[::zz]",
                "[::1%eth0]",
                "localhost,evil",
                "lоcalhost",
                "localhost.",
                "127.0.0.1:7200:1",
                "-x",
            )
        ],
    ],
)
def test_an_authority_is_read_strictly(text: str, expected: Authority | None) -> None:
    assert read_authority(text) == expected


@given(st.text(max_size=40))
@example("127.1")
@example("0177.0.0.1")
@example("2130706433")
def test_no_other_spelling_of_an_authority_is_ours(text: str) -> None:
    rule = HostRule(())
    ours = {f"{name}:7200" for name in ("localhost", "127.0.0.1", "[::1]")}
    try:
        rule.check(headers(("Host", text)), "127.0.0.1", 7200)
    except WireError:
        assert text.lower() not in ours
    else:
        authority = read_authority(text)
        assert authority is not None
        assert authority.host in ("localhost", "127.0.0.1", "::1")
        assert authority.port == 7200


def test_a_host_without_a_port_is_ours_on_port_80_alone() -> None:
    rule = HostRule(())
    assert rule.check(headers(("Host", "localhost")), "127.0.0.1", 80) == Authority("localhost")
    with pytest.raises(WireError, match="not 'localhost'"):
        rule.check(headers(("Host", "localhost")), "127.0.0.1", 7200)


def test_an_allowed_name_with_a_port_stands_for_that_port_alone() -> None:
    rule = HostRule(("gw.example:8443",))
    rule.check(headers(("Host", "gw.example:8443")), "10.0.0.1", 7200)
    for other in ("gw.example", "gw.example:7200"):
        with pytest.raises(WireError):
            rule.check(headers(("Host", other)), "10.0.0.1", 7200)


@pytest.mark.parametrize("pairs", [(), (("Host", "localhost:7200"), ("Host", "localhost:7200"))])
def test_there_is_exactly_one_host(pairs: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(WireError, match="expected exactly one"):
        HostRule(()).check(headers(*pairs), "127.0.0.1", 7200)


@pytest.mark.parametrize("entry", ["*", "", "*.example", "http://gw.example", "a b"])
def test_an_allowed_host_that_is_none_stops_the_start(entry: str) -> None:
    with pytest.raises(StartError, match="allowed_hosts"):
        HostRule((entry,))


@pytest.mark.parametrize(
    ("origin", "authority", "scheme", "passes"),
    [
        ("http://gw.example", Authority("gw.example"), "http", True),
        ("http://gw.example:80", Authority("gw.example"), "http", True),
        ("http://gw.example", Authority("gw.example", 80), "http", True),
        ("https://gw.example", Authority("gw.example"), "https", True),
        ("https://gw.example:443", Authority("gw.example"), "https", True),
        ("https://gw.example", Authority("gw.example"), "http", False),
        ("http://gw.example", Authority("gw.example"), "https", False),
        ("http://gw.example:81", Authority("gw.example"), "http", False),
        ("http://GW.example", Authority("gw.example"), "http", True),
        ("http://gw.example/", Authority("gw.example"), "http", False),
        ("http://gw.example.evil", Authority("gw.example"), "http", False),
        ("http://evil@gw.example", Authority("gw.example"), "http", False),
        ("http://127.0.0.1:7200", Authority("localhost", 7200), "http", False),
        ("file://", Authority("gw.example"), "http", False),
        ("null", Authority("gw.example"), "http", False),
        ("", Authority("gw.example"), "http", False),
        ("*", Authority("gw.example"), "http", False),
        ("chrome-extension://abcdef", Authority("gw.example"), "http", False),
        ("https://LISTED.example", Authority("gw.example"), "http", True),
        ("https://listed.example:444", Authority("gw.example"), "http", False),
    ],
)
def test_an_origin_is_ours_listed_or_refused(
    origin: str, authority: Authority, scheme: str, passes: bool
) -> None:
    rule = OriginRule(("https://listed.example",))
    try:
        rule.check(headers(("Origin", origin)), authority, scheme=scheme)
    except WireError:
        assert not passes
    else:
        assert passes


def test_two_origins_are_refused() -> None:
    pair = (("Origin", "http://localhost:7200"), ("Origin", "http://localhost:7200"))
    with pytest.raises(WireError):
        OriginRule(()).check(headers(*pair), Authority("localhost", 7200))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::1", True),
        ("127.0.0.1", "::1", False),
    ],
)
def test_attempts_are_counted_by_canonical_address(one: str, other: str, same: bool) -> None:
    keys = []
    for text in (one, other):
        address = canonical_address(text)
        assert address is not None
        keys.append(address_key(address))
    assert (keys[0] == keys[1]) is same


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("LocalHost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("gw.example", False),
        ("localhost.evil", False),
    ],
)
def test_what_is_bound_to_loopback(host: str, loopback: bool) -> None:
    assert is_loopback_bind(host) is loopback


def test_the_client_behind_trusted_proxies_is_the_last_one_they_did_not_make_up() -> None:
    proxies = Proxies(("10.0.0.0/24", "192.0.2.1"))
    peer = canonical_address("10.0.0.9")
    assert peer is not None

    def client(chain: str, source: Any = peer) -> str:
        return str(proxies.client(source, headers(("X-Forwarded-For", chain))))

    assert client("203.0.113.5") == "203.0.113.5"
    assert client("1.1.1.1, 203.0.113.5, 192.0.2.1") == "203.0.113.5"
    assert client("::ffff:203.0.113.5") == "203.0.113.5"
    assert client("nonsense") == "10.0.0.9"
    assert client("") == "10.0.0.9"
    stranger = canonical_address("203.0.113.77")
    assert client("1.1.1.1", stranger) == "203.0.113.77"
    assert proxies.scheme(peer, {"X-Forwarded-Proto": "https"}) == "https"
    assert proxies.scheme(stranger, {"X-Forwarded-Proto": "https"}) == "http"


def test_a_trusted_proxy_that_is_no_address_stops_the_start() -> None:
    with pytest.raises(StartError, match="trusted_proxies"):
        Proxies(("proxy.example",))


# -- browsers of listed origins -----------------------------------------------------------------


async def test_a_listed_origin_may_ask_and_read_the_answer_and_no_other_may() -> None:
    wire = {"allowed_origins": [ALLOWED_ORIGIN]}
    async with serving(wire=wire) as served:
        ask = {"Origin": ALLOWED_ORIGIN, "Access-Control-Request-Method": "POST"}
        async with served.http.options(served.url + "/v1/turns", headers=ask) as answer:
            assert answer.status == 204
            assert answer.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN
        given = {"Origin": ALLOWED_ORIGIN}
        async with served.http.post(
            served.url + "/v1/turns", json={"content": "x"}, headers=given
        ) as answer:
            assert answer.status == 200
            assert answer.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN
            assert answer.headers["Vary"] == "Origin"
        for origin in ("https://evil.example", "null"):
            ask["Origin"] = origin
            async with served.http.options(served.url + "/v1/turns", headers=ask) as answer:
                assert answer.status == 405
                assert "Access-Control-Allow-Origin" not in answer.headers


async def test_hosts_are_checked_at_paths_where_nothing_is_too() -> None:
    async with serving() as served:
        for path in ("/", "/nothing", "/ws/"):
            answer = await served.raw(f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 421 "), path


async def test_ipv6_listeners_know_their_own_name() -> None:
    async with serving(wire={"host": "::1"}) as served:
        assert served.url.startswith("http://[::1]:")
        assert (await served.get("/v1/status"))[0] == 200
        async with served.socket() as socket:
            assert await socket.result("ping") == {"pong": True}
        reader, writer = await asyncio.open_connection("::1", served.listener.port)
        writer.write(b"GET /v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert (await reader.read(100)).startswith(b"HTTP/1.1 421 ")
        writer.close()
