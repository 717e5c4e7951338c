"""Who is let into a channel, and what people say to the gateway itself, such as `/new`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hookgate import SWITCHES, Host, ReceivedMessage, SessionKey, Switch, set_switch

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.roster import Hosted

PEOPLE = "channels.people"
"""The switch with those who were let in, and those who ask to be."""

BEGUN_AT = "channels.begun"
"""The switch with the conversations that began anew, and how many turns each has had since."""

BEGINNINGS = 1000
FORGOTTEN_TURNS = 50
"""After so many turns what was said before is out of sight by itself."""

LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without those that are taken for one another."""

CODE = 8
ASKING = 20
"""So many people of one channel may ask at a time: who asks beyond that is not heard."""

ASKING_SECONDS = 3600
"""So long a code is good."""

LET_IN = 10_000
"""So many people can be let into all channels together by a code; `senders` takes any number."""


@dataclass(frozen=True, slots=True, order=True)
class Person:
    """Somebody in a channel: the platform's id of who wrote, in one account."""

    channel: str
    account: str
    sender: str


@dataclass(frozen=True, slots=True)
class Applicant:
    """Somebody who asks to be let in, since when, and by which code."""

    person: Person
    code: str
    since: float


class People:
    """Those who were let into channels by a code, as all gateways on the store know them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._in: frozenset[Person] = frozenset()
        self._asking: tuple[Applicant, ...] = ()

    async def open(self) -> Callable[[], None]:
        """Know what is kept, and follow what others keep; return what ends that.

        Raises:
            StoreError: It cannot be read.
        """
        return await _followed(self._host, PEOPLE, self._take)

    def _take(self, switch: Switch) -> None:
        value: Mapping[str, Any] = switch.value or {}
        self._in = frozenset(Person(*one) for one in value.get("in", ()))
        self._asking = tuple(
            Applicant(Person(*person), code, since)
            for person, code, since in value.get("asking", ())
        )

    def has(self, person: Person) -> bool:
        """Whether somebody was let in."""
        return person in self._in

    def let_in(self, channel: str = "") -> list[Person]:
        """Return those who were let in, of one channel or of all."""
        return sorted(one for one in self._in if channel in ("", one.channel))

    def asking(self, channel: str = "") -> list[Applicant]:
        """Return those who ask, the oldest first; those whose code is too old do not any more."""
        return [one for one in self._fresh() if channel in ("", one.person.channel)]

    def _fresh(self) -> tuple[Applicant, ...]:
        since = self._host.clock.now().timestamp() - ASKING_SECONDS
        return tuple(one for one in self._asking if one.since > since)

    async def ask(self, person: Person) -> str:
        """Return the code by which somebody can be let in; "" where they know it, or are too many.

        Raises:
            StoreError: It cannot be kept.
        """
        code = "".join(secrets.choice(LETTERS) for _ in range(CODE))
        now = self._host.clock.now().timestamp()

        def change(asking: list[Applicant], let_in: set[Person]) -> bool:
            there = [one for one in asking if one.person.channel == person.channel]
            if len(there) >= ASKING or any(one.person == person for one in there):
                return False
            asking.append(Applicant(person, code, now))
            return True

        return code if await self._changed(change) else ""

    async def pair(self, code: str) -> Person | None:
        """Let in whom a code was given; None where nobody has it, or not any more.

        Raises:
            StoreError: It cannot be kept.
        """
        found: list[Person] = []

        def change(asking: list[Applicant], let_in: set[Person]) -> bool:
            found[:] = [one.person for one in asking if one.code == code.strip().upper()]
            if not found or len(let_in) >= LET_IN:
                return False
            asking[:] = [one for one in asking if one.person != found[0]]
            let_in.add(found[0])
            return True

        return found[0] if await self._changed(change) else None

    async def unpair(self, person: Person) -> bool:
        """Let somebody in no more; return whether they were.

        Raises:
            StoreError: It cannot be kept.
        """

        def change(asking: list[Applicant], let_in: set[Person]) -> bool:
            there = person in let_in
            let_in.discard(person)
            return there

        return await self._changed(change)

    async def _changed(self, change: Callable[[list[Applicant], set[Person]], bool]) -> bool:
        switches = self._host[SWITCHES]
        while True:
            switch = await switches.get(PEOPLE)
            self._take(switch)
            asking, let_in = list(self._fresh()), set(self._in)
            if not change(asking, let_in):
                return False
            value = {
                "in": [_listed(one) for one in sorted(let_in)],
                "asking": [[_listed(one.person), one.code, one.since] for one in asking],
            }
            # Where another gateway was faster, it is looked at again.
            if (put := await switches.put(PEOPLE, value, version=switch.version)) is not None:
                self._take(put)
                return True


def _listed(person: Person) -> list[str]:
    return [person.channel, person.account, person.sender]


def pairing_text(code: str) -> str:
    """Return what somebody is told who is not let in yet."""
    return (
        "This is a private assistant, and I do not know you yet. Whoever runs it can let you in, "
        f"within the next hour, by:\n\nhookgate channels pair {code}"
    )


# -- commands --------------------------------------------------------------------

# What people say to the gateway and not to a model.

_COMMAND = re.compile(r"/(start|help|new|stop)(?:@\w{1,64})?(?:\s.{0,256})?", re.DOTALL)

HELP = (
    "Write to me, and I answer.\n\n"
    "/new begins a new conversation\n"
    "/stop breaks off what I am doing\n"
    "/help shows this"
)

BEGUN = "A new conversation begins: I do not know what was said here before."
NOTHING_RUNS = "There is nothing to stop."


async def _followed(host: Host, name: str, take: Callable[[Switch], None]) -> Callable[[], None]:
    """Have a switch taken as it is, and whenever it changes; return what ends that."""
    switches = host[SWITCHES]
    take(await switches.get(name))
    return switches.watch(name, take)


def command_of(hosted: Hosted, message: ReceivedMessage) -> str:
    """Return the command that a message is: start, help, new or stop; "" for none."""
    if not hosted.settings.commands or message.choice or message.images:
        return ""
    found = _COMMAND.fullmatch(message.content.strip())
    if found is None or (found[1] != "start" and len(found[0].split()) > 1):
        return ""
    return found[1]


class Beginnings:
    """Conversations that began anew: of what was said before, no model hears in them.

    Nothing is deleted: what was said stays in the store, for whoever runs the gateway.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._turns: Mapping[str, int] = {}

    async def open(self) -> Callable[[], None]:
        """Know what is kept, and follow what others keep; return what ends that.

        Raises:
            StoreError: It cannot be read.
        """
        return await _followed(self._host, BEGUN_AT, self._take)

    def _take(self, switch: Switch) -> None:
        self._turns = dict(switch.value or {})

    def history(self, session: str, turns: int) -> int:
        """Return how many of `turns` turns of history a model may hear in a session."""
        return min(self._turns.get(session, turns), turns)

    async def begin(self, hosted: Hosted, message: ReceivedMessage) -> None:
        """Let a conversation begin anew.

        Raises:
            StoreError: It cannot be kept.
        """
        await self._count(self._session(hosted, message), 0)

    async def went_on(self, session: str) -> None:
        """Count a turn of a session, until so many have come that nothing before is heard.

        Raises:
            StoreError: It cannot be kept.
        """
        known = self._turns.get(session)
        if known is not None:
            await self._count(session, known + 1)

    def _session(self, hosted: Hosted, message: ReceivedMessage) -> str:
        address = hosted.address(message)
        agent = hosted.settings.agent or self._host.route(address).agent.name
        return str(SessionKey(agent, address.channel, address.account, address.peer))

    async def _count(self, session: str, turns: int) -> None:
        def made(switch: Switch) -> dict[str, int]:
            value = {key: count for key, count in (switch.value or {}).items() if key != session}
            if turns < FORGOTTEN_TURNS:
                value[session] = turns
            while len(value) > BEGINNINGS:
                value.pop(next(iter(value)))
            return value

        self._take(await set_switch(self._host[SWITCHES], BEGUN_AT, made))


def stop(host: Host, hosted: Hosted, message: ReceivedMessage) -> bool:
    """Cancel what runs in a conversation; return whether anything did."""
    address = hosted.address(message)
    where = (address.channel, address.account, address.peer)
    ended = [
        host.cancel(turn.id, "it was stopped in the channel")
        for turn in host.running()
        if (turn.address.channel, turn.address.account, turn.address.peer) == where
    ]
    return any(ended)


def is_addressed(hosted: Hosted, message: ReceivedMessage) -> bool:
    """Whether a message was said to the agent, and not to others in a group.

    That it was is the platform's word (a mention, a reply, a command), or one of the names in
    `mention` stands in the text.
    """
    if hosted.settings.groups == "all" or message.addressed is not False:
        return True
    text = message.content
    return any(
        re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        for name in hosted.settings.mention
    )
