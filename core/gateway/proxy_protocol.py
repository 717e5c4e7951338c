"""The PROXY protocol, version 2: what a balancer of the fourth layer says of a client.

Such a balancer passes bytes on and adds no headers, so every client would come from its address.
Instead it begins each connection with a header in binary form
(https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt, section 2.2). aiohttp has no place for
that, so it is read off before aiohttp gets the connection, and of nobody but a trusted proxy.
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from structlog.typing import FilteringBoundLogger

from hookgate.core.gateway.access.origin import IPAddress, canonical_address

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
"""What it begins with, and no request does."""

LONGEST = 4096
"""Bytes of the longest header that is read: addresses and a balancer's own notes."""

HEADER_SECONDS = 10.0
"""Seconds until it has to be there."""

_FIXED = struct.Struct("!12sBBH")  # signature, version and command, family, length of the rest
_NOTE = struct.Struct("!BH")  # type and length of a TLV
_LOCAL, _PROXY = 0x20, 0x21
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}  # TCP over IPv4, over IPv6
_SSL = 0x20  # PP2_TYPE_SSL
_CLIENT_SSL = 0x01  # PP2_CLIENT_SSL


@dataclass(frozen=True, slots=True)
class Announced:
    """What a header says.

    Attributes:
        address: The client's; None where it tells none, as for the balancer's own checks.
        secure: Whether the client speaks TLS to the balancer.
    """

    address: IPAddress | None = None
    secure: bool = False


def read_header(data: bytes) -> tuple[Announced, int] | None:
    """Read the header that `data` begins with.

    Args:
        data: What has come so far.

    Returns:
        What it says and its length, 0 where there is none; None where more has to come.

    Raises:
        ValueError: It is none of version 2, or longer than any.
    """
    if data[: len(SIGNATURE)] != SIGNATURE[: len(data)]:
        return Announced(), 0
    if len(data) < _FIXED.size:
        return None
    _, command, family, length = _FIXED.unpack_from(data)
    if command not in (_LOCAL, _PROXY) or length > LONGEST:
        raise ValueError(f"found version and command {command:#04x} and {length} bytes")
    end = _FIXED.size + length
    if len(data) < end:
        return None
    size = _ADDRESS_BYTES.get(family)
    if command == _LOCAL or size is None:
        return Announced(), end
    body = data[_FIXED.size : end]
    notes = body[2 * size + 4 :]  # behind both addresses and both ports
    if len(body) < 2 * size + 4:
        raise ValueError(f"found {len(body)} bytes of addresses, expected {2 * size + 4}")
    address = canonical_address(str(ipaddress.ip_address(body[:size])))
    return Announced(address, _speaks_tls(notes)), end


def _speaks_tls(notes: bytes) -> bool:
    secure = False
    while notes:
        if len(notes) < _NOTE.size:
            raise ValueError("found a note without its length")
        kind, length = _NOTE.unpack_from(notes)
        value, notes = notes[_NOTE.size :][:length], notes[_NOTE.size + length :]
        if len(value) < length:
            raise ValueError("found a note that ends beyond the header")
        secure = secure or (kind == _SSL and bool(value[:1]) and bool(value[0] & _CLIENT_SSL))
    return secure


class ProxyHeaders:
    """Makes the protocol of each new connection: it reads the header, then another one has it.

    Args:
        server: Makes the protocol that serves it.
        trusts: Whether the other end of a connection is a proxy that is believed.
        announced: Called with what was read.
        log: Told of headers that are none.
    """

    def __init__(
        self,
        server: Callable[[], asyncio.Protocol],
        trusts: Callable[[asyncio.BaseTransport], bool],
        announced: Callable[[asyncio.BaseTransport, Announced], None],
        log: FilteringBoundLogger,
    ) -> None:
        self.server = server
        self.trusts = trusts
        self.announced = announced
        self.log = log
        self.waiting: set[asyncio.Transport] = set()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _HeaderReader(self)

    def close(self) -> None:
        """End the connections whose header has not come."""
        for transport in tuple(self.waiting):
            transport.abort()


class _HeaderReader(asyncio.Protocol):
    def __init__(self, headers: ProxyHeaders) -> None:
        self._headers = headers
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is one by what it does, and not by its class.
        self._transport = cast("asyncio.Transport", transport)
        if not self._headers.trusts(transport):
            self._pass_on(b"")
            return
        self._headers.waiting.add(self._transport)
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(HEADER_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None, "it is connected"
        self._data += data
        try:
            read = read_header(self._data)
        except ValueError as error:
            self._headers.log.warning("a proxy's header cannot be read", why=str(error))
            self._transport.abort()
            return
        if read is not None:
            said, end = read
            self._headers.announced(self._transport, said)
            self._pass_on(self._data[end:])

    def connection_lost(self, exc: Exception | None) -> None:
        self._over()

    def _over(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        if self._transport is not None:
            self._headers.waiting.discard(self._transport)

    def _pass_on(self, rest: bytes) -> None:
        """Leave the connection to who serves it, with what came behind the header."""
        assert self._transport is not None, "it is connected"
        self._over()
        protocol = self._headers.server()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if rest:
            protocol.data_received(rest)
