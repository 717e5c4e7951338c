from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import zlib
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from aiohttp import web
from tests.builtin_plugins.egress.upstream import TLS, Hit, redirect, respond, upstream

from hookgate import EgressDeniedError, EgressFailedError
from hookgate.builtin_plugins.egress import plugin, service
from hookgate.builtin_plugins.egress.service import CheckedEgress, EgressSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.builtin_plugins.egress.conftest import Names
    from tests.builtin_plugins.egress.upstream import Upstream

    Make = Callable[..., CheckedEgress]


def here(server: Upstream, path: str = "/*", scheme: str = "http") -> str:
    return f"{scheme}://127.0.0.1:{server.port}{path}"


# -- addresses ---------------------------------------------------------------


async def test_an_address_that_is_granted_by_name_is_reached(
    server: Upstream, egress_of: Make, names: Names
) -> None:
    async with egress_of().client([here(server)], name="test") as client:
        response = await client.get(here(server, "/a?b=c"))
    assert (response.status_code, response.text) == (200, "hello")
    assert [hit.path for hit in server.hits] == ["/a?b=c"]
    assert server.hits[0].headers["host"] == f"127.0.0.1:{server.port}"
    assert names.asked == []


async def test_localhost_is_reached_where_it_is_granted(
    server: Upstream, egress_of: Make, names: Names
) -> None:
    names.table["localhost"] = ["127.0.0.1"]
    async with egress_of().client([f"http://localhost:{server.port}/*"], name="test") as client:
        assert (await client.get(f"http://localhost:{server.port}/")).status_code == 200


async def test_localhost_on_another_address_is_refused(
    server: Upstream, egress_of: Make, names: Names, dialled: list[Any]
) -> None:
    names.table["localhost"] = ["10.0.0.1"]
    async with egress_of().client([f"http://localhost:{server.port}/*"], name="test") as client:
        with pytest.raises(EgressDeniedError, match=r"10\.0\.0\.1, which is private"):
            await client.get(f"http://localhost:{server.port}/")
    assert dialled == []


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["fe80::1%lo"],
        ["not an address"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
    ],
)
async def test_a_granted_name_on_an_inner_address_is_refused(
    addresses: list[str], server: Upstream, egress_of: Make, names: Names, dialled: list[Any]
) -> None:
    names.table["api.example.com"] = addresses
    url = f"http://api.example.com:{server.port}/"
    async with egress_of().client([f"{url}*"], name="test") as client:
        with pytest.raises(EgressDeniedError, match="nothing was sent"):
            await client.get(url)
    assert dialled == []
    assert server.hits == []


async def test_a_name_in_private_hosts_may_be_on_a_private_network_only(
    server: Upstream, egress_of: Make, names: Names
) -> None:
    names.table["ollama"] = ["127.0.0.1"]
    url = f"http://ollama:{server.port}/"
    async with egress_of(f"ollama:{server.port}").client([f"{url}*"], name="test") as client:
        assert (await client.get(url)).status_code == 200
    names.table["ollama"] = ["169.254.169.254"]
    async with egress_of("ollama").client([f"{url}*"], name="test") as client:
        with pytest.raises(EgressDeniedError, match="link-local"):
            await client.get(url)
    async with egress_of("ollama:1").client([f"{url}*"], name="test") as client:
        with pytest.raises(EgressDeniedError):
            await client.get(url)


async def test_the_name_is_looked_up_once_and_that_very_address_is_dialled(
    server: Upstream, egress_of: Make, dialled: list[Any]
) -> None:
    # Rebinding: the second answer would lead elsewhere. Nobody asks for it.
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    settings = EgressSettings(private_hosts=("api.example.com",))
    egress = CheckedEgress(settings, tls=ssl.create_default_context(), resolve=rebinding)
    url = f"http://api.example.com:{server.port}/"
    async with egress.client([f"{url}*"], name="test") as client:
        await client.get(url)
    assert dialled == [("127.0.0.1", server.port)]
    assert answers == [["10.0.0.1"]]


async def test_a_new_connection_is_checked_again(
    server: Upstream, egress_of: Make, names: Names, dialled: list[Any]
) -> None:
    async def once(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 200, b"", connection="close")

    server.answers["/"] = once
    names.table["api.example.com"] = ["127.0.0.1"]
    url = f"http://api.example.com:{server.port}/"
    async with egress_of("api.example.com").client([f"{url}*"], name="test") as client:
        await client.get(url)
        names.table["api.example.com"] = ["169.254.169.254"]
        with pytest.raises(EgressDeniedError):
            await client.get(url)
    assert dialled == [("127.0.0.1", server.port)]


async def test_connections_are_kept_from_request_to_request(
    server: Upstream, egress_of: Make, names: Names
) -> None:
    names.table["api.example.com"] = ["127.0.0.1"]
    url = f"http://api.example.com:{server.port}/"
    async with egress_of("api.example.com").client([f"{url}*"], name="test") as client:
        for _ in range(5):
            await client.get(url)
    assert (server.connections, len(server.hits)) == (1, 5)
    assert names.asked == ["api.example.com"]


async def test_an_unknown_name_is_a_failure_to_connect(server: Upstream, egress_of: Make) -> None:
    async with egress_of().client(["http://api.example.com/*"], name="test") as client:
        with pytest.raises(EgressFailedError, match="cannot be resolved") as caught:
            await client.get("http://api.example.com/")
    assert caught.value.kind == "connect"


async def test_a_closed_port_is_a_failure_to_connect(server: Upstream, egress_of: Make) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    async with egress_of().client([f"http://127.0.0.1:{port}/*"], name="test") as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.get(f"http://127.0.0.1:{port}/")
    assert caught.value.kind == "connect"


async def test_the_systems_resolver_knows_localhost(server: Upstream) -> None:
    egress = CheckedEgress(tls=ssl.create_default_context())
    async with egress.client([f"http://localhost:{server.port}/*"], name="test") as client:
        assert (await client.get(f"http://localhost:{server.port}/")).status_code == 200


# -- TLS ---------------------------------------------------------------------


async def test_tls_asks_for_the_granted_name_on_the_pinned_address(
    secure: Upstream, egress_of: Make, names: Names, dialled: list[Any]
) -> None:
    names.table["api.example.com"] = ["127.0.0.1"]
    url = f"https://api.example.com:{secure.port}/"
    async with egress_of("api.example.com").client([f"{url}*"], name="test") as client:
        await client.get(url)
    assert secure.names == ["api.example.com"]
    assert secure.hits[0].headers["host"] == f"api.example.com:{secure.port}"
    assert dialled == [("127.0.0.1", secure.port)]


async def test_a_certificate_for_another_name_is_refused(
    secure: Upstream, egress_of: Make, names: Names
) -> None:
    names.table["www.example.com"] = ["127.0.0.1"]
    url = f"https://www.example.com:{secure.port}/"
    async with egress_of("www.example.com").client([f"{url}*"], name="test") as client:
        with pytest.raises(EgressFailedError, match="certificate"):
            await client.get(url)
    assert secure.hits == []


async def test_a_certificate_that_has_ended_is_told_as_that_with_the_address(names: Names) -> None:
    names.table["api.example.com"] = ["127.0.0.1"]
    trusting = ssl.create_default_context(cafile=TLS / "ended.pem")
    settings = EgressSettings(private_hosts=("api.example.com",))
    egress = CheckedEgress(settings, resolve=names, tls=trusting)
    async with upstream(tls=True, certificate="ended.pem") as server:
        url = f"https://api.example.com:{server.port}/"
        async with egress.client([f"{url}*"], name="anthropic") as client:
            with pytest.raises(EgressFailedError) as failed:
                await client.get(url)
    assert failed.value.kind == "connect"  # the agent's next model is asked
    assert "certificate has expired" in str(failed.value)
    assert "api.example.com" in str(failed.value)
    assert server.hits == []


async def test_an_unknown_authority_is_refused(secure: Upstream, names: Names) -> None:
    names.table["api.example.com"] = ["127.0.0.1"]
    egress = CheckedEgress(EgressSettings(private_hosts=("api.example.com",)), resolve=names)
    url = f"https://api.example.com:{secure.port}/"
    async with egress.client([f"{url}*"], name="test") as client:
        with pytest.raises(EgressFailedError, match="certificate"):
            await client.get(url)
    assert secure.hits == []


async def test_a_request_cannot_choose_another_name_for_tls(
    secure: Upstream, egress_of: Make, names: Names
) -> None:
    names.table["api.example.com"] = ["127.0.0.1"]
    url = f"https://api.example.com:{secure.port}/"
    async with egress_of("api.example.com").client([f"{url}*"], name="test") as client:
        await client.get(url, extensions={"sni_hostname": "evil.example"})
    assert secure.names == ["api.example.com"]


# -- headers and methods -----------------------------------------------------


async def test_a_host_header_for_another_host_is_refused(server: Upstream, egress_of: Make) -> None:
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressDeniedError, match="Host header"):
            await client.get(here(server, "/"), headers={"Host": "evil.example"})
    assert server.hits == []


@pytest.mark.parametrize("method", ["CONNECT", "connect", "TRACE"])
async def test_methods_for_proxies_are_refused(
    method: str, server: Upstream, egress_of: Make
) -> None:
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressDeniedError, match="method"):
            await client.request(method, here(server, "/"))
    assert server.hits == []


async def test_headers_of_the_connection_are_not_the_callers(
    server: Upstream, egress_of: Make
) -> None:
    sent = {"Transfer-Encoding": "chunked", "Content-Length": "3", "Upgrade": "h2c", "X-Own": "1"}
    async with egress_of().client([here(server)], name="test") as client:
        await client.post(here(server, "/"), content=b"hello", headers=sent)
    headers = server.hits[0].headers
    assert headers["content-length"] == "5"
    assert headers["x-own"] == "1"
    assert not {"transfer-encoding", "upgrade"} & set(headers)
    assert server.hits[0].body == b"hello"


async def test_a_line_break_in_a_header_is_not_sent(server: Upstream, egress_of: Make) -> None:
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressFailedError):
            await client.get(here(server, "/"), headers={"X-A": "1\r\nX-B: 2"})
    assert server.hits == []


async def test_no_cookie_is_kept(server: Upstream, egress_of: Make) -> None:
    async def set_cookie(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 200, b"", set_cookie="session=secret; Path=/")

    server.answers["/login"] = set_cookie
    async with egress_of().client([here(server)], name="test") as client:
        response = await client.get(here(server, "/login"))
        await client.get(here(server, "/"))
    assert response.headers["set-cookie"].startswith("session=secret")
    assert "cookie" not in server.hits[1].headers


async def test_proxies_of_the_environment_are_ignored(
    server: Upstream, other: Upstream, egress_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{other.port}")
    async with egress_of().client([here(server)], name="test") as client:
        await client.get(here(server, "/"))
    assert (len(server.hits), other.connections) == (1, 0)


async def test_a_streamed_request_body_arrives_whole(server: Upstream, egress_of: Make) -> None:
    got: list[bytes] = []

    async def chunked(hit: Hit, writer: asyncio.StreamWriter) -> None:
        got.append(hit.headers["transfer-encoding"].encode())
        await respond(writer, 200, b"", connection="close")
        writer.close()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    server.answers["/"] = chunked
    async with egress_of().client([here(server)], name="test") as client:
        response = await client.post(here(server, "/"), content=pieces())
    assert response.status_code == 200
    assert got == [b"chunked"]


# -- redirects ---------------------------------------------------------------

SECRETS = {
    "Authorization": "Bearer secret",
    "Cookie": "session=secret",
    "X-Api-Key": "secret",
    "Proxy-Authorization": "secret",
    "X-Anything": "secret",
}


async def test_credentials_stay_behind_when_a_redirect_leaves_the_origin(
    server: Upstream, other: Upstream, egress_of: Make
) -> None:
    server.answers["/start"] = redirect(here(other, "/there"))
    egress = egress_of()
    grants = [here(server), here(other)]
    async with egress.client(grants, name="test", headers={"X-Client-Key": "secret"}) as client:
        response = await client.get(
            here(server, "/start"), headers=SECRETS, auth=("user", "secret"), follow_redirects=True
        )
    assert response.status_code == 200
    assert "secret" not in json.dumps(other.hits[0].headers)
    assert "authorization" not in other.hits[0].headers
    assert other.hits[0].headers["host"] == f"127.0.0.1:{other.port}"
    assert "secret" in server.hits[0].headers["x-client-key"]


async def test_headers_go_along_within_the_origin(server: Upstream, egress_of: Make) -> None:
    server.answers["/start"] = redirect("/there", 307)
    async with egress_of().client([here(server)], name="test") as client:
        response = await client.post(
            here(server, "/start"), headers=SECRETS, content=b"x", follow_redirects=True
        )
    assert server.hits[1].headers["authorization"] == "Bearer secret"
    assert (server.hits[1].method, server.hits[1].body) == ("POST", b"x")
    assert [one.status_code for one in response.history] == [307]


async def test_another_port_is_another_origin(
    server: Upstream, other: Upstream, egress_of: Make
) -> None:
    server.answers["/start"] = redirect(here(other, "/there"), 308)
    async with egress_of().client([here(server), here(other)], name="test") as client:
        await client.post(
            here(server, "/start"), headers=SECRETS, content=b"x", follow_redirects=True
        )
    assert "x-api-key" not in other.hits[0].headers
    assert other.hits[0].body == b"x"


async def test_credentials_do_not_come_back_with_a_redirect_back(
    server: Upstream, other: Upstream, egress_of: Make
) -> None:
    server.answers["/start"] = redirect(here(other, "/there"))
    other.answers["/there"] = redirect(here(server, "/back"))
    async with egress_of().client([here(server), here(other)], name="test") as client:
        await client.get(here(server, "/start"), headers=SECRETS, follow_redirects=True)
    assert "authorization" not in server.hits[1].headers


async def test_a_redirect_is_not_followed_unasked(
    server: Upstream, other: Upstream, egress_of: Make
) -> None:
    server.answers["/start"] = redirect(here(other, "/there"))
    async with egress_of().client([here(server), here(other)], name="test") as client:
        assert (await client.get(here(server, "/start"))).status_code == 302
    assert other.hits == []


async def test_a_loop_of_redirects_ends(server: Upstream, egress_of: Make) -> None:
    server.answers["/start"] = redirect("/start")
    async with egress_of(max_redirects=3).client([here(server)], name="test") as client:
        with pytest.raises(EgressFailedError, match="more than 3 redirects") as caught:
            await client.get(here(server, "/start"), follow_redirects=True)
    assert caught.value.kind == "limit"
    assert len(server.hits) == 4


# -- limits ------------------------------------------------------------------


async def endless(hit: Hit, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n\r\n")
    while True:
        writer.write(b"x" * 4096)
        await writer.drain()


async def silent(hit: Hit, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def silent_body(hit: Hit, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx")
    await writer.drain()
    await asyncio.sleep(30)


async def dripping(hit: Hit, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 X\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def test_a_body_over_the_limit_is_cut_off(server: Upstream, egress_of: Make) -> None:
    server.answers["/"] = endless
    async with egress_of().client([here(server)], name="test", max_bytes=10_000) as client:
        with pytest.raises(EgressFailedError, match="more than 10000 bytes") as caught:
            await client.get(here(server, "/"))
    assert caught.value.kind == "limit"
    await server.closed.wait()


async def test_a_body_at_the_limit_is_taken(server: Upstream, egress_of: Make) -> None:
    async with egress_of().client([here(server)], name="test", max_bytes=5) as client:
        assert (await client.get(here(server, "/"))).text == "hello"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_the_limit_counts_what_comes_out_of_the_decompression(
    encoding: str, server: Upstream, egress_of: Make
) -> None:
    bomb = b"0" * 50_000_000
    packed = gzip.compress(bomb) if encoding == "gzip" else zlib.compress(bomb)
    assert len(packed) < 100_000

    async def send(hit: Hit, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await respond(writer, 200, packed, content_encoding=encoding)

    server.answers["/"] = send
    async with (
        egress_of().client([here(server)], name="test", max_bytes=1_000_000) as client,
        client.stream("GET", here(server, "/")) as response,
    ):
        got = 0
        with pytest.raises(EgressFailedError) as caught:
            async for chunk in response.aiter_bytes():
                got += len(chunk)
    assert caught.value.kind == "limit"
    assert got <= 1_000_000


async def test_a_compressed_body_arrives_unpacked(server: Upstream, egress_of: Make) -> None:
    async def send(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 200, gzip.compress(b"hello"), content_encoding="gzip")

    server.answers["/"] = send
    async with egress_of().client([here(server)], name="test") as client:
        response = await client.get(here(server, "/"))
    assert response.text == "hello"
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("encoding", ["gzip, gzip", "compress", "gzip,deflate"])
async def test_an_encoding_that_could_unpack_behind_the_limit_is_refused(
    encoding: str, server: Upstream, egress_of: Make
) -> None:
    async def send(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(
            writer, 200, gzip.compress(gzip.compress(b"x" * 1000)), content_encoding=encoding
        )

    server.answers["/"] = send
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressFailedError, match="encoding"):
            await client.get(here(server, "/"))


async def test_broken_compression_is_a_typed_failure(server: Upstream, egress_of: Make) -> None:
    async def send(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 200, b"this is not gzip", content_encoding="gzip")

    server.answers["/"] = send
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressFailedError):
            await client.get(here(server, "/"))


@pytest.mark.parametrize("answer", [silent, silent_body, dripping])
async def test_the_whole_request_has_a_time_limit(
    answer: Any, server: Upstream, egress_of: Make
) -> None:
    server.answers["/"] = answer
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with egress_of().client([here(server)], name="test", timeout=0.15) as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.get(here(server, "/"))
    assert caught.value.kind == "timeout"
    assert loop.time() - begun < 10


async def test_redirects_share_the_time_limit(server: Upstream, egress_of: Make) -> None:
    async def slowly(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        await respond(writer, 302, b"", location="/")

    server.answers["/"] = slowly
    egress = egress_of(max_redirects=50)
    async with egress.client([here(server)], name="test", timeout=0.2) as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.get(here(server, "/"), follow_redirects=True)
    assert caught.value.kind == "timeout"
    assert len(server.hits) <= 6


async def test_phases_can_be_limited_each(server: Upstream, egress_of: Make) -> None:
    server.answers["/"] = dripping
    timeout = httpx.Timeout(0.1)
    async with (
        egress_of().client([here(server)], name="test", timeout=timeout) as client,
        client.stream("GET", here(server, "/"), extensions={"total": 0.4}) as response,
    ):
        got = 0
        with pytest.raises(EgressFailedError) as caught:
            async for chunk in response.aiter_raw():
                got += len(chunk)
    # It dripped for longer than each phase may be silent, and ended at the total.
    assert got > 11
    assert caught.value.kind == "timeout"


async def test_the_silence_in_a_body_can_be_limited_by_itself(
    server: Upstream, egress_of: Make
) -> None:
    server.answers["/"] = silent_body
    async with (
        egress_of().client([here(server)], name="test", timeout=30) as client,
        client.stream("GET", here(server, "/")) as response,
    ):
        response.extensions["limit_silence"](0.05)
        with pytest.raises(EgressFailedError, match="silent for too long") as caught:
            await response.aread()
    assert caught.value.kind == "timeout"


async def test_a_body_that_is_gathered_comes_at_once_when_all_of_it_is_there(
    server: Upstream, egress_of: Make
) -> None:
    read = asyncio.Event()

    async def pieces(hit: Hit, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\na")
        await read.wait()
        for piece in (b"b", b"c", b"d"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    server.answers["/"] = pieces
    async with (
        egress_of().client([here(server)], name="test", timeout=30) as client,
        client.stream("GET", here(server, "/")) as response,
    ):
        chunks = aiter(response.extensions["chunks"])
        assert await anext(chunks) == b"a"
        response.extensions["gather"](3600)
        read.set()
        assert [chunk async for chunk in chunks] == [b"bcd"]


async def test_a_body_that_is_gathered_comes_in_parts_while_it_goes_on(
    server: Upstream, egress_of: Make
) -> None:
    server.answers["/"] = silent_body
    async with (
        egress_of().client([here(server)], name="test", timeout=30) as client,
        client.stream("GET", here(server, "/")) as response,
    ):
        response.extensions["gather"](0.01)
        assert await anext(aiter(response.extensions["chunks"])) == b"x"


async def test_a_fast_body_is_not_held_up_by_gathering(
    server: Upstream, egress_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fast(hit: Hit, writer: asyncio.StreamWriter) -> None:
        await respond(writer, 200, b"x" * 3_000_000)

    server.answers["/"] = fast
    loop, seconds, waits = asyncio.get_running_loop(), 0.0123, 0
    call_later = loop.call_later

    def counted(delay: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
        nonlocal waits
        waits += delay == seconds
        return call_later(delay, *rest, **more)

    monkeypatch.setattr(loop, "call_later", counted)
    async with (
        egress_of().client([here(server)], name="test", timeout=30) as client,
        client.stream("GET", here(server, "/")) as response,
    ):
        response.extensions["gather"](seconds)
        got = sum([len(chunk) async for chunk in response.extensions["chunks"]])
    assert got == 3_000_000
    assert waits < 10  # of some 24 that it would be without an end of gathering


async def test_a_lookup_that_hangs_ends_with_the_connect_limit() -> None:
    async def hanging(host: str, port: int) -> list[str]:
        await asyncio.sleep(30)
        return []

    egress = CheckedEgress(tls=ssl.create_default_context(), resolve=hanging)
    timeout = httpx.Timeout(30, connect=0.05)
    async with egress.client(["http://a.example/*"], name="test", timeout=timeout) as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.get("http://a.example/")
    assert caught.value.kind == "connect"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 X\r\n",
        b"HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal",
    ],
)
async def test_a_response_that_breaks_off_is_cut(
    sent: bytes, server: Upstream, egress_of: Make
) -> None:
    async def cut(hit: Hit, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()
        await asyncio.sleep(0)

    server.answers["/"] = cut
    async with egress_of().client([here(server)], name="test") as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.post(here(server, "/"))
    assert caught.value.kind == "cut"


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 abc X\r\n\r\n",
        b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_http_is_a_typed_failure(
    sent: bytes, server: Upstream, egress_of: Make
) -> None:
    async def junk(hit: Hit, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    server.answers["/"] = junk
    async with egress_of().client([here(server)], name="test", timeout=2) as client:
        with pytest.raises(EgressFailedError) as caught:
            await client.get(here(server, "/"))
    assert caught.value.kind in ("protocol", "cut")


async def test_leaving_a_stream_half_way_closes_its_connection(
    server: Upstream, egress_of: Make
) -> None:
    server.answers["/"] = dripping
    async with egress_of().client([here(server)], name="test") as client:
        async with client.stream("GET", here(server, "/")) as response:
            await anext(aiter(response.aiter_raw()))
        assert await server.closed.wait()


async def test_cancelling_a_request_closes_its_connection(
    server: Upstream, egress_of: Make
) -> None:
    arrived = asyncio.Event()

    async def answer(hit: Hit, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await dripping(hit, writer)

    server.answers["/"] = answer
    async with egress_of().client([here(server)], name="test") as client:
        task = asyncio.create_task(client.get(here(server, "/")))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.closed.wait()


async def test_no_secret_of_the_url_stands_in_an_error(server: Upstream, egress_of: Make) -> None:
    server.answers["/"] = silent
    async with egress_of().client([here(server)], name="test", timeout=0.05) as client:
        with pytest.raises(EgressFailedError) as failed:
            await client.get(here(server, "/?key=canary"))
        with pytest.raises(EgressDeniedError) as denied:
            await client.get("http://canary:canary@elsewhere.example/?key=canary")
    assert "canary" not in str(failed.value)
    assert "canary" not in str(denied.value)
    assert "test: GET http://127.0.0.1" in str(failed.value)


async def test_closing_the_service_closes_the_clients_left_open(
    server: Upstream, egress_of: Make
) -> None:
    egress = egress_of()
    client = egress.client([here(server)], name="test")
    await client.get(here(server, "/"))
    assert server.open == 1
    await egress.close()
    await server.closed.wait()
    assert client.is_closed


async def test_a_closed_client_says_so(server: Upstream, egress_of: Make) -> None:
    client = egress_of().client([here(server)], name="test")
    await client.aclose()
    with pytest.raises(EgressFailedError, match="the client is closed"):
        await client.get(here(server, "/"))
    assert server.hits == []


async def test_a_pattern_outside_the_grammar_is_refused_at_once(egress_of: Make) -> None:
    with pytest.raises(ValueError, match="expected a URL pattern"):
        egress_of().client(["example.com"], name="test")


async def test_the_authorities_are_read_when_they_are_needed_once_for_all_clients(
    server: Upstream, secure: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[ssl.SSLContext] = []

    def reading() -> ssl.SSLContext:
        read.append(ssl.create_default_context())
        return read[-1]

    monkeypatch.setattr(service, "tls_settings", reading)
    egress = CheckedEgress()
    plain, safe = f"http://127.0.0.1:{server.port}/", f"https://127.0.0.1:{secure.port}/"
    clients = [egress.client([plain, safe], name=name) for name in ("one", "two")]

    assert (await clients[0].get(plain)).text == "hello"
    assert read == []
    answers = await asyncio.gather(*(one.get(safe) for one in clients), return_exceptions=True)

    # The certificate there is nobody's whom they know.
    assert [type(answer) for answer in answers] == [EgressFailedError] * 2
    assert secure.hits == []
    assert read == [await egress.authorities()]
    await egress.close()


# -- WebSockets --------------------------------------------------------------


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Serve a WebSocket that says everything again."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/{path:.*}", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_a_websocket_goes_where_a_grant_says_and_nowhere_else(
    egress_of: Make, dialled: list[Any]
) -> None:
    egress = egress_of()
    async with echo() as port:
        grants = [f"http://127.0.0.1:{port}/open/*"]
        asked = f"ws://127.0.0.1:{port}/open/events?a=b"
        async with egress.websocket(grants, asked, name="test", max_bytes=100) as socket:
            await socket.send_str("hello")
            assert await socket.receive_str() == "hello"
        assert socket.closed
        dialled.clear()
        for url in (f"ws://127.0.0.1:{port}/other", f"http://127.0.0.1:{port}/open/a", "wss://x"):
            with pytest.raises(EgressDeniedError, match="test"):
                async with egress.websocket(grants, url, name="test", max_bytes=100):
                    raise AssertionError("it is open")
    assert dialled == []


async def test_a_websocket_to_a_name_on_an_inner_address_is_refused(
    egress_of: Make, names: Names, dialled: list[Any]
) -> None:
    names.table["push.example"] = ["127.0.0.1"]
    with pytest.raises(EgressDeniedError, match="private_hosts"):
        async with egress_of().websocket(
            ["http://push.example:8080/*"], "ws://push.example:8080/", name="test", max_bytes=100
        ):
            raise AssertionError("it is open")
    assert dialled == []


async def test_a_websocket_that_cannot_be_opened_says_so(egress_of: Make, server: Upstream) -> None:
    url = here(server, "/", "ws")
    with pytest.raises(EgressFailedError, match="test"):
        async with egress_of().websocket([here(server)], url, name="test", max_bytes=100):
            raise AssertionError("it is open")


async def test_who_reaches_out_to_nobody_reads_no_authorities(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[CheckedEgress] = []
    monkeypatch.setattr(plugin, "AHEAD_SECONDS", 0)
    monkeypatch.setattr(service.Authorities, "__call__", lambda self: reading(self))

    async def reading(_: object) -> None:
        read.append(egress)

    egress = CheckedEgress()
    await plugin._read_ahead(egress)
    assert read == []
    async with egress.client(["https://api.example.com/*"], name="test"):
        await plugin._read_ahead(egress)
    assert read == [egress]
