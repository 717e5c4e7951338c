"""The last turns, without what was said in them, for those who may see them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import Field

from hookgate import POSITIONAL, Invocation, OperationModel, Principal, operation
from hookgate.builtin_plugins.dashboard.keeper import MOST, TurnKeeper
from hookgate.clients import wire_error
from hookgate.kit.modules import on_demand
from hookgate.metrics import waterfall

if TYPE_CHECKING:
    from hookgate.builtin_plugins.dashboard import models
else:
    models = on_demand("hookgate.builtin_plugins.dashboard.models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.dashboard.tables import KeptTurn

MOST_OF_TREE = 200
"""So many turns of one tree are shown."""
MOST_ROWS = 5_000
"""So many rows of a waterfall are shown."""

Ending = Literal["running", "done", "awaiting_client", "refused", "failed", "cancelled"]
Id = Annotated[str, Field(max_length=80)]


class TurnOutline(OperationModel):
    """Where a turn belongs, and how it went."""

    id: str
    parent: str
    """The turn that it is nested in; empty for none."""
    session: str
    agent: str
    started: str
    """When, ISO 8601 in UTC."""
    milliseconds: float
    """How long it took, or has taken so far."""
    ending: Ending
    denied: int
    """So many of its tool calls were denied."""


class TurnSummary(TurnOutline):
    """One turn in figures: what is kept of it, and what is shown."""

    principal: str
    """Who sent the message."""
    path: str
    """How it came in: ``ws``, ``http``, ``cli``, ``nested``, a channel and so on."""
    code: str
    """The code of the error that it ended with; empty for none."""
    input_tokens: int
    output_tokens: int


class TurnOperations:
    """Lists and shows the turns that are kept."""

    def __init__(self, keeper: TurnKeeper) -> None:
        self._keeper = keeper

    @operation("turn.list", rest=("GET", "/v1/turns"), command="turns list")
    async def list_turns(
        self, invocation: Invocation, params: models.TurnListParams
    ) -> models.TurnRows:
        """List the last turns, without what was said in them."""
        if params.hooks and "operate" in invocation.principal.scopes:
            self._keeper.look()
        found = await self._found(params, invocation.principal, params.limit + 1)
        shown = found[: params.limit]
        return models.TurnRows(
            turns=tuple([models.TurnRow.of_record(turn, **_read(turn)) for turn in shown]),
            next=shown[-1].place if len(found) > len(shown) else "",
        )

    @operation("turn.sums", command="turns sums")
    async def sums(
        self, invocation: Invocation, minutes: Annotated[float, Field(ge=1, le=10_080)] = 15
    ) -> models.TurnSums:
        """Say how many turns the last minutes had, how they ended and how long they took.

        Args:
            minutes: So many minutes, of the last turns that are kept.

        Example:
            hookgate turns sums --minutes 60
        """
        host, principal = invocation.host, invocation.principal
        now = host.clock.now()
        ended = await self._keeper.ended(now - timedelta(minutes=minutes), principal)
        if len(ended) >= MOST:
            first = datetime.fromisoformat(ended[-1].started)
            minutes = max((now - first).total_seconds() / 60, 1 / 60)
        took = sorted([turn.milliseconds for turn in ended]) or [0.0]
        endings = Counter(turn.ending for turn in ended)
        here = [turn for turn in self._keeper.here() if turn.ending == "running"]
        return models.TurnSums(
            minutes=round(minutes, 2),
            turns=len(ended),
            a_minute=round(len(ended) / minutes, 2),
            running=sum(principal.sees(turn.session) for turn in here),
            failed=endings["failed"],
            refused=endings["refused"],
            cancelled=endings["cancelled"],
            median_ms=_tenths(took[(len(took) - 1) // 2]),
            p95_ms=_tenths(took[math.ceil(0.95 * len(took)) - 1]),
        )

    @operation("turn.show", command="turns show")
    async def show(self, invocation: Invocation, id: Annotated[Id, POSITIONAL]) -> models.ShownTurn:
        """Show one turn: what ran in it, when, for how long, and what was decided.

        Hooks are timed for two minutes after somebody who may operate has looked.

        Args:
            id: The turn's id.
        """
        principal = invocation.principal
        operates = "operate" in principal.scopes
        if operates:
            self._keeper.look()
        turn = await self._keeper.get(id)
        if turn is None or not principal.sees(turn.session):
            raise wire_error(
                "not_found",
                f"the turn {id!r} is none of the last {MOST:,} that you may see",
                action="`turns list` names those; of older ones the audit has what was decided "
                "(`audit list --turn`), and `plugin.telemetry` has sent figures alone",
            )
        tree = await self._found(models.TurnListParams(root=turn.root), principal, MOST_OF_TREE)
        tree = sorted({one.id: one for one in (*tree, turn)}.values(), key=lambda one: one.place)
        told = {one.id: orjson.loads(one.told) for one in _within(id, tree)}
        return models.ShownTurn.of_record(
            turn,
            **_read(turn),
            calls=tuple([models.TurnCall(**call) for call in orjson.loads(turn.calls)]),
            tree=tuple([_of_tree(one) for one in tree]),
            rows=tuple(_rows(told, hooks=operates)),
            hooked=any(kind == "hook" for kind, _, _ in told[id]),
        )

    async def _found(
        self, params: models.TurnListParams, principal: Principal, count: int
    ) -> list[KeptTurn]:
        """Return so many of the turns that the caller may see, those that began last first."""
        here = [turn for turn in self._keeper.here() if principal.sees(turn.session)]
        mine = {turn.id: turn for turn in here if _fits(turn, params)}
        for turn in await self._keeper.page(params, principal, count):
            mine.setdefault(turn.id, turn)
        return sorted(mine.values(), key=lambda turn: turn.place, reverse=True)[:count]


def _fits(turn: KeptTurn, params: models.TurnListParams) -> bool:
    """Whether a turn that is not in the store yet is wanted; of the others, the store says it."""
    return (
        (not params.before or turn.place < params.before)
        and params.session in ("", turn.own)
        and params.agent in ("", turn.agent)
        and params.ending in ("", turn.ending)
        and params.root in ("", turn.root)
        and turn.milliseconds >= params.slower
        and params.tainted in (None, turn.tainted)
        and params.denied in (None, turn.denied > 0)
        and (not params.plugin or params.plugin in orjson.loads(turn.plugins))
    )


def _read(turn: KeptTurn) -> dict[str, Any]:
    """Return what a row shows otherwise than it is kept."""
    lists = {name: orjson.loads(getattr(turn, name)) for name in ("tools", "taint", "degraded")}
    return {"session": turn.own, "milliseconds": _tenths(turn.milliseconds), **lists}


def _tenths(milliseconds: float) -> float:
    """Round down, so that who asks for turns that took as long as is said here finds this one."""
    return math.floor(milliseconds * 10) / 10


def _of_tree(turn: KeptTurn) -> models.TreeTurn:
    shown = {
        name: said for name, said in _read(turn).items() if name in models.TreeTurn.model_fields
    }
    return models.TreeTurn.of_record(turn, **shown)


def _within(id: str, tree: Sequence[KeptTurn]) -> list[KeptTurn]:
    """Return a turn of a tree and those that are nested in it; parents come first in a tree."""
    known = {id}
    for turn in tree:
        if turn.parent in known:
            known.add(turn.id)
    return [turn for turn in tree if turn.id in known]


def _rows(
    told: Mapping[str, Sequence[tuple[str, float, dict[str, Any]]]], *, hooks: bool
) -> list[models.WaterfallRow]:
    """Return what the events of turns tell of, on one scale of time."""
    rows: list[tuple[float, models.WaterfallRow]] = []
    for id, events in told.items():
        heard: list[dict[str, Any]] = [
            {"type": kind, "at": at, "data": data}
            for kind, at, data in events
            if hooks or kind != "hook"
        ]
        if not heard:
            continue
        zero = min(float(one["data"].get("at", one["at"])) for one in heard)
        for row in waterfall(heard):
            at = zero * 1000 + row.at
            rows.append((at, models.WaterfallRow(turn=id, **row.to_json())))
    rows = sorted(rows, key=lambda each: each[0])[:MOST_ROWS]
    first = rows[0][0] if rows else 0.0
    return [row.model_copy(update={"at_ms": round(at - first, 3)}) for at, row in rows]
