"""The kind ``json``: another service posts signed JSON, and gets the answer as JSON."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
from hookgate.builtin_plugins.channels.kinds import Api, read_json
from hookgate.builtin_plugins.channels.settings import ChannelSettings


class PostedMessage(BaseModel):
    """What is posted."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=256)
    peer: str = Field(min_length=1, max_length=256)
    text: str = ""
    account: str = Field(default="default", min_length=1, max_length=256)
    sender: str = Field(default="", max_length=256)
    thread: str = Field(default="", max_length=1024)
    choice: str = Field(default="", max_length=256)


class JsonChannel:
    """A service that speaks JSON; both ways signed with one secret."""

    sandboxed = False

    def __init__(self, host: Host, egress: Egress, name: str, settings: ChannelSettings) -> None:
        self.name = name
        self._host = host
        self._secret = settings.secret or f"{name}_secret"
        self._callback = settings.callback
        called = bool(self._callback)
        self.features = ChannelFeatures(markdown=True, threads=called, choices=called)
        self.connection = Webhook(
            verification="hmac-sha256",
            secret=self._secret,
            header="X-Signature",
            prefix="sha256=",
            timestamp="X-Time",
            signed="{timestamp}.{body}",
        )
        self._api: Api | None = None
        if called:
            token = settings.token or f"{name}_token"
            self._api = Api(host, egress, name, self._callback, token)

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        """Read one message.

        Raises:
            ChannelError: It is none.
        """
        try:
            found = PostedMessage.model_validate_json(raw.body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise ChannelError(f"`{where}`: {first['msg']}") from error
        message = ReceivedMessage(
            id=found.id,
            content=found.text,
            account=found.account,
            peer=found.peer,
            sender=found.sender,
            thread=found.thread,
            choice=found.choice,
            wait=self._api is None,
        )
        return Parsed(messages=[message])

    async def answer(self, message: ReceivedMessage, content: Content) -> WebhookReply:
        """Return the answer as the response."""
        body = {"id": message.id, "peer": message.peer, "text": plain_text(content)}
        return WebhookReply(
            headers={"Content-Type": "application/json"}, body=json.dumps(body).encode()
        )

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        """Post one message to the callback; ``Idempotency-Key`` is the same for each attempt.

        Raises:
            ChannelError: It was not taken, or there is no callback.
        """
        if self._api is None:
            raise ChannelError(
                f"{self.name} has no `callback`, so that nothing can be said but in the response"
            )
        said: dict[str, Any] = {
            "account": address.account,
            "peer": address.peer,
            "thread": thread,
            "text": plain_text(content),
            "choices": [{"label": one.label, "data": one.data} for one in choices],
        }
        body = json.dumps(said).encode()
        stamp = str(int(self._host.clock.now().timestamp()))
        signed = f"{stamp}.".encode() + body
        digest = hmac.new(await self._key(), signed, hashlib.sha256).hexdigest()
        headers = {"x-time": stamp, "x-signature": f"sha256={digest}", "idempotency-key": key}
        answer = await self._api.call("POST", self._callback, body, headers=headers)
        return str(read_json(answer).get("id", ""))

    async def edit(
        self, address: Address, message_id: str, content: Content, *, choices: Sequence[Choice] = ()
    ) -> None:
        """Change nothing: what was posted was posted."""
        raise ChannelError(f"{self.name} changes no message")

    async def _key(self) -> bytes:

        return (
            (await asyncio.to_thread(self._host.secrets.get, self._secret) or "").strip().encode()
        )
