"""Posts that are the platform's, and hold what hurts: in words, ids and headers."""

from __future__ import annotations

import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Serve
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS, post

from hookgate import Parsed, Polling, RawMessage, ReceivedMessage, WebhookReply
from hookgate.kit.testing.model import ScriptedModel, say


class Curious(Bell):
    """Keeps what it is handed, and replies as it is told."""

    def __init__(self, reply: WebhookReply | None = None) -> None:
        super().__init__(HEADER)
        self.got: list[RawMessage] = []
        self.reply = reply

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        self.got.append(raw)
        return Parsed(messages=[], reply=self.reply)


async def test_what_a_post_is_known_by_is_not_handed_on(serve: Serve) -> None:
    bell = Curious()
    async with serve(bell, model=ScriptedModel(), channels={}, secrets=SECRETS) as served:
        headers = {"X-Key": KEY, "X-Other": "kept", "Authorization": "Basic eDp5", "Cookie": "a=b"}
        assert await post(served, b"{}", headers) == 200
    (raw,) = bell.got
    assert raw.headers["x-other"] == "kept"
    assert not {"x-key", "authorization", "cookie"} & set(raw.headers)


@pytest.mark.parametrize(
    "reply",
    [
        WebhookReply(headers={"X-A": "b\r\nSet-Cookie: c=d"}),
        WebhookReply(headers={"X A": "b"}),
        WebhookReply(headers={"Content-Length": "999"}),
        WebhookReply(headers={"Set-Cookie": "c=d"}),
        WebhookReply(headers={"Transfer-Encoding": "chunked"}, body=b"hello"),
        WebhookReply(status=101),
        WebhookReply(headers={"Content-Type": "text/html"}, body=b"<script>1</script>"),
    ],
    ids=["lines", "name", "length", "cookie", "chunked", "switching", "page"],
)
async def test_a_reply_says_nothing_in_the_name_of_the_gateway(
    reply: WebhookReply, serve: Serve
) -> None:
    bell = Curious(reply)
    async with serve(bell, model=ScriptedModel(), channels={}, secrets=SECRETS) as served:
        url = f"{served.url}/webhook/bell"
        async with served.http.post(url, data=b"{}", headers={"X-Key": KEY}) as answer:
            body = await answer.read()
            assert answer.status in (200, 502)
            assert "Set-Cookie" not in answer.headers
            if "html" in answer.headers.get("Content-Type", ""):
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert "sandbox" in answer.headers["Content-Security-Policy"]
            assert answer.status == 502 or body == reply.body


async def test_half_characters_neither_stop_a_channel_nor_its_other_messages(serve: Serve) -> None:
    bell, model = Bell(HEADER), ScriptedModel(lambda request: say("ding"))
    async with serve(bell, model=model, channels={"waiting": 3}, secrets=SECRETS) as served:
        for number in range(5):
            odd = event(number, "half \ud800 and zero \x00", peer=f"eve-{number}")
            assert await post(served, odd, {"X-Key": KEY}) == 200
            await bell.until(lambda n=number: len(bell.said) == n + 1)
        assert await post(served, event(9), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 6)


async def test_a_peer_is_told_of_no_secret_in_an_error(serve: Serve) -> None:
    bell = Bell(HEADER)
    model = ScriptedModel([ValueError(f"refused the key {KEY}")])
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
    assert KEY not in bell.said[0][1]


async def test_an_id_of_one_event_is_no_id_of_another(serve: Serve) -> None:
    bell, model = Bell(HEADER), ScriptedModel(lambda request: say("ding"))
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        for name in ("a", "a\0", "a ", " a", "A", "a\ud800", "a?", "\u0430"):
            assert await post(served, event(1, id=name), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 8)


class Box(Bell):
    """Is polled: a page with what is no message between two that are, then nothing."""

    def __init__(self) -> None:
        super().__init__(HEADER)
        self.connection = Polling(seconds=0, pause=0.05)  # type: ignore[assignment]  # polled
        self.cursors: list[str] = []

    async def poll(self, cursor: str) -> RawMessage:
        self.cursors.append(cursor)
        return RawMessage(kind="poll", body=b"" if cursor else b"page")

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        ids = ("one", "x" * 300, "two") if raw.body else ()
        messages = [ReceivedMessage(id=one, content=one, peer=one[:9]) for one in ids]
        return Parsed(messages=messages, cursor="behind" if ids else None)


async def test_a_polled_message_that_is_none_holds_up_no_other(serve: Serve) -> None:
    box, model = Box(), ScriptedModel(lambda request: say("ding"))
    async with serve(box, model=model, channels={}, secrets=SECRETS):
        await box.until(lambda: len(box.said) == 2)
    assert sorted(box.said) == [("one", "ding"), ("two", "ding")]
    assert box.cursors[0] == ""
    assert set(box.cursors[1:]) == {"behind"}
