"""The last turns of this gateway, without what was said in them.

A turn costs one small record when it ends. Its hooks are timed only while somebody looks at
turns, or has looked a moment ago: what is not measured costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    POSITIONAL,
    Address,
    Event,
    FinishedCall,
    Host,
    Invocation,
    OperationModel,
    Taint,
    Turn,
    Usage,
    operation,
)
from hookgate.clients import wire_error
from hookgate.metrics import waterfall

MOST = 2_000
"""So many ended turns are kept, the last ones."""
MOST_TOLD = 20_000
"""So many events of turns are kept."""
MOST_TOLD_OF_ONE = 1_000
MOST_CALLS = 20_000
"""So many tool calls of ended turns are kept; the oldest turns go for more."""
MOST_CHARS = 200
"""So much is kept of an id and of a name, which a model makes up as long as it likes."""
MOST_WHY = 1_000
"""So much is kept of a reason or an error."""
LOOKED = 120.0
"""Seconds for which hooks are timed after somebody has looked."""

_ANYBODYS = frozenset(("chat", "approve", "operate", "read"))
_KEPT_OF = {
    "hook": ("hook", "plugin", "at", "milliseconds", "outcome", "failed"),
    "context": ("tokens", "budget"),
    "usage": ("input_tokens", "output_tokens"),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id", "is_error", "status"),
}
"""What is kept of each event: nothing that anybody has said."""

Ending = Literal["running", "done", "awaiting_client", "refused", "failed", "cancelled"]
Id = Annotated[str, Field(max_length=80)]


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
    ending: Ending | Literal[""] = ""
    """How it ended; ``running`` for those that have not."""
    slower: float = Field(default=0, ge=0)
    """Only turns that took more milliseconds."""
    tainted: bool | None = None
    """Whether it has read text of strangers."""
    denied: bool | None = None
    """Whether a tool call was denied in it."""


class TurnRow(OperationModel):
    """One turn, without what was said in it."""

    id: str
    session: str
    agent: str
    principal: str
    """Who sent the message."""
    path: str
    """How it came in: ``ws``, ``http``, ``cli``, ``nested``, a channel and so on."""
    parent: str
    """The turn that it is nested in; empty for none."""
    started: str
    """When, ISO 8601 in UTC."""
    milliseconds: float
    """How long it took, or has taken so far."""
    ending: Ending
    code: str
    """The code of the error that it ended with; empty for none."""
    input_tokens: int
    output_tokens: int
    tools: tuple[str, ...]
    """The tools that were called, in the order in which they ended."""
    denied: int
    """So many of the calls were denied."""
    taint: tuple[str, ...]
    """Where text of strangers came from."""
    degraded: tuple[str, ...]
    """What it went on without, by a code for each."""


class TurnRows(OperationModel):
    """Turns of this gateway since its start."""

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


class WaterfallRow(OperationModel):
    """Something that ran in a turn."""

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


class ShownTurn(TurnRow):
    """One turn, and what ran in it."""

    message: str
    """What went wrong; empty where nothing did."""
    action: str
    """What to do about it."""
    calls: tuple[TurnCall, ...]
    nested: tuple[str, ...]
    """The turns that were started within it."""
    rows: tuple[WaterfallRow, ...]
    """What ran, in the order in which it began; hooks for the scope ``operate`` alone. Empty
    where nobody looked at turns while it ran."""


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """What is kept of a turn.

    Attributes:
        address: Where the message of its outermost turn came in: who may see what is said there
            may see this.
    """

    id: str
    session: str
    agent: str
    address: Address
    principal: str
    path: str
    parent: str
    started: datetime
    milliseconds: float
    ending: Ending
    code: str
    message: str
    action: str
    degraded: tuple[str, ...]
    usage: Usage
    taint: Taint
    calls: tuple[Mapping[str, str], ...]

    @property
    def place(self) -> str:
        """Its place among all: what began later is greater."""
        return f"{self.started.isoformat(timespec='microseconds')}/{self.id}"

    @classmethod
    def of(cls, turn: Turn, now: datetime) -> KeptTurn:
        """Return what is to be kept of `turn` as it is."""
        error = turn.error
        return cls(
            turn.id,
            str(turn.session),
            turn.agent.name,
            turn.root.address,
            turn.principal.id,
            turn.origin.path,
            turn.parent.id if turn.parent else "",
            turn.started,
            (now - turn.started).total_seconds() * 1000,
            turn.ending or "running",
            error.code if error else "",
            str(error)[:MOST_WHY] if error else "",
            error.action[:MOST_WHY] if error else "",
            tuple(turn.degraded),
            turn.usage,
            turn.taint,
            tuple([_kept_call(finished) for finished in turn.calls]),
        )


def _kept_call(finished: FinishedCall) -> Mapping[str, str]:
    call, decision = finished.call, finished.decision
    return {
        "id": call.id[:MOST_CHARS],
        "name": call.name[:MOST_CHARS],
        "plugin": call.tool.plugin,
        "status": finished.result.status,
        "effect": decision.effect.word,
        "by": decision.by,
        "rule": decision.rule,
        "reason": decision.reason[:MOST_WHY],
    }


class TurnRing:
    """Keeps the last turns, and shows them to those who may see them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ended: dict[str, KeptTurn] = {}
        self._told: dict[str, list[Mapping[str, Any]]] = {}
        self._tellings = self._calls = 0
        self._until = 0.0
        self._listener: asyncio.Task[None] | None = None

    def keep(self, turn: Turn) -> None:
        """Keep an ended turn; the oldest ones go for it."""
        kept = self._ended[turn.id] = KeptTurn.of(turn, self._host.clock.now())
        self._calls += len(kept.calls)
        while len(self._ended) > MOST or self._calls > MOST_CALLS:
            self._calls -= len(self._ended.pop(next(iter(self._ended))).calls)

    @operation("turn.list", rest=("GET", "/v1/turns"), command="turns list")
    async def list_turns(self, invocation: Invocation, params: TurnListParams) -> TurnRows:
        """List the last turns of this gateway, without what was said in them.

        Hooks of turns are timed for some minutes from now on, for `turn.show`.
        """
        self._look()
        found = [turn for turn in self._seen(invocation) if _fits(turn, params)]
        shown = found[: params.limit]
        return TurnRows(
            turns=tuple(map(self._row, shown)),
            next=shown[-1].place if len(found) > len(shown) else "",
        )

    @operation("turn.show", command="turns show")
    async def show(self, invocation: Invocation, id: Annotated[Id, POSITIONAL]) -> ShownTurn:
        """Show one turn: what ran in it, when, for how long, and what was decided.

        Hooks are timed only while somebody looks at turns, or has looked some minutes ago.

        Args:
            id: The turn's id.
        """
        self._look()
        seen = self._seen(invocation)
        turn = next((turn for turn in seen if turn.id == id), None)
        if turn is None:
            raise wire_error(
                "not_found",
                f"the turn {id!r} is none of the last {MOST:,} of this gateway that you may see",
                action="`turns list` names those; older ones are where `plugin.telemetry` sends "
                "traces, and what was decided in them is in the audit",
            )
        told = self._told.get(id, ())
        if "operate" not in invocation.principal.scopes:
            told = [event for event in told if event["type"] != "hook"]
        clean = self._host.secrets.redact
        return ShownTurn(
            **self._row(turn).model_dump(),
            message=clean(turn.message),
            action=clean(turn.action),
            calls=tuple(
                TurnCall(**{name: clean(value) for name, value in call.items()})
                for call in turn.calls
            ),
            nested=tuple(other.id for other in seen if other.parent == id),
            rows=tuple(WaterfallRow(**row.to_json()) for row in waterfall(told)),
        )

    def _seen(self, invocation: Invocation) -> list[KeptTurn]:
        """Return all turns that the caller may see, those that began last first."""
        now, may_see = self._host.clock.now(), invocation.principal.may_see
        # A tool call without a model has no message, and is no turn to anybody.
        running = [
            KeptTurn.of(turn, now)
            for turn in self._host.running()
            if turn.messages or turn.message.text
        ]
        every = {**self._ended, **{turn.id: turn for turn in running if turn.ending == "running"}}
        seen = [turn for turn in every.values() if may_see(turn.address)]
        return sorted(seen, key=lambda turn: turn.place, reverse=True)

    def _row(self, turn: KeptTurn) -> TurnRow:
        clean = self._host.secrets.redact
        return TurnRow(
            id=turn.id,
            session=clean(turn.session),
            agent=turn.agent,
            principal=turn.principal,
            path=turn.path,
            parent=turn.parent,
            started=turn.started.astimezone(UTC).isoformat(timespec="milliseconds"),
            milliseconds=round(turn.milliseconds, 1),
            ending=turn.ending,
            code=turn.code,
            input_tokens=turn.usage.input_tokens,
            output_tokens=turn.usage.output_tokens,
            tools=tuple(clean(call["name"]) for call in turn.calls),
            denied=_denied(turn),
            taint=tuple(sorted(map(clean, turn.taint))),
            degraded=turn.degraded,
        )

    # -- timing hooks, while somebody looks --------------------------------------

    def _look(self) -> None:
        self._until = monotonic() + LOOKED
        if self._listener is None or self._listener.done():
            self._listener = self._host.spawn(self._listen(), name="dashboard.turns")

    async def _listen(self) -> None:
        events = self._host.events
        with events.subscribe(scopes=_ANYBODYS, capacity=1, where=self._tell, spans=True):
            while (left := self._until - monotonic()) > 0:  # noqa: ASYNC110 - it is a time
                await asyncio.sleep(left)

    def _tell(self, event: Event) -> Literal[False]:
        """Keep what an event tells of a turn. It is wanted no further."""
        names, data = _KEPT_OF.get(event.type), event.data
        if names is None or not event.turn or not all(name in data for name in names):
            return False
        told = self._told.setdefault(event.turn, [])
        if len(told) < MOST_TOLD_OF_ONE:
            kept = {name: _cut(data[name]) for name in names}
            if event.type == "tool_result":
                kept["content"] = kept["status"]
            if "within" in data:
                kept["within"] = _cut(data["within"])
            told.append({"type": event.type, "at": event.at, "data": kept})
            self._tellings += 1
        while self._tellings > MOST_TOLD:
            self._tellings -= len(self._told.pop(next(iter(self._told))))
        return False


def _cut(value: Any) -> Any:
    return value[:MOST_CHARS] if isinstance(value, str) else value


def _denied(turn: KeptTurn) -> int:
    return sum(call["status"] == "denied" for call in turn.calls)


def _fits(turn: KeptTurn, params: TurnListParams) -> bool:
    return (
        (not params.before or turn.place < params.before)
        and params.session in ("", turn.session)
        and params.agent in ("", turn.agent)
        and params.ending in ("", turn.ending)
        and turn.milliseconds >= params.slower
        and params.tainted in (None, bool(turn.taint))
        and params.denied in (None, bool(_denied(turn)))
        and (
            not params.plugin
            or any(params.plugin in (call["plugin"], call["by"]) for call in turn.calls)
        )
    )
