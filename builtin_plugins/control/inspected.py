"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hookgate import (
    LogLine,
    LogTail,
    OperationModel,
)
from hookgate.builtin_plugins.control.inspection import LogLevel
from hookgate.settings import SetValue

LINES = LogTail.LINES


class FlagRow(OperationModel):
    """One of the five statements about what a tool does."""

    value: bool | None
    """Yes, no, or null where nothing is declared, which policy takes for yes."""
    standing: Literal["proven", "declared", "unknown"]
    """On what it rests: the sandbox holds it, or its author says so, or on nothing."""
    ground: str
    """What that is in particular, such as a grant of the sandbox; empty where nobody says."""


class ToolRow(OperationModel):
    """One tool."""

    name: str
    """The name by which a model calls it."""
    description: str
    """What it does."""
    plugin: str
    """Who brings it."""
    owner: Literal["host", "client"]
    """Who runs it: the gateway, or the client of a compat endpoint."""
    sandbox: Literal["python", "wasm", "remote", "client"]
    """Where it runs."""
    always_on: bool
    """Whether it is offered on every turn, whatever selection says."""
    category: str
    """One word, for people and discovery."""
    flags: dict[str, FlagRow]
    """The five statements by name."""
    idempotent: bool | None
    """Whether a call that is made again alike changes nothing more; null where that is unknown."""
    digest: str
    """SHA-256 of what the model sees and policy judges."""
    quarantine: str
    """Why it must not run before somebody has accepted it; empty where it may."""
    off: str
    """For whom it is switched off: `everybody`, or agents; empty where it is on."""


class ToolRows(OperationModel):
    """The gateway's tools."""

    tools: tuple[ToolRow, ...]
    """In the order of their names."""


class Why(OperationModel):
    """Why a plugin runs, or why it does not."""

    name: str
    """Its name."""
    why: str
    """The reason, in a sentence."""


class Routed(OperationModel):
    """Which agent answers an address, and why."""

    agent: str
    """The agent."""
    tier: str
    """The tier that decided: peer, guild, team, account, channel or default."""
    binding: int | None
    """The place of the binding in the settings, from 0; null where none matched."""
    reason: str
    """The same in words."""


class ShownSettings(OperationModel):
    """The settings as they were read last."""

    settings: tuple[SetValue, ...]
    """In the order of the sections."""


class LogTailParams(OperationModel):
    """Which lines of the log are wanted."""

    after: int = Field(default=0, ge=0)
    """Only lines after this one: the `next` of a former answer."""
    level: LogLevel = "debug"
    """The least level."""
    search: str = Field(default="", max_length=200)
    """What stands in the line, in capitals or not."""
    limit: int = Field(default=100, ge=1, le=LINES)
    """So many at most, the newest ones."""


class ShownLog(OperationModel):
    """The last lines of the log, masked as they are written."""

    lines: tuple[LogLine, ...]
    """The oldest first."""
    next: int
    """What to give as `after` for what comes."""
    missed: int
    """So many lines after `after` are kept no more."""
    level: str
    """The least level that is logged at all."""
