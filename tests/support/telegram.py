"""A third party's channel in Python, of the form that a guest for the Bot API has."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from tests.support.bot_api import LONGEST, SECRET_HEADER, TOKEN

from hookgate import (
    EGRESS,
    Address,
    Channel,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    EgressFailedError,
    Host,
    Parsed,
    Polling,
    RawMessage,
    ReceivedMessage,
    Webhook,
    WebhookReply,
    hookimpl,
)

SECRET = "a-secret-of-the-webhook"


class TelegramChannel:
    """The channel."""

    name = "telegram"
    sandboxed = False
    features = ChannelFeatures(edit=True, max_length=LONGEST, choices=True)

    def __init__(self, url: str, *, polling: bool, seconds: float = 1.0) -> None:
        self._url = url
        self.connection: Webhook | Polling = (
            Polling(seconds=seconds, pause=0.05)
            if polling
            else Webhook(verification="header", secret="telegram_webhook", header=SECRET_HEADER)
        )
        self.client: httpx.AsyncClient

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        try:
            body = json.loads(raw.body)
            updates = body["result"] if raw.kind == "poll" else [body]
            read = [self._read(update) for update in updates]
        except (ValueError, KeyError, TypeError) as error:
            raise ChannelError(f"found no update: {error!r}") from error
        messages = [one for one in read if one is not None]
        cursor = str(updates[-1]["update_id"] + 1) if updates else None
        reply = None
        if raw.kind == "webhook" and "callback_query" in body:
            answer = {
                "method": "answerCallbackQuery",
                "callback_query_id": body["callback_query"]["id"],
            }
            reply = WebhookReply(
                headers={"Content-Type": "application/json"}, body=json.dumps(answer).encode()
            )
        return Parsed(messages=messages, cursor=cursor, reply=reply)

    def _read(self, update: dict[str, Any]) -> ReceivedMessage | None:
        query = update.get("callback_query", {})
        message = update.get("message") or query.get("message")
        if message is None:
            return None
        sender = (query or message)["from"]["id"]
        return ReceivedMessage(
            id=str(update["update_id"]),
            content="" if query else message.get("text", ""),
            account="bot",
            peer=str(message["chat"]["id"]),
            sender=str(sender),
            choice=query.get("data", ""),
        )

    async def poll(self, cursor: str) -> RawMessage:
        assert isinstance(self.connection, Polling)
        given = {"offset": int(cursor or 0), "timeout": self.connection.seconds}
        answer = await self._post("getUpdates", given)
        return RawMessage(kind="poll", body=answer.content, status=answer.status_code)

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        answer = await self._call("sendMessage", address, content, choices)
        return str(answer["message_id"])

    async def edit(
        self, address: Address, message_id: str, content: Content, *, choices: Sequence[Choice] = ()
    ) -> None:
        await self._call("editMessageText", address, content, choices, message_id=int(message_id))

    async def _call(
        self,
        method: str,
        address: Address,
        content: Content,
        choices: Sequence[Choice],
        **more: Any,
    ) -> Any:
        rows = [[{"text": one.label, "callback_data": one.data} for one in choices]]
        markup = {"reply_markup": {"inline_keyboard": rows}} if choices else {}
        given = {"chat_id": int(address.peer), "text": content, **markup, **more}
        return (await self._post(method, given)).json()["result"]

    async def _post(self, method: str, given: dict[str, Any]) -> httpx.Response:
        try:
            answer = await self.client.post(f"{self._url}/bot{TOKEN}/{method}", json=given)
        except EgressFailedError as error:
            raise ChannelError(str(error), transient=True) from error
        if answer.status_code != 200:
            found = answer.json()
            if "not modified" in found["description"]:
                return httpx.Response(200, json={"ok": True, "result": {}})
            raise ChannelError(
                found["description"],
                transient=answer.status_code in (409, 429) or answer.status_code >= 500,
                retry_after=found.get("parameters", {}).get("retry_after"),
            )
        return answer


class Telegram:
    """The plugin that brings it."""

    name = "telegram"

    def __init__(self, url: str, *, polling: bool, seconds: float = 1.0) -> None:
        self.url = url
        self.channel = TelegramChannel(url, polling=polling, seconds=seconds)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        client = host[EGRESS].client([f"{self.url}/*"], name="telegram")
        async with client:
            self.channel.client = client
            yield

    @hookimpl
    def list_channels(self, host: Host) -> Sequence[Channel]:
        return [self.channel]
