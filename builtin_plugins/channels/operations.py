"""The operations of channels: what is hosted, what waits, dead letters, pausing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hookgate import (
    POSITIONAL,
    Host,
    Invocation,
    Polling,
    TurnError,
    operation,
    plain_text,
)
from hookgate.builtin_plugins.channels.peers import Person
from hookgate.builtin_plugins.channels.roster import Hosting
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels import models
else:
    models = on_demand("hookgate.builtin_plugins.channels.models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Delivery
    from hookgate.builtin_plugins.channels.service import Service

MOST_NAME = 128
"""The longest name of a channel that can be asked about."""


Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]


class ChannelOperations:
    """Hosted channels: what waits in each, what could not be delivered, and pausing them.

    They are for operators: what people write in them is nobody else's to see.
    """

    def __init__(
        self, service: Callable[[], Service | None], hosting: Callable[[], Hosting | None]
    ) -> None:
        self._service = service
        self._hosting = hosting

    @operation("channels.list", scope="operate", rest=("GET", "/v1/channels"))
    async def list_channels(self, invocation: Invocation) -> models.Channels:
        """List the channels, what waits in each, and why one is not served."""
        service, hosting = self._service(), self._hosting()
        rows: list[models.ChannelRow] = []
        if service is not None:
            await service.read_switch()
            waiting, queued = await service.events.counts(), await service.deliveries.counts()
            rows = [
                models.ChannelRow(
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
                    why=service.why(one.name),
                    asking=len(service.hosting.people.asking(one.name)),
                )
                for one in service.hosting
            ]
        unserved = {} if hosting is None else hosting.unserved
        rows += [_unserved(invocation.host, name, why) for name, why in unserved.items()]
        return models.Channels(channels=sorted(rows, key=lambda row: row.name))

    @operation("channels.people", scope="operate")
    async def people(
        self, _: Invocation, channel: Annotated[str, Field(max_length=MOST_NAME)] = ""
    ) -> models.ChannelPeople:
        """List who asks to be let into a channel, and who was let in by a code.

        Args:
            channel: One channel; all without it.
        """
        people = self._opened().hosting.people
        asking = [
            models.PersonRow(
                channel=one.person.channel,
                account=one.person.account,
                sender=one.person.sender,
                code=one.code,
                since=datetime.fromtimestamp(one.since, UTC),
            )
            for one in people.asking(channel)
        ]
        inside = [
            models.PersonRow(
                channel=one.channel, account=one.account, sender=one.sender, code="", since=None
            )
            for one in people.let_in(channel)
        ]
        return models.ChannelPeople(people=[*asking, *inside])

    @operation("channels.pair", scope="operate")
    async def pair(
        self, invocation: Invocation, code: Annotated[str, POSITIONAL, Field(max_length=32)]
    ) -> models.PersonRow:
        """Let somebody into a channel, by the code that they were given there.

        Args:
            code: The code.

        Example:
            hookgate channels pair 7KQ4M2XH
        """
        person = await self._opened().hosting.people.pair(code)
        if person is None:
            raise TurnError(
                f"nobody asks with the code {code[:32]!r}, or not any more",
                code="not_found",
                action="`hookgate channels people` shows who asks; write to the bot for a new code",
            )
        who = {"channel": person.channel, "account": person.account, "sender": person.sender}
        await invocation.host.record("channel_paired", by=invocation.principal.id, **who)
        return models.PersonRow(code="", since=None, **who)

    @operation("channels.unpair", scope="operate")
    async def unpair(
        self,
        invocation: Invocation,
        channel: Name,
        sender: Annotated[str, Field(min_length=1, max_length=256)],
        account: Annotated[str, Field(max_length=256)] = "default",
    ) -> models.PersonRow:
        """Let somebody in no more who was let in by a code.

        Args:
            channel: The channel.
            sender: The platform's id of this person.
            account: The account in which they were let in.
        """
        person = Person(channel, account, sender)
        if not await self._opened().hosting.people.unpair(person):
            raise TurnError(
                f"{sender!r} was not let into {channel!r}, account {account!r}, by a code",
                code="not_found",
                action="`hookgate channels people` shows who was",
            )
        who = {"channel": channel, "account": account, "sender": sender}
        await invocation.host.record("channel_unpaired", by=invocation.principal.id, **who)
        return models.PersonRow(code="", since=None, **who)

    @operation("channels.dead", scope="operate", rest=("GET", "/v1/channels/dead"))
    async def dead(
        self,
        _: Invocation,
        channel: Annotated[str, Field(max_length=MOST_NAME)] = "",
        limit: Annotated[int, Field(ge=1, le=1000)] = 50,
    ) -> models.Letters:
        """List the messages that could not be delivered.

        Args:
            channel: One channel; all without it.
            limit: So many at most, the oldest first.
        """
        service = self._service()
        letters = [] if service is None else await service.deliveries.dead(channel, limit)
        return models.Letters(letters=[_letter(one) for one in letters])

    @operation("channels.replay", scope="operate")
    async def replay(
        self,
        _: Invocation,
        channel: Annotated[str, Field(max_length=MOST_NAME)] = "",
        id: Annotated[str, Field(max_length=100)] = "",
    ) -> models.ReplayedLetters:
        """Try again to deliver what could not be delivered.

        Args:
            channel: All of one channel.
            id: One letter, with those that were said in one go with it.
        """
        service = self._opened()
        if not channel and not id:
            raise TurnError.invalid(
                "found neither `channel` nor `id`, expected one of them",
                "`hookgate channels dead` lists what could not be delivered",
            )
        channels = await service.deliveries.replay(channel, id)
        for name in set(channels):
            service.wake(name)
        return models.ReplayedLetters(letters=len(channels))

    @operation("channels.pause", scope="operate")
    async def pause(self, invocation: Invocation, channel: Name) -> models.Paused:
        """Let a channel rest: nothing is taken in, and nothing is sent.

        Args:
            channel: Its name.
        """
        return await self._switch(invocation, channel, resume=False)

    @operation("channels.resume", scope="operate")
    async def resume(self, invocation: Invocation, channel: Name) -> models.Paused:
        """Let a channel that rests go on.

        Args:
            channel: Its name.
        """
        return await self._switch(invocation, channel, resume=True)

    async def _switch(self, invocation: Invocation, name: str, *, resume: bool) -> models.Paused:
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
        return models.Paused(paused=paused)

    def _opened(self) -> Service:
        service = self._service()
        if service is None:
            raise TurnError(
                "no channel is hosted here",
                code="not_found",
                action="give a channel a section [plugin.channels.NAME], or install one",
            )
        return service


def _unserved(host: Host, name: str, why: str) -> models.ChannelRow:
    channel = host.channels.view().get(name)
    polled = isinstance(getattr(channel, "connection", None), Polling)
    return models.ChannelRow(
        name=name,
        connection="polling" if polled else "webhook",
        path="" if polled else f"/webhook/{name}",
        sandboxed=channel is not None and channel.sandboxed,
        public=False,
        approvers=[],
        paused=False,
        waiting=0,
        unsent=0,
        dead=0,
        why=why,
        asking=0,
    )


def _letter(one: Delivery) -> models.Letter:
    return models.Letter(
        id=one.id,
        channel=one.address.channel,
        account=one.address.account,
        peer=one.address.peer,
        text=plain_text(one.content),
        attempts=one.attempts,
        error=one.error,
    )
