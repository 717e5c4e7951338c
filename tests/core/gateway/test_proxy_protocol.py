"""The PROXY protocol, version 2, of a balancer that passes bytes on."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.script import settings, until
from tests.support.wire import Served, bearer, serving, tokens

from hookgate.core.domain.errors import StartError
from hookgate.core.gateway import proxy_protocol
from hookgate.core.gateway.access.auth import check_listener
from hookgate.core.gateway.proxy_protocol import (
    LONGEST,
    SIGNATURE,
    Announced,
    read_header,
)

REQUEST = b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n"


def header(
    body: bytes = b"", *, command: int = 0x21, family: int = 0x11, length: int | None = None
) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + struct.pack("!BBH", command, family, size) + body


def ends(source: str, *, port: int = 5000) -> bytes:
    packed = ipaddress.ip_address(source).packed
    return packed + packed + struct.pack("!HH", port, 443)


def note(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value


TLS = note(0x20, b"\x01" + bytes(4))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (header(ends("192.0.2.7")), Announced(ipaddress.ip_address("192.0.2.7"))),
        (header(ends("2001:db8::7"), family=0x21), Announced(ipaddress.ip_address("2001:db8::7"))),
        # The same machine, however it is written.
        (
            header(ends("::ffff:192.0.2.7"), family=0x21),
            Announced(ipaddress.ip_address("192.0.2.7")),
        ),
        (
            header(ends("192.0.2.7") + note(0x04, b"padding") + TLS),
            Announced(ipaddress.ip_address("192.0.2.7"), secure=True),
        ),
        (
            header(ends("192.0.2.7") + note(0x20, bytes(5))),
            Announced(ipaddress.ip_address("192.0.2.7")),
        ),
        # A balancer's own check, one that knows no address, a Unix socket.
        (header(command=0x20, family=0), Announced()),
        (header(command=0x20) + b"", Announced()),
        (header(b"more", family=0), Announced()),
        (header(bytes(216), family=0x31), Announced()),
    ],
)
def test_a_header_says_who_the_client_is(data: bytes, told: Announced) -> None:
    assert read_header(data) == (told, len(data))
    assert read_header(data + b"GET / HTTP/1.1\r\n") == (told, len(data))
    for size in range(len(data)):
        assert read_header(data[:size]) is None, "it waits for the rest"


@pytest.mark.parametrize(
    "data",
    [
        header(command=0x11),
        header(command=0x22),
        header(length=LONGEST + 1),
        header(ends("192.0.2.7")[:-1]),
        header(ends("192.0.2.7"), family=0x21),
        header(ends("192.0.2.7") + b"\x20"),
        header(ends("192.0.2.7") + b"\x20\x00\x09\x01"),
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="found"):
        read_header(data)


@given(st.binary(max_size=300) | st.binary(max_size=80).map(lambda more: SIGNATURE + more))
@example(b"")
@example(SIGNATURE)
def test_whatever_comes_is_read_refused_or_waited_for_within_the_bound(data: bytes) -> None:
    try:
        read = read_header(data)
    except ValueError:
        assert data.startswith(SIGNATURE)
        return
    if read is None:
        assert data[: len(SIGNATURE)] == SIGNATURE[: len(data)]
        assert len(data) < LONGEST + 16
    else:
        said, end = read
        assert 0 <= end <= len(data)
        assert data.startswith(SIGNATURE) == (end > 0)
        assert end or said == Announced()


# -- at the listener -------------------------------------------------------------------


def section(**more: Any) -> tuple[dict[str, Any], str]:
    wire, made = tokens(ann={"scopes": ["chat", "read"]})
    wire |= {"proxy_protocol": True, "trusted_proxies": ["127.0.0.1"], **more}
    return wire, made["ann"]


async def speak(served: Served, *pieces: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def request(served: Served, *lines: str) -> bytes:
    told = "".join(f"{line}\r\n" for line in (*lines, "Connection: close"))
    return REQUEST % (served.listener.port, told.encode())


def counted(served: Served) -> set[str]:
    """Return the addresses whose failed attempts are counted."""
    return set(served.server.gate.attempts._failures)


async def test_failed_attempts_are_counted_by_the_client_that_is_announced() -> None:
    wire, token = section()
    async with serving(wire=wire) as served:
        wrong, right = "Authorization: Bearer wrong", f"Authorization: Bearer {token}"
        whole = header(ends("192.0.2.7")) + request(served, wrong, "X-Forwarded-For: 192.0.2.8")
        assert b" 401 " in await speak(served, *(whole[n : n + 1] for n in range(len(whole))))
        assert counted(served) == {"192.0.2.7"}, "who says more is nobody that is trusted"
        assert b" 200 " in await speak(
            served, header(ends("2001:db8::7"), family=0x21), request(served, right)
        )
        # A balancer's own check, a command of this machine, a proxy that speaks HTTP.
        assert b" 200 " in await speak(served, header(command=0x20), request(served, right))
        assert b" 200 " in await speak(served, request(served, right))
        forwarded = request(served, wrong, "X-Forwarded-For: 192.0.2.9")
        assert b" 401 " in await speak(served, forwarded)
        assert counted(served) == {"192.0.2.7", "192.0.2.9"}


async def test_a_page_of_a_client_that_speaks_tls_to_the_balancer_is_ones_own() -> None:
    wire, token = section()
    async with serving(wire=wire) as served:
        lines = (
            f"Authorization: Bearer {token}",
            f"Origin: https://127.0.0.1:{served.listener.port}",
        )
        asked = request(served, *lines, "Content-Length: 0").replace(
            b"GET /v1/status", b"POST /v1/status"
        )
        assert b" 403 " in await speak(served, header(ends("192.0.2.7")), asked)
        assert b" 403 " not in await speak(served, header(ends("192.0.2.7") + TLS), asked)


async def test_what_cannot_be_read_ends_the_connection_and_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire, token = section()
    async with serving(wire=wire) as served:
        assert await speak(served, header(command=0x11), request(served)) == b""
        # Who says nothing is waited for, and no longer than this.
        monkeypatch.setattr(proxy_protocol, "HEADER_SECONDS", 0.05)
        assert await speak(served, SIGNATURE[:5]) == b""
        assert (await served.get("/v1/status", **bearer(token)))[0] == 200


async def test_a_header_of_anybody_but_a_trusted_proxy_is_a_malformed_request() -> None:
    wire, _ = section(trusted_proxies=["10.0.0.2"])
    async with serving(wire=wire) as served:
        said = await speak(served, header(ends("192.0.2.7")), request(served))
    assert b" 400 " in said or said == b""


async def test_without_the_setting_no_header_is_read() -> None:
    wire, _ = section(proxy_protocol=False)
    async with serving(wire=wire) as served:
        said = await speak(served, header(ends("192.0.2.7")), request(served))
    assert b" 400 " in said or said == b""


async def test_sockets_go_through_and_who_waits_when_it_ends_is_closed() -> None:
    wire, token = section()
    async with serving(wire=wire) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.listener.port)
        await until(lambda: served.listener._headers.waiting)  # type: ignore[union-attr]
        async with served.socket(**bearer(token)) as socket:
            assert await socket.result("ping") == {"pong": True}
    assert await reader.read() == b""
    writer.close()


def test_the_setting_needs_to_know_whose_headers_are_read(tmp_path: Any) -> None:
    wire, _ = section(trusted_proxies=[])
    with pytest.raises(StartError, match="trusted_proxies names no proxy"):
        check_listener(settings(tmp_path, gateway=wire))
