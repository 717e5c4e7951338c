"""A channel whose translation runs in the sandbox, while the gateway holds its connection."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeVar

from hookgate import (
    Address,
    ChannelError,
    ChannelFeatures,
    Choice,
    Content,
    Image,
    Parsed,
    Polling,
    RawMessage,
    ReceivedMessage,
    WebhookReply,
    plain_text,
)
from hookgate.builtin_plugins.wasm import wire
from hookgate.builtin_plugins.wasm.engine.limits import GuestError
from hookgate.builtin_plugins.wasm.host.functions import GuestCall, HostRefusal
from hookgate.channels import Connection, guest_channel
from hookgate.kit.durations import retry_after

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin

F = TypeVar("F", bound=wire.WireForm)

POLL_GRACE = 10.0
"""Seconds that a poll may take beyond what the platform was asked to hold it for."""

RETRIED = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Statuses after which the same request may succeed later."""


class GuestChannel:
    """One channel of a guest. A reload may bring another module of the same connection.

    Attributes:
        name: The channel's name: the plugin's, in the namespace that no other channel is in.
        plugin: The plugin's name.
        sandboxed: Its code runs in the sandbox.

    Args:
        guests: Calls it.
        current: Returns the plugin as it counts now; None where it does not.
        loaded: The plugin as it is when the gateway starts.
    """

    sandboxed = True

    def __init__(
        self, guests: Guests, current: Callable[[str], LoadedPlugin | None], loaded: LoadedPlugin
    ) -> None:
        section = loaded.manifest.channel
        assert section is not None, "the manifest of a channel was checked for its section"
        self.name = guest_channel(loaded.name)
        self.plugin = loaded.name
        self._features = section.features
        connection = section.webhook or section.polling
        assert connection is not None, "the manifest was checked for one connection"
        self._connection: Connection = connection
        self._guests = guests
        self._current = current

    @property
    def features(self) -> ChannelFeatures:
        """What it can show."""
        return self._features

    @property
    def connection(self) -> Connection:
        """How messages come in."""
        return self._connection

    def is_as(self, other: GuestChannel) -> bool:
        """Whether `other` is the same channel by the same connection."""
        mine, others = (self._connection, self._features), (other._connection, other._features)
        return type(self) is type(other) and mine == others

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        """Have the guest read what came from the platform.

        Raises:
            ChannelError: It cannot.
        """
        body, encoded = _text(raw.body)
        incoming = wire.Incoming(
            kind=raw.kind,
            status=raw.status,
            headers=dict(raw.headers),
            query=dict(raw.query),
            body=body,
            base64=encoded,
        )
        parsed = await self._ask("parse_incoming", incoming, wire.ParsedIncoming)
        try:
            parts = any(not isinstance(one.content, str) for one in parsed.messages)
            messages = await wire.aside(wire.LONG if parts else 0, _all_received, parsed)
        except wire.WireFormError as error:
            raise self._wrong(str(error)) from None
        return Parsed(messages=messages, cursor=parsed.cursor, reply=_reply(parsed.reply))

    async def send(
        self,
        address: Address,
        content: Content,
        *,
        thread: str = "",
        choices: Sequence[Choice] = (),
        key: str = "",
    ) -> str:
        """Send one message, and return the id that the platform gave it.

        Raises:
            ChannelError: It was not sent.
        """
        return await self._say("send", address, content, choices, thread=thread, key=key)

    async def edit(
        self,
        address: Address,
        message_id: str,
        content: Content,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Change a message that was sent.

        Raises:
            ChannelError: It was not changed.
        """
        await self._say("edit", address, content, choices, message_id=message_id)

    async def typing(self, address: Address) -> None:
        """Show that an answer is being written.

        Raises:
            ChannelError: It was not shown.
        """
        await self._say("typing", address, "", ())

    # -- within ----------------------------------------------------------------

    async def _say(
        self,
        action: Literal["send", "edit", "typing"],
        address: Address,
        content: Content,
        choices: Sequence[Choice],
        *,
        thread: str = "",
        message_id: str = "",
        key: str = "",
    ) -> str:
        outgoing = wire.Outgoing(
            action=action,
            content=wire.as_written(content),
            account=address.account,
            peer=address.peer,
            thread=thread,
            message_id=message_id,
            choices=tuple(wire.OutgoingChoice(label=one.label, data=one.data) for one in choices),
            key=key,
        )
        asked = await self._ask("format_outgoing", outgoing, wire.HttpRequest)
        response = await self._exchange(asked, self._plugin.limits.seconds)
        # The guest reads a refusal as well: platforms say in the body when to come again.
        sent = await self._ask("parse_incoming", _incoming("sent", response), wire.Sent)
        if not sent.done:
            self._check_status(response)
        return sent.message_id

    def _check_status(self, response: wire.HttpResponse) -> None:
        if response.status < 400:
            return
        raise ChannelError(
            f"channel {self.name}: the platform answered {response.status}: {response.body[:300]}",
            transient=response.status in RETRIED,
            retry_after=retry_after(response.headers, datetime.now(UTC)),
        )

    @property
    def _plugin(self) -> LoadedPlugin:
        loaded = self._current(self.plugin)
        if loaded is None:
            raise ChannelError(
                f"channel {self.name}: its plugin does not count: `hookgate wasm list` says why",
                transient=True,
            )
        return loaded

    async def _ask(self, export: str, request: wire.WireForm, answer: type[F]) -> F:
        loaded = self._plugin
        call = GuestCall(plugin=self.plugin, granted=loaded.granted)
        try:
            data = await self._guests.call(loaded, export, request, call)
            return await wire.aside(len(data), wire.read_answer, answer, data, export=export)
        except GuestError as error:
            raise ChannelError(f"channel {self.name}: {error}") from error
        except wire.FaultError as fault:
            raise ChannelError(
                f"channel {self.name}: {fault}",
                transient=fault.transient,
                retry_after=fault.retry_after,
            ) from None
        except wire.WireFormError as error:
            raise self._wrong(str(error)) from None

    def _wrong(self, why: str) -> ChannelError:
        return ChannelError(f"channel {self.name}: guest {self.plugin!r}: {why}")

    async def _exchange(self, asked: wire.HttpRequest, seconds: float) -> wire.HttpResponse:
        try:
            return await self._plugin.door.send(
                asked, deadline=monotonic() + seconds, longest=seconds
            )
        except HostRefusal as refusal:
            transient = refusal.code in ("failed", "timeout")
            raise ChannelError(f"channel {self.name}: {refusal}", transient=transient) from None


class PolledGuestChannel(GuestChannel):
    """One that is asked for what is new."""

    async def poll(self, cursor: str) -> RawMessage:
        """Ask the platform what has come.

        Raises:
            ChannelError: It could not be asked.
        """
        polling = self._connection
        seconds = round(polling.seconds) if isinstance(polling, Polling) else 0
        asked = await self._ask(
            "poll", wire.PollCursor(cursor=cursor, seconds=seconds), wire.PollRequest
        )
        response = await self._exchange(asked, asked.seconds + POLL_GRACE)
        if response.status >= 400:
            await self._ask("parse_incoming", _incoming("poll", response), wire.ParsedIncoming)
        self._check_status(response)
        data = response.body.encode()
        return RawMessage(
            kind="poll",
            body=base64.b64decode(data) if response.base64 else data,
            headers=response.headers,
            status=response.status,
        )


def channel_of(
    guests: Guests, current: Callable[[str], LoadedPlugin | None], loaded: LoadedPlugin
) -> GuestChannel:
    """Return the channel of a plugin of kind channel."""
    section = loaded.manifest.channel
    polled = section is not None and section.polling is not None
    return (PolledGuestChannel if polled else GuestChannel)(guests, current, loaded)


def _incoming(kind: Literal["poll", "sent"], response: wire.HttpResponse) -> wire.Incoming:
    return wire.Incoming(
        kind=kind,
        status=response.status,
        headers=response.headers,
        body=response.body,
        base64=response.base64,
    )


def _all_received(parsed: wire.ParsedIncoming) -> list[ReceivedMessage]:
    return [_received(one) for one in parsed.messages]


def _received(message: wire.IncomingMessage) -> ReceivedMessage:
    content = wire.as_content(message.content)
    images: tuple[Image, ...] = ()
    if not isinstance(content, str):
        images = tuple(part for part in content if isinstance(part, Image))
        content = tuple(part for part in content if not isinstance(part, Image))
    return ReceivedMessage(
        id=message.id,
        content=plain_text(content),
        account=message.account,
        peer=message.peer,
        guild=message.guild or None,
        team=message.team or None,
        sender=message.sender,
        thread=message.thread,
        choice=message.choice,
        images=images,
        addressed=message.addressed,
    )


def _reply(reply: wire.HttpResponse | None) -> WebhookReply | None:
    if reply is None:
        return None
    headers: Mapping[str, str] = reply.headers
    return WebhookReply(status=reply.status, headers=headers, body=reply.body.encode())


def _text(body: bytes) -> tuple[str, bool]:
    """Return a body as text, or as base64 where it is none, and which of the two."""
    try:
        return body.decode("utf-8"), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True
