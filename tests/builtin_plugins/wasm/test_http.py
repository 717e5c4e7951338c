"""Requests of guests: nothing leaves that is off the grant, as a local server's count shows."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.egress.test_off_grant import TABLE
from tests.builtin_plugins.egress.upstream import Hit, Upstream, redirect, respond, upstream
from tests.builtin_plugins.wasm.folders import relay, tool, write_plugin

from hookgate.builtin_plugins.egress.service import CheckedEgress, EgressSettings
from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
from hookgate.builtin_plugins.wasm.packages.folders import read_package
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.builtin_plugins.wasm.tools import call_tool
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.ports import EGRESS

NAME = "api.example.com"
KEY = "s3cret-of-weather:42"


class Names:
    """A resolver without a network: every name is this machine, unless told otherwise."""

    def __init__(self) -> None:
        self.table: dict[str, Sequence[str]] = {}
        self.asked: list[str] = []
        self.flips: list[Sequence[str]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.flips.pop(0) if self.flips else self.table.get(host, ["127.0.0.1"])


class Asking:
    """A guest that asks for what a test says, in a gateway with nothing but the way out."""

    def __init__(self, guests: Guests, loaded: LoadedPlugin) -> None:
        self.guests = guests
        self.loaded = loaded

    async def __call__(self, url: str, **more: Any) -> dict[str, Any]:
        section = self.loaded.manifest.tools[0]
        asked = {"url": url, **more}
        result = await call_tool(self.guests, self.loaded, section, asked, owner="test")
        assert not result.is_error, result.text
        return dict(json.loads(result.text))

    async def denied(self, url: str, **more: Any) -> str:
        """Ask for what must not be done; return why it was not."""
        answer = await self(url, **more)
        assert answer.get("error", {}).get("code") in ("not_granted", "bad_request"), answer
        return str(answer["error"]["message"])


Make = Callable[..., Awaitable[Asking]]


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with upstream() as one:
        yield one


@pytest.fixture
async def other() -> AsyncIterator[Upstream]:
    async with upstream() as one:
        yield one


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
async def dialled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The addresses to which a connection was tried, whatever became of it."""
    loop = asyncio.get_running_loop()
    seen: list[Any] = []
    real = loop.sock_connect

    async def sock_connect(sock: Any, address: Any) -> None:
        seen.append(address[:2])
        await real(sock, address)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    return seen


@pytest.fixture
async def make(tmp_path: Path, names: Names) -> AsyncIterator[Make]:
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "secrets": {"weather_key": KEY, "pin": "1234"}}
    )
    async with Gateway(settings, builtin=()) as gateway:
        made: list[Guests] = []

        async def one(
            *grants: str,
            private: Sequence[str] = (NAME,),
            egress: bool = True,
            limits: dict[str, Any] | None = None,
            **wasm: Any,
        ) -> Asking:
            more = {"limits": limits} if limits else {}
            folder = write_plugin(
                tmp_path / "asking", relay("http"), grants=grants, tools=[tool()], **more
            )
            if egress:
                values = EgressSettings(private_hosts=tuple(private))
                way_out = CheckedEgress(values, resolve=names)
                gateway.host.provide(EGRESS, way_out)
            guests = Guests(gateway.host, WasmSettings.model_validate(wasm), None)
            made.append(guests)
            loaded = await guests.load(read_package(folder, max_bytes=1 << 20))
            made_of[id(guests)] = loaded
            return Asking(guests, loaded)

        made_of: dict[int, LoadedPlugin] = {}
        yield one
        for loaded in made_of.values():
            await loaded.door.close()
        for guests in made:
            await guests.close()


# -- off the grant ---------------------------------------------------------------------


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(set(TABLE)) >= 150


async def test_no_url_off_the_grant_is_asked_for(
    make: Make, server: Upstream, names: Names, dialled: list[Any]
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET {base}/v1/*")
    for url in TABLE:
        told = await asking.denied(url.replace("{port}", str(server.port)))
        assert told, url
        assert (dialled, server.hits, names.asked) == ([], [], []), url
    # The same server does count what is granted.
    answer = await asking(f"{base}/v1/x?q=1")
    assert "ok" in answer, answer
    assert answer["ok"]["status"] == 200
    assert answer["ok"]["body"] == "hello"
    assert [hit.path for hit in server.hits] == ["/v1/x?q=1"]


async def test_no_redirect_off_the_grant_is_followed(
    make: Make, server: Upstream, names: Names, dialled: list[Any]
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET {base}/v1/*")
    for url in TABLE:
        place = url.replace("{port}", str(server.port))
        if not place.isascii() or "\r" in place:
            place = place.encode("ascii", "xmlcharrefreplace").decode().replace("\r\n", "%0d%0a")
        server.answers["/v1/start"] = redirect(place)
        # A relative one that stays within the grant is granted; what counts is who was asked.
        await asking(f"{base}/v1/start")
    assert {address[1] for address in dialled} == {server.port}
    assert all(hit.path.startswith("/v1/") for hit in server.hits)
    assert all(hit.headers["host"] == f"{NAME}:{server.port}" for hit in server.hits)
    assert set(names.asked) == {NAME}


async def test_a_name_whose_address_flips_to_an_inner_one_is_not_followed_there(
    make: Make, server: Upstream, names: Names, dialled: list[Any]
) -> None:
    async def once(_: Hit, writer: Any) -> None:
        await respond(writer, 200, b"hello", connection="close")
        writer.close()

    server.answers["/v1/x"] = once
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET {base}/v1/*")
    names.flips = [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["::"]]
    assert (await asking(f"{base}/v1/x"))["ok"]["body"] == "hello"
    for _ in range(3):
        assert "resolves to" in await asking.denied(f"{base}/v1/x")
    assert len(server.hits) == 1
    assert dialled == [("127.0.0.1", server.port)]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "192.168.1.1"),
        *("::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1", "fd00::1"),
    ],
)
async def test_a_granted_name_on_an_inner_address_is_refused(
    address: str, make: Make, server: Upstream, names: Names, dialled: list[Any]
) -> None:
    names.table[NAME] = [address]
    asking = await make(f"http:GET http://{NAME}:{server.port}/*", private=())
    assert "resolves to" in await asking.denied(f"http://{NAME}:{server.port}/x")
    assert (dialled, server.hits) == ([], [])


async def test_an_inner_address_is_reached_where_the_grant_names_it(
    make: Make, server: Upstream
) -> None:
    asking = await make(f"http:GET http://127.0.0.1:{server.port}/*", private=())
    assert (await asking(f"http://127.0.0.1:{server.port}/x"))["ok"]["status"] == 200


async def test_a_method_that_is_not_granted_is_not_sent(make: Make, server: Upstream) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET {base}/*")
    for method in ("POST", "DELETE", "get", "CONNECT", "TRACE", "GET /x HTTP/1.1\r\nX: y"):
        told = await asking.denied(f"{base}/x", method=method[:20])
        assert "method" in told
    assert server.hits == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize("body", [{"body": "do it"}, {"body": "ZG8gaXQ=", "base64": True}])
async def test_what_asks_for_no_change_has_no_body(
    method: str, body: dict[str, Any], make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*")
    assert "found a body" in await asking.denied(f"{base}/x", method=method, **body)
    assert server.hits == []


@pytest.mark.parametrize(
    "name",
    [
        *("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method", "x-method"),
        *("x-http-method-override", "X_HTTP_METHOD_OVERRIDE", "X-Http-Method"),
    ],
)
async def test_no_header_says_another_method(name: str, make: Make, server: Upstream) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET,POST {base}/*")
    for method in ("GET", "POST"):
        told = await asking.denied(f"{base}/x", method=method, headers={name: "DELETE"})
        assert "another method" in told
    assert server.hits == []


async def test_of_one_fixed_path_no_query_is_asked_for_unless_that_is_granted(
    make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:GET {base}/v1/towns", f"http:GET {base}/v1/search?*")
    assert "has a query" in await asking.denied(f"{base}/v1/towns?say=hello")
    assert server.hits == []
    assert (await asking(f"{base}/v1/towns"))["ok"]["status"] == 200
    assert (await asking(f"{base}/v1/search?say=hello"))["ok"]["status"] == 200
    server.answers["/v1/towns"] = redirect(f"{base}/v1/towns?say=hello")
    assert "has a query" in await asking.denied(f"{base}/v1/towns")
    assert [hit.path for hit in server.hits][2:] == ["/v1/towns"]


async def test_a_redirect_keeps_to_the_methods_that_are_granted_there(
    make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:POST {base}/v1/form", f"http:GET {base}/v1/done")
    server.answers["/v1/form"] = redirect(f"{base}/v1/done", 303)
    answer = await asking(f"{base}/v1/form", method="POST", body="a")
    assert answer["ok"]["status"] == 200
    assert [hit.method for hit in server.hits] == ["POST", "GET"]
    server.answers["/v1/form"] = redirect(f"{base}/v1/done", 307)
    assert "method is POST" in await asking.denied(f"{base}/v1/form", method="POST", body="a")
    assert [hit.method for hit in server.hits] == ["POST", "GET", "POST"]


async def test_proxies_of_the_environment_are_ignored(
    make: Make, server: Upstream, other: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{other.port}")
    asking = await make(f"http:GET http://{NAME}:{server.port}/*")
    assert (await asking(f"http://{NAME}:{server.port}/x"))["ok"]["status"] == 200
    assert (len(server.hits), other.connections) == (1, 0)


# -- what is sent and what comes back ------------------------------------------------


async def test_a_request_is_sent_as_the_guest_says_and_the_response_comes_back(
    make: Make, server: Upstream
) -> None:
    async def answer(hit: Hit, writer: Any) -> None:
        await respond(writer, 201, b"\xff\x00", content_type="image/png")

    server.answers["/v1/x"] = answer
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:POST {base}/*")
    got = await asking(f"{base}/v1/x", method="POST", headers={"x-a": "b"}, body='{"c":"é"}')
    (hit,) = server.hits
    assert (hit.method, hit.headers["x-a"], hit.body) == ("POST", "b", '{"c":"é"}'.encode())
    assert (got["ok"]["status"], got["ok"]["body"], got["ok"]["base64"]) == (201, "/wA=", True)
    assert got["ok"]["headers"]["content-type"] == "image/png"
    await asking(f"{base}/v1/x", method="POST", body="/wA=", base64=True)
    assert server.hits[1].body == b"\xff\x00"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"headers": {"a b": "c"}}, "found the header"),
        ({"headers": {"a": "b\r\nx: y"}}, "found the header"),
        ({"headers": {"a": "\u20ac"}}, "cannot be sent"),
        ({"method": "POST", "body": "?", "base64": True}, "no base64"),
        ({"metod": "POST"}, "unknown key 'metod'"),
    ],
)
async def test_what_cannot_be_sent_is_told(
    more: dict[str, Any], told: str, make: Make, server: Upstream
) -> None:
    asking = await make(f"http:http://{NAME}:{server.port}/*")
    assert told in await asking.denied(f"http://{NAME}:{server.port}/x", **more)
    assert server.hits == []


async def test_a_response_past_its_limit_is_not_handed_over(make: Make, server: Upstream) -> None:
    async def answer(hit: Hit, writer: Any) -> None:
        await respond(writer, 200, b"x" * 5000)

    server.answers["/x"] = answer
    asking = await make(f"http:http://{NAME}:{server.port}/*", http_bytes=4096)
    got = await asking(f"http://{NAME}:{server.port}/x")
    assert got["error"]["code"] == "limit"
    assert "4096 bytes" in got["error"]["message"]


async def test_a_slow_response_ends_within_its_limit(make: Make, server: Upstream) -> None:
    async def never(hit: Hit, writer: Any) -> None:
        await asyncio.Event().wait()

    server.answers["/x"] = never
    asking = await make(f"http:http://{NAME}:{server.port}/*", http_seconds=0.2)
    got = await asking(f"http://{NAME}:{server.port}/x")
    assert got["error"]["code"] == "timeout"


async def test_without_a_way_out_the_guest_is_told_whose_matter_that_is(make: Make) -> None:
    asking = await make("http:api.example.com", egress=False)
    got = await asking("https://api.example.com/x")
    assert got["error"]["code"] == "unavailable"
    assert "egress" in got["error"]["message"]


# -- secrets -------------------------------------------------------------------------------


async def echo(hit: Hit, writer: Any) -> None:
    said = json.dumps(
        {"path": hit.path, "key": hit.headers.get("x-key"), "body": hit.body.decode()}
    )
    await respond(writer, 200, said.encode(), x_back=hit.headers.get("x-key", ""))


async def test_a_secret_is_put_in_where_it_is_granted_and_taken_out_of_what_comes_back(
    make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    secret = f"secret:weather_key -> header,path,body @ {base}/v1/*"
    asking = await make(f"http:{base}/*", secret)
    server.answers["/v1/x"] = echo
    mark = "{{secret:weather_key}}"
    path = f"/v1/bot{KEY.replace(' ', '')}/x"
    server.answers[path] = echo
    got = await asking(
        f"{base}/v1/x",
        method="POST",
        headers={"x-key": f"Bearer {mark}"},
        body=json.dumps({"a": [mark]}),
    )
    (hit,) = server.hits
    assert hit.headers["x-key"] == f"Bearer {KEY}"
    assert json.loads(hit.body) == {"a": [KEY]}
    assert KEY not in json.dumps(got)
    assert got["ok"]["headers"]["x-back"] == "Bearer [redacted]"
    got = await asking(f"{base}/v1/bot{mark}/x?q=1")
    assert server.hits[1].path == f"/v1/bot{KEY}/x?q=1"
    assert got["ok"]["status"] == 200
    assert KEY not in json.dumps(got)


@pytest.mark.parametrize(
    ("url", "more", "told"),
    [
        ("/v1/x?k={{secret:weather_key}}", {}, "in the query"),
        ("/v1/x#{{secret:weather_key}}", {}, "in the query"),
        ("/v1/{{secret:weather_key}}", {}, "not granted in the path"),
        ("/v1/x", {"method": "POST", "body": '{"a":"{{secret:weather_key}}"}'}, "in the body"),
        ("/v1/x", {"method": "POST", "body": "{{secret:weather_key}}"}, "is no JSON"),
        ("/v2/x", {"headers": {"k": "{{secret:weather_key}}"}}, "not granted in the header"),
        ("/v1/x", {"headers": {"k": "{{secret:other_key}}"}}, "'other_key' is not granted"),
        ("/v1/x", {"headers": {"k": "{{secret:weather_key"}}, "without its end"),
        ("/v1/x", {"headers": {"{{secret:weather_key}}": "k"}}, "found the header"),
    ],
)
async def test_a_secret_stands_nowhere_else(
    url: str, more: dict[str, Any], told: str, make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*", f"secret:weather_key -> header @ {base}/v1/*")
    message = await asking.denied(base + url, **more)
    assert told in message
    assert KEY not in message
    assert server.hits == []


async def test_a_body_around_a_secret_has_the_bounds_of_all_that_guests_say(
    make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*", f"secret:weather_key -> body @ {base}/*")
    body = json.dumps({f"k{one}": "{{secret:weather_key}}" for one in range(65)})

    told = await asking.denied(f"{base}/v1/x", method="POST", body=body)

    assert "more than 64 keys in one object" in told
    assert server.hits == []


async def test_a_key_of_json_takes_no_secret(make: Make, server: Upstream) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*", f"secret:weather_key -> body @ {base}/*")
    body = '{"{{secret:weather_key}}": "a"}'
    assert "in a key of JSON" in await asking.denied(f"{base}/x", method="POST", body=body)
    assert server.hits == []


async def test_a_secret_goes_along_with_no_redirect_to_where_it_is_not_granted(
    make: Make, server: Upstream, other: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    away = f"http://{NAME}:{other.port}"
    asking = await make(
        f"http:{base}/*", f"http:{away}/*", f"secret:weather_key -> header,body,path @ {base}/v1/*"
    )
    mark = "{{secret:weather_key}}"
    # To another origin a header does not go along, and the request does.
    server.answers["/v1/a"] = redirect(f"{away}/x")
    await asking(f"{base}/v1/a", headers={"x-key": mark})
    assert "x-key" not in other.hits[0].headers
    # A body would go along, so that the request does not.
    server.answers["/v1/b"] = redirect(f"{away}/x", 307)
    told = await asking.denied(f"{base}/v1/b", method="POST", body=json.dumps({"a": mark}))
    assert "the secret weather_key is not granted there in the body" in told
    # Within the origin headers go along, and the grant ends at a path.
    server.answers["/v1/c"] = redirect(f"{base}/v2/x")
    assert "in the header" in await asking.denied(f"{base}/v1/c", headers={"x-key": mark})
    # A server may send what it was told in the path to where it likes.
    server.answers[f"/v1/{KEY}"] = redirect(f"{away}/{KEY}")
    assert "in the path" in await asking.denied(f"{base}/v1/{mark}")
    assert len(other.hits) == 1
    assert all(not hit.path.startswith("/v2") for hit in server.hits)


async def test_a_secret_that_is_not_set_or_too_short_is_said(make: Make, server: Upstream) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(
        f"http:{base}/*", f"secret:gone -> header @ {base}/*", f"secret:pin -> header @ {base}/*"
    )
    got = await asking(f"{base}/x", headers={"k": "{{secret:gone}}"})
    assert got["error"]["code"] == "unavailable"
    assert "GONE" in got["error"]["message"]
    got = await asking(f"{base}/x", headers={"k": "{{secret:pin}}"})
    assert "shorter than 6 characters" in got["error"]["message"]
    assert server.hits == []


async def test_the_body_of_any_method_takes_its_secret_nowhere_else(
    make: Make, server: Upstream, other: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    away = f"http://{NAME}:{other.port}"
    asking = await make(
        f"http:{base}/*", f"http:{away}/*", f"secret:weather_key -> body @ {base}/*"
    )
    body = json.dumps({"a": "{{secret:weather_key}}"})
    # A redirect keeps a body with its method.
    for status in (301, 307, 308):
        server.answers["/a"] = redirect(f"{away}/x", status)
        assert "in the body" in await asking.denied(f"{base}/a", method="PUT", body=body)
    assert other.hits == []
    # One that is asked for anew by GET has none any more.
    server.answers["/a"] = redirect(f"{away}/x", 303)
    got = await asking(f"{base}/a", method="POST", body=body)
    assert got["ok"]["status"] == 200
    assert other.hits[0].body == b""


async def test_bytes_that_are_no_text_hold_no_secret_of_an_earlier_request(
    make: Make, server: Upstream
) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*", f"secret:weather_key -> header @ {base}/*")
    kept: list[str] = []

    async def keep(hit: Hit, writer: Any) -> None:
        kept.append(hit.headers["x-key"])
        await respond(writer, 200, b"kept")

    async def tell(hit: Hit, writer: Any) -> None:
        encoded = base64.b64encode(kept[0].encode())
        await respond(writer, 200, b"\xff" + kept[0].encode() + b"\xfe" + encoded)

    server.answers |= {"/keep": keep, "/tell": tell}
    await asking(f"{base}/keep", headers={"x-key": "{{secret:weather_key}}"})
    got = await asking(f"{base}/tell")
    said = base64.b64decode(got["ok"]["body"])
    assert said.startswith(b"\xff[redacted]\xfe")
    # Where a form is put together with what stands beside it, its middle is taken out.
    assert said.count(b"[redacted]") == 2


async def test_json_that_cannot_be_written_again_is_told(make: Make, server: Upstream) -> None:
    base = f"http://{NAME}:{server.port}"
    asking = await make(f"http:{base}/*", f"secret:weather_key -> body @ {base}/*")
    half = '{"a": "\\ud800{{secret:weather_key}}"}'
    told = await asking.denied(f"{base}/a", method="POST", body=half)
    assert "cannot be written as JSON again" in told
    assert server.hits == []
