"""Which user of this machine stands at the other end of a loopback connection.

On Linux every user can connect to every loopback port. The kernel knows whose socket the
other end is; a listener without tokens asks it, and serves its own user and root only.

The kernel is asked by ``sock_diag`` (netlink), which finds one connection in a few
microseconds. Where that is not allowed, ``/proc/net/tcp`` and ``tcp6`` say the same, but
have to be read whole: milliseconds once thousands of connections are open.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hookgate.core.gateway.access.origin import IPAddress, canonical_address

Endpoint = tuple[str, int]

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
_QUERY = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_PORTS = struct.Struct("!HH")
_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # interface, cookie
_ANSWER = struct.Struct("=BBBB48sIIIII")  # family, state, timer, retrans, id, ..., uid, inode
_ALL_STATES = 0xFFFFFFFF
_UID, _INODE = 8, 9
_TIMEOUT = 1.0


class PeerUser:
    """The user of a socket, as the kernel tells it.

    Attributes:
        uid: The user's id.
        inode: The socket's inode; 0 where no process holds the socket any more. The kernel
            calls the user of such a socket root, so its `uid` means nothing.
    """

    __slots__ = ("inode", "uid")

    def __init__(self, uid: int, inode: int) -> None:
        self.uid = uid
        self.inode = inode

    @property
    def trusted(self) -> bool:
        """Whether it is a live socket of this process's user or of root."""
        return self.inode != 0 and self.uid in (0, os.geteuid())


class PeerLookup:
    """Asks the kernel. One for each gateway; `close` it at the end.

    Attributes:
        enabled: Whether this system can be asked (Linux).
    """

    def __init__(self, *, netlink: bool = True, proc: Path = Path("/proc/net")) -> None:
        self.enabled = sys.platform == "linux"
        self._proc = proc
        self._sequence = 0
        self._netlink: socket.socket | None = None
        self._try_netlink = self.enabled and netlink

    def user_of(self, peer: Endpoint, local: Endpoint) -> PeerUser | None:
        """Return who holds the other end of a connection.

        Args:
            peer: Address and port of the other end.
            local: Address and port of ours.

        Returns:
            The user, or None where the kernel does not know such a connection (any more).
        """
        ours, theirs = canonical_address(local[0]), canonical_address(peer[0])
        if ours is None or theirs is None or ours.version != theirs.version:
            return None
        if self._netlink is None and self._try_netlink:
            self._netlink = _open_netlink()
            self._try_netlink = self._netlink is not None
        if self._netlink is not None:
            with suppress(OSError):
                return self._ask(self._netlink, theirs, peer[1], ours, local[1])
            # A kernel without inet_diag answers with an error: ask no more.
            self._try_netlink = False
            self.close()
        for name in ("tcp", "tcp6"):
            with suppress(OSError):
                table = (self._proc / name).read_text("ascii")
                for source, target, user in parse_proc_net_tcp(table):
                    if (source, target) == ((theirs, peer[1]), (ours, local[1])):
                        return user
        return None

    def _ask(
        self,
        netlink: socket.socket,
        source: IPAddress,
        source_port: int,
        target: IPAddress,
        target_port: int,
    ) -> PeerUser | None:
        family = socket.AF_INET if source.version == 4 else socket.AF_INET6
        self._sequence += 1
        body = (
            _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES)
            + _PORTS.pack(source_port, target_port)
            + source.packed.ljust(16, b"\0")
            + target.packed.ljust(16, b"\0")
            + _NO_COOKIE
        )
        length = _HEADER.size + len(body)
        netlink.send(
            _HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, self._sequence, 0) + body
        )
        while True:
            answer = netlink.recv(4096)
            _, kind, _, sequence, _ = _HEADER.unpack_from(answer)
            if sequence != self._sequence:
                continue
            if kind != _SOCK_DIAG_BY_FAMILY:
                (error,) = struct.unpack_from("=i", answer, _HEADER.size)
                if -error == _ENOENT:
                    return None
                raise OSError(-error, os.strerror(-error))
            fields = _ANSWER.unpack_from(answer, _HEADER.size)
            return PeerUser(fields[_UID], fields[_INODE])

    def close(self) -> None:
        """Close the socket to the kernel."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


_ENOENT = 2


def _open_netlink() -> socket.socket | None:
    try:
        netlink = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG
        )
        # The kernel answers before `send` returns; the limit is for a kernel that does not.
        netlink.settimeout(_TIMEOUT)
        netlink.connect((0, 0))
    except (OSError, AttributeError):
        return None
    return netlink


def parse_proc_net_tcp(
    table: str,
) -> Iterator[tuple[tuple[IPAddress, int], tuple[IPAddress, int], PeerUser]]:
    """Yield local end, remote end and user of each row of ``/proc/net/tcp`` or ``tcp6``.

    Addresses stand there as words of 32 bits in the machine's byte order; IPv4-mapped ones
    are folded.
    """
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10:
            continue
        yield (
            _endpoint(fields[1]),
            _endpoint(fields[2]),
            PeerUser(int(fields[7]), int(fields[9])),
        )


def _endpoint(text: str) -> tuple[IPAddress, int]:
    address, _, port = text.partition(":")
    words = [int(address[start : start + 8], 16) for start in range(0, len(address), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    name = socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)
    folded = canonical_address(name)
    assert folded is not None, "inet_ntop writes addresses that can be read"
    return folded, int(port, 16)


# -- proof -----------------------------------------------------------------------

# Proof that this is the gateway of a home folder, before a client tells it anything.
#
# Whoever can open a port can pose as a gateway. So a gateway makes a random key at its start and
# leaves it in its home folder, where its user alone can read it. A client that has read it there
# sends a fresh nonce with its request, and gets back an HMAC of the nonce and of the address at
# which the request arrived. The key stays where it is, an answer is good for one nonce, and one
# that somebody at another address has passed on is wrong there.

NONCE_HEADER = "Hookgate-Nonce"
"""The request's header with the nonce: 64 hexadecimal digits."""

PROOF_HEADER = "Hookgate-Proof"
"""The response's header with the proof."""

PURPOSE = "hookgate gateway of this home, 1"
"""What a proof is for, so that it can be taken for nothing else."""

_NONCE = re.compile("[0-9a-f]{64}")


def new_key() -> str:
    """Return a key for one gateway."""
    return secrets.token_hex(32)


def new_nonce() -> str:
    """Return a nonce for one connection."""
    return secrets.token_hex(32)


def prove(key: str, nonce: str, local: Any) -> str | None:
    """Return the gateway's answer to a nonce.

    Args:
        key: The gateway's key.
        nonce: What the client sent.
        local: The address at which the request arrived, as the socket names it.

    Returns:
        None where the nonce is none, or the connection has no address.
    """
    return _signed(key, PURPOSE, nonce, local)


def _signed(key: str, purpose: str, nonce: str, *ends: Any) -> str | None:
    if not all(isinstance(end, tuple) for end in ends) or not _NONCE.fullmatch(nonce):
        return None
    places = [part for end in ends for part in (str(canonical_address(end[0])), str(end[1]))]
    told = "\n".join((purpose, nonce, *places))
    return hmac.new(key.encode(), told.encode(), hashlib.sha256).hexdigest()


def proves(key: str, nonce: str, proof: str, peer: Any) -> bool:
    """Whether `proof` comes from the gateway with this key, at the address `peer`.

    Args:
        key: The key, from the home folder.
        nonce: What was sent.
        proof: What came back.
        peer: The address that the client is connected to, as its socket names it.
    """
    expected = prove(key, nonce, peer)
    return expected is not None and hmac.compare_digest(expected.encode(), proof.encode())


# Whoever can read the home folder owns what runs there, and stays its owner where the gateway has
# tokens for others. A client shows that it has read the key, once the gateway has proved itself: in
# place of a token, bound to this connection's two ends, so that it is good nowhere else.

OWNER_PREFIX = "hgo_"
"""What an owner's proof begins with, where a token would stand."""

OWNER_PURPOSE = "owner of this home, 1"
"""What an owner's proof is for."""


def prove_owner(key: str, nonce: str, server: Any, client: Any) -> str | None:
    """Return what a client that has read the key shows in place of a token.

    Args:
        key: The gateway's key, from the home folder.
        nonce: What the client sent with the request that opened this connection.
        server: The gateway's end of the connection, as a socket names it.
        client: The client's end.

    Returns:
        None where the nonce is none, or an end has no address.
    """
    proof = _signed(key, OWNER_PURPOSE, nonce, server, client)
    return None if proof is None else OWNER_PREFIX + proof
