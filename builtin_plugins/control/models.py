"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from hookgate import OperationModel, PluginInfo


class Memory(OperationModel):
    """The memory of the gateway's process."""

    bytes: int | None
    """What it holds now; null where the system does not say it."""
    bytes_a_turn: int | None
    """By how much it has grown a turn; null before a hundred turns."""
    turns: int
    """Over how many turns that is: the last thousand or so. The first fifty fill caches, and do
    not count."""


class Status(OperationModel):
    """How the gateway is; a later version may say more."""

    model_config = ConfigDict(extra="allow")

    version: str
    """The gateway's version."""
    protocol: int
    """The version of the wire protocol."""
    ready: bool
    """Whether new turns are taken."""
    degraded: dict[str, str]
    """What does not work as it should: part -> why."""
    notices: dict[str, str]
    """What an operator should know although nothing is wrong: part -> what."""
    turns: int
    """Turns that run or wait."""
    durable: bool
    """Whether conversations outlive the process."""
    agents: tuple[str, ...]
    """The agents by name."""
    providers: tuple[str, ...]
    """The providers of models by name."""
    tools: int
    """How many tools there are."""
    capabilities: int
    """How many capabilities there are."""
    plugins: tuple[str, ...]
    """The plugins that run."""
    memory: Memory
    """What it holds, and how that grows."""
    blocked_seconds: dict[str, float]
    """Seconds for which each plugin has held the event loop since the start, in which nobody else
    was served, the most first: an estimate by samples, and measured where one took over 50 ms."""


class CancelParams(OperationModel):
    """Which turn to cancel: one of the two."""

    turn: str | None = None
    """The turn's id."""
    request: str | int | None = None
    """The id of this client's own `chat.send`, which may not have been answered yet."""

    @model_validator(mode="after")
    def _one_of_two(self) -> CancelParams:
        if (self.turn is None) == (self.request is None):
            raise ValueError("expected either `turn` or `request`")
        return self


class PluginRows(OperationModel):
    """All plugins that are known."""

    plugins: tuple[PluginInfo, ...]
    """In the order in which they were loaded."""


class Content(OperationModel):
    """What there is after a reload."""

    tools: int
    """How many tools there are now."""
    capabilities: int
    """How many capabilities there are now."""
    cards: int
    """How many cards there are now."""
    agents: tuple[str, ...]
    """The agents by name."""


class Reloaded(OperationModel):
    """What a reload has read again; a later version may say more."""

    model_config = ConfigDict(extra="allow")

    changed: Content
    """What was read again, and holds from the next turn on."""
    restart: tuple[str, ...]
    """Keys of the settings that have changed and wait for a restart."""


class OperationRow(OperationModel):
    """One operation."""

    name: str
    """The method's name."""
    summary: str
    """What it does."""
    scope: str | None
    """The scope that it needs; null for none."""
    plugin: str
    """Who brings it."""
    command: str
    """The words of its command; empty where it has none."""
    streams: bool
    """Whether it emits events."""
    params: dict[str, Any]
    """JSON Schema of its parameters."""
    result: dict[str, Any]
    """JSON Schema of its result."""
    details: str
    """More on it, for the help of its command."""
    group: str
    """A sentence on the operations that begin with the same word."""


class OperationRows(OperationModel):
    """The operations that the principal may call."""

    operations: tuple[OperationRow, ...]
    """In the order of their names."""


class SubscribeParams(OperationModel):
    """Which events to follow."""

    types: tuple[str, ...] = Field(default=("*",), max_length=64)
    """Types, or globs such as `tool_*`."""
    turn: str | None = None
    """Only events of this turn."""
    session: str | None = None
    """Only events of this session."""
    spans: bool = False
    """Whether hook spans are wanted, as events of type `hook`; needs the scope `operate`."""


class Subscribed(OperationModel):
    """The subscription stands; `event` notifications follow until it is cancelled."""

    scopes: tuple[str, ...]
    """The scopes whose events are shown."""


class TokenRow(OperationModel):
    """One access token. The token itself is not known to the gateway."""

    name: str
    """Its name in the settings."""
    scopes: tuple[str, ...]
    """What its bearer may do."""
    revoked: bool
    """Whether it has been revoked."""
    expires: datetime | None
    """When it ends; null: never."""


class TokenRows(OperationModel):
    """The access tokens."""

    tokens: tuple[TokenRow, ...]
    """In the order of the settings."""


class RevokedToken(OperationModel):
    """The token is refused from now on, and its live connections are being closed."""

    name: str
    """Its name."""
