"""The operations of channels: what is hosted, what waits, dead letters, pausing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hookgate import Invocation, OperationModel, TurnError, operation, plain_text

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Delivery
    from hookgate.builtin_plugins.channels.service import Service

MOST_NAME = 128
"""The longest name of a channel that can be asked about."""


Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]


class ChannelRow(OperationModel):
    """One hosted channel."""

    name: str
    connection: Literal["webhook", "polling"]
    path: str
    """Where its platform posts to; empty where it is polled."""
    sandboxed: bool
    """Whether its code runs in a sandbox."""
    public: bool
    """Whether strangers write here, so that what they write is tainted."""
    approvers: list[str]
    """Who may answer questions in it."""
    paused: bool
    waiting: int
    """Messages that have their turn, or wait for it."""
    unsent: int
    """Messages that are still to be sent."""
    dead: int
    """Messages that could not be sent."""


class Channels(OperationModel):
    """The hosted channels."""

    channels: list[ChannelRow]


class Letter(OperationModel):
    """One message that could not be sent."""

    id: str
    channel: str
    account: str
    peer: str
    text: str
    attempts: int
    error: str


class Letters(OperationModel):
    """Dead letters."""

    letters: list[Letter]


class ReplayedLetters(OperationModel):
    """How many are tried again."""

    letters: int


class Paused(OperationModel):
    """The channels that rest."""

    paused: list[str]


class ChannelOperations:
    """Hosted channels: what waits in each, what could not be delivered, and pausing them.

    They are for operators: what people write in them is nobody else's to see.
    """

    def __init__(self, service: Callable[[], Service | None]) -> None:
        self._service = service

    @operation("channels.list", scope="operate", rest=("GET", "/v1/channels"))
    async def list_channels(self, _: Invocation) -> Channels:
        """List the hosted channels, and what waits in each."""
        service = self._service()
        if service is None:
            return Channels(channels=[])
        await service.read_switch()
        waiting, queued = await service.events.counts(), await service.deliveries.counts()
        return Channels(
            channels=[
                ChannelRow(
                    name=one.name,
                    connection="polling" if one.webhook is None else "webhook",
                    path="" if one.webhook is None else f"/webhook/{one.name}",
                    sandboxed=one.channel.sandboxed,
                    public=one.is_public,
                    approvers=[approver.principal for approver in one.approvers],
                    paused=service.paused(one.name),
                    waiting=waiting.get(one.name, 0),
                    unsent=queued.get((one.name, "waiting"), 0),
                    dead=queued.get((one.name, "dead"), 0),
                )
                for one in sorted(service.hosting, key=lambda one: one.name)
            ]
        )

    @operation("channels.dead", scope="operate", rest=("GET", "/v1/channels/dead"))
    async def dead(
        self,
        _: Invocation,
        channel: Annotated[str, Field(max_length=MOST_NAME)] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 50,
    ) -> Letters:
        """List the messages that could not be delivered.

        Args:
            channel: One channel; all without it.
            limit: So many at most, the oldest first.
        """
        service = self._service()
        letters = [] if service is None else await service.deliveries.dead(channel, limit)
        return Letters(letters=[_letter(one) for one in letters])

    @operation("channels.replay", scope="operate")
    async def replay(
        self,
        _: Invocation,
        channel: Annotated[str, Field(max_length=MOST_NAME)] = "",
        id: Annotated[str, Field(max_length=100)] = "",
    ) -> ReplayedLetters:
        """Try again to deliver what could not be delivered.

        Args:
            channel: All of one channel.
            id: One letter, with those that were said in one go with it.
        """
        service = self._opened()
        if not channel and not id:
            raise TurnError(
                "found neither `channel` nor `id`, expected one of them",
                code="invalid_params",
                action="`hookgate channels dead` lists what could not be delivered",
            )
        channels = await service.deliveries.replay(channel, id)
        for name in set(channels):
            service.wake(name)
        return ReplayedLetters(letters=len(channels))

    @operation("channels.pause", scope="operate")
    async def pause(self, invocation: Invocation, channel: Name) -> Paused:
        """Let a channel rest: nothing is taken in, and nothing is sent.

        Args:
            channel: Its name.
        """
        return await self._switch(invocation, channel, resume=False)

    @operation("channels.resume", scope="operate")
    async def resume(self, invocation: Invocation, channel: Name) -> Paused:
        """Let a channel that rests go on.

        Args:
            channel: Its name.
        """
        return await self._switch(invocation, channel, resume=True)

    async def _switch(self, invocation: Invocation, name: str, *, resume: bool) -> Paused:
        service = self._opened()
        if service.hosting.get(name) is None and not (resume and service.paused(name)):
            known = ", ".join(sorted(one.name for one in service.hosting))
            raise TurnError(
                f"found no hosted channel {name!r}, expected one of {known}", code="not_found"
            )
        paused = await service.pause(name, resume=resume)
        invocation.host.log.info(
            "channel resumed" if resume else "channel paused",
            channel=name,
            by=invocation.principal.id,
        )
        return Paused(paused=paused)

    def _opened(self) -> Service:
        service = self._service()
        if service is None:
            raise TurnError(
                "no channel is hosted here",
                code="not_found",
                action="give a channel a section [plugin.channels.NAME], or install one",
            )
        return service


def _letter(one: Delivery) -> Letter:
    return Letter(
        id=one.id,
        channel=one.address.channel,
        account=one.address.account,
        peer=one.address.peer,
        text=one.content if isinstance(one.content, str) else plain_text(one.content),
        attempts=one.attempts,
        error=one.error,
    )
