"""A hookgate plugin: counts injected capabilities in the DogStatsD format, over UDP."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from hashlib import blake2b
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from pydantic import Field

from hookgate import Section, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from hookgate import Host, MetricRecord

DATAGRAM = 1432
"""Bytes of one datagram: what goes through Ethernet in one piece (DogStatsD's own default)."""
TAG_CHARS = 200
"""Characters of a tag, its name included."""

UNSAFE = re.compile(r"[^A-Za-z0-9_./-]")


class Statsd(Section):
    """``[plugin.statsd]``."""

    host: str = "127.0.0.1"
    """Where the agent listens."""
    port: int = Field(default=8125, ge=1, le=65535)
    """Its UDP port."""
    session_tag: bool = True
    """Whether the session, hashed, is a tag. Each session is a series of its own then."""


class Plugin:
    """Takes the records of turns to the agent, and waits for nobody."""

    Settings = Statsd

    def __init__(self, settings: Statsd) -> None:
        self.settings = settings
        self.transport: asyncio.DatagramTransport | None = None
        # A session's key may hold a phone number, of which there are few enough to try them
        # all: a hash without a key would hide nothing.
        self.hash_key = token_bytes(32)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the socket for the life of the gateway."""
        loop = asyncio.get_running_loop()
        address = (self.settings.host, self.settings.port)
        self.transport, _ = await loop.create_datagram_endpoint(
            lambda: Sender(host), remote_addr=address
        )
        try:
            yield
        finally:
            self.transport.close()
            self.transport = None

    @hookimpl
    def log_metrics(self, record: MetricRecord) -> None:
        """Send a line for each card of a turn; nothing for any other record."""
        if record.name == "awareness.turn" and self.transport is not None:
            for datagram in packed(self.lines(record.fields)):
                self.transport.sendto(datagram)

    def lines(self, fields: Any) -> Iterator[bytes]:
        """Yield ``capabilities.injected:1|c|#capability:ID,session:HASH`` for each card."""
        tags = []
        if self.settings.session_tag:
            tags.append(tag("session", self.hashed(str(fields.get("sessionKey", "")))))
        for card in fields.get("injected") or ():
            both = ",".join([tag("capability", str(card["id"])), *tags])
            yield f"capabilities.injected:1|c|#{both}".encode()

    def hashed(self, session: str) -> str:
        """Return what stands for a session until the gateway stops."""
        data = session.encode("utf-8", "replace")
        return blake2b(data, key=self.hash_key, digest_size=8).hexdigest()


class Sender(asyncio.DatagramProtocol):
    """Says once that nobody listens: a lost datagram is no reason to stop."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.said = False

    def error_received(self, exc: Exception) -> None:
        if not self.said:
            self.said = True
            self.host.log.warning("figures do not reach the statsd agent", error=str(exc))


def tag(name: str, value: str) -> str:
    """Return a tag without what would end it: commas, bars, line ends."""
    return f"{name}:{UNSAFE.sub('_', value)}"[:TAG_CHARS]


def packed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Put lines together into datagrams, as many as fit."""
    held = b""
    for line in lines:
        if held and len(held) + 1 + len(line) > DATAGRAM:
            yield held
            held = b""
        held = held + b"\n" + line if held else line
    if held:
        yield held
