"""A hookgate plugin: another service speaks to an agent by signed POSTs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hookgate import (
    Access,
    Address,
    Claim,
    Origin,
    Principal,
    Provenance,
    Section,
    StartError,
    TurnRequest,
    hookimpl,
    read_unverified,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Host, Routes, TurnHandle

CHANNEL = "webhook"
MAX_BODY = 64 * 1024


class Webhook(Section):
    """``[plugin.webhook]``."""

    secret: str = "webhook_secret"
    """The name of the secret that the sender signs with."""
    path: str = "/webhook"
    """Where it POSTs to."""
    account: str = "default"
    """The account that it speaks for."""
    tolerance: int = Field(default=300, ge=1)
    """Seconds that a signature may be old, or ahead of this clock."""


class Incoming(BaseModel):
    """What is sent."""

    model_config = ConfigDict(extra="forbid")

    peer: str = Field(min_length=1, max_length=256)
    text: str = Field(min_length=1)
    wait: bool = True


class Plugin:
    """Takes the POSTs, and answers with what the agent says."""

    Settings = Webhook

    def __init__(self, settings: Webhook) -> None:
        self.settings = settings
        # What the sender may do: to chat, on this channel, as this account.
        claim = Claim(channel=CHANNEL, account=settings.account)
        self.sender = Principal(id=CHANNEL, scopes=frozenset({"chat"}), bindings=(claim,))
        self.host: Host
        self.key = b""

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Take the key; without one, nobody could be told from anybody."""
        name = self.settings.secret
        # A secret can lie in a file.
        key = (await asyncio.to_thread(host.secrets.get, name) or "").strip()
        if not key:
            ways = ", or ".join(host.secrets.how_to_set(name))
            raise StartError(f"found no secret {name!r} to check webhooks by: {ways}")
        host.secrets.register(key)
        self.host, self.key = host, key.encode()
        yield

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        """Serve the one route, which checks the signature by itself."""
        access = Access.self_checked("an HMAC-SHA256 of time and body")
        routes.add("POST", self.settings.path, self.receive, access=access, max_body=MAX_BODY)

    async def receive(self, request: web.Request) -> web.Response:
        """Check one POST, start its turn, and answer."""
        body = await read_unverified(request, most=MAX_BODY)
        stamp, signature = (request.headers.get(f"X-{name}", "") for name in ("Time", "Signature"))
        if not self.is_signed(stamp, signature, body):
            return refusal(401, "the signature is wrong or too old")
        try:
            message = Incoming.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            return refusal(422, f"{where}: {first['msg']}")
        handle = self.host.start_turn(
            self.sender,
            Origin(provenance=Provenance.CHANNEL, path=CHANNEL, channel=CHANNEL),
            TurnRequest(
                content=message.text,
                address=Address(CHANNEL, self.settings.account, message.peer),
            ),
        )
        return await (answered(handle) if message.wait else accepted(handle))

    def is_signed(self, stamp: str, signature: str, body: bytes) -> bool:
        """Whether whoever has the key has signed `body`, not long ago."""
        if not (stamp.isascii() and stamp.isdigit() and signature.isascii()):
            return False
        now = self.host.clock.now().timestamp()
        fresh = abs(now - int(stamp[:16])) <= self.settings.tolerance
        return hmac.compare_digest(sign(self.key, stamp, body), signature) and fresh


def sign(key: bytes, stamp: str, body: bytes) -> str:
    """Return what the sender writes in ``X-Signature``."""
    digest = hmac.new(key, stamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


async def answered(handle: TurnHandle) -> web.Response:
    """Wait for the end of the turn, and answer with it."""
    turn = await handle.wait()
    said = {"turn": turn.id, "ending": turn.ending, "text": turn.answer}
    return web.json_response(said)


async def accepted(handle: TurnHandle) -> web.Response:
    """Answer as soon as the message is committed; the turn goes on by itself."""
    handle.detach()
    async for event in handle.events:
        if event.type == "accepted":
            return web.json_response(dict(event.data), status=202)
    return await answered(handle)  # it did not begin: this says why


def refusal(status: int, why: str) -> web.Response:
    """Return an answer to what is not taken."""
    return web.json_response({"error": why}, status=status)
