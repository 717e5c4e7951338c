"""What is posted to a webhook: checked before it is read, and answered with a status that fits."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import hmac
import time
from asyncio import StreamReader, StreamWriter
from base64 import b64encode
from dataclasses import replace

import psutil
import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Serve, Served

from hookgate import Handshake, Webhook
from hookgate.builtin_plugins.channels.webhooks import (
    CAPACITY,
    Rates,
    RefusedPostError,
    WebhookSignature,
    check_head,
)
from hookgate.kit.testing.model import ScriptedModel, say

HEADER = Webhook(verification="header", secret="bell_key", header="X-Key", max_body=4096)
SIGNED = Webhook(
    verification="hmac-sha256",
    secret="bell_key",
    header="X-Signature",
    prefix="v0=",
    timestamp="X-Time",
    signed="v0:{timestamp}:{body}",
    max_body=4096,
)
SECRETS = {"bell_key": KEY}


def signed(body: bytes, *, at: float | None = None, key: str = KEY) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(key.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Time": stamp, "X-Signature": f"v0={digest}"}


async def post(served: Served, body: bytes, headers: dict[str, str], name: str = "bell") -> int:
    url = f"{served.url}/webhook/{name}"
    async with served.http.post(url, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status


async def test_every_post_gets_the_status_that_fits(serve: Serve) -> None:
    bell, model = Bell(SIGNED), ScriptedModel(say("ding"))
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        good = event(1)
        assert await post(served, good, signed(good), "no-such-channel") == 404
        assert await post(served, good, {}) == 401
        assert await post(served, good, signed(good, key="another")) == 401
        assert await post(served, good, {**signed(good), "X-Signature": "v0=zz"}) == 401
        assert await post(served, good, {**signed(good), "X-Time": "soon"}) == 401
        assert await post(served, good, signed(good, at=time.time() - 301)) == 403
        assert await post(served, good, signed(good, at=time.time() + 400)) == 403
        assert await post(served, b"x" * 5000, signed(b"x" * 5000)) == 413
        assert await post(served, b"", signed(b"")) == 400
        assert bell.read == 0
        assert await post(served, b"{", signed(b"{")) == 400
        assert await post(served, event(2, peer=""), signed(event(2, peer=""))) == 400
        long = event(2, sender="s" * 300)
        assert await post(served, long, signed(long)) == 400
        assert model.requests == []
        assert await post(served, good, signed(good)) == 200
        await bell.until(lambda: bell.said == [("ada", "ding")])


async def test_event_is_answered_once_however_often_it_comes(serve: Serve) -> None:
    bell, model = Bell(HEADER), ScriptedModel(say("ding"))
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        posts = [post(served, event(1), {"X-Key": KEY}) for _ in range(20)]
        assert set(await asyncio.gather(*posts)) == {200}
        assert await post(served, event(2), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 2)
    assert len(model.requests) == 2
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        assert await post(served, event(3), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 3)
    assert len(model.requests) == 3


async def test_messages_of_one_peer_have_their_turns_in_order(serve: Serve) -> None:
    bell = Bell(HEADER)
    model = ScriptedModel(lambda request: say(f"re: {request.messages[-1].text}"))
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        for number in range(12):
            assert await post(served, event(number, f"m{number}"), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 12)
    assert [text for _, text in bell.said] == [f"re: m{number}" for number in range(12)]


async def test_secret_is_compared_before_the_body_is_read(serve: Serve) -> None:
    bell = Bell(HEADER)
    async with serve(bell, model=ScriptedModel(say("ding")), channels={}, secrets=SECRETS) as one:
        host, port = one.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /webhook/bell HTTP/1.1\r\nHost: {host}:{port}\r\nX-Key: wrong\r\n"
        writer.write(f"{head}Content-Length: 4000\r\n\r\n".encode())
        # Not one byte of the body has been sent, and never is.
        assert (await reader.readline()).split()[1] == b"401"
        writer.close()


async def test_posts_beyond_the_limits_are_turned_away(serve: Serve) -> None:
    bell = Bell(HEADER)
    channels = {"per_minute": 5}
    model = ScriptedModel(say("ding"))
    async with serve(bell, model=model, channels=channels, secrets=SECRETS) as served:
        statuses = [await post(served, b"{}", {"X-Key": "wrong"}) for _ in range(8)]
        assert statuses == [401] * 5 + [429] * 3
        assert await post(served, event(1), {"X-Key": KEY}) == 429
        served.clock.turn(seconds=60)
        assert await post(served, event(1), {"X-Key": KEY}) == 200
    channels = {"per_minute": 100, "bell": {"per_minute": 2}}
    async with serve(bell, model=model, channels=channels, secrets=SECRETS) as served:
        # What is not the platform's cannot use up what the platform may send.
        assert [await post(served, b"{}", {"X-Key": "no"}) for _ in range(4)] == [401] * 4
        statuses = [await post(served, event(n), {"X-Key": KEY}) for n in range(10, 14)]
        assert statuses == [200, 200, 429, 429]


async def test_more_than_may_wait_is_refused_and_not_lost(serve: Serve) -> None:
    bell, free = Bell(HEADER), asyncio.Event()
    model = ScriptedModel([free.wait, *say("ding")])
    async with serve(bell, model=model, channels={"waiting": 2}, secrets=SECRETS) as served:
        statuses = [await post(served, event(n), {"X-Key": KEY}) for n in range(4)]
        assert statuses == [200, 200, 429, 429]
        free.set()
        await bell.until(lambda: len(bell.said) == 2)
        assert await post(served, event(2), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 3)


async def test_platform_makes_sure_of_a_webhook_by_get(serve: Serve) -> None:
    shake = Handshake(token="hub.verify_token", secret="bell_hello", echo="hub.challenge")
    bell = Bell(Webhook(verification="header", secret="bell_key", header="X-Key", handshake=shake))
    plain = Bell(HEADER, name="plain")
    secrets = {**SECRETS, "bell_hello": "hello-from-us"}
    model = ScriptedModel(say("ding"))
    async with serve(bell, plain, model=model, channels={}, secrets=secrets) as served:

        async def get(name: str, **query: str) -> tuple[int, str]:
            given = {key.replace("_", ".", 1): value for key, value in query.items()}
            url = f"{served.url}/webhook/{name}"
            async with served.http.get(url, params=given) as answer:
                return answer.status, await answer.text()

        right = {"hub_verify_token": "hello-from-us", "hub_challenge": "1158201444"}
        assert await get("bell", **right) == (200, "1158201444")
        assert (await get("bell", **{**right, "hub_verify_token": "x"}))[0] == 403
        assert (await get("bell"))[0] == 403
        assert (await get("plain", **right))[0] == 404


async def test_channel_without_its_secret_is_not_served_and_status_says_so(serve: Serve) -> None:
    bell = Bell(HEADER)
    async with serve(bell, model=ScriptedModel(say("ding")), channels={}) as served:
        assert await post(served, event(1), {"X-Key": ""}) == 404
        assert "found no secret 'bell_key'" in served.gateway.host.degraded["channel bell"]


async def test_only_listed_senders_are_listened_to_and_strangers_taint(serve: Serve) -> None:
    bell, model = Bell(HEADER), ScriptedModel(say("ding"))
    channels = {"bell": {"senders": ["ada", "team-*"]}}
    async with serve(bell, model=model, channels=channels, secrets=SECRETS) as served:
        for number, sender in enumerate(["eve", "ada", "team-7", ""]):
            assert await post(served, event(number, sender, sender=sender), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 2)
    assert [request.messages[-1].text for request in model.requests] == ["ada", "team-7"]
    assert model.requests[0].messages[-1].taint == frozenset()
    public = {"bell": {"approvers": [{"sender": "ada", "account": "default", "principal": "ada"}]}}
    async with serve(bell, model=model, channels=public, secrets=SECRETS) as served:
        for number, sender in ((8, "eve"), (9, "ada")):
            body = event(number, peer=sender, sender=sender)
            assert await post(served, body, {"X-Key": KEY}) == 200
            await bell.until(lambda count=number: len(bell.said) == count - 5)
    assert model.requests[-2].messages[-1].taint == {"channel:bell"}
    assert model.requests[-1].messages[-1].taint == frozenset()
    assert model.requests[-1].messages[-1].principal in ("", "ada")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_ten_thousand_bad_posts_take_no_memory(serve: Serve, short: bool) -> None:
    bell, count = Bell(HEADER), 1000 if short else 10_000
    channels = {"per_minute": 1_000_000}
    model = ScriptedModel(say("ding"))
    async with serve(bell, model=model, channels=channels, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        for number in range(200):
            await post(served, b"x" * 3000, {"X-Key": f"no-{number}"})
        gc.collect()
        before = psutil.Process().memory_info().rss
        for number in range(count):
            name = "bell" if number % 5 else f"no-such-{number}"
            headers = {"X-Key": f"guess-{number}", f"X-Odd-{number}": "x"}
            status = await post(served, b"x" * 3000, headers, name)
            assert status == (401 if number % 5 else 404)
        gc.collect()
        grown = (psutil.Process().memory_info().rss - before) / 2**20
        assert grown <= 20
    assert bell.read == 1


# -- bodies that nobody has signed -----------------------------------------------------

BIG = replace(SIGNED, max_body=Webhook(verification="header", secret="s", header="h").max_body)


async def stalled(served: Served, size: int) -> tuple[StreamReader, StreamWriter]:
    """Begin a post with a signature that is none, send `size` bytes of it, and stop."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = {"Host": f"{host}:{port}", "Content-Length": str(size + 1000), **signed(b"another")}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"POST /webhook/bell HTTP/1.1\r\n{lines}\r\n".encode() + b"x" * size)
    await writer.drain()
    return reader, writer


async def ended(reader: StreamReader, writer: StreamWriter) -> str:
    """Return the status of a post that was stalled, once its connection is closed."""
    try:
        said = await reader.read()
    except ConnectionError:
        said = b""
    finally:
        writer.close()
    return said[9:12].decode()


async def test_bodies_that_do_not_come_are_not_waited_for(serve: Serve) -> None:
    bell, model = Bell(BIG), ScriptedModel(lambda request: say("ding"))
    limits = {"unverified_seconds": 0.5, "drain_seconds": 5}
    more = {"secrets": SECRETS, "gateway": {"port": 0, "limits": limits}}
    async with serve(bell, model=model, channels={}, **more) as served:
        slow = [await stalled(served, 2000) for _ in range(20)]
        body = event(1)
        assert await post(served, body, signed(body)) == 200
        assert [await ended(*one) for one in slow] == ["408"] * 20


@pytest.mark.slow
async def test_bodies_that_nobody_has_signed_hold_so_much_memory_and_stop_nobody(
    serve: Serve,
) -> None:
    bell, model = Bell(BIG), ScriptedModel(lambda request: say("ding"))
    limits = {"unverified_bytes": 1024 * 1024, "unverified_seconds": 600, "drain_seconds": 5}
    more = {"secrets": SECRETS, "gateway": {"port": 0, "limits": limits}}
    channels = {"per_minute": 1_000_000}
    async with serve(bell, model=model, channels=channels, **more) as served:
        body = event(0)
        assert await post(served, body, signed(body)) == 200
        gc.collect()
        before = psutil.Process().memory_info().rss
        slow = []
        for number in range(1, 9):
            slow += [await stalled(served, 240_000) for _ in range(40)]
            body = event(number)
            assert await post(served, body, signed(body)) == 200
        grown = (psutil.Process().memory_info().rss - before) / 2**20
        assert grown <= 40, "320 connections have sent 73 MiB"
        # All but those of the last mebibyte had to make room, and the first ones first.
        async with asyncio.timeout(60):
            assert {await ended(*one) for one in slow[:300]} == {"429"}
        for _, writer in slow[300:]:
            writer.close()


# -- the parts --------------------------------------------------------------------


def test_signature_in_base64_and_one_over_the_body_alone() -> None:
    webhook = Webhook(verification="hmac-sha256", secret="k", header="X-Hmac", encoding="base64")
    right = b64encode(hmac.new(b"key", b"body", hashlib.sha256).digest()).decode()
    check_head(webhook, "key", {"X-Hmac": right}, 0.0)

    def check(text: str, *pieces: bytes) -> None:
        signature = WebhookSignature(webhook, "key", {"X-Hmac": text})
        for piece in pieces:
            signature.feed(piece)
        signature.check(b"".join(pieces))

    check(right, b"body")
    check(right, b"b", b"", b"ody")
    for text, body in ((right, b"body "), (right[:-4], b"body"), ("****", b"body")):
        with pytest.raises(RefusedPostError) as caught:
            check(text, body)
        assert caught.value.status == 401


def test_rates_fill_up_again_and_remember_so_many() -> None:
    now = 0.0
    rates = Rates(lambda: now)
    assert [rates.wait("a", 2) for _ in range(2)] == [0, 0]
    assert rates.wait("a", 2) == pytest.approx(30)
    now = 30.0
    assert rates.wait("a", 2) == 0
    for number in range(CAPACITY + 100):
        rates.wait(str(number), 2)
    assert len(rates) == CAPACITY
