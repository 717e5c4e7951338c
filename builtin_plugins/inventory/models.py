"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from hookgate import OperationModel
from hookgate.builtin_plugins.inventory.multiplexer import SourceStatus
from hookgate.builtin_plugins.inventory.record import Button, CapabilityRecord, Kind
from hookgate.builtin_plugins.inventory.service import RecordFilter
from hookgate.builtin_plugins.inventory.switches import NATIVE

ID_CHARS = 2048


@dataclass(frozen=True, kw_only=True)
class ShownRecord(CapabilityRecord):
    """A record as it is shown: with what may be done to it.

    Attributes:
        buttons: What may be done; nothing that would be refused.
        note: What stands in the place of buttons.
        short: What can be typed in the place of the id, such as `codex/github`.
    """

    buttons: tuple[Button, ...] = ()
    note: str = ""
    short: str = ""


class RecordListParams(RecordFilter):
    """Which records to list."""

    after: str = Field(default="", max_length=ID_CHARS)
    """The id behind which the page begins: `next` of the page before."""
    limit: int = Field(default=500, ge=1, le=5000)
    """How many records at most."""
    refresh: bool = False
    """Whether all runtimes are read now, however fresh what is known is."""


class ListedRecords(OperationModel):
    """Records, and how the sources stand that bring them."""

    records: tuple[ShownRecord, ...]
    """In the order of their ids."""
    sources: tuple[SourceStatus, ...]
    """Each source: one that is not `ok` could not be read, and its last good records are shown."""
    total: int
    """How many records there are in all, on all pages."""
    next: str
    """`after` of the next page; empty on the last one."""


class ChangedRecord(OperationModel):
    """What was changed, as it is now."""

    record: ShownRecord
    """The record."""


class _Named(OperationModel):
    id: str = Field(min_length=1, max_length=ID_CHARS)
    """Its id, as the list shows it; a short one such as `codex/github`; or how an id ends."""


class SwitchParams(_Named):
    """What to switch."""

    agent: str = Field(default="", max_length=512)
    """For this agent of the gateway alone; for all where it is left out."""


class ApproveParams(_Named):
    """What to approve."""

    digest: str = Field(min_length=1, max_length=64)
    """The digest that you have looked at; `hookgate tools changes` shows it."""


class _Install(OperationModel):
    agent: str = Field(default="", max_length=512)
    """For this agent, of any runtime; for everybody where it is left out."""
    description: str = Field(default="", max_length=2000)
    """What it does."""
    content: str = Field(default="", max_length=200_000, json_schema_extra={"file": True})
    """The text of a skill."""
    command: str = Field(default="", max_length=1000)
    """The command that starts a connector."""
    args: list[str] = Field(default_factory=list, max_length=64)
    """Its arguments."""
    env: dict[str, str] = Field(default_factory=dict, max_length=64)
    """Its environment."""
    url: str = Field(default="", max_length=2000)
    """The address of a connector."""
    via: str = Field(default=NATIVE, max_length=512)
    """The source that installs it."""
    runtime: str = Field(default="", max_length=512)
    """Passed over: the gateway finds out which runtime the agent belongs to."""


_KEY = r"^[A-Za-z0-9][A-Za-z0-9 ._/@-]{0,63}$"


class InstallParams(_Install):
    """What to install."""

    key: str = Field(pattern=_KEY)
    """What it will be called: 1 to 64 characters of `A-Za-z0-9 ._/@-`."""
    kind: Kind = "skill"
    """What it is."""


class ChangeParams(_Install):
    """Any change; what each takes is said by the operation of its name."""

    action: Literal["install", "enable", "disable", "approve"]
    """What to do."""
    id: str = Field(default="", max_length=ID_CHARS)
    """The record, for all but an install."""
    digest: str = Field(default="", max_length=64)
    """The digest that is approved."""
    key: str = Field(default="", max_length=64)
    """What is installed will be called so."""
    kind: Kind = "skill"
    """What is installed."""
