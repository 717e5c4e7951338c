"""Channels: ways out to people, what each can show, and what one is built of.

A channel that has `connection` and `parse_incoming` is hosted by the plugin ``channels``: it
serves the webhook or polls, checks secret or signature, starts the turns, and keeps what is to
be said until it is said. So the channel itself holds no socket, no state and no queue; one in
Python and one that runs in a sandbox look the same from here.
"""

# ruff: noqa: I001

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from hookgate.core.domain.parts import Content, ContentPart, Image, plain_text
from hookgate.core.domain.turn import (
    GUESTS as GUESTS,
    Address,
    guest_channel as guest_channel,
    is_guest_channel as is_guest_channel,
)
from hookgate.ports import PassingError

Verification: TypeAlias = Literal["header", "hmac-sha256", "ed25519"]

LEAST = 32
"""Characters of the shortest message that text is split into."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class ChannelError(PassingError):
    """A channel did not send or change a message.

    Attributes:
        transient: Whether it may work by itself when it is tried again.
        retry_after: Seconds after which it may, if that is known; a day at most.
    """


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several answers that a message offers, as a button where the channel shows them.

    Attributes:
        label: What people read.
        data: What comes back as `ReceivedMessage.choice` when somebody picks it; at most 64
            bytes, which every platform takes.
    """

    label: str
    data: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFeatures:
    """What a channel can show.

    Attributes:
        edit: Whether a message that was sent can be changed.
        threads: Whether a message can answer another one, as a thread.
        images: Whether it shows pictures; in the place of others stands their name.
        max_length: Most characters of one message; 0 for any number.
        markdown: Whether it shows Markdown; code stays within its fences where text is split.
        choices: Whether a message can offer choices, as buttons.
        typing: Whether it can show that an answer is being written: then the channel has an async
            method ``typing(address)``, which is called again every few seconds.
        edit_seconds: The least time from one change of a message to the next, for a platform
            that takes fewer than `edit_seconds` of the settings would make.
    """

    edit: bool = False
    threads: bool = False
    images: bool = False
    max_length: int = 0
    markdown: bool = False
    choices: bool = False
    typing: bool = False
    edit_seconds: float = 0.0


class Channel(Protocol):
    """A way in and out beside the gateway's own socket.

    `deliver` says a whole answer by one, in as many messages as it takes.
    """

    @property
    def name(self) -> str:
        """The name that stands in `Address.channel`."""

    @property
    def sandboxed(self) -> bool:
        """Whether its code runs in a sandbox."""

    @property
    def features(self) -> ChannelFeatures:
        """What it can show."""

    async def send(self, address: Address, content: Content, *, thread: str = "") -> str:
        """Send one message, and return the id that the channel gave it.

        Args:
            address: To whom: `Address.account` and `Address.peer`.
            content: Text, or parts that `features` says it shows; at most `max_length` characters.
            thread: The id of the message that it answers; "" for none, and where there are no
                threads.

        Raises:
            ChannelError: It was not sent.
        """

    async def edit(self, address: Address, message_id: str, content: Content) -> None:
        """Change a message that was sent; asked only where `features` says that it can.

        Raises:
            ChannelError: It was not changed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """How a platform makes sure of a webhook by GET, before it posts to it.

    The gateway checks the token and echoes the challenge; the channel is not asked.

    Attributes:
        token: The parameter of the query that carries the token, such as ``hub.verify_token``.
        secret: The name of the secret that the token must be.
        echo: The parameter whose value is the answer, such as ``hub.challenge``.
    """

    token: str
    secret: str
    echo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The platform posts to ``/webhook/NAME``.

    Attributes:
        verification: How a post shows that it comes from the platform: ``header`` brings the
            secret itself, ``hmac-sha256`` a signature by the secret, ``ed25519`` a signature
            whose public key (hex) stands in the place of the secret.
        secret: The name of the secret, as ``host.secrets`` finds it.
        header: The header that brings secret or signature.
        prefix: What stands before the signature in the header, such as ``sha256=``.
        encoding: How the signature is written.
        timestamp: The header that brings the time of the post in seconds since 1970; "" where
            the platform sends none. It has to stand in `signed`.
        tolerance: Seconds that a timestamp may be off.
        signed: What the signature is over; ``{timestamp}`` and ``{body}`` stand for those two.
        max_body: The longest body, in bytes.
        handshake: How the platform makes sure by GET; None where it does not.
    """

    verification: Verification
    secret: str
    header: str
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    timestamp: str = ""
    tolerance: int = 300
    signed: str = "{body}"
    max_body: int = 256 * 1024
    handshake: Handshake | None = None

    def __post_init__(self) -> None:
        for what in ("secret", "header"):
            if not getattr(self, what):
                raise ValueError(f"a webhook: found no {what}, expected the name of one")
        if self.verification not in ("header", "hmac-sha256", "ed25519"):
            raise ValueError(
                f"a webhook: found verification {self.verification!r}, expected 'header', "
                "'hmac-sha256' or 'ed25519'"
            )
        if self.verification != "header" and self.signed.count("{body}") != 1:
            raise ValueError(
                f"a webhook: found signed {self.signed!r}, expected {{body}} in it once: what is "
                "not signed could be anybody's"
            )
        if bool(self.timestamp) != ("{timestamp}" in self.signed):
            raise ValueError(
                f"a webhook: found timestamp {self.timestamp!r} and signed {self.signed!r}, "
                "expected the header's name and {timestamp}, or neither: a time that is not "
                "signed could be anybody's"
            )
        if self.tolerance < 1 or self.max_body < 1:
            raise ValueError("a webhook: expected tolerance and max_body of 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """The gateway asks the platform, again and again.

    Attributes:
        seconds: How long one poll may wait at the platform for something to come; 0 where it
            answers at once.
        pause: Seconds between two polls of a platform that answers at once.
    """

    seconds: float = 25.0
    pause: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds <= 300 or not 0.05 <= self.pause <= 3600:
            raise ValueError(
                f"polling: found seconds={self.seconds:g} and pause={self.pause:g}, expected 0 "
                "to 300 and 0.05 to 3600"
            )


Connection: TypeAlias = Webhook | Polling


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMessage:
    """What came from the platform, as it came; of a webhook only what has been checked.

    Attributes:
        kind: ``webhook`` for a post, ``poll`` for the answer to a poll.
        body: The body.
        headers: The headers, their names in lower case; of a post without those that it is known
            by, and without credentials and cookies.
        query: The parameters of the query; the last one of a name counts.
        status: The status of the answer to a poll; 0 for a post.
    """

    kind: Literal["webhook", "poll"]
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One message of a person, or one button that was pressed.

    Attributes:
        id: The platform's own id of the event. Of those that come twice, one counts; so it must
            be the same each time the platform sends the event, and unique in its account.
        content: The text; "" where a choice was made.
        account: Which of our accounts it was sent to, such as the id of the bot.
        peer: Whom the answer goes to: a person, a group, a room.
        guild: The guild or server that the peer belongs to.
        team: The team or workspace that it belongs to.
        sender: The platform's id of who wrote it, within `account`. Approvers are known by both.
        thread: The message that the answer answers.
        choice: The `Choice.data` of the button that was pressed.
        images: Pictures that belong to the text.
        wait: Whether the platform waits for the answer in the response to its post; see
            `AnsweringChannel`.
        addressed: In a group, whether it was said to the bot: a mention, a reply to it, a command.
            None where the channel does not say, as in a private chat.
    """

    id: str
    content: str = ""
    account: str = "default"
    peer: str
    guild: str | None = None
    team: str | None = None
    sender: str = ""
    thread: str = ""
    choice: str = ""
    images: tuple[Image, ...] = ()
    wait: bool = False
    addressed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookReply:
    """What a post is answered with.

    Attributes:
        status: The status.
        headers: The headers.
        body: The body.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a `RawMessage` holds.

    Attributes:
        messages: The messages, in the order in which they were written. None where the platform
            told of something that asks for no turn, such as a member who has joined.
        cursor: Where the next poll begins; None to leave it where it was.
        reply: What the post is answered with once its messages are committed; None for an empty
            200. A platform that wants to see a challenge again gets it by this.
    """

    messages: Sequence[ReceivedMessage] = ()
    cursor: str | None = None
    reply: WebhookReply | None = None


@runtime_checkable
class HostedChannel(Channel, Protocol):
    """A channel whose connection the gateway holds."""

    @property
    def connection(self) -> Connection:
        """How messages come in."""

    async def parse_incoming(self, raw: RawMessage) -> Parsed:
        """Read what came from the platform.

        Raises:
            ChannelError: It cannot be read. A post is answered with 400 then.
        """

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

        Args:
            address: To whom, as in `ReceivedMessage`.
            content: Text, or parts that `features` says it shows; at most `max_length` characters.
            thread: The `ReceivedMessage.thread` that it answers; "" for none.
            choices: What to offer as buttons; none unless `features` says that it can.
            key: The same for each attempt at one message, and for no other one: for platforms
                that take a key of idempotency.

        Raises:
            ChannelError: It was not sent, or nobody knows whether it was (`transient`: it is
                tried again).
        """

    async def edit(
        self,
        address: Address,
        message_id: str,
        content: Content,
        *,
        choices: Sequence[Choice] = (),
    ) -> None:
        """Change a message that was sent, and what it offers.

        Raises:
            ChannelError: It was not changed.
        """


@runtime_checkable
class PolledChannel(HostedChannel, Protocol):
    """A hosted channel whose connection is `Polling`."""

    async def poll(self, cursor: str) -> RawMessage:
        """Ask the platform what has come, and wait for it at most `Polling.seconds`.

        Args:
            cursor: The last `Parsed.cursor` that was committed; "" at the very beginning.

        Raises:
            ChannelError: It could not be asked; it is asked again, later each time.
        """


@runtime_checkable
class AnsweringChannel(HostedChannel, Protocol):
    """A hosted channel whose platform takes the answer in the response to its post."""

    async def answer(self, message: ReceivedMessage, content: Content) -> WebhookReply:
        """Return the response that brings the answer to `message`, one that waits for it.

        Raises:
            ChannelError: It cannot be said so.
        """


# -- saying an answer ----------------------------------------------------------------


async def deliver(
    channel: Channel, address: Address, content: Content, *, thread: str = ""
) -> list[str]:
    """Say `content` by `channel`: split at its longest message, with what it does not show named.

    Returns:
        The ids of the messages, in order. Those behind one that fails are not sent.

    Raises:
        ChannelError: A message was not sent.
    """
    answers = thread if channel.features.threads else ""
    return [
        await channel.send(address, message, thread=answers)
        for message in messages_of(content, channel.features)
    ]


def messages_of(content: Content, features: ChannelFeatures) -> list[Content]:
    """Return the messages that say `content`, in order, as a channel with these features can."""
    messages: list[Content] = []
    for piece in _pieces(content, images=features.images):
        if isinstance(piece, str):
            messages += split(piece, features.max_length, markdown=features.markdown)
        else:
            messages.append((piece,))
    return messages


def _pieces(content: Content, *, images: bool) -> list[str | ContentPart]:
    """Return texts, and the pictures between them where they are shown."""
    if isinstance(content, str):
        return [content]
    pieces: list[str | ContentPart] = []
    for part in content:
        if isinstance(part, Image) and images:
            pieces.append(part)
            continue
        text = plain_text((part,))
        last = pieces[-1] if pieces else None
        if isinstance(last, str):
            pieces[-1] = f"{last}\n{text}"
        else:
            pieces.append(text)
    return pieces


def split(text: str, max_length: int, *, markdown: bool = True) -> list[str]:
    """Return `text` in pieces of at most `max_length` characters; none for blank text.

    It is split between paragraphs, else between lines, else between words; a word is cut only
    where it is longer than a whole piece. In Markdown, code that a split would tear goes into the
    next piece whole where it fits, and is else closed and opened again around the split.

    Args:
        text: The text.
        max_length: Characters of the longest piece; 0 for any number.
        markdown: Whether fences of code count.

    Raises:
        ValueError: `max_length` is too short for anything to fit.
    """
    if not text.strip():
        return []
    if max_length == 0:
        return [text]
    if max_length < LEAST:
        raise ValueError(f"found max_length={max_length}, expected 0 or at least {LEAST}")
    pieces, fence, rest = [], "", text
    while rest:
        head = f"{_opening(fence, max_length)}\n" if fence else ""
        if len(head) + len(rest) <= max_length:
            pieces.append(head + rest)
            break
        cut, fence, tail = _next_cut(rest, max_length - len(head), fence, markdown=markdown)
        pieces.append(head + rest[:cut].rstrip() + tail)
        rest = rest[cut:].lstrip("\n" if fence else None)
    return [piece for piece in pieces if piece.strip()]


def _next_cut(rest: str, room: int, fence: str, *, markdown: bool) -> tuple[int, str, str]:
    """Return where the next piece ends, the fence that is open there, and what closes it."""
    if not markdown:
        return _cut(rest, room), "", ""
    # What closes a fence may have to fit as well, and it is not known yet which is open.
    for spare in (0, 1 + max((len(one) for one in _markers(rest[:room], fence)), default=0)):
        cut = _cut(rest, room - spare)
        open_fence, at = _fence_after(rest[:cut], fence)
        if not open_fence:
            return cut, "", ""
        if at > 0 and rest[:at].strip() and at >= room // 2:
            return at, "", ""
        marker = _marker(open_fence)
        if len(rest[:cut].rstrip()) + 1 + len(marker) <= room:
            return cut, open_fence, f"\n{marker}"
    raise AssertionError("with room for its end, a piece fits")


def _cut(text: str, room: int) -> int:
    """Return how much of `text`, which is longer than that, goes into `room` characters."""
    for between in ("\n\n", "\n"):
        at = text.rfind(between, 1, room + len(between))
        if at >= room // 4 and at <= room:
            return at
    for at in range(room, 0, -1):
        if text[at].isspace() and not text[:at].isspace():
            return at
    # Within a word. Not within a fence, which would be none then.
    at = room
    while at > 1 and text[at] in "`~" and text[at - 1] == text[at]:
        at -= 1
    return at if at > 1 else room


def _fence_after(piece: str, fence: str) -> tuple[str, int]:
    """Return the line of the fence that is open behind `piece`, and where in it that begins."""
    at, where = 0, -1
    for line in piece.split("\n"):
        found = _FENCE.fullmatch(line)
        if found and not fence:
            fence, where = line.strip(), at
        elif found and found[1].startswith(_marker(fence)) and not found[2].strip():
            fence = ""
        at += len(line) + 1
    return (fence, where) if fence else ("", -1)


def _markers(text: str, fence: str) -> list[str]:
    found = [match[1] for line in text.split("\n") if (match := _FENCE.fullmatch(line))]
    return [*found, _marker(fence)] if fence else found


def _marker(fence: str) -> str:
    found = _FENCE.fullmatch(fence)
    return found[1] if found else ""


def _opening(fence: str, max_length: int) -> str:
    """Return the line that opens a fence again, without what it says where that is too long."""
    return fence if len(fence) <= max_length // 4 else _marker(fence)
