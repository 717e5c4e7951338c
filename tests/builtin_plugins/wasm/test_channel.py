"""A channel of a guest: the host holds the connection, and the guest translates."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.egress.upstream import Hit, Upstream, respond, upstream
from tests.builtin_plugins.wasm.conftest import Started
from tests.builtin_plugins.wasm.folders import constant, write_plugin

from hookgate import ChannelError
from hookgate.channels import (
    Choice,
    HostedChannel,
    PolledChannel,
    Polling,
    RawMessage,
    Webhook,
)
from hookgate.core.domain.turn import Address

TELEGRAM = Path(__file__).parents[3] / "examples" / "guests" / "telegram"
TOKEN = "123456:a-token-of-a-bot"
ANNA = Address(channel="wasm.telegram", account="7", peer="42")


@pytest.fixture
async def platform() -> AsyncIterator[Upstream]:
    async with upstream() as one:
        yield one


@pytest.fixture
def telegram(tmp_path: Path, platform: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Telegram guest, granted a platform on this machine."""
    folder = tmp_path / "plugins" / "telegram"
    shutil.copytree(TELEGRAM, folder, ignore=shutil.ignore_patterns("target", "src"))
    api = f"http://127.0.0.1:{platform.port}"
    manifest = folder / "hookgate-plugin.toml"
    manifest.write_text(manifest.read_text().replace("https://api.telegram.org", api))
    monkeypatch.setenv("TELEGRAM_API", api)
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    return folder


def answering(platform: Upstream, method: str, result: Any, status: int = 200) -> None:
    async def answer(hit: Hit, writer: Any) -> None:
        ok = status == 200
        body = {"ok": ok, "result": result}
        if not ok:
            wait = {"retry_after": 3} if status == 429 else {}
            body = {"ok": ok, "error_code": status, "description": result, "parameters": wait}
        await respond(writer, status, json.dumps(body).encode())

    platform.answers[f"/bot{TOKEN}/{method}"] = answer


async def test_a_message_is_sent_and_edited_with_the_token_that_the_guest_never_sees(
    started: Started, telegram: Path, platform: Upstream
) -> None:
    answering(platform, "sendMessage", {"message_id": 17, "chat": {"id": 42}})
    answering(platform, "editMessageText", {"message_id": 17, "chat": {"id": 42}})
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.telegram"]
        assert channel.sandboxed
        assert isinstance(channel, PolledChannel)
        assert channel.connection == Polling(seconds=25)
        assert channel.features.max_length == 4096
        sent = await channel.send(ANNA, "hello", choices=[Choice("Yes", "y")])
        await channel.edit(ANNA, sent, "hello again")
    first, second = platform.hits
    body = json.loads(first.body)
    assert (body["text"], str(body["chat_id"])) == ("hello", "42")
    assert "Yes" in first.body.decode()
    assert json.loads(second.body)["text"] == "hello again"
    assert str(json.loads(second.body)["message_id"]) == str(sent)


async def test_a_poll_brings_messages_and_where_the_next_one_begins(
    started: Started, telegram: Path, platform: Upstream
) -> None:
    message = {
        "message_id": 5,
        "from": {"id": 42, "is_bot": False, "first_name": "Anna"},
        "chat": {"id": 42, "type": "private"},
        "date": 1,
        "text": "is it cold?",
    }
    answering(platform, "getUpdates", [{"update_id": 900, "message": message}])
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.telegram"]
        assert isinstance(channel, PolledChannel)
        raw = await channel.poll("")
        parsed = await channel.parse_incoming(raw)
    (received,) = parsed.messages
    assert (received.content, received.peer, received.sender) == ("is it cold?", "42", "42")
    assert received.id
    assert parsed.cursor == "901"


@pytest.mark.parametrize(("status", "transient"), [(429, True), (500, True), (403, False)])
async def test_a_platform_that_refuses_is_an_error_that_says_whether_to_try_again(
    status: int, transient: bool, started: Started, telegram: Path, platform: Upstream
) -> None:
    answering(platform, "sendMessage", f"no, and not with {TOKEN}", status)
    async with started() as sandboxed:
        with pytest.raises(ChannelError, match=str(status)) as failed:
            await sandboxed.gateway.host.channels["wasm.telegram"].send(ANNA, "hello")
    assert failed.value.transient is transient
    assert failed.value.retry_after == (3 if status == 429 else None)
    assert TOKEN not in str(failed.value)


async def test_a_change_that_changes_nothing_is_no_failure(
    started: Started, telegram: Path, platform: Upstream
) -> None:
    answering(platform, "editMessageText", "Bad Request: message is not modified", 400)
    async with started() as sandboxed:
        await sandboxed.gateway.host.channels["wasm.telegram"].edit(ANNA, "17", "hello")
    assert len(platform.hits) == 1


async def test_a_guest_that_does_not_look_at_the_status_loses_no_message(
    started: Started, tmp_path: Path, platform: Upstream
) -> None:
    async def full(hit: Hit, writer: Any) -> None:
        await respond(writer, 429, b"slow down", retry_after="7")

    platform.answers["/send"] = full
    url = f"http://127.0.0.1:{platform.port}/send"
    data = constant(parse_incoming={}, format_outgoing={"url": url, "method": "POST"})
    more = {**WEBHOOK, "grants": [f"http:POST {url}"]}
    write_plugin(tmp_path / "plugins" / "hooked", data, **more)
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.hooked"]
        with pytest.raises(ChannelError, match="answered 429: slow down") as failed:
            await channel.send(ANNA, "hello")
    assert (failed.value.transient, failed.value.retry_after) == (True, 7)


async def test_a_platform_that_is_not_there_is_tried_again(
    started: Started, telegram: Path, platform: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(hit: Hit, writer: Any) -> None:
        writer.close()

    platform.answers[f"/bot{TOKEN}/sendMessage"] = cut
    async with started() as sandboxed:
        with pytest.raises(ChannelError) as failed:
            await sandboxed.gateway.host.channels["wasm.telegram"].send(ANNA, "hello")
    assert failed.value.transient
    assert TOKEN not in str(failed.value)


WEBHOOK = {
    "kind": "channel",
    "grants": ["http:api.example.com"],
    "channel": {
        "webhook": {"verification": "hmac-sha256", "secret": "hook", "header": "x-signature"}
    },
}
RAW = RawMessage(kind="webhook", body=b"{}")


async def test_a_webhook_is_read_by_the_guest_and_may_be_answered(
    started: Started, tmp_path: Path
) -> None:
    answer = {
        "messages": [{"id": 1, "content": "hi", "account": "a", "peer": 3, "choice": "y"}],
        "reply": {"status": 202, "headers": {"x-a": "b"}, "body": "thanks"},
    }
    data = constant(parse_incoming=answer, format_outgoing={})
    write_plugin(tmp_path / "plugins" / "hooked", data, **WEBHOOK)
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.hooked"]
        assert isinstance(channel, HostedChannel)
        assert not isinstance(channel, PolledChannel)
        assert isinstance(channel.connection, Webhook)
        assert channel.connection.header == "x-signature"
        parsed = await channel.parse_incoming(RAW)
    (message,) = parsed.messages
    assert (message.id, message.peer, message.choice) == ("1", "3", "y")
    assert parsed.reply is not None
    assert (parsed.reply.status, parsed.reply.body) == (202, b"thanks")


@pytest.mark.parametrize(
    ("exports", "told"),
    [
        ({"parse_incoming": "nonsense"}, "found no JSON"),
        ({"parse_incoming": {"messages": [{"id": "1"}]}}, "'messages.0.account' is missing"),
    ],
)
async def test_what_a_guest_cannot_read_is_an_error_of_the_channel(
    exports: dict[str, Any], told: str, started: Started, tmp_path: Path
) -> None:
    data = constant(format_outgoing={}, **exports)
    write_plugin(tmp_path / "plugins" / "hooked", data, **WEBHOOK)
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.hooked"]
        assert isinstance(channel, HostedChannel)
        with pytest.raises(ChannelError, match=told):
            await channel.parse_incoming(RAW)


async def test_a_guest_sends_nothing_to_where_no_grant_leads(
    started: Started, tmp_path: Path, platform: Upstream
) -> None:
    evil = {"url": f"http://127.0.0.1:{platform.port}/steal", "method": "POST", "body": "x"}
    data = constant(parse_incoming={}, format_outgoing=evil)
    write_plugin(tmp_path / "plugins" / "hooked", data, **WEBHOOK)
    async with started() as sandboxed:
        with pytest.raises(ChannelError, match="is not granted") as failed:
            await sandboxed.gateway.host.channels["wasm.hooked"].send(ANNA, "hello")
    assert not failed.value.transient
    assert platform.connections == 0


async def test_a_channel_whose_plugin_has_changed_says_so(started: Started, tmp_path: Path) -> None:
    data = constant(parse_incoming={}, format_outgoing={})
    folder = write_plugin(tmp_path / "plugins" / "hooked", data, **WEBHOOK)
    async with started() as sandboxed:
        channel = sandboxed.gateway.host.channels["wasm.hooked"]
        assert isinstance(channel, HostedChannel)
        (folder / "guest.wasm").write_bytes(constant(parse_incoming={"messages": []}))
        await sandboxed.gateway.reload()
        with pytest.raises(ChannelError, match="hookgate wasm list"):
            await channel.parse_incoming(RAW)


async def test_a_guest_that_polls_exports_poll(started: Started, tmp_path: Path) -> None:
    data = constant(parse_incoming={}, format_outgoing={})
    more = {**WEBHOOK, "channel": {"polling": {"seconds": 1}}}
    write_plugin(tmp_path / "plugins" / "polled", data, **more)
    async with started() as sandboxed:
        row = (await sandboxed.rows())["polled"]
        assert sandboxed.gateway.host.channels == {}
    assert row["state"] == "broken"
    assert "does not export poll" in row["why"]
