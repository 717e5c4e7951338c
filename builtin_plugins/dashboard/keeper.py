"""What is kept of turns: a row for each, written behind the answers, a write a second.

What ran in a turn is told by its events, of which four are heard of each turn. Its hooks are timed
only while somebody looks, or has looked a moment ago: that costs a turn a quarter more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson

from hookgate import STORE, Event, FinishedCall, Host, Principal, SessionKey, StoreError, Turn
from hookgate.kit.tables import tables_of
from hookgate.settings import redact_json
from hookgate.tasks import stop

if TYPE_CHECKING:
    from sqlalchemy import Row

    from hookgate.builtin_plugins.dashboard.models import TurnListParams
    from hookgate.builtin_plugins.dashboard.tables import KeptTurn

PART = "dashboard.turns"
MOST = 2_000
"""So many ended turns are kept, the last ones of all gateways on the store."""
MOST_CALLS = 100
"""So many tool calls are kept of one turn, the first ones."""
MOST_TOLD = 20_000
"""So many events are held of turns that are not written yet."""
MOST_TOLD_OF_ONE = 1_000
MOST_CHARS = 200
"""So much is kept of an id and of a name, which a model makes up as long as it likes."""
MOST_WHY = 1_000
"""So much is kept of a reason or an error."""
LOOKED = 120.0
"""Seconds for which hooks are timed after somebody has looked."""
BATCH_SECONDS = 1.0
"""What has ended within so many seconds is written at once, as many seconds later."""
RETRY_SECONDS = 5.0
TRIMMED = 50
"""The oldest turns go when so many have come."""

_ANYBODYS = frozenset(("chat", "approve", "operate", "read"))
_KEPT_OF = {
    "hook": ("hook", "plugin", "at", "milliseconds", "outcome", "failed"),
    "context": ("tokens", "budget"),
    "usage": ("input_tokens", "output_tokens"),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id", "is_error", "status"),
}
"""What is kept of each event: nothing that anybody has said."""
_ALWAYS = ("context", "usage", "tool_use", "tool_result")
_LISTS = ("degraded", "taint", "plugins", "tools", "calls", "told")


class TurnKeeper:
    """Keeps the last turns of one gateway.

    Args:
        host: The gateway.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        # What has ended since the last write, what had ended before, and what is to be written.
        self._ended: dict[str, tuple[Turn, datetime]] = {}
        self._over: dict[str, tuple[Turn, datetime]] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._told: dict[str, list[Event]] = {}
        self._tellings = 0
        self._until = 0.0
        self._untrimmed = 0
        self._looker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._stack = ExitStack()
        self._tables: Any = None

    async def open(self) -> None:
        """Open the table, and hear of turns.

        Raises:
            StoreError: The table cannot be made.
        """
        host = self._host
        module = "hookgate.builtin_plugins.dashboard.tables"
        self._tables, store = await tables_of(host.get(STORE), "dashboard", module)
        self._records = self._tables.KeptTurn.records(store)
        self._stack.enter_context(
            host.events.subscribe(scopes=_ANYBODYS, types=_ALWAYS, deliver=self._tell)
        )
        self._writer = host.spawn(self._write(), name=PART)

    async def close(self) -> None:
        """Write what has ended, and hear of nothing more."""
        self._stack.close()
        await stop(self._writer)
        await self._flush(every=True)

    # -- what comes in -----------------------------------------------------------

    def end(self, turn: Turn) -> None:
        """Keep an ended turn; it is written in a moment."""
        self._ended[turn.id] = turn, self._host.clock.now()
        self._wake.set()

    def _tell(self, event: Event) -> None:
        """Hold what an event tells of a turn."""
        if not event.turn:
            return
        told = self._told.setdefault(event.turn, [])
        if len(told) < MOST_TOLD_OF_ONE:
            told.append(event)
            self._tellings += 1
            while self._tellings > MOST_TOLD:
                self._tellings -= len(self._told.pop(next(iter(self._told))))

    def look(self) -> None:
        """Time hooks of turns for `LOOKED` seconds from now on."""
        self._until = monotonic() + LOOKED
        if self._looker is None or self._looker.done():
            self._looker = self._host.spawn(self._time_hooks(), name="dashboard.hooks")

    async def _time_hooks(self) -> None:
        subscribe = self._host.events.subscribe
        with subscribe(scopes=_ANYBODYS, types=("hook",), deliver=self._tell, spans=True):
            while (left := self._until - monotonic()) > 0:  # noqa: ASYNC110 - it is a time
                await asyncio.sleep(left)

    # -- writing -----------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(BATCH_SECONDS)
            if not await self._flush():
                await asyncio.sleep(RETRY_SECONDS)
            if self._ended or self._over or self._rows:
                self._wake.set()

    async def _flush(self, *, every: bool = False) -> bool:
        """Write what had ended by the last time, or everything; whether that went well.

        What follows an answer is told of in the second between.
        """
        if self._keeping is not None:
            # What is being written is, whoever waits for it: it must not be written twice.
            await asyncio.gather(self._keeping, return_exceptions=True)
        over, self._over, self._ended = self._over, self._ended, {}
        if every:
            over, self._over = over | self._over, {}
        for id, (turn, now) in over.items():
            self._rows[id] = self._row(turn, now)
            self._tellings -= len(self._told.pop(id, ()))
        while len(self._rows) > MOST:
            # They would be the first to go.
            del self._rows[next(iter(self._rows))]
        rows = list(self._rows.values())
        if not rows:
            return True
        standing = self._host.standing(PART)
        try:
            self._keeping = asyncio.create_task(self._keep(rows), name="dashboard.keep")
            await asyncio.shield(self._keeping)
            self._untrimmed += len(rows)
            if self._untrimmed >= TRIMMED:
                await self._tables.trim(self._records.store, MOST)
                self._untrimmed = 0
        except StoreError as error:
            standing.bad(f"turns cannot be kept for `turns list`, and are tried again: {error}")
            return False
        standing.good()
        return True

    async def _keep(self, rows: Sequence[Mapping[str, Any]]) -> None:
        # Nobody waits for them: they go with what others write, and cost no commit.
        await self._tables.keep(self._records.store, rows)
        for row in rows:
            self._rows.pop(row["id"], None)

    # -- reading -----------------------------------------------------------------

    def here(self) -> Iterator[KeptTurn]:
        """Yield the turns that run here, and those that have ended and are not written yet."""
        now = self._host.clock.now()
        made, ended = self._tables.KeptTurn.model_construct, self._over | self._ended
        for row in self._rows.values():
            yield made(**row)
        for turn, at in ended.values():
            yield made(**self._row(turn, at))
        for turn in self._host.running():
            # A tool call without a model has no message, and is no turn to anybody.
            told = turn.messages or turn.message.text
            if told and not turn.ending and turn.id not in ended:
                yield made(**self._row(turn, now))

    async def get(self, id: str) -> KeptTurn | None:
        """Return a turn; None where none of this id is kept.

        Raises:
            StoreError: It cannot be read.
        """
        here = next((turn for turn in self.here() if turn.id == id), None)
        found: KeptTurn | None = here or await self._records.get(id)
        return found

    async def page(
        self, params: TurnListParams, principal: Principal, count: int
    ) -> list[KeptTurn]:
        """Return so many of the turns in the store, those that began last first.

        Raises:
            StoreError: They cannot be read.
        """
        if params.ending == "running":
            return []
        c = self._records.c
        where = [
            column == value
            for column, value in (
                (c.own, params.session),
                (c.agent, params.agent),
                (c.ending, params.ending),
                (c.root, params.root),
            )
            if value
        ]
        if params.slower:
            where.append(c.milliseconds >= params.slower)
        if params.tainted is not None:
            where.append(c.tainted == params.tainted)
        if params.denied is not None:
            where.append(c.denied > 0 if params.denied else c.denied == 0)
        if params.plugin:
            where.append(self._tables.names(c.plugins, params.plugin))
        found: list[KeptTurn] = await self._records.page(
            *where,
            by=(c.place,),
            after=(params.before,) if params.before else None,
            limit=count,
            principal=principal,
        )
        return found

    async def ended(self, since: datetime, principal: Principal) -> list[KeptTurn | Row[Any]]:
        """Return the turns that began since then and have ended, those that began last first.

        Raises:
            StoreError: They cannot be read.
        """
        first = since.astimezone(UTC).isoformat(timespec="microseconds")
        mine: dict[str, KeptTurn | Row[Any]] = {
            turn.id: turn
            for turn in self.here()
            if turn.ending != "running" and turn.place >= first and principal.sees(turn.session)
        }
        for row in await self._tables.ended(self._records, first, principal, MOST):
            mine.setdefault(row.id, row)
        return sorted(mine.values(), key=lambda turn: turn.started, reverse=True)

    # -- a row -------------------------------------------------------------------

    def _row(self, turn: Turn, now: datetime) -> dict[str, Any]:
        """Return what is kept of `turn` as it is."""
        error, usage, root, finished = turn.error, turn.usage, turn.root, turn.calls
        at = root.address
        started = turn.started.astimezone(UTC)
        taint = sorted([_text(each) for each in turn.taint])
        values: Mapping[str, Any] = {
            "id": turn.id,
            "place": f"{started.isoformat(timespec='microseconds')}/{turn.id}",
            "root": root.id,
            "parent": turn.parent.id if turn.parent else "",
            "session": str(SessionKey(root.agent.name, at.channel, at.account, at.peer)),
            "own": str(turn.session),
            "agent": turn.agent.name,
            "principal": _text(turn.principal.id),
            "path": turn.origin.path,
            "started": started.isoformat(timespec="milliseconds"),
            "milliseconds": (now - turn.started).total_seconds() * 1000,
            "ending": turn.ending or "running",
            "code": error.code if error else "",
            "message": _text(str(error), MOST_WHY) if error else "",
            "action": _text(error.action, MOST_WHY) if error else "",
            "degraded": list(turn.degraded),
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "taint": taint,
            "tainted": bool(taint),
            "called": len(finished),
            "denied": 0,
            "plugins": (),
            "tools": (),
            "calls": (),
            "told": [_telling(event) for event in self._told.get(turn.id, ())],
            **(_calls(turn, finished) if finished else {}),
        }
        secrets = self._host.secrets
        whole = orjson.dumps(values).decode()
        if secrets.redact(whole) != whole:
            values = redact_json(secrets, values)
        lists = {name: orjson.dumps(values[name]).decode() for name in _LISTS}
        return {**values, **lists}


def _calls(turn: Turn, finished: list[FinishedCall]) -> dict[str, Any]:
    """Return what is kept of the tool calls of a turn."""
    asked = {use.id: message.taint for message in turn.messages for use in message.tool_uses}
    # A call that a tool has made was asked for by whoever asked for the tool's.
    calls = [
        _call(one, asked.get(one.call.id) or asked.get(one.call.within, ()))
        for one in finished[:MOST_CALLS]
    ]
    return {
        "denied": sum(one.result.status == "denied" for one in finished),
        "plugins": sorted({name for call in calls for name in (call["plugin"], call["by"])}),
        "tools": [call["name"] for call in calls],
        "calls": calls,
    }


def _call(finished: FinishedCall, read: Any) -> dict[str, Any]:
    call, decision = finished.call, finished.decision
    return {
        "id": _text(call.id),
        "name": _text(call.name),
        "plugin": call.tool.plugin,
        "within": _text(call.within),
        "status": finished.result.status,
        "effect": decision.effect.word,
        "by": decision.by,
        "rule": _text(decision.rule),
        "reason": _text(decision.reason, MOST_WHY),
        "read": sorted([_text(each) for each in read]),
        "brought": sorted([_text(each) for each in finished.result.taint]),
    }


def _telling(event: Event) -> tuple[str, float, dict[str, Any]]:
    data = event.data
    kept = {name: data.get(name) for name in _KEPT_OF[event.type]}
    if "within" in data:
        kept["within"] = data["within"]
    for name, value in kept.items():
        # Most are as they may be, and there are many of them.
        if type(value) is str and (len(value) > MOST_CHARS or not value.isprintable()):
            kept[name] = _text(value)
    if event.type == "tool_result":
        kept["content"] = kept["status"]
    return event.type, event.at, kept


def _text(text: str, most: int = MOST_CHARS) -> str:
    """Return the beginning of a text, as every database takes it."""
    text = text[:most]
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    )
