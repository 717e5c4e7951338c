"""What is hosted: each channel with its settings, its secrets and its principal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from hookgate import (
    CLEAN,
    Address,
    Claim,
    Host,
    HostedChannel,
    Origin,
    PolledChannel,
    Principal,
    Provenance,
    ReceivedMessage,
    Taint,
    TurnRequest,
    Webhook,
)
from hookgate.builtin_plugins.channels.peers import People, Person
from hookgate.builtin_plugins.channels.settings import ApproverSettings, ChannelSettings
from hookgate.channels import GUESTS, guest_channel, is_guest_channel

PART = "channel {}"
APPROVALS = "approvals of {}"


@dataclass(slots=True)
class Hosted:
    """One hosted channel.

    Attributes:
        channel: The channel.
        settings: Its section.
        secret: What its posts are checked by.
        handshake: What the token of its handshake must be; "" where it has none.
        people: Those who were let in by a code.
    """

    channel: HostedChannel
    settings: ChannelSettings
    secret: str = field(default="", repr=False)
    handshake: str = field(default="", repr=False)
    people: People | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.channel.name

    @property
    def webhook(self) -> Webhook | None:
        """Its webhook; None where it polls."""
        connection = self.channel.connection
        return connection if isinstance(connection, Webhook) else None

    @property
    def is_believed(self) -> bool:
        """Whether its word for who wrote is good: that of sandboxed code is a stranger's."""
        return self.settings.trusted or not self.channel.sandboxed

    @property
    def is_public(self) -> bool:
        """Whether strangers write here, or what may have made up who wrote."""
        public = self.settings.public
        if public is None:
            senders = self.settings.senders
            anybody = not self.pairs
            if senders is not None:
                anybody = any("*" in glob and not glob.strip("*?") for glob in senders)
            return anybody or not self.is_believed
        return public

    @property
    def pairs(self) -> bool:
        """Whether somebody who is not listened to is given a code by which they can be let in."""
        pairing = self.settings.pairing
        if pairing is not None:
            return pairing
        # Anybody can write to such a bot. Who is in a workspace, or may use an application's
        # commands, was let in there; and a service of one's own has its secret.
        return self.settings.senders is None and self.channel.sandboxed

    @property
    def approvers(self) -> tuple[ApproverSettings, ...]:
        """Who may answer questions here; nobody where who wrote cannot be believed.

        Such a channel is not shown questions either: it could answer them itself.
        """
        return self.settings.approvers if self.is_believed else ()

    def listens_to(self, message: ReceivedMessage) -> bool:
        """Whether who has written a message is listened to."""
        globs = self.settings.senders
        if self.approver(message) is not None:
            return True
        if any(fnmatchcase(message.sender, glob) for glob in globs or ()):
            return True
        if not self.pairs:
            return globs is None
        return self.people is not None and self.people.has(self.person(message))

    def person(self, message: ReceivedMessage) -> Person:
        """Return who has written a message, by the channel's word."""
        return Person(self.name, message.account, message.sender)

    def grows(self, message: ReceivedMessage) -> bool:
        """Whether the answer to a message is shown while it comes."""
        return not message.wait and self.channel.features.edit and self.settings.streaming

    def approver(self, message: ReceivedMessage) -> ApproverSettings | None:
        """Return the approver who has written a message; None where it is none.

        A platform's id names somebody within one account: in another one it is anybody's.
        """
        wrote = (message.account, message.sender)
        return next((one for one in self.approvers if (one.account, one.sender) == wrote), None)

    def principal_of(self, approver: ApproverSettings) -> Principal:
        """Return who answers questions for an approver: in this account, and where else it is told.

        It does nothing else.
        """
        claim = Claim(channel=self.name, account=approver.account)
        claims = (claim, *(Claim(channel=name) for name in approver.channels))
        return Principal(id=approver.principal, scopes=frozenset({"approve"}), bindings=claims)

    def address(self, message: ReceivedMessage) -> Address:
        """Return where a message comes from, which is where its answer goes."""
        return Address(self.name, message.account, message.peer, message.guild, message.team)

    def asked(self, message: ReceivedMessage) -> tuple[Principal, Origin, TurnRequest]:
        """Return who asks what by a message, for `Host.start_turn`."""
        approver = self.approver(message)
        # An approver who writes is known by the same name as one who answers: whether somebody
        # may approve what came of their own message is for the policy to say.
        who = f"channel:{self.name}" if approver is None else approver.principal
        claim = Claim(channel=self.name, account=message.account, peer=message.peer)
        principal = Principal(id=who, scopes=frozenset({"chat"}), bindings=(claim,))
        origin = Origin(provenance=Provenance.CHANNEL, path=self.name, channel=self.name)
        strange = self.is_public and approver is None
        taint: Taint = frozenset({f"channel:{self.name}"}) if strange else CLEAN
        request = TurnRequest(
            content=message.content,
            address=self.address(message),
            images=message.images,
            agent=self.settings.agent,
            taint=taint,
            whole=not self.grows(message),
        )
        return principal, origin, request


class Hosting:
    """The hosted channels of a gateway.

    Attributes:
        people: Those who were let into them by a code.
        unserved: The channels that are not served, and why.
    """

    def __init__(self, host: Host, sections: Mapping[str, ChannelSettings]) -> None:
        from hookgate.builtin_plugins.channels.settings import ChannelSettings

        self._host = host
        self._sections = sections
        self._default = ChannelSettings()
        self._hosted: dict[str, Hosted] = {}
        self.people = People(host)
        self.unserved: dict[str, str] = {}
        self._told: set[str] = set()
        self._finding = asyncio.Lock()

    def __iter__(self) -> Iterator[Hosted]:
        return iter(self._hosted.values())

    def __len__(self) -> int:
        return len(self._hosted)

    def get(self, name: str) -> Hosted | None:
        """Return the hosted channel of a name; None where there is none."""
        return self._hosted.get(name)

    async def find(self) -> None:
        """Take the channels that are listed now, with their secrets.

        One whose secret is missing, or whose connection is none, is not served, and `status` says
        so; the others are.
        """
        # One at a time: of two, the one that saw newer channels must come last.
        async with self._finding:
            await self._find()

    async def _find(self) -> None:
        found: dict[str, Hosted] = {}
        unserved: dict[str, str] = {}
        for name, channel in self._host.channels.items():
            if not isinstance(channel, HostedChannel):
                continue
            section = self._sections.get(name, self._default)
            hosted = Hosted(channel, section, people=self.people)
            if why := self._flaw(channel) or self._meant(name) or await self._open(hosted):
                unserved[name] = why
            else:
                found[name] = hosted
                self._tell_of_approvers(hosted)
        self._hosted = found
        for name in self._sections.keys() - self._host.channels.keys():
            unserved[name] = (
                f"{section_of(name)} is about a channel that there is not: give it a `kind`, or "
                "install the plugin that brings it; that of a plugin NAME of the sandbox is "
                f"{section_of(guest_channel('NAME'))}"
            )
        self.unserved = unserved
        flaws = {PART.format(name): why for name, why in unserved.items()}
        self._told = self._host.standing.turned(self._told, flaws)

    def _tell_of_approvers(self, hosted: Hosted) -> None:
        why = ""
        if hosted.settings.approvers and not hosted.approvers:
            why = (
                "its approvers are asked nothing and answer nothing: its code is sandboxed, and "
                "could say of anything that they wrote it. Where that code is trusted with "
                f"approvals, set `trusted = true` in {section_of(hosted.name)}"
            )
        self._host.standing(APPROVALS.format(hosted.name)).bad(why)

    @staticmethod
    def _flaw(channel: HostedChannel) -> str:
        if isinstance(channel.connection, Webhook) or isinstance(channel, PolledChannel):
            return ""
        return "its connection is polling, and it has no `poll`: expected an async method"

    def _meant(self, name: str) -> str:
        """Return why a channel is not served whose section has the plugin's name in its place.

        Without what stands there, such as who is listened to, it would be open to all.
        """
        short = name.removeprefix(GUESTS)
        if not is_guest_channel(name) or short not in self._sections or name in self._sections:
            return ""
        if short in self._host.channels:
            return ""
        return (
            f"{section_of(short)} seems to be meant for it, and its name is {name!r}: write "
            f"{section_of(name)}"
        )

    async def _open(self, hosted: Hosted) -> str:
        webhook = hosted.webhook
        if webhook is None:
            return ""
        # A secret can lie in a file.
        secret, why = await asyncio.to_thread(self._secret, webhook.secret)
        hosted.secret = secret
        if not why and webhook.handshake is not None:
            hosted.handshake, why = await asyncio.to_thread(self._secret, webhook.handshake.secret)
        if not why and webhook.verification == "ed25519":
            why = wrong_key(secret)
            # It brings the server, which a gateway that nobody serves does without.
            from hookgate.builtin_plugins.channels.webhooks import verifies_ed25519

            if not await asyncio.to_thread(verifies_ed25519):
                why = "signatures by Ed25519 need a library: pip install 'hookgate[ed25519]'"
        return why

    def _secret(self, name: str) -> tuple[str, str]:
        secrets = self._host.secrets
        value = (secrets.get(name) or "").strip()
        if not value:
            ways = ", or ".join(secrets.how_to_set(name))
            return "", f"found no secret {name!r} to check what comes in by: {ways}"
        secrets.register(value)
        return value, ""


def section_of(name: str) -> str:
    """Return how the section of a channel is headed in the settings."""
    return f'[plugin.channels."{name}"]' if "." in name else f"[plugin.channels.{name}]"


def wrong_key(text: str) -> str:
    """Return why `text` is no public key for Ed25519; "" where it is one."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return ""
    return "its public key is none: expected 64 hexadecimal digits"
