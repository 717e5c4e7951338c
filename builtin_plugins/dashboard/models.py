"""What the operations here take and return; loaded when one is called or described."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hookgate import OperationModel
from hookgate.builtin_plugins.dashboard.turns import TurnOutline, TurnSummary


class TurnListParams(OperationModel):
    """Which turns are wanted; what is left out does not matter."""

    limit: int = Field(default=50, ge=1, le=500)
    """So many at most, those that began last first."""
    before: str = Field(default="", max_length=160)
    """Only turns that began before this one: the ``next`` of a former answer."""
    session: str = ""
    """A session's key."""
    agent: str = ""
    """An agent's name."""
    plugin: str = ""
    """A plugin whose tool was called, or that decided about a call."""
    ending: Literal["", "running", "done", "awaiting_client", "refused", "failed", "cancelled"] = ""
    """How it ended; ``running`` for those that have not."""
    slower: float = Field(default=0, ge=0)
    """Only turns that took more milliseconds."""
    tainted: bool | None = None
    """Whether it has read text of strangers."""
    denied: bool | None = None
    """Whether a tool call was denied in it."""
    root: str = Field(default="", max_length=80)
    """Only this turn and all that are nested in it, which a message from outside has started."""
    hooks: bool = False
    """Whether to time hooks from now on, for two minutes; for the scope `operate` alone."""


class TurnRow(TurnSummary):
    """One turn, without what was said in it."""

    tools: tuple[str, ...]
    """The tools that were called, in the order in which they ended; the first 100 calls."""
    taint: tuple[str, ...]
    """Where text of strangers came from."""
    degraded: tuple[str, ...]
    """What it went on without, by a code for each."""


class TurnRows(OperationModel):
    """The last turns of all gateways on the store, and those that run at this one."""

    turns: tuple[TurnRow, ...]
    next: str
    """What to give as ``before`` for older ones; empty where there are none."""


class TurnCall(OperationModel):
    """One tool call of a turn."""

    id: str
    name: str
    plugin: str
    status: str
    """``done``, ``failed``, ``denied``, ``cancelled`` or ``timeout``."""
    effect: str
    """``allow`` or ``deny``."""
    by: str
    """Who decided that."""
    rule: str
    reason: str
    within: str
    """The call in which a tool made this one; empty for a call of the model's."""
    read: tuple[str, ...]
    """Whose text the model had read when it asked for the call."""
    brought: tuple[str, ...]
    """Whose text its result brought into the turn."""


class WaterfallRow(OperationModel):
    """Something that ran in a turn."""

    turn: str
    """The turn: the one that is shown, or one that is nested in it."""
    kind: Literal["hook", "model", "tool", "context"]
    name: str
    """The hook or the tool."""
    plugin: str
    at_ms: float
    """When it began, in milliseconds since the turn's first sign."""
    ms: float
    """How long it took."""
    said: str
    """What it decided, or what came of it."""
    failed: bool


class TreeTurn(TurnOutline):
    """One of the turns that a message has started."""

    tools: tuple[str, ...]
    tainted: bool


class ShownTurn(TurnRow):
    """One turn, and what ran in it."""

    message: str
    """What went wrong; empty where nothing did."""
    action: str
    """What to do about it."""
    calls: tuple[TurnCall, ...]
    """The first 100 of them."""
    called: int
    """So many tool calls there were."""
    tree: tuple[TreeTurn, ...]
    """All turns that one message has started, those that began first first; alone where nothing is
    nested."""
    rows: tuple[WaterfallRow, ...]
    """What ran in it and in the turns nested in it, in the order in which it began. Hooks are for
    the scope `operate` alone, and of turns that ran while hooks were timed."""
    hooked: bool
    """Whether hooks were timed in it."""


class TurnSums(OperationModel):
    """How the turns of the last minutes went."""

    minutes: float
    """So many minutes are looked at: fewer than asked for, where older turns are not kept."""
    turns: int
    """So many have begun in them and ended."""
    a_minute: float
    running: int
    """So many run at this gateway now."""
    failed: int
    """So many ended with an error."""
    refused: int
    cancelled: int
    median_ms: float
    p95_ms: float
    """Milliseconds in which 95 of 100 ended (nearest rank)."""
