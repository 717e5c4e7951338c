from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.wire import serving

from hookgate.core.gateway.access.origin import canonical_address
from hookgate.core.gateway.access.peer import PeerLookup, PeerUser, parse_proc_net_tcp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")

NOBODY = 65_534

REQUEST = "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"


@contextmanager
def user(uid: int) -> Iterator[None]:
    """Make what this thread opens belong to another user, as far as the kernel can tell."""
    libc = ctypes.CDLL(None)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


@contextmanager
def connected(
    family: socket.AddressFamily = socket.AF_INET, to: str = "127.0.0.1", uid: int | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection, the client's first."""
    listening = socket.AF_INET6 if ":" in to or family == socket.AF_INET6 else socket.AF_INET
    with socket.socket(listening) as server:
        if listening == socket.AF_INET6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::" if listening == socket.AF_INET6 else to, 0))
        server.listen()
        with user(os.geteuid() if uid is None else uid):
            client = socket.socket(family)
        with client:
            client.connect((to, server.getsockname()[1]))
            accepted, _ = server.accept()
            with accepted:
                yield client, accepted


def ask(lookup: PeerLookup, accepted: socket.socket) -> PeerUser | None:
    return lookup.user_of(accepted.getpeername()[:2], accepted.getsockname()[:2])


@pytest.fixture(params=["netlink", "proc"])
def lookup(request: pytest.FixtureRequest) -> Iterator[PeerLookup]:
    made = PeerLookup(netlink=request.param == "netlink")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("family", "to"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
def test_our_own_connection_is_ours(
    lookup: PeerLookup, family: socket.AddressFamily, to: str
) -> None:
    with connected(family, to) as (_, accepted):
        found = ask(lookup, accepted)
    assert found is not None
    assert found.uid == os.geteuid()
    assert found.inode != 0
    assert found.trusted


@as_root
def test_the_connection_of_another_user_is_not_ours(lookup: PeerLookup) -> None:
    with connected(uid=NOBODY) as (_, accepted):
        found = ask(lookup, accepted)
    assert found is not None
    assert found.uid == NOBODY
    assert not found.trusted


@as_root
def test_a_socket_that_its_process_has_closed_belongs_to_nobody(lookup: PeerLookup) -> None:
    # The kernel says that root owns it.
    with connected(uid=NOBODY) as (client, accepted):
        client.sendall(b"hello")
        client.close()
        found = ask(lookup, accepted)
    assert found is None or not found.trusted


@as_root
def test_a_socket_that_is_half_closed_still_has_its_user(lookup: PeerLookup) -> None:
    with connected(uid=NOBODY) as (client, accepted):
        client.shutdown(socket.SHUT_WR)
        found = ask(lookup, accepted)
    assert found is not None
    assert (found.uid, found.trusted) == (NOBODY, False)


def test_a_connection_that_is_not_there_is_not_found(lookup: PeerLookup) -> None:
    assert lookup.user_of(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert lookup.user_of(("127.0.0.1", 1), ("::1", 2)) is None
    assert lookup.user_of(("nonsense", 1), ("127.0.0.1", 2)) is None


def test_a_kernel_that_says_nothing_trusts_nobody(tmp_path: Path) -> None:
    lookup = PeerLookup(netlink=False, proc=tmp_path)
    with connected() as (_, accepted):
        assert ask(lookup, accepted) is None


def test_the_table_of_the_kernel_is_read() -> None:
    def words(address: bytes) -> str:
        numbers = struct.unpack(f"={len(address) // 4}I", address)
        return "".join(f"{number:08X}" for number in numbers)

    loopback = words(socket.inet_aton("127.0.0.1"))
    mapped = words(socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.1"))
    row = "{}: {}:1C20 {}:D431 01 00000000:00000000 02:0000 00000000  1000        0 4711 2 0000"
    table = "\n".join(["  sl  local", row.format(0, loopback, mapped), "", "   1: short"])
    ((local, remote, found),) = parse_proc_net_tcp(table)
    assert local == (canonical_address("127.0.0.1"), 7200)
    assert remote == (canonical_address("127.0.0.1"), 54_321)
    assert (found.uid, found.inode) == (1000, 4711)


# -- the gateway ---------------------------------------------------------------------------


def speak(port: int, uid: int, *, hang_up: bool = False) -> bytes:
    """Ask for the status as another user; hang up at once, or return the answer's beginning."""
    with user(uid):
        client = socket.socket()
    with client:
        client.connect(("127.0.0.1", port))
        client.sendall(REQUEST.format(port=port).encode())
        return b"" if hang_up else client.recv(4096)


@as_root
async def test_another_user_of_the_machine_is_refused_every_time() -> None:
    async with serving() as served:
        port = served.listener.port
        answers = await asyncio.to_thread(lambda: [speak(port, NOBODY) for _ in range(100)])
        mine = await asyncio.to_thread(speak, port, os.geteuid())
    assert [answer.split(b" ", 2)[1] for answer in answers] == [b"401"] * 100
    assert mine.startswith(b"HTTP/1.1 200 ")


@as_root
async def test_another_user_may_still_see_whether_the_gateway_lives() -> None:
    async with serving() as served:
        port = served.listener.port

        def look() -> bytes:
            with user(NOBODY):
                client = socket.socket()
            with client:
                client.connect(("127.0.0.1", port))
                client.sendall(REQUEST.format(port=port).replace("/v1/status", "/health").encode())
                return client.recv(4096)

        assert (await asyncio.to_thread(look)).startswith(b"HTTP/1.1 200 ")


@as_root
async def test_who_hangs_up_at_once_is_not_taken_for_root() -> None:
    async with serving() as served:
        request = (
            f"POST /v1/turns HTTP/1.1\r\nHost: 127.0.0.1:{served.listener.port}\r\n"
            'Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{"content":"x"}'
        )

        def hang_up() -> None:
            for _ in range(50):
                with user(NOBODY):
                    client = socket.socket()
                with client:
                    client.connect(("127.0.0.1", served.listener.port))
                    client.sendall(request.encode())

        await asyncio.to_thread(hang_up)
        status, answer = await served.get("/v1/sessions")
    assert (status, answer) == (200, {"sessions": []})


async def test_the_kernel_is_asked_once_for_each_connection() -> None:
    async with serving() as served:
        asked = []
        peers = served.server.gate._peers
        ask_kernel = peers.user_of

        def count(*ends: tuple[str, int]) -> PeerUser | None:
            asked.append(ends)
            return ask_kernel(*ends)

        peers.user_of = count  # type: ignore[method-assign] - to count
        for _ in range(5):
            assert (await served.get("/v1/status"))[0] == 200
        assert len(asked) == 1
        async with served.socket() as socket_:
            for _ in range(5):
                await socket_.result("ping")
        assert len(asked) <= 2
