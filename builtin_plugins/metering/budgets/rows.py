"""What budgets write to the store, each function one transaction.

Rows are locked in one order everywhere: a gateway's own row, then windows by their keys, then
leases. Whoever changes a window holds its row until the commit, so what is left of it is read
and given out in one step.

A call is open from the exchange that decides it to the one that settles it in its windows. Its row
of the ledger is handed to the store before the latter; so of a gateway that was killed, calls that
are open and in the ledger are charged what that says, and all others that are open the most that
they could have used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, bindparam, delete, exists, insert, or_, select, update

from hookgate.builtin_plugins.metering.budgets.windows import MOST, CounterStanding
from hookgate.builtin_plugins.metering.tables import (
    CALLS,
    GATEWAYS,
    LEASES,
    OPEN,
    WINDOWS,
    written,
)
from hookgate.kit.records.statements import Prepared, PreparedIn, insert_new, upsert

FORGOTTEN = 500
"""So many old windows are deleted at once."""

LOCKED = 500
"""So many windows are locked by one statement: a statement takes so many values and no more."""

SHOWN = 10_000
"""So many windows are shown at once."""


_CHANGED = ("settled", "leased", "lost", "asked")


def _made_or_locked(insert: Any) -> Any:
    """Make a window that is not there yet, lock it, and return it."""
    made = insert(WINDOWS)
    touched = {"touched": made.excluded.touched}
    return made.on_conflict_do_update(index_elements=["key"], set_=touched).returning(
        *(WINDOWS.c[name] for name in ("key", *_CHANGED))
    )


_LOCK = Prepared(_made_or_locked, WINDOWS.c.keys())
_CLOSE = PreparedIn(delete(OPEN), OPEN.c.call, most=8)
_BEAT = Prepared(
    update(GATEWAYS)
    .where(GATEWAYS.c.gateway == bindparam("me"), GATEWAYS.c.beat == bindparam("expected"))
    .values(beat=bindparam("new_beat"))
)
_BEAT_OF = select(GATEWAYS.c.beat).where(GATEWAYS.c.gateway == bindparam("me"))
_CHANGE = Prepared(
    update(WINDOWS)
    .where(WINDOWS.c.key == bindparam("window"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)
_RETURN = Prepared(
    delete(LEASES).where(LEASES.c.gateway == bindparam("me"), LEASES.c.key == bindparam("window"))
)
_OTHERS = select(LEASES.c.key, LEASES.c.answered).where(
    LEASES.c.key.in_(bindparam("keys", expanding=True)),
    LEASES.c.gateway != bindparam("me"),
    LEASES.c.amount > 0,
)
_QUESTIONS = (
    select(WINDOWS.c.key, WINDOWS.c.asked)
    .join(LEASES, LEASES.c.key == WINDOWS.c.key)
    .where(LEASES.c.gateway == bindparam("me"), LEASES.c.answered < WINDOWS.c.asked)
)
_STANDINGS = select(WINDOWS.c.key, WINDOWS.c.settled, WINDOWS.c.leased, WINDOWS.c.lost).where(
    WINDOWS.c.key.in_(bindparam("keys", expanding=True))
)


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a gateway means to do with one window.

    Attributes:
        key: The window.
        lasting: Whether what is settled stays used.
        leased: What the gateway has leased.
        settle: What it has used since it last said so.
        cover: How much of that is taken from the lease.
        give: What it gives back.
        room: What of its lease is there for the calls that are decided.
        spare: What it keeps of it though no call holds it, where none are decided.
        limit: How much the window has; below 0 where no call needs any of it.
        burn: How much it is likely to use soon; None where it leases what is needed alone.
        ask: Whether others are asked to give back, where a call does not fit.
        answered: What it has answered.
    """

    key: str
    lasting: bool
    leased: int
    settle: int = 0
    cover: int = 0
    give: int = 0
    room: int = 0
    spare: int = 0
    limit: int = -1
    burn: int | None = None
    ask: bool = False
    answered: int = 0


class WaitingCall(NamedTuple):
    """A call that waits.

    Attributes:
        needs: What it needs of windows that it holds nothing of yet, by key.
        call: Its id; "" for one that leaves no row.
        held: What it holds of windows that last, in JSON, once it is let in.
        row: Its row of the ledger in JSON, for when nobody writes another one.
    """

    needs: Mapping[str, int]
    call: str = ""
    held: str = ""
    row: str = ""


class LeaseGrant(NamedTuple):
    """What became of a plan.

    Attributes:
        amount: What was leased.
        used: What is used or lost, over all gateways.
        others: What other gateways have leased.
        asked: How often gateways were asked to give back.
        answered: What this gateway has answered.
        heard: Up to which of these all others have answered.
        has_asked: Whether others were asked by this.
    """

    amount: int
    used: int
    others: int
    asked: int
    answered: int
    heard: int
    has_asked: bool = False


@dataclass(slots=True)
class Exchange:
    """One write of a gateway: its beat, its plans, and the calls that begin and end.

    A call is decided over all its windows at once: nothing is leased for one that does not fit one
    of them.

    It is done once: where it cannot be known whether it was committed, the beat that is found
    by the next one tells.

    Attributes:
        me: The gateway.
        expected: The beat that it left last; None where it has none yet.
        beat: The new beat.
        before: The beat of an exchange of which it is not known whether it was committed.
        plans: The plans; of each window that a call needs there is one.
        asked: The calls that are to be let in, in their order.
        closed: The ids of calls whose use is in the plans, or that were never sent.
        at: When it is, in seconds since 1970.
        state: ``done``; ``before`` where nothing was done, since the exchange before was; or
            ``gone`` where others have charged what the gateway had leased. None until it ran.
        grants: What became of each plan.
        admitted: Which of `asked` are let in, and open.
    """

    me: str
    expected: int | None
    beat: int
    before: int | None
    plans: Sequence[Plan]
    asked: Sequence[WaitingCall]
    closed: Sequence[str]
    at: int
    state: Literal["done", "before", "gone"] | None = None
    grants: dict[str, LeaseGrant] = field(default_factory=dict)
    admitted: list[bool] = field(default_factory=list)

    def __call__(self, connection: Connection) -> None:
        """Do it, within a transaction."""
        state = self._beat(connection)
        if state == "done":
            self._settle(connection)
        # Last: what is set says that all of it went well, as far as the commit.
        self.state = state

    def _beat(self, connection: Connection) -> Literal["done", "before", "gone"]:
        if self.expected is None:
            connection.execute(insert(GATEWAYS).values(gateway=self.me, beat=self.beat, opens=True))
            return "done"
        beat = {"me": self.me, "expected": self.expected, "new_beat": self.beat}
        if _BEAT.count(connection, **beat):
            return "done"
        found = connection.execute(_BEAT_OF, {"me": self.me}).scalar()
        return "before" if found is not None and found == self.before else "gone"

    def _settle(self, connection: Connection) -> None:
        plans = sorted(self.plans, key=lambda plan: plan.key)
        found = _lock(connection, plans, self.at)
        steps = {plan.key: _Step(plan, found[plan.key]) for plan in plans}
        self.admitted = [_admit(asked.needs, steps) for asked in self.asked]
        self._change(connection, steps)
        _CLOSE.count(connection, sorted(self.closed))
        rows = [
            {"call": asked.call, "gateway": self.me, "held": asked.held, "row": asked.row}
            for asked, admitted in zip(self.asked, self.admitted, strict=True)
            if asked.call and admitted
        ]
        # Behind what is closed: it may have been open before, when nobody could know it.
        insert_new(connection, OPEN, *rows)

    def _change(self, connection: Connection, steps: Mapping[str, _Step]) -> None:
        changes, leases, returned = [], [], []
        for step in steps.values():
            step.lease()
        short = [key for key, step in steps.items() if step.short and step.others]
        heard = _heard(connection, self.me, short) if short else {}
        for key, step in steps.items():
            grant = self.grants[key] = step.grant(heard.get(key))
            changes.append(
                {
                    "window": key,
                    "new_settled": step.settled,
                    "new_leased": step.others + step.mine,
                    "new_lost": step.row.lost,
                    "new_asked": grant.asked,
                }
            )
            if step.mine:
                row = {"gateway": self.me, "key": key, "amount": step.mine}
                leases.append({**row, "answered": grant.answered})
            else:
                returned.append({"me": self.me, "window": key})
        _CHANGE.run(connection, changes)
        upsert(connection, LEASES, leases)
        _RETURN.run(connection, returned)


class _Step:
    """One plan, and the row of its window."""

    def __init__(self, plan: Plan, row: Any) -> None:
        self.plan = plan
        self.row = row
        self.settled = min(row.settled + plan.settle, MOST)
        self.others = row.leased - plan.leased
        self.kept = plan.leased - plan.cover - plan.give
        self.total = self.settled + row.lost + self.others + self.kept
        self.taken = 0
        self.short = False
        self.leased = 0

    def fits(self, amount: int) -> bool:
        """Whether so much can be leased beside what was taken."""
        if not amount:
            return True
        more = max(self.taken + amount - self.plan.room, 0)
        fits: bool = self.total + more <= self.plan.limit
        self.short = self.short or not fits
        return fits

    def lease(self) -> None:
        """Lease what was taken, and for what is likely to come where nobody comes short."""
        plan = self.plan
        self.leased = max(self.taken - plan.room, 0)
        quiet = self.row.asked <= plan.answered
        if self.leased and not self.short and quiet and plan.burn is not None:
            left = plan.limit - self.total
            # Near the end a tenth of what is left is less than what is needed.
            self.leased = max(self.leased, min(max(plan.burn, left // 100), left // 10))

    @property
    def mine(self) -> int:
        return self.kept + self.leased

    def grant(self, heard: int | None) -> LeaseGrant:
        asked: int = self.row.asked
        asks = bool(self.short and self.others and self.plan.ask)
        asked += asks
        exact = self.plan.room + self.plan.spare + self.leased <= self.taken
        return LeaseGrant(
            amount=self.leased,
            used=self.settled + self.row.lost,
            others=self.others,
            asked=asked,
            # Nothing is leased but what calls hold: there is no more to give back.
            answered=asked if exact else self.plan.answered,
            heard=asked if heard is None else heard,
            has_asked=asks,
        )


def _admit(needs: Mapping[str, int], steps: Mapping[str, _Step]) -> bool:
    """Take what a call needs, of all windows or of none."""
    if not needs.keys() <= steps.keys():
        # What it lacks is in memory alone: nobody else is asked for anything.
        return False
    # All are looked at: others are asked for whatever it comes short of.
    fitting = [steps[key].fits(amount) for key, amount in needs.items()]
    if not all(fitting):
        return False
    for key, amount in needs.items():
        steps[key].taken += amount
    return True


def _lock(connection: Connection, plans: Sequence[Plan], at: int) -> Mapping[str, Any]:
    """Lock the windows of `plans`, in their order, and make those that are not there yet."""
    new = {"settled": 0, "leased": 0, "lost": 0, "asked": 0, "touched": at}
    rows = [{"key": plan.key, "lasting": plan.lasting, **new} for plan in plans]
    return {row.key: row for one in rows for row in _LOCK.rows(connection, **one)}


def _heard(connection: Connection, me: str, keys: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, answered in connection.execute(_OTHERS, {"keys": keys, "me": me}):
        found[key] = min(answered, found.get(key, answered))
    return found


# -- of other gateways ---------------------------------------------------------------


def beats(connection: Connection) -> dict[str, int]:
    """Return the beat of each gateway."""
    query = select(GATEWAYS.c.gateway, GATEWAYS.c.beat)
    return {row.gateway: row.beat for row in connection.execute(query)}


def questions(connection: Connection, me: str) -> dict[str, int]:
    """Return the windows of which `me` was asked to give back, and the number of the question."""
    return {row.key: row.asked for row in connection.execute(_QUESTIONS, {"me": me})}


def sweep(connection: Connection, gateway: str, beat: int) -> list[dict[str, Any]] | None:
    """Charge the calls of a gateway that has stopped, and free the rest of what it had leased.

    Returns:
        The rows of the ledger that were written, of calls that have none of their own; None where
        nothing was done, since it was heard of after all, or another was faster.
    """
    gone = delete(GATEWAYS).where(GATEWAYS.c.gateway == gateway, GATEWAYS.c.beat == beat)
    opens = connection.execute(gone.returning(GATEWAYS.c.opens)).scalar()
    if opens is None:
        return None
    own = LEASES.c.gateway == gateway
    query = select(LEASES.c.key, LEASES.c.amount).where(own)
    leases = {row.key: row.amount for row in connection.execute(query)}
    ended = _Ended(connection, gateway)
    if not opens:
        ended.lost = dict(leases)
    changes = [
        {
            "window": row.key,
            "new_settled": min(row.settled + ended.settled.get(row.key, 0), MOST),
            "new_leased": row.leased - leases.get(row.key, 0),
            "new_lost": min(row.lost + ended.lost.get(row.key, 0) * row.lasting, MOST),
            "new_asked": row.asked,
        }
        for row in _locked(connection, {*leases, *ended.settled, *ended.lost})
    ]
    _CHANGE.run(connection, changes)
    connection.execute(delete(LEASES).where(own))
    connection.execute(delete(OPEN).where(OPEN.c.gateway == gateway))
    if ended.rows:
        written(ended.rows[0]["writer"], ended.rows)(connection)
    return ended.rows


class _Ended:
    """What the open calls of a gateway have used that has stopped.

    Attributes:
        settled: What calls have used that are in the ledger, by window.
        lost: What all others could have used.
        rows: Rows of the ledger for these.
    """

    def __init__(self, connection: Connection, gateway: str) -> None:
        self.settled: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        self.rows: list[dict[str, Any]] = []
        query = (
            select(OPEN.c.held, OPEN.c.row, CALLS.c.windows)
            .join(CALLS, CALLS.c.id == OPEN.c.call, isouter=True)
            .where(OPEN.c.gateway == gateway)
            .order_by(OPEN.c.call)
        )
        for held, row, windows in connection.execute(query):
            into, amounts = (self.lost, held) if windows is None else (self.settled, windows)
            for key, amount in json.loads(amounts or "{}").items():
                into[key] = min(into.get(key, 0) + amount, MOST)
            if windows is None:
                # Numbered by themselves: of the rows of the gateway nobody knows which are missing.
                place = {"writer": f"{gateway}/lost", "seq": len(self.rows) + 1}
                self.rows.append({**json.loads(row), "windows": held, **place})


def _locked(connection: Connection, keys: set[str]) -> Sequence[Any]:
    """Lock the windows of `keys` that are there, in their order, and return them."""
    columns = [WINDOWS.c[name] for name in ("key", "lasting", *_CHANGED)]
    # As Python sorts them: each database has rules of its own for texts.
    order: Any = WINDOWS.c.key
    if connection.dialect.name == "postgresql":
        order = order.collate("C")
    found: list[Any] = []
    left = sorted(keys)
    while left:
        some, left = left[:LOCKED], left[LOCKED:]
        query = select(*columns).where(WINDOWS.c.key.in_(some)).order_by(order).with_for_update()
        found += connection.execute(query)
    return found


def leave(connection: Connection, me: str) -> None:
    """Say that a gateway has stopped, where it has given all back and settled all its calls."""
    left = [exists().where(table.c.gateway == me) for table in (LEASES, OPEN)]
    connection.execute(delete(GATEWAYS).where(GATEWAYS.c.gateway == me, *(~one for one in left)))


# -- of windows ----------------------------------------------------------------------


def standings(connection: Connection, keys: Sequence[str]) -> dict[str, CounterStanding]:
    """Return how the windows stand that are there."""
    rows = connection.execute(_STANDINGS, {"keys": keys})
    return {
        row.key: CounterStanding(settled=row.settled, leased=row.leased, lost=row.lost)
        for row in rows
    }


def keys_of(connection: Connection, ends: Sequence[str]) -> list[str]:
    """Return the keys that end in one of `ends`, so many at most as are shown."""
    fitting = or_(*(WINDOWS.c.key.endswith(end, autoescape=True) for end in ends))
    return list(connection.execute(select(WINDOWS.c.key).where(fitting).limit(SHOWN)).scalars())


def forget(connection: Connection, before: int, kind: str) -> int:
    """Delete some windows that were last written before `before`; return how many."""
    old = select(WINDOWS.c.key).where(WINDOWS.c.touched < before, WINDOWS.c.leased == 0)
    if kind:
        old = old.where(WINDOWS.c.key.contains(f"/{kind}", autoescape=True))
    # Another gateway that forgets at this moment takes others.
    chosen = old.order_by(WINDOWS.c.key).limit(FORGOTTEN).with_for_update(skip_locked=True)
    keys = list(connection.execute(chosen).scalars())
    if keys:
        connection.execute(delete(WINDOWS).where(WINDOWS.c.key.in_(keys)))
    return len(keys)
