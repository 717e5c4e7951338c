"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from hookgate import (
    OperationModel,
)


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
    why: str
    """Why it is not served, or why nothing comes in; empty where all is well."""
    asking: int
    """People who ask to be let in: `hookgate channels people` shows their codes."""


class PersonRow(OperationModel):
    """Somebody who was let into a channel by a code, or asks to be."""

    channel: str
    account: str
    sender: str
    """The platform's id of this person."""
    code: str
    """The code that they were given; empty where they were let in."""
    since: datetime | None
    """Since when they ask; null where they were let in."""


class ChannelPeople(OperationModel):
    """Who was let in by a code, and who asks to be."""

    people: list[PersonRow]


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
