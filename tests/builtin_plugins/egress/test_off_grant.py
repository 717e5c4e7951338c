"""No URL outside the grant is requested, directly or by a redirect: a server counts."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.egress.upstream import redirect
from tests.support.examples import sampled

from hookgate import EgressDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.builtin_plugins.egress.conftest import Names
    from tests.builtin_plugins.egress.upstream import Upstream

    from hookgate.builtin_plugins.egress.service import CheckedEgress

# The grant is http://api.example.com:PORT/v1/*, and PORT is a real server's. Every name
# in the table leads to that server, so that whatever is let through is counted.
LOOPBACK_HOSTS = [
    "127.0.0.1",
    "127.0.0.2",
    "127.1",
    "127.0.1",
    "0",
    "0.0.0.0",
    "0x7f.0.0.1",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0177.0.0.01",
    "2130706433",
    "127.0.0.1.",
    "127.000.000.001",
    "127.0.0.256",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:7f00:0001::1]",
    "[2001:0:7f00:1::]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fe80::1%lo]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[100::1]",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "localhost.localdomain",
    "a.localhost",
    "ip6-localhost",
]
INNER_HOSTS = [
    "10.0.0.1",
    "10.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.43518",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "172.16.0.1",
    "192.168.1.1",
    "192.168.257",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "metadata.google.internal",
    "127.0.0.1.nip.io",
    "spoofed.burpcollaborator.net",
]
UNICODE_HOSTS = [
    "１２７.０.０.１",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "lоcalhost",
    "ｌｏｃａｌｈｏｓｔ",
    "ⓛocalhost",
    "locaꞁhost",
    "api.exampІe.com",
    "аpi.example.com",
    "api.example。com.evil.example",
    "api．example．com．evil．example",
    "xn--pi-7kc.example.com",
    "api.example.com\u200b",
    "api\u00ad.example.com",
    "api.exa\u2024mple.com",
    "api.example.com\u2044x",
    "api.example.com\uff0fx",
    "api.example.com\uff03",
    "api.example.com\uff20evil.example",
    "ﬁle.example.com",
    "ß.example.com",
]
OTHER_HOSTS = [
    "evil.example",
    "example.com",
    "www.example.com",
    "a.api.example.com",
    "api.example.com.evil.example",
    "api.example.com.",
    "api.example.com..",
    ".api.example.com",
    "api..example.com",
    "api.example.comx",
    "xapi.example.com",
    "api-example.com",
    "api%2eexample%2ecom",
    "api.example.com%00.evil.example",
    "api.example.com%2f@evil.example",
    "api.example.com%23.evil.example",
    "%61pi.example.com",
    "api.example.com,evil.example",
    "api.example.com;evil.example",
    "api.example.com|evil.example",
    "api.example.com\\.evil.example",
    "evil.example\\api.example.com",
    "*.example.com",
    "",
]
BY_HOST = [
    f"http://{host}:{{port}}/v1/x"
    for host in LOOPBACK_HOSTS + INNER_HOSTS + UNICODE_HOSTS + OTHER_HOSTS
]
BY_FORM = [
    "http://user@api.example.com:{port}/v1/x",
    "http://user:pass@api.example.com:{port}/v1/x",
    "http://:@api.example.com:{port}/v1/x",
    "http://@api.example.com:{port}@127.0.0.1:{port}/v1/x",
    "http://api.example.com:{port}@127.0.0.1:{port}/v1/x",
    "http://api.example.com:{port}%40127.0.0.1:{port}/v1/x",
    "http://api.example.com:{port}\\@127.0.0.1:{port}/v1/x",
    "http://127.0.0.1:{port}\\@api.example.com:{port}/v1/x",
    "http://127.0.0.1:{port}#@api.example.com:{port}/v1/x",
    "http://127.0.0.1:{port}?@api.example.com:{port}/v1/x",
    "http://127.0.0.1:{port}/@api.example.com:{port}/v1/x",
    "http://[api.example.com]:{port}/v1/x",
    "http://api.example.com/v1/x",
    "http://api.example.com:/v1/x",
    "http://api.example.com:0/v1/x",
    "http://api.example.com:80/v1/x",
    "http://api.example.com:1{port}/v1/x",
    "http://api.example.com:-1/v1/x",
    "http://api.example.com:{port}{port}/v1/x",
    "https://api.example.com:{port}/v1/x",
    "ws://api.example.com:{port}/v1/x",
    "wss://api.example.com:{port}/v1/x",
    "ftp://api.example.com:{port}/v1/x",
    "gopher://api.example.com:{port}/v1/x",
    "file:///etc/passwd",
    "file://api.example.com:{port}/v1/x",
    "unix:///run/docker.sock",
    "data:text/plain,v1",
    "javascript:alert(1)",
    "jar:http://api.example.com:{port}/v1/x",
    "http+unix://api.example.com:{port}/v1/x",
    "//127.0.0.1:{port}/v1/x",
    "http:127.0.0.1:{port}/v1/x",
    "http:/127.0.0.1:{port}/v1/x",
    "http:///127.0.0.1:{port}/v1/x",
    "http://api.example.com:{port}",
    "http://api.example.com:{port}/",
    "http://api.example.com:{port}/v1",
    "http://api.example.com:{port}/v1?/v1/x",
    "http://api.example.com:{port}/V1/x",
    "http://api.example.com:{port}/v2/x",
    "http://api.example.com:{port}/v1x/x",
    "http://api.example.com:{port}//v1/x",
    "http://api.example.com:{port}/%76%31/x",
    "http://api.example.com:{port}/v1%2fx",
    "http://api.example.com:{port}/v1%5cx",
    "http://api.example.com:{port}/v1\\x",
    "http://api.example.com:{port}/v1/../admin",
    "http://api.example.com:{port}/v1/x/../../admin",
    "http://api.example.com:{port}/v1/%2e%2e/admin",
    "http://api.example.com:{port}/v1/.%2e/admin",
    "http://api.example.com:{port}/v1/%2E./admin",
    "http://api.example.com:{port}/v1/%252e%252e/admin",
    "http://api.example.com:{port}/v1/%25252e%25252e/admin",
    "http://api.example.com:{port}/v1/..%2fadmin",
    "http://api.example.com:{port}/v1/..%5cadmin",
    "http://api.example.com:{port}/v1/..\\admin",
    "http://api.example.com:{port}/v1/..;/admin",
    "http://api.example.com:{port}/v1/..;x=y/admin",
    "http://api.example.com:{port}/v1/%2e%2e;/admin",
    "http://api.example.com:{port}/v1/x%2f..%2f..%2fadmin",
    "http://api.example.com:{port}/v1/\tx",
    "http://api.example.com:{port}/v1/x\r\nHost: evil.example",
    "http://api.example.com:{port}\r\n/v1/x",
]
TABLE = BY_HOST + BY_FORM


class Everywhere(dict[str, list[str]]):
    """Every name there is, on one address."""

    def __missing__(self, key: str) -> list[str]:
        return ["127.0.0.1"]


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(set(TABLE)) >= 150


@pytest.mark.parametrize("url", sampled(TABLE, every=5))
async def test_a_url_off_the_grant_is_refused_before_a_connection(
    url: str,
    server: Upstream,
    names: Names,
    egress_of: Callable[..., CheckedEgress],
    dialled: list[Any],
) -> None:
    names.table = Everywhere()
    # The granted name itself may be here, so that not its address but the URL decides.
    egress = egress_of("api.example.com")
    async with egress.client([f"http://api.example.com:{server.port}/v1/*"], name="test") as client:
        with pytest.raises(EgressDeniedError):
            await client.get(url.replace("{port}", str(server.port)))
        assert dialled == []
        assert server.hits == []
        assert names.asked == []
        # The same server does count what is granted.
        response = await client.get(f"http://api.example.com:{server.port}/v1/x")
    assert response.status_code == 200
    assert len(server.hits) == 1


@pytest.mark.parametrize("url", sampled(TABLE, every=5))
async def test_a_redirect_off_the_grant_is_not_followed(
    url: str,
    server: Upstream,
    names: Names,
    egress_of: Callable[..., CheckedEgress],
    dialled: list[Any],
) -> None:
    names.table = Everywhere()
    location = url.replace("{port}", str(server.port))
    if not location.isascii() or "\r" in location:
        location = location.encode("ascii", "xmlcharrefreplace").decode().replace("\r\n", "%0d%0a")
    server.answers["/v1/start"] = redirect(location)
    egress = egress_of("api.example.com")
    base = f"http://api.example.com:{server.port}"
    async with egress.client([f"{base}/v1/*"], name="test") as client:
        with suppress(EgressDeniedError):
            response = await client.get(f"{base}/v1/start", follow_redirects=True)
            # A relative reference that stays within the grant is a granted URL.
            assert str(response.url).startswith(f"{base}/v1/")
    assert {address[1] for address in dialled} == {server.port}
    assert all(hit.path.startswith("/v1/") for hit in server.hits)
    assert all(hit.headers["host"] == f"api.example.com:{server.port}" for hit in server.hits)
    assert set(names.asked) == {"api.example.com"}
