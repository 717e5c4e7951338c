from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.builtin_plugins.egress.connection import (
    is_loopback,
    is_private,
    why_not_public,
)
from hookgate.kit.url_grants import parse_address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.1.2.3", "private"),
        ("100.64.0.1", "carrier"),
        ("100.127.255.255", "carrier"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("168.63.129.16", "cloud"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.192", "protocols"),
        ("192.88.99.1", "6to4"),
        ("192.168.1.1", "private"),
        ("198.19.0.1", "benchmarks"),
        ("203.0.113.9", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "IPv4-compatible"),
        ("::ffff:127.0.0.1", "IPv4-mapped"),
        ("::ffff:8.8.8.8", "IPv4-mapped"),
        ("::ffff:0:127.0.0.1", "IPv4-translated"),
        ("64:ff9b::7f00:1", "NAT64"),
        ("64:ff9b:1::7f00:1", "NAT64"),
        ("100::1", "discarding"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"),
        ("2001:20::1", "protocols"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "6to4"),
        ("3fff::1", "documentation"),
        ("4000::1", "reserved"),
        ("5f00::1", "reserved"),
        ("fd00:ec2::254", "unique-local"),
        ("fe80::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
    ],
)
def test_a_special_address_is_not_public(text: str, reason: str) -> None:
    found = why_not_public(ip_address(text))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]
)
def test_a_public_address_is_public(text: str) -> None:
    assert why_not_public(ip_address(text)) is None


@given(st.ip_addresses())
def test_nothing_that_python_calls_special_is_public(address: IPv4Address | IPv6Address) -> None:
    if why_not_public(address) is None:
        assert not (
            address.is_private
            or address.is_loopback
            or address.is_link_local
            or address.is_multicast
            or address.is_reserved
            or address.is_unspecified
        )


@pytest.mark.parametrize("text", ["fe80::1%eth0", "127.1", "0x7f.1", "010.0.0.1", "", "a.example"])
def test_only_canonical_addresses_are_read(text: str) -> None:
    assert parse_address(text) is None


def test_link_local_is_no_private_network() -> None:
    assert not is_private(ip_address("169.254.169.254"))
    assert not is_private(ip_address("fe80::1"))
    assert is_private(ip_address("fd00::1"))
    assert is_private(ip_address("172.18.0.2"))


def test_a_mapped_loopback_is_no_loopback() -> None:
    assert is_loopback(ip_address("127.0.0.5"))
    assert is_loopback(ip_address("::1"))
    assert not is_loopback(ip_address("::ffff:127.0.0.1"))
