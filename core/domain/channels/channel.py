"""Channels: ways out to people, and what each can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hookgate.core.domain.parts import Content
    from hookgate.core.domain.turn import Address

GUESTS = "wasm."
"""With this begins the name of each channel whose code is a stranger's and runs in the sandbox,
and of no other one: so nothing that such a channel makes up stands where anybody else speaks."""

CHANNELLESS = frozenset(("cli", "internal", "nested", "schedule"))
"""What stands in the place of a channel where none brings the message: no channel has such a name,
since it would speak in the sessions of the command line, of schedules or of turns within turns."""


def guest_channel(name: str) -> str:
    """Return the name of the channel of the sandbox's plugin `name`, as an address has it."""
    return f"{GUESTS}{name}"


def is_guest_channel(channel: str) -> bool:
    """Whether a channel of this name is that of a plugin of the sandbox."""
    return channel.startswith(GUESTS)


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
    """

    edit: bool = False
    threads: bool = False
    images: bool = False
    max_length: int = 0
    markdown: bool = False
    choices: bool = False


class Channel(Protocol):
    """A way in and out beside the gateway's own socket.

    `hookgate.kit.channels.deliver` says a whole answer by one, in as many messages as it takes.
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
