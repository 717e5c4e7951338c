"""The parameters and results of these operations. Their docstrings are their schemas'."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from hookgate import OperationModel


class Pong(OperationModel):
    """The gateway answers."""

    pong: Literal[True] = True
    """Always true."""


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


class Cancelled(OperationModel):
    """It is being cancelled; its `done` says when it has ended."""

    cancelled: Literal[True] = True
    """Always true; what does not run is an error, `not_found`."""


class PluginRow(OperationModel):
    """One plugin."""

    name: str
    """The name that it runs under."""
    origin: str
    """`builtin`, `program`, or the distribution and version that brought it."""
    version: str
    """The version of what brought it: hookgate's own for a builtin; empty where it has none."""
    hooks: tuple[str, ...]
    """The hooks that it implements."""
    publishes: tuple[str, ...]
    """The hooks that it publishes for other plugins."""
    idle: tuple[str, ...]
    """Hooks that it implements and nobody publishes now, each with why."""
    requires: tuple[str, ...]
    """The keys that it needs."""
    provides: tuple[str, ...]
    """The keys that it offers."""
    state: Literal["running", "disabled", "replaced", "broken"]
    """Whether it runs."""
    reason: str
    """Why, where it does not run."""


class PluginRows(OperationModel):
    """All plugins that are known."""

    plugins: tuple[PluginRow, ...]
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


class TokenRows(OperationModel):
    """The access tokens."""

    tokens: tuple[TokenRow, ...]
    """In the order of the settings."""


class RevokedToken(OperationModel):
    """The token is refused from now on, and its live connections are being closed."""

    name: str
    """Its name."""
