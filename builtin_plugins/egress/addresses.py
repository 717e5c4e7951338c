"""Which addresses are not the public internet.

The tables are those of IANA's special-purpose address registries (RFC 6890 and its
updates), written out here so that the answer does not change with Python's version.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.kit.url_grants import Address

_SPECIAL_4 = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "unspecified (this network)"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier's NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud platform's own service"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_SPECIAL_6 = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4-mapped form"),
        ("::/96", "an IPv4-compatible form"),
        ("::ffff:0:0:0/96", "an IPv4-translated form"),
        ("64:ff9b::/96", "a NAT64 form"),
        ("64:ff9b:1::/48", "a local NAT64 form"),
        ("100::/64", "reserved for discarding"),
        ("2001::/32", "a Teredo form"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "reserved for documentation"),
        ("2002::/16", "a 6to4 form"),
        ("3fff::/20", "reserved for documentation"),
        ("fc00::/7", "unique-local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

_GLOBAL_6 = IPv6Network("2000::/3")
"""The only block of IPv6 that is assigned as global unicast (IANA, IPv6 address space)."""

_PRIVATE: tuple[IPv4Network | IPv6Network, ...] = (
    *(
        IPv4Network(text)
        for text in (
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
        )
    ),
    IPv6Network("::1/128"),
    IPv6Network("fc00::/7"),
)


@lru_cache(maxsize=1024)
def why_not_public(address: Address) -> str | None:
    """Return what sort of address this is where it is not public, else None."""
    if isinstance(address, IPv4Address):
        return next((reason for network, reason in _SPECIAL_4 if address in network), None)
    for network, reason in _SPECIAL_6:
        if address in network:
            return reason
    return None if address in _GLOBAL_6 else "reserved"


def is_loopback(address: Address) -> bool:
    """Whether the address is this machine: 127.0.0.0/8 or ::1, in no other form."""
    return address.is_loopback and not (
        isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    )


def is_private(address: Address) -> bool:
    """Whether an operator's own network may use it: loopback, private, shared, unique-local.

    Link-local is not among them: cloud platforms serve credentials there.
    """
    return any(address in network for network in _PRIVATE)
