"""A local server that speaks the Bot API: what a bot calls, and what a platform posts to it.

It follows https://core.telegram.org/bots/api as far as a bot that chats can tell: updates by
long polling or by a webhook with the secret header, messages, edits, buttons, and the errors
that the platform answers with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from aiohttp import web

TOKEN = "7000000:local-bot-api-token"
LONGEST = 4096
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"


@dataclass
class Shown:
    """A message as people see it now.

    Attributes:
        id: Its id.
        text: What it says.
        buttons: What it offers: label -> data.
        before: What it has said before it was changed, in order.
        entities: What of it is bold and the like: type -> text.
    """

    id: int
    text: str
    buttons: dict[str, str] = field(default_factory=dict)
    before: list[str] = field(default_factory=list)
    entities: dict[str, str] = field(default_factory=dict)


class BotApi:
    """The platform.

    Attributes:
        url: Where bots call it, without the token.
        chats: What bots have said, by chat.
        calls: The methods that were called, in order.
        statuses: What the webhook has answered, in order.
        failing: Errors that the next calls of a method are answered with: method -> list of
            (code, description, parameters).
    """

    def __init__(self) -> None:
        self.url = ""
        self.chats: dict[str, list[Shown]] = {}
        self.calls: list[str] = []
        self.statuses: list[int] = []
        self.failing: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.answered: list[str] = []
        self.actions: list[tuple[str, str]] = []
        self._updates: list[dict[str, Any]] = []
        self._next = 1
        self._changed = asyncio.Condition()
        self._webhook: dict[str, Any] = {}
        self._posting: asyncio.Task[None] | None = None

    # -- people --------------------------------------------------------------

    async def write(
        self, text: str | None, *, chat: int = 42, user: int | None = None, **more: Any
    ) -> int:
        """Have somebody write to the bot, with `more` in the message; return the update's id."""
        message = {**self._message(chat, user, text), **more}
        return await self._update({"message": message})

    async def press(self, label: str, *, chat: int = 42, user: int | None = None) -> int:
        """Have somebody press the newest button with this label."""
        shown = next(one for one in reversed(self.chats[str(chat)]) if label in one.buttons)
        query = {
            "id": f"query-{self._next}",
            "from": self._user(chat if user is None else user),
            "message": {**self._message(chat, None, shown.text), "message_id": shown.id},
            "data": shown.buttons[label],
        }
        return await self._update({"callback_query": query})

    async def again(self, update_id: int) -> None:
        """Post an update once more, as the platform does that has not heard the answer."""
        update = next(one for one in self._updates if one["update_id"] == update_id)
        async with aiohttp.ClientSession() as session:
            await self._post(session, update)

    async def until(self, holds: Callable[[], Any], seconds: float = 20.0) -> None:
        """Wait until something holds of what people see."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(holds)

    def said(self, chat: int = 42) -> list[str]:
        """Return what people see in a chat now."""
        return [one.text for one in self.chats.get(str(chat), [])]

    def pending(self) -> int:
        """Return how many updates the bot has not taken."""
        return len(self._updates)

    def _user(self, user: int) -> dict[str, Any]:
        return {"id": user, "is_bot": False, "first_name": f"user {user}"}

    def _message(self, chat: int, user: int | None, text: str | None) -> dict[str, Any]:
        kind = "private" if chat > 0 else "supergroup"
        return {
            "message_id": self._next + 10_000,
            "date": 1_700_000_000,
            "chat": {"id": chat, "type": kind},
            "from": self._user(chat if user is None else user),
            "text": text,
        }

    async def _update(self, what: dict[str, Any]) -> int:
        async with self._changed:
            update = {"update_id": self._next, **what}
            self._next += 1
            self._updates.append(update)
            self._changed.notify_all()
        return int(update["update_id"])

    # -- the webhook ---------------------------------------------------------

    async def set_webhook(self, url: str, secret: str) -> None:
        """Post all updates to `url`, those too that were posted before."""
        await self.close()
        self._webhook = {"url": url, "secret_token": secret}
        self._posting = asyncio.create_task(self._post_all())

    async def _post_all(self) -> None:
        """Post each update until it is taken, in order, as the platform does."""
        done = 0
        async with aiohttp.ClientSession() as session:
            while True:
                async with self._changed:
                    update = await self._changed.wait_for(partial(self._after, done))
                if await self._post(session, update):
                    done = update["update_id"]
                else:
                    await asyncio.sleep(0.05)

    def _after(self, update_id: int) -> dict[str, Any]:
        return next((one for one in self._updates if one["update_id"] > update_id), {})

    async def _post(self, session: aiohttp.ClientSession, update: Mapping[str, Any]) -> bool:
        headers = {SECRET_HEADER: self._webhook["secret_token"]}
        with suppress(aiohttp.ClientError):
            url = self._webhook["url"]
            async with session.post(url, json=update, headers=headers) as answer:
                body = await answer.read()
                async with self._changed:
                    self.statuses.append(answer.status)
                    self._changed.notify_all()
                if answer.status == 200:
                    if body.startswith(b"{"):
                        call = json.loads(body)
                        await self._run(call.pop("method"), call)
                    return True
        return False

    async def close(self) -> None:
        """Post nothing more."""
        if self._posting is not None:
            self._posting.cancel()
            await asyncio.gather(self._posting, return_exceptions=True)
            self._posting = None

    # -- the bot -------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.Response:
        """Answer one call."""
        if request.match_info["token"] != TOKEN:
            return _error(401, "Unauthorized")
        method = request.match_info["method"]
        given: dict[str, Any] = dict(request.query)
        if request.can_read_body:
            given |= await request.json()
        async with self._changed:
            self.calls.append(method)
            self._changed.notify_all()
        if failures := self.failing.get(method):
            return _error(*failures.pop(0))
        answer = await self._run(method, given)
        if held := self.held.get(method):
            await held.wait()
        return answer

    async def _run(self, method: str, given: dict[str, Any]) -> web.Response:
        run = getattr(self, f"_{method}", None)
        if run is None:
            return _error(404, "Not Found: method not found")
        answer: web.Response = await run(given)
        async with self._changed:
            self._changed.notify_all()
        return answer

    async def _getMe(self, given: Mapping[str, Any]) -> web.Response:
        return _ok({"id": 7_000_000, "is_bot": True, "username": "local_bot"})

    async def _sendMessage(self, given: Mapping[str, Any]) -> web.Response:
        if wrong := _wrong_text(given):
            return wrong
        chat = self.chats.setdefault(str(given["chat_id"]), [])
        shown = Shown(len(chat) + 1, given["text"], _buttons(given), entities=_entities(given))
        chat.append(shown)
        return _ok({"message_id": shown.id, "chat": {"id": given["chat_id"]}, "date": 0})

    async def _editMessageText(self, given: Mapping[str, Any]) -> web.Response:
        if wrong := _wrong_text(given):
            return wrong
        chat = self.chats.get(str(given["chat_id"]), [])
        wanted = str(given["message_id"])
        shown = next((one for one in chat if str(one.id) == wanted), None)
        if shown is None:
            return _error(400, "Bad Request: message to edit not found")
        buttons = _buttons(given)
        if (shown.text, shown.buttons) == (given["text"], buttons):
            return _error(400, "Bad Request: message is not modified")
        shown.before.append(shown.text)
        shown.text, shown.buttons, shown.entities = given["text"], buttons, _entities(given)
        return _ok({"message_id": shown.id})

    async def _sendChatAction(self, given: Mapping[str, Any]) -> web.Response:
        self.actions.append((str(given["chat_id"]), given["action"]))
        return _ok(True)

    async def _answerCallbackQuery(self, given: Mapping[str, Any]) -> web.Response:
        self.answered.append(str(given["callback_query_id"]))
        return _ok(True)

    async def _getUpdates(self, given: Mapping[str, Any]) -> web.Response:
        if self._webhook:
            return _error(409, "Conflict: can't use getUpdates method while webhook is active")
        offset, limit = int(given.get("offset") or 0), int(given.get("limit") or 100)
        self._updates = [one for one in self._updates if one["update_id"] >= offset]
        with suppress(TimeoutError):
            async with asyncio.timeout(float(given.get("timeout") or 0)), self._changed:
                await self._changed.wait_for(lambda: self._updates)
        return _ok(self._updates[:limit])

    async def _setWebhook(self, given: Mapping[str, Any]) -> web.Response:
        await self.close()
        self._webhook = {"url": given["url"], "secret_token": given.get("secret_token", "")}
        self._posting = asyncio.create_task(self._post_all())
        return _ok(True)

    async def _deleteWebhook(self, given: Mapping[str, Any]) -> web.Response:
        await self.close()
        self._webhook = {}
        return _ok(True)


def _ok(result: Any) -> web.Response:
    return web.json_response({"ok": True, "result": result})


def _error(
    code: int, description: str, parameters: Mapping[str, Any] | None = None
) -> web.Response:
    body = {"ok": False, "error_code": code, "description": description}
    if parameters:
        body["parameters"] = dict(parameters)
    return web.json_response(body, status=code)


def _wrong_text(given: Mapping[str, Any]) -> web.Response | None:
    text = given.get("text")
    if not isinstance(text, str) or not text.strip():
        return _error(400, "Bad Request: message text is empty")
    if len(text) > LONGEST:
        return _error(400, "Bad Request: message is too long")
    return None


def _entities(given: Mapping[str, Any]) -> dict[str, str]:
    units = given["text"].encode("utf-16-le")
    return {
        one["type"]: units[2 * one["offset"] : 2 * (one["offset"] + one["length"])].decode(
            "utf-16-le"
        )
        for one in given.get("entities", ())
    }


def _buttons(given: Mapping[str, Any]) -> dict[str, str]:
    rows = (given.get("reply_markup") or {}).get("inline_keyboard", [])
    return {button["text"]: button["callback_data"] for row in rows for button in row}


@asynccontextmanager
async def bot_api() -> AsyncIterator[BotApi]:
    """Run the platform on a free port of loopback."""
    api = BotApi()
    app = web.Application()
    app.router.add_route("*", "/bot{token}/{method}", api.serve)
    # A poll ends with its client: the end of the platform would wait for it.
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"http://127.0.0.1:{port}"
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()
