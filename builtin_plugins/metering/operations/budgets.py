"""The operations of budgets: showing, setting, raising and explaining them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

from pydantic import Field

from hookgate import (
    POSITIONAL,
    Invocation,
    NotAllowedError,
    SessionKey,
    StoreError,
    Turn,
    TurnError,
    key_text,
    operation,
)
from hookgate.builtin_plugins.metering.budgets.windows import CounterStanding
from hookgate.builtin_plugins.metering.calls import PICO
from hookgate.builtin_plugins.metering.limits import (
    MOST_RAISES,
    LimitRule,
    Ruling,
    Set,
    amount_text,
    counts_in,
    own_rules,
    subjects,
    until,
    window_id,
)
from hookgate.builtin_plugins.metering.settings import NAME, Budget, BudgetSettings, Scope
from hookgate.kit.modules import on_demand
from hookgate.ports import RateLeft

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.operations import budget_models
else:
    budget_models = on_demand("hookgate.builtin_plugins.metering.operations.budget_models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.budgets.engine import Budgets


class SetParams(Budget):
    """A budget as it is to be."""

    name: str = Field(pattern=NAME)
    """Its name. One of the settings that has it counts no more."""


def _whose(params: budget_models.ExplainParams) -> dict[Scope, str]:
    """Return whose call is meant, by scope."""
    whose: dict[Scope, str] = {"global": "*"}
    if params.session:
        try:
            session = SessionKey.parse(params.session)
        except ValueError as error:
            raise TurnError.invalid(error, "take it from `hookgate sessions`") from error
        whose |= {
            "agent": session.agent,
            "channel": session.channel,
            "account": key_text(session.channel, session.account),
        }
    named: dict[Scope, str] = {
        scope: getattr(params, scope) for scope in get_args(Scope) if scope != "global"
    }
    return whose | {scope: subject for scope, subject in named.items() if subject}


def _amounts(
    rule: LimitRule, key: str, used: int, limit: int, one: CounterStanding
) -> dict[str, str]:
    return {
        "key": key,
        "used": amount_text(used, rule.unit, name=False),
        "held": amount_text(one.held, rule.unit, name=False),
        "limit": amount_text(limit, rule.unit),
    }


def _unknown(
    name: str, names: Iterable[str], action: str = "take one of these", what: str = "budget"
) -> TurnError:
    known = ", ".join(sorted(names)) or "none"
    message = f"no {what} is called {name!r}: there is {known}"
    return TurnError(message, code="not_found", action=action)


class _Wanted(NamedTuple):
    """Which counters of a budget are shown."""

    subject: str
    share: float
    limit: int

    def of(self, counters: Iterable[budget_models.CounterRow]) -> list[budget_models.CounterRow]:
        """Return those, the fullest first."""
        found = [
            one
            for one in counters
            if one.share >= self.share and self.subject in one.key.split("/", 2)[1].casefold()
        ]
        return sorted(found, key=lambda one: (-one.share, one.key))[: self.limit]


class BudgetOperations:
    """Budgets and limits of model calls: show, explain, set, raise them.

    It is the `BUDGETS` of other plugins, too.
    """

    def __init__(self, ruling: Ruling) -> None:
        self._ruling = ruling
        self.budgets: Budgets | None = None

    @operation("budgets.show", rest=("GET", "/v1/budgets"))
    async def show(
        self,
        invocation: Invocation,
        name: Annotated[str, POSITIONAL] = "",
        subject: Annotated[str, Field(max_length=400)] = "",
        share: Annotated[float, Field(ge=0)] = 0.0,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 10,
    ) -> budget_models.BudgetRows:
        """Show the budgets and limits, and how far each is used: the fullest first.

        Args:
            name: One budget or limit; all where it is empty.
            subject: Only those whose session, agent or whatever it is for holds this text.
            share: Only what is used at least so far; 0.8 is four fifths.
            limit: How many of each budget.

        Examples:
            hookgate budgets show daily
            hookgate budgets show --subject ann --share 0.8
        """
        self._allowed(invocation)
        rules = [rule for rule in self._ruling.rules if name in ("", rule.name)]
        if name and not rules:
            raise _unknown(name, {rule.name for rule in self._ruling.rules})
        now = invocation.host.clock.now()
        windows = {window_id(rule.window, now, "") for rule in rules} - {"turn:"}
        standings = await self._open.standings(windows) if windows else {}
        wanted = _Wanted(subject.casefold(), share, limit)
        return budget_models.BudgetRows(
            budgets=[self._row(rule, standings, now, wanted) for rule in rules],
            paused=dict(self._ruling.set.paused),
        )

    def names(self) -> Collection[str]:
        """Return the names of all that holds now."""
        return {rule.name for rule in self._ruling.rules}

    async def left(self, turn: Turn, names: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """Return what is left of some for a turn, as `hookgate.ports.BudgetView` says."""
        counted = self._ruling.counters(subjects(turn), self._ruling.now(), turn.root.id)
        pairs = [(rule, key) for rule, key in counted if rule.name in names]
        standings = await self._open.standing([key for _, key in pairs]) if pairs else {}
        found: dict[str, dict[str, float]] = {}
        for rule, key in pairs:
            used, limit = self._used(rule, key, standings[key])
            left = max(limit - used - standings[key].held, 0)
            units = found.setdefault(rule.name, {"left": 1.0})
            units["left"] = min(units["left"], left / limit if limit else 0.0)
            units[rule.unit] = left / PICO if rule.unit == "usd" else left
        return found

    async def rates(self, turn: Turn) -> Sequence[RateLeft]:
        """Return what is left of rates, as `hookgate.ports.BudgetView` says."""
        now = self._ruling.now()
        try:
            own = own_rules(turn.root.principal)
        except (TypeError, ValueError) as error:
            raise StoreError(f"what the key may use cannot be read: {error}") from error
        counted = self._ruling.counters(subjects(turn), now, turn.root.id, own)
        pairs = [(rule, key) for rule, key in counted if rule.window == "minute"]
        standings = await self._open.standing([key for _, key in pairs]) if pairs else {}
        found: dict[str, RateLeft] = {}
        for rule, key in pairs:
            used, limit = self._used(rule, key, standings[key])
            left = max(limit - used - standings[key].held, 0)
            if rule.unit not in found or left < found[rule.unit].left:
                ends = until(rule.window, now) or 0.0
                found[rule.unit] = RateLeft(rule.unit, limit, left, ends)
        return list(found.values())

    def _allowed(self, invocation: Invocation) -> None:
        if not invocation.principal.sees_all:
            raise NotAllowedError(
                f"{invocation.principal.id} sees some sessions only, and budgets tell of all",
                action="use a token without bindings, or ask an operator",
            )

    def _row(
        self,
        rule: LimitRule,
        standings: Mapping[str, CounterStanding],
        now: datetime,
        wanted: _Wanted,
    ) -> budget_models.BudgetRow:
        # A budget that was set anew may have had another scope or window.
        own = {key: one for key, one in standings.items() if counts_in(rule, key, now)}
        counters = [self._counter(rule, key, one) for key, one in own.items()]
        return budget_models.BudgetRow.of_record(
            rule,
            window={"minute": "a minute", "now": "at one time"}.get(rule.window, rule.window),
            limit=amount_text(rule.limit, rule.unit),
            source="operator" if self._ruling.set.budgets.get(rule.name) else "settings",
            counters=wanted.of(counters),
            used=len(counters),
            full=sum(one.share >= 1 for one in counters),
        )

    def _counter(self, rule: LimitRule, key: str, one: CounterStanding) -> budget_models.CounterRow:
        used, limit = self._used(rule, key, one)
        return budget_models.CounterRow(
            **_amounts(rule, key, used, limit, one),
            leased=amount_text(one.leased, rule.unit, name=False),
            share=round(used / limit, 4) if limit else 1.0,
        )

    def _used(self, rule: LimitRule, key: str, one: CounterStanding) -> tuple[int, int]:
        """Return how much of a counter is used, and how much it has."""
        return one.settled + one.lost, rule.limit + self._ruling.raised(key)

    @operation("budgets.explain")
    async def explain(
        self, invocation: Invocation, params: budget_models.ExplainParams
    ) -> budget_models.BudgetsExplained:
        """Say which budgets a call would fall under, and what is left of each."""
        self._allowed(invocation)
        whose = _whose(params)
        now = invocation.host.clock.now()
        found = list(self._ruling.counters(whose, now, ""))
        standings = await self._open.standing([key for _, key in found])
        rows = sorted(
            (self._explained(rule, key, standings[key], now) for rule, key in found),
            key=lambda pair: pair[0],
        )
        return budget_models.BudgetsExplained(
            budgets=[row for _, row in rows],
            paused=self._ruling.set.paused.get(params.session, ""),
        )

    def _explained(
        self, rule: LimitRule, key: str, one: CounterStanding, now: datetime
    ) -> tuple[float, budget_models.ExplainRow]:
        used, limit = self._used(rule, key, one)
        left = max(limit - used - one.held, 0)
        then = {
            "refuse": "a call that needs more is refused",
            "fallback": "a call that needs more asks the cheapest model of its plan that fits",
            "ask": "a call that needs more is refused, and operators are asked to raise it",
        }[rule.over]
        if rule.window == "turn":
            then = f"each turn begins anew; {then}"
        elif (seconds := until(rule.window, now)) is not None:
            then = f"{then}; it begins anew in {timedelta(seconds=int(seconds))} h"
        return left / limit if limit else 0.0, budget_models.ExplainRow(
            **_amounts(rule, key, used, limit, one),
            left=amount_text(left, rule.unit, name=False),
            says=then,
        )

    @operation("budgets.set", scope="operate")
    async def set(self, invocation: Invocation, params: SetParams) -> budget_models.Changed:
        """Set a budget for all gateways on the store, until it is removed."""
        try:
            budget = BudgetSettings.model_validate(params.model_dump(exclude={"name"}))
        except ValueError:
            raise TurnError.invalid(
                "found neither `tokens` nor `usd`: nothing would be limited",
                "say how many: `--tokens 100000`, `--usd 5`",
            ) from None

        def change(known: Set) -> dict[str, Any]:
            return {"budgets": {**known.budgets, params.name: budget}}

        what = budget.model_dump(mode="json", exclude_none=True)
        return await self._changed(invocation, change, f"budget {params.name} is set", what)

    @operation("budgets.remove", scope="operate")
    async def remove(self, invocation: Invocation, name: str) -> budget_models.Changed:
        """Let a budget hold no more, one of the settings too.

        Args:
            name: Its name; one of the settings is taken away until it is set again.
        """
        if name not in self._ruling.budgets:
            action = "take one of these names; limits on rates stand in the settings alone"
            raise _unknown(name, self._ruling.budgets, action)
        of_settings = {name: None} if name in self._ruling.settings.budgets else {}

        def change(known: Set) -> dict[str, Any]:
            others = {key: one for key, one in known.budgets.items() if key != name}
            return {"budgets": {**others, **of_settings}}

        done = f"budget {name} holds no more"
        made = await self._changed(invocation, change, done, {})
        for part in list(invocation.host.notices):
            if part.startswith((f"budget {name}.tokens/", f"budget {name}.usd/")):
                invocation.host.standing(part).note("")
        return made

    @operation("budgets.raise", scope="operate")
    async def raise_by(
        self,
        invocation: Invocation,
        key: str,
        more: Annotated[Decimal, Field(gt=0, le=10**15)],
    ) -> budget_models.Changed:
        """Raise one counter until its window is over.

        Args:
            key: The counter, as `budgets show --json` and what operators are told name it.
            more: How much: tokens, or US dollars for a budget of money.
        """
        now = invocation.host.clock.now()
        rules = [rule for rule in self._ruling.rules if counts_in(rule, key, now)]
        if not rules:
            raise TurnError.invalid(
                f"found the counter {key[:400]!r}, expected NAME.UNIT/SCOPE:SUBJECT/WINDOW "
                "of a budget that holds, in its window of now",
                "take it from `hookgate budgets show --json` or `hookgate status`",
            )
        unit = rules[0].unit
        by = int(more * PICO) if unit == "usd" else int(more)
        if by < 1:
            raise TurnError.invalid(
                f"found {more} more {unit}, expected one at least",
                "raise it by a whole number of tokens, or by US dollars",
            )

        def change(known: Set) -> dict[str, Any]:
            raises = {**known.raises, key: known.raises.get(key, 0) + by}
            return {"raises": dict(list(raises.items())[-MOST_RAISES:])}

        done = f"{key} is raised by {amount_text(by, unit)}"
        made = await self._changed(invocation, change, done, {"key": key, "more": str(by)})
        invocation.host.standing(f"budget {key}").note("")
        return made

    @operation("budgets.resume", scope="operate")
    async def resume(self, invocation: Invocation, session: str) -> budget_models.Changed:
        """Let a session that was paused go on.

        Args:
            session: Its key.
        """
        if session not in self._ruling.set.paused:
            raise _unknown(session, self._ruling.set.paused, what="session that is paused")

        def change(known: Set) -> dict[str, Any]:
            return {"paused": {key: why for key, why in known.paused.items() if key != session}}

        done = f"session {session} goes on"
        made = await self._changed(invocation, change, done, {"session": session})
        invocation.host.standing(f"session {session}").note("")
        return made

    async def _changed(
        self, invocation: Invocation, change: Any, done: str, what: Mapping[str, Any]
    ) -> budget_models.Changed:
        await self._ruling.change(change)
        await invocation.host.record(
            "budgets_changed", **{"by": invocation.principal.id, "done": done, **what}
        )
        return budget_models.Changed(budgets=sorted(self._ruling.budgets), done=done)

    @property
    def _open(self) -> Budgets:
        if self.budgets is None:
            raise TurnError("the gateway is not open", action="wait until it has started")
        return self.budgets
