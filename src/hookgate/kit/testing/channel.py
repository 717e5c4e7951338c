"""A channel that is a list: what was sent by it can be looked at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hookgate.channels import Channel, ChannelError, ChannelFeatures, deliver
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.parts import Content
from hookgate.core.domain.turn import Address, Claim, Origin, Principal, TurnRequest
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from hookgate.core.host import Host

__all__ = ["MemoryChannel"]


class MemoryChannel:
    """A channel, and the plugin that brings it.

    Attributes:
        name: The channel's name, and the plugin's.
        features: What it can show.
        messages: What it has shown, by the id of the message, in order.
        threads: The messages that others answer: id -> the id of the first.
        fails: Set: nothing is sent or changed any more.
    """

    sandboxed = False

    def __init__(self, name: str = "memory_channel", **features: bool | int) -> None:
        self.name = name
        self.features = ChannelFeatures(**features)  # type: ignore[arg-type]
        self.messages: dict[str, Content] = {}
        self.threads: dict[str, str] = {}
        self.fails = False
        self._host: Host | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Keep the gateway at hand."""
        self._host = host
        yield

    @hookimpl
    def list_channels(self) -> Sequence[Channel]:
        """Bring the channel."""
        return [self]

    async def send(self, address: Address, content: Content, *, thread: str = "") -> str:
        """Keep a message.

        Raises:
            ChannelError: `fails` is set, or the message is longer than `features` say.
        """
        self._check(content)
        message_id = f"{address.peer}-{len(self.messages) + 1}"
        self.messages[message_id] = content
        if thread:
            self.threads[message_id] = thread
        return message_id

    async def edit(self, address: Address, message_id: str, content: Content) -> None:
        """Change a message.

        Raises:
            ChannelError: It cannot be changed, or there is none.
        """
        self._check(content)
        if not self.features.edit or message_id not in self.messages:
            raise ChannelError(f"{self.name} cannot change the message {message_id!r}")
        self.messages[message_id] = content

    async def hear(self, text: str, *, peer: str = "ada") -> list[str]:
        """Take a message of a person, and send the answer; return the ids of its messages."""
        assert self._host is not None, "a channel hears while the gateway runs"
        address = Address(self.name, "local", peer)
        principal = Principal(
            id=f"{self.name}:{peer}", scopes=frozenset({"chat"}), bindings=(Claim(self.name),)
        )
        origin = Origin(provenance=Provenance.CHANNEL, path=self.name, channel=self.name)
        request = TurnRequest(content=text, address=address)
        turn = await self._host.start_turn(principal, origin, request).wait()
        return await deliver(self, address, turn.answer)

    def _check(self, content: Content) -> None:
        most = self.features.max_length
        if self.fails or (most and isinstance(content, str) and len(content) > most):
            raise ChannelError(f"{self.name} does not take this message", transient=self.fails)
