"""The door of webhooks: bounded before it is verified, and verified before it counts."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

from aiohttp import web

from hookgate import (
    AnsweringChannel,
    ChannelError,
    Parsed,
    RawMessage,
    ReceivedMessage,
    StoreError,
    Webhook,
    WebhookReply,
    client_of,
    read_unverified,
)
from hookgate.builtin_plugins.channels.book.events import ForeignEventError
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.builtin_plugins.channels.service import Service
from hookgate.tasks import apart, finish

CAPACITY = 4096
"""Addresses that are remembered. Past it the one that was seen longest ago is forgotten."""


class Rates:
    """Buckets that fill up again over a minute, in bounded memory.

    Args:
        monotonic: Returns seconds that never go backwards.
        capacity: Buckets that are remembered.
    """

    def __init__(self, monotonic: Callable[[], float], *, capacity: int = CAPACITY) -> None:
        self._monotonic = monotonic
        self._capacity = capacity
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, per_minute: int) -> float:
        """Take one from a bucket; return 0, or the seconds until there is one again."""
        now = self._monotonic()
        left, at = self._buckets.pop(key, (float(per_minute), now))
        left = min(float(per_minute), left + (now - at) * per_minute / 60)
        taken = left >= 1
        self._buckets[key] = (left - 1 if taken else left, now)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) * 60 / per_minute

    def __len__(self) -> int:
        return len(self._buckets)


# -- verifying -------------------------------------------------------------------

# Whether a post comes from the platform: a secret in a header, or a signature over the body.

MAX_HEADER = 1024
"""Characters of a secret or a signature."""
MOST_REASON = 300
"""Characters of what is told of a body that cannot be read."""


class RefusedPostError(Exception):
    """A post is not taken.

    Attributes:
        status: What it is answered with.
        why: Why, for the log; whoever has posted is told as little as possible.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def verifies_ed25519() -> bool:
    """Whether signatures by Ed25519 can be checked: the extra ``ed25519`` is installed."""
    try:
        import nacl.signing  # noqa: F401 - that it can be imported is the answer
    except ImportError:
        return False
    return True


def check_head(webhook: Webhook, secret: str, headers: Mapping[str, str], now: float) -> None:
    """Check what can be checked before the body is read.

    Raises:
        RefusedPostError: The secret is another one, there is no signature, or it is too old.
    """
    found = headers.get(webhook.header, "")
    if not found or len(found) > MAX_HEADER or not found.isascii():
        raise RefusedPostError(401, f"found no usable header {webhook.header}")
    if webhook.verification == "header":
        if not hmac.compare_digest(found.encode(), (webhook.prefix + secret).encode()):
            raise RefusedPostError(401, f"found another secret in {webhook.header}")
        return
    if not found.startswith(webhook.prefix):
        raise RefusedPostError(401, f"found {webhook.header} without {webhook.prefix!r}")
    if webhook.timestamp:
        stamp = headers.get(webhook.timestamp, "")
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
            raise RefusedPostError(401, f"found no time in {webhook.timestamp}")
        if abs(now - int(stamp)) > webhook.tolerance:
            raise RefusedPostError(403, f"its time is off by more than {webhook.tolerance} s")


class WebhookSignature:
    """Checks the signature of a post while its body comes in.

    Args:
        webhook: How the post is signed.
        secret: What it is checked by.
        headers: The headers of the post, which `check_head` has let pass.
    """

    def __init__(self, webhook: Webhook, secret: str, headers: Mapping[str, str]) -> None:
        self._webhook, self._secret = webhook, secret
        before, after = webhook.signed.split("{body}") if self._signs else ("", "")
        stamp = headers.get(webhook.timestamp, "") if webhook.timestamp else ""
        self._before, self._after = (
            part.replace("{timestamp}", stamp).encode() for part in (before, after)
        )
        self._text = headers[webhook.header].removeprefix(webhook.prefix)
        self._hash = hmac.new(secret.encode(), self._before, hashlib.sha256)

    @property
    def _signs(self) -> bool:
        return self._webhook.verification != "header"

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the body, where the signature can be made of pieces."""
        if self._webhook.verification == "hmac-sha256":
            self._hash.update(piece)

    def check(self, body: bytes) -> None:
        """Check the signature, once all of `body` has been fed.

        Raises:
            RefusedPostError: It is none of the platform's.
        """
        if not self._signs:
            return
        encoding = self._webhook.encoding
        try:
            found = (
                bytes.fromhex(self._text)
                if encoding == "hex"
                else b64decode(self._text, validate=True)
            )
        except ValueError:
            raise RefusedPostError(401, f"the signature is no {encoding}") from None
        if self._webhook.verification == "hmac-sha256":
            self._hash.update(self._after)
            right = hmac.compare_digest(self._hash.digest(), found)
        else:
            # Ed25519 goes over what is signed twice, so it needs all of it.
            signed = self._before + body + self._after
            right = _is_ed25519(bytes.fromhex(self._secret), signed, found)
        if not right:
            raise RefusedPostError(401, "the signature is another one")


def _is_ed25519(key: bytes, signed: bytes, signature: bytes) -> bool:
    # Only who speaks with such a platform has the library.
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    if len(signature) != 64:
        return False
    try:
        VerifyKey(key).verify(signed, signature)
    except BadSignatureError:
        return False
    return True


# -- The door for posts of platforms: ``/webhook/{channel}`` ---------------------

READ_SECONDS = 30.0
BUSY_SECONDS = 5.0
MAX_CHALLENGE = 256

PROOFS = frozenset(("authorization", "cookie", "proxy-authorization"))
"""Headers that are between the platform, or what stands before the gateway, and the gateway."""

REPLIED = frozenset(("content-type", "retry-after"))
"""Headers that a channel may reply with: others are said in the gateway's own name."""

HARMLESS = "sandbox; default-src 'none'"
"""What a reply may do where something shows it as a page: nothing."""


class WebhookDoor:
    """Serves posts. Whoever has posted is told as little as possible."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._rates = Rates(service.host.clock.monotonic)

    # -- routes ------------------------------------------------------------

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Check one post, commit what it holds, and acknowledge it."""
        try:
            hosted, webhook = self._hosted(request)
            body = await self._body(request, hosted, webhook)
            wait = self._rates.wait(f"channel {hosted.name}", hosted.settings.per_minute)
            if wait:
                return _later(429, "too many posts to this channel", wait)
            if not body:
                return _refusal(400, "the body is empty")
            raw = RawMessage(
                kind="webhook",
                body=body,
                headers=_handed_on(request, webhook),
                query=dict(request.query),
            )
            return await self._taken(hosted, raw)
        except _Later as later:
            return _later(later.status, str(later), later.seconds)
        except RefusedPostError as refused:
            name = request.match_info["channel"][:64]
            self._service.host.log.debug("post refused", channel=name, why=refused.why)
            return _refusal(refused.status, "refused" if refused.status < 404 else refused.why)
        except StoreError:
            return _later(503, "it cannot be kept now", BUSY_SECONDS)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Answer a platform that makes sure of a webhook by GET."""
        try:
            hosted, webhook = self._hosted(request)
        except _Later as later:
            return _later(later.status, str(later), later.seconds)
        except RefusedPostError as refused:
            return _refusal(refused.status, refused.why)
        handshake = webhook.handshake
        if handshake is None:
            return _refusal(404, "there is nothing at this path")
        token = request.query.get(handshake.token, "")
        echo = request.query.get(handshake.echo, "")
        if not hmac.compare_digest(token.encode(), hosted.handshake.encode()):
            return _refusal(403, "refused")
        if not echo or len(echo) > MAX_CHALLENGE:
            return _refusal(400, "found no challenge")
        return web.Response(text=echo)

    # -- one post ----------------------------------------------------------

    def _hosted(self, request: web.Request) -> tuple[Hosted, Webhook]:
        service = self._service
        wait = self._rates.wait(f"address {client_of(request)}", service.settings.per_minute)
        if wait:
            raise _Later(429, "too many posts from this address", wait)
        hosted = service.hosting.get(request.match_info["channel"])
        if hosted is None or (webhook := hosted.webhook) is None:
            raise RefusedPostError(404, "there is no such channel")
        return hosted, webhook

    async def _body(self, request: web.Request, hosted: Hosted, webhook: Webhook) -> bytes:
        """Return the body of a post that comes from the platform.

        What can be checked without it is checked before it is read, and what it is signed with
        before anybody looks into it.
        """
        now = self._service.host.clock.now().timestamp()
        check_head(webhook, hosted.secret, request.headers, now)
        await self._service.taken_up(BUSY_SECONDS)
        if self._service.rests(hosted.name):
            raise _Later(503, "this channel rests", BUSY_SECONDS)
        if self._service.turning.is_full(hosted.name):
            raise _Later(429, "too many messages wait", BUSY_SECONDS)
        signature = WebhookSignature(webhook, hosted.secret, request.headers)
        body = await read_unverified(request, most=webhook.max_body, each=signature.feed)
        signature.check(body)
        return body

    async def _taken(self, hosted: Hosted, raw: RawMessage) -> web.StreamResponse:
        read = await apart(partial(hosted.channel.parse_incoming, raw), limit=READ_SECONDS)
        parsed = read.value
        if not isinstance(parsed, Parsed):
            why = read.error or ChannelError("it was not read in time, or as nothing")
            if not isinstance(why, ChannelError):
                self._service.host.log.error(
                    "a channel failed to read a post", channel=hosted.name, exc_info=why
                )
                return _refusal(400, "the body cannot be read")
            # Whoever has signed the post may know what is wrong with it.
            return _refusal(400, f"the body cannot be read: {str(why)[:MOST_REASON]}")
        try:
            # Whole: a platform that goes away has posted all the same.
            waiting = await finish(self._service.intake.take(hosted, parsed))
        except ChannelError as error:
            self._service.host.log.warning(
                "a channel has read what is no message", channel=hosted.name, error=str(error)
            )
            return _refusal(400, "the body cannot be read")
        if waiting and isinstance(hosted.channel, AnsweringChannel):
            return await self._answered(hosted, hosted.channel, waiting[0])
        return _reply(parsed.reply or WebhookReply())

    async def _answered(
        self, hosted: Hosted, channel: AnsweringChannel, message: ReceivedMessage
    ) -> web.StreamResponse:
        """Wait for the answer, and respond with it; a post that comes again gets it, too."""
        seconds = hosted.settings.answer_seconds
        try:
            answer = await self._service.turning.answer(hosted.name, message, seconds)
        except ForeignEventError:
            return _refusal(409, "another peer has posted this id before: post under a new one")
        if answer is None:
            return _later(202, "the answer takes longer: post the same again for it", BUSY_SECONDS)
        content = json.loads(answer) if answer else ""
        said = await apart(partial(channel.answer, message, content), limit=READ_SECONDS)
        if not isinstance(said.value, WebhookReply):
            self._service.host.log.warning(
                "an answer was not delivered", channel=hosted.name, error=str(said.error)
            )
            return _refusal(502, "the answer could not be said")
        return _reply(said.value)


class _Later(Exception):
    """Not now."""

    def __init__(self, status: int, why: str, seconds: float) -> None:
        super().__init__(why)
        self.status = status
        self.seconds = seconds


def _handed_on(request: web.Request, webhook: Webhook) -> dict[str, str]:
    """Return the headers of a post without what it was known by, which no channel needs."""
    kept = {name.lower(): value for name, value in request.headers.items()}
    for name in (*PROOFS, webhook.header.lower()):
        kept.pop(name, None)
    return kept


def _reply(reply: WebhookReply) -> web.Response:
    if not 200 <= reply.status <= 599:
        return _refusal(502, "the reply has no status that ends a post")
    headers = {
        name: value
        for name, value in reply.headers.items()
        if name.lower() in REPLIED and value.isprintable() and value.isascii()
    }
    headers["Content-Security-Policy"] = HARMLESS
    return web.Response(status=reply.status, headers=headers, body=reply.body)


def _refusal(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)


def _later(status: int, why: str, seconds: float) -> web.Response:
    headers = {"Retry-After": str(max(1, round(seconds)))}
    return web.json_response({"error": why}, status=status, headers=headers)
