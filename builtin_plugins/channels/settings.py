"""The settings of channels: ``[plugin.channels]``, and ``[plugin.channels.NAME]`` for each."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from hookgate import Host, Problem, Section
from hookgate.channels import GUESTS

Kind: TypeAlias = Literal["json", "slack", "discord"]

NAME = re.compile(rf"({re.escape(GUESTS)})?[a-z0-9][a-z0-9_-]{{0,63}}")


class ApproverSettings(Section):
    """Somebody who may answer questions in a channel: ``[[plugin.channels.NAME.approvers]]``."""

    account: str = Field(min_length=1, max_length=256)
    """The account of the channel in which `sender` is this person, who answers what is asked
    there. The same id in another account is somebody else's."""
    sender: str = Field(min_length=1, max_length=256)
    """The platform's id of this person."""
    principal: str = Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x20\x7f]+$")
    """Who that is here: the id by which ``[plugin.policy.approvals] approvers`` and rules name
    approvers."""
    peer: str = Field(default="", max_length=256)
    """Where this person is asked, such as a private chat; `sender` where it is left out."""
    channels: tuple[str, ...] = ()
    """Other channels whose questions are put to this person here too: `["compat"]` is for those
    of other people's clients, such as coding agents. Without it, those of the account alone."""


class ChannelSettings(Section):
    """One channel: ``[plugin.channels.NAME]``."""

    kind: Kind | None = None
    """What it speaks, where it is one of those that come with hookgate. Without it, the section
    is about a channel of this name that another plugin brings; one that the plugin NAME of the
    sandbox brings is called ``wasm.NAME``."""
    agent: str | None = None
    """The agent that answers, instead of the one that the bindings choose."""
    senders: tuple[str, ...] | None = None
    """Globs of the platform's ids of those who are listened to; `["*"]` is everybody.
    Without it: who was let in by a code where `pairing` holds, else everybody."""
    pairing: bool | None = None
    """Whether somebody who is not listened to is given a code in a private chat, by which they
    can be let in: `hookgate channels pair CODE`. Without it: where `senders` is not set, in
    channels of the sandbox, since anybody can write to such a bot."""
    groups: Literal["mention", "all"] = "mention"
    """In groups, whether an agent answers who speaks to it (a mention, a reply, a command), or
    everybody, as far as the platform passes that on."""
    mention: tuple[str, ...] = ()
    """Names by which an agent is called in groups, such as `@shop_bot`, beside what the platform
    itself takes for a mention."""
    commands: bool = True
    """Whether `/start`, `/help`, `/new` and `/stop` are for the gateway, and reach no model."""
    help: str = Field(default="", max_length=4000)
    """What `/start` and `/help` are answered with; a few lines of the gateway's own without it."""
    public: bool | None = None
    """Whether strangers write here: their messages are tainted then. Without it: they do where
    neither `senders` nor `pairing` says who is listened to, and where `senders` is `["*"]`."""
    approvers: tuple[ApproverSettings, ...] = ()
    """Who may answer questions about tool calls in this channel."""
    trusted: bool = False
    """Whether a channel whose code is sandboxed is believed when it says who wrote. Without it,
    nobody approves tool calls there, and what comes in is tainted unless `public` is false."""
    streaming: bool = True
    """Whether an answer is shown while it is written, where messages can be changed."""
    per_minute: int = Field(default=600, ge=1, le=1_000_000)
    """Posts that are looked at in a minute."""
    answer_seconds: float = Field(default=55.0, gt=0, le=600)
    """How long a platform that waits for the answer in the response is kept waiting."""
    secret: str = ""
    """The name of the secret that posts are signed with; `NAME_secret` where it is left out. Of
    ``discord``, the application's public key."""
    token: str = ""
    """The name of the secret that is sent along with what is said; `NAME_token` where it is left
    out. ``json`` sends none without it."""
    callback: str = ""
    """``json``: the URL that answers are posted to; without it they stand in the response."""
    api: str = ""
    """``slack`` and ``discord``: the URL of the platform's API, where it is another one."""
    application: str = Field(default="", pattern=r"^[0-9]{0,32}$")
    """``discord``: the application's id."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> ChannelSettings:
        if self.kind == "discord" and not self.application:
            raise ValueError("found no `application`, expected the application's id")
        only = {"callback": ("json",), "api": ("slack", "discord"), "application": ("discord",)}
        for key, kinds in only.items():
            if getattr(self, key) and self.kind not in kinds:
                raise ValueError(f"found `{key}`, which is for the kinds {', '.join(kinds)} alone")
        for key in ("callback", "api"):
            url = getattr(self, key)
            if url and not re.fullmatch(r"https?://[^\s?#]+", url):
                raise ValueError(f"found the {key} {url!r}, expected a URL without a query")
        return self


class ChannelsSettings(Section):
    """``[plugin.channels]``: what holds for all channels."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, ChannelSettings] = Field(init=False)

    attempts: int = Field(default=10, ge=1, le=100)
    """How often a message is tried before it is put with the dead letters."""
    per_minute: int = Field(default=300, ge=1, le=1_000_000)
    """Posts that are looked at in a minute from one address."""
    waiting: int = Field(default=1000, ge=1, le=100_000)
    """Messages of one channel that may wait for their turn; posts beyond are refused."""
    turns: int = Field(default=32, ge=1, le=10_000)
    """Turns of one channel that run at once."""
    edit_seconds: float = Field(default=1.0, ge=0.05, le=60)
    """Seconds from one change to the next of a message that is still being written. Where it is
    not set, a channel's own pause counts if it is longer."""
    keep_days: int = Field(default=7, ge=1, le=365)
    """For so long an event that comes again is known."""
    keep_events: int = Field(default=100_000, ge=100, le=10_000_000)
    """Events of one channel that are known at most, and dead letters that are kept."""

    @model_validator(mode="after")
    def _names_are_names(self) -> ChannelsSettings:
        for name in self.of:
            if not NAME.fullmatch(name):
                raise ValueError(
                    f"found the channel {name!r}, expected small letters, digits, `_` and `-`, "
                    f"behind {GUESTS!r} where a plugin of the sandbox brings it"
                )
        return self

    @property
    def of(self) -> dict[str, ChannelSettings]:
        """The sections of single channels, by name."""
        return self.__pydantic_extra__ or {}


def lacking(settings: ChannelsSettings, host: Host) -> list[Problem]:
    """Return the secrets that channels are to have and that are nowhere. Reads files."""
    found: list[Problem] = []
    for name, section in settings.of.items():
        if section.kind is None:
            continue
        here = f"plugin.channels.{name}"
        wanted = [(section.secret or f"{name}_secret", "what is posted is checked by", False)]
        if section.token or section.kind != "json":
            token = section.token or f"{name}_token"
            # A command of Discord's is answered without one, for a quarter of an hour.
            wanted.append((token, "it is sent with answers", section.kind == "discord"))
        for secret, why, optional in wanted:
            if (host.secrets.get(secret) or "").strip():
                continue
            found.append(
                Problem(
                    key=here,
                    found=f"no secret {secret!r}: {why}",
                    expected=", or ".join(host.secrets.how_to_set(secret)),
                    severity="warning" if optional else "error",
                )
            )
    return found
