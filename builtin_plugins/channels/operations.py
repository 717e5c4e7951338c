"""The operations of channels: what is hosted, what waits, dead letters, pausing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from hookgate import Empty, Invocation, Operation, OperationModel, TurnError, plain_text

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Delivery
    from hookgate.builtin_plugins.channels.serving import Service

MOST_NAME = 128
"""The longest name of a channel that can be asked about."""


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


class DeadParams(OperationModel):
    """Which dead letters."""

    channel: str = Field(default="", max_length=MOST_NAME)
    """One channel; all without it."""
    limit: int = Field(default=50, ge=1, le=1000)
    """So many at most, the oldest first."""


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


class ReplayParams(OperationModel):
    """What is to be tried again."""

    channel: str = Field(default="", max_length=MOST_NAME)
    """All of one channel."""
    id: str = Field(default="", max_length=100)
    """One letter, with those that were said in one go with it."""


class Replayed(OperationModel):
    """How many are tried again."""

    letters: int


class NameParams(OperationModel):
    """Which channel."""

    channel: str = Field(min_length=1, max_length=MOST_NAME)
    """Its name."""


class Paused(OperationModel):
    """The channels that rest."""

    paused: list[str]


class ChannelOperations:
    """Offers the channels to operators: what people write in them is nobody else's to see."""

    def __init__(self, service: Callable[[], Service | None]) -> None:
        self._service = service

    def all(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations."""
        return (
            Operation(
                name="channels.list",
                summary="List the hosted channels, and what waits in each.",
                params=Empty,
                result=Channels,
                handler=self.list_channels,
                scope="operate",
                rest=("GET", "/v1/channels"),
                command="channels list",
            ),
            Operation(
                name="channels.dead",
                summary="List the messages that could not be delivered.",
                params=DeadParams,
                result=Letters,
                handler=self.dead,
                scope="operate",
                rest=("GET", "/v1/channels/dead"),
                command="channels dead",
            ),
            Operation(
                name="channels.replay",
                summary="Try again to deliver what could not be delivered.",
                params=ReplayParams,
                result=Replayed,
                handler=self.replay,
                scope="operate",
                command="channels replay",
            ),
            Operation(
                name="channels.pause",
                summary="Let a channel rest: nothing is taken in, and nothing is sent.",
                params=NameParams,
                result=Paused,
                handler=self.pause,
                scope="operate",
                command="channels pause",
            ),
            Operation(
                name="channels.resume",
                summary="Let a channel that rests go on.",
                params=NameParams,
                result=Paused,
                handler=self.resume,
                scope="operate",
                command="channels resume",
            ),
        )

    async def list_channels(self, invocation: Invocation, params: Empty) -> Channels:
        """Return the hosted channels."""
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

    async def dead(self, invocation: Invocation, params: DeadParams) -> Letters:
        """Return dead letters."""
        service = self._service()
        letters = [] if service is None else await service.deliveries.dead(**params.model_dump())
        return Letters(letters=[_letter(one) for one in letters])

    async def replay(self, invocation: Invocation, params: ReplayParams) -> Replayed:
        """Let dead letters be tried again."""
        service = self._opened()
        if not params.channel and not params.id:
            raise TurnError(
                "found neither `channel` nor `id`, expected one of them",
                code="invalid_params",
                action="`hookgate channels dead` lists what could not be delivered",
            )
        channels = await service.deliveries.replay(params.channel, params.id)
        for name in set(channels):
            service.wake(name)
        return Replayed(letters=len(channels))

    async def pause(self, invocation: Invocation, params: NameParams) -> Paused:
        """Let a channel rest."""
        return await self._switch(invocation, params.channel, resume=False)

    async def resume(self, invocation: Invocation, params: NameParams) -> Paused:
        """Let a channel go on."""
        return await self._switch(invocation, params.channel, resume=True)

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
