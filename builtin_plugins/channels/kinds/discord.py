"""The kind ``discord``: interactions by webhook, deferred answers, buttons."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from hookgate import (
    Address,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    Egress,
    Host,
    Parsed,
    RawMessage,
    ReceivedMessage,
    Webhook,
    WebhookReply,
    plain_text,
)
from hookgate.builtin_plugins.channels.kinds import Api, StatusError, read_json
from hookgate.builtin_plugins.channels.settings import ChannelSettings

API = "https://discord.com/api/v10"
LONGEST = 2000

PING, COMMAND, COMPONENT = 1, 2, 3
PONG, DEFERRED, DEFERRED_UPDATE = 1, 5, 6
"""Types of interactions, and of what they are answered with at once."""

ACTION_ROW, BUTTON, PRIMARY = 1, 2, 1
STRING_OPTION = 3

_COMMANDS = frozenset(("start", "help", "new", "stop"))
"""Commands of these names are said to the gateway, where they have no text."""


class DiscordChannel:
    """An application whose commands people use.

    An answer goes to the interaction that asked, whose token lasts for 15 minutes; it stands in
    `ReceivedMessage.thread`. After that, and to approvers, messages go by the bot's own token.
    """

    sandboxed = False
    features = ChannelFeatures(
        edit=True, threads=True, max_length=LONGEST, markdown=True, choices=True
    )

    def __init__(self, host: Host, egress: Egress, name: str, settings: ChannelSettings) -> None:
        self.name = name
        self.connection = Webhook(
            verification="ed25519",
            secret=settings.secret or f"{name}_secret",
            header="X-Signature-Ed25519",
            timestamp="X-Signature-Timestamp",
            signed="{timestamp}{body}",
        )
        self._url = (settings.api or API).rstrip("/")
        self._application = settings.application
        token = settings.token or f"{name}_token"
        self._api = Api(host, egress, name, f"{self._url}/*", token, scheme="Bot")

    # -- coming in ---------------------------------------------------------

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        """Read an interaction, which is answered at once: the answer itself comes later.

        Raises:
            ChannelError: It is none.
        """
        try:
            found = json.loads(raw.body)
            kind = found["type"]
            if kind == PING:
                return Parsed(reply=_reply(PONG))
            if kind == COMMAND:
                text = "\n".join(_texts(found["data"].get("options") or []))
                if not text and (name := str(found["data"].get("name", ""))) in _COMMANDS:
                    text = f"/{name}"
                return Parsed(
                    messages=[self._message(found, content=text, thread=str(found["token"]))],
                    reply=_reply(DEFERRED),
                )
            if kind == COMPONENT:
                message = self._message(found, choice=str(found["data"]["custom_id"]))
                return Parsed(messages=[message], reply=_reply(DEFERRED_UPDATE))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ChannelError(f"found no interaction of Discord: {error!r}") from error
        raise ChannelError(f"found an interaction of type {kind!r}, expected 1, 2 or 3")

    def _message(
        self, found: dict[str, Any], *, content: str = "", thread: str = "", choice: str = ""
    ) -> ReceivedMessage:
        user = found.get("user") or found["member"]["user"]
        return ReceivedMessage(
            id=str(found["id"]),
            content=content,
            account=str(found.get("application_id") or self._application),
            peer=str(found["channel_id"]),
            guild=str(found["guild_id"]) if found.get("guild_id") else None,
            sender=str(user["id"]),
            thread=thread,
            choice=choice,
        )

    # -- going out ---------------------------------------------------------

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        """Answer an interaction, or post a message; one by the bot is posted once for each key.

        Raises:
            ChannelError: It was not posted.
        """
        said = _message(content, choices)
        if thread:
            webhook = f"{self._url}/webhooks/{self._application}/{quote(thread, safe='')}"
            try:
                body = json.dumps(said).encode()
                answer = await self._api.call("POST", f"{webhook}?wait=true", body, signed_in=False)
                return f"{thread}/{read_json(answer).get('id', '')}"
            except StatusError as error:
                # The interaction is over: then the bot itself says it.
                if error.status not in (401, 404) or not await self._api.has_token():
                    raise
        nonce = hashlib.sha256(key.encode()).hexdigest()[:25]
        said |= {"nonce": nonce, "enforce_nonce": True} if key else {}
        url = f"{self._url}/channels/{quote(address.peer, safe='')}/messages"
        answer = await self._api.call("POST", url, json.dumps(said).encode())
        return str(read_json(answer).get("id", ""))

    async def edit(
        self, address: Address, message_id: str, content: Content, *, choices: Sequence[Choice] = ()
    ) -> None:
        """Change a message.

        Raises:
            ChannelError: It was not changed.
        """
        said = {"components": [], **_message(content, choices)}
        token, _, number = message_id.rpartition("/")
        where = f"channels/{quote(address.peer, safe='')}"
        if token:
            where = f"webhooks/{self._application}/{quote(token, safe='')}"
        url = f"{self._url}/{where}/messages/{quote(number, safe='')}"
        await self._api.call("PATCH", url, json.dumps(said).encode(), signed_in=not token)


def _reply(kind: int) -> WebhookReply:
    body = json.dumps({"type": kind}).encode()
    return WebhookReply(headers={"Content-Type": "application/json"}, body=body)


def _texts(options: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the texts among the options of a command, those of its subcommands included."""
    for option in options:
        if option["type"] == STRING_OPTION:
            yield str(option["value"])
        yield from _texts(option.get("options") or [])


def _message(content: Content, choices: Sequence[Choice]) -> dict[str, Any]:
    # What a model writes must call nobody.
    said: dict[str, Any] = {"content": plain_text(content), "allowed_mentions": {"parse": []}}
    if choices:
        buttons = [
            {"type": BUTTON, "style": PRIMARY, "label": one.label, "custom_id": one.data}
            for one in choices
        ]
        said["components"] = [{"type": ACTION_ROW, "components": buttons}]
    return said
