"""Every model call, from what is reserved for it to what it is charged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hookgate import (
    Ending,
    Event,
    Host,
    ModelRequest,
    Refusal,
    StoreError,
    StoreUnavailableError,
    Turn,
    Usage,
)
from hookgate.builtin_plugins.metering.budgets.windows import MOST, CallRecord, Hold, Short, Want
from hookgate.builtin_plugins.metering.calls import (
    BUDGET,
    CALL,
    LOST,
    REFUSED,
    LedgerRow,
    Sizing,
    billed,
    call_fields,
    charged,
)
from hookgate.builtin_plugins.metering.limits import (
    OWN,
    LimitRule,
    Ruling,
    SessionGuard,
    amount_text,
    own_rules,
    subjects,
    until,
)
from hookgate.builtin_plugins.metering.prices import Prices, Tariff
from hookgate.builtin_plugins.metering.settings import Unit

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.budgets.engine import Budgets
    from hookgate.builtin_plugins.metering.ledger import Ledger

AMPLE = 4
"""So many times what a call needs are left where it is not looked whether it fits."""


_LOST = Ending(status="cut", sent=True)
"""How a call ended that a crash has cut off, as far as it is charged."""
SOON = 1.0
"""Seconds after which a call is tried again for which there was no place beside others."""
ANSWER_SECONDS = 4.5
"""So long a store may take to reserve: longer than other gateways are waited for (`PATIENCE`),
and less than the hook's own limit, which would only say that metering is slow."""


@dataclass(slots=True)
class _Open:
    """A call between `before_model_call` and `after_model_call`.

    Attributes:
        own: The rules that the key brings which has started the turn.
    """

    tariff: Tariff
    row: LedgerRow
    began: datetime
    own: Sequence[LimitRule]
    bound: int = 0
    wants: Sequence[tuple[LimitRule, Want]] = ()
    hold: Hold | None = None


@dataclass(eq=False)
class Gate:
    """Reserves for calls, settles them, and hands their rows to the ledger.

    Attributes:
        host: The gateway.
        ruling: What is limited now.
        guard: Knows which turn burns too much.
        budgets: Keep the counters.
        prices: Know what models cost.
        ledger: Keeps the rows.
    """

    host: Host
    ruling: Ruling
    guard: SessionGuard
    budgets: Budgets
    prices: Prices
    ledger: Ledger

    def __post_init__(self) -> None:
        self._sizing = Sizing(self.host)
        self._open: dict[str, _Open] = {}
        self._of_turns: dict[str, tuple[Turn, set[str]]] = {}
        self._warned: dict[str, datetime] = {}

    # -- before ------------------------------------------------------------

    async def admit(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        """Reserve the worst case of a call, or say why it may not be made."""
        await self.prices.load()
        now = self.host.clock.now()
        tariff, row = self.prices.of(request.model, now), LedgerRow.of(turn, request, now)
        own = self._own(turn)
        call = self._open[request.call_id] = _Open(tariff, row, now, own or ())
        refusal = await self._unfit(turn, own, now)
        refusal = refusal or await self._reserve(turn, request, call, now)
        if refusal is not None:
            self.host.metric(REFUSED, code=refusal.code)
        return refusal

    async def _unfit(
        self, turn: Turn, own: Sequence[LimitRule] | None, now: datetime
    ) -> Refusal | None:
        """Say why no call of this turn may be made, whatever it takes."""
        if self.ledger.behind:
            return Refusal(
                code="ledger_unavailable",
                message="what calls have cost cannot be recorded: no model is asked meanwhile",
                action="see `hookgate status`; the ledger is written as soon as its store works",
            )
        root = turn.root
        if own is None:
            return Refusal(
                code="budget_unavailable",
                message=f"what the key {root.principal.key!r} may use cannot be read",
                action="its claims are no budgets and limits: see the log of the gateway",
            )
        session = str(root.session)
        if why := self.guard.strange(session, root.id, now):
            await self._pause(session, why)
        return self.ruling.paused(session)

    def _own(self, turn: Turn) -> Sequence[LimitRule] | None:
        """Return what the key that has started a turn is limited to; None where nobody can say."""
        try:
            return own_rules(turn.root.principal)
        except (TypeError, ValueError) as error:
            self.host.log.error("the limits of a key cannot be read", error=str(error))
            return None

    async def _pause(self, session: str, why: str) -> None:
        """Let a session ask no model any more, at any gateway on the store."""
        await self.ruling.pause(session, why)
        self.host.metric("metering.paused")
        self.host.standing(f"session {session}").note(
            f"it is paused: {why}; `hookgate budgets resume '{session}'` lets it go on"
        )

    async def _reserve(
        self, turn: Turn, request: ModelRequest, call: _Open, now: datetime
    ) -> Refusal | None:
        if self.ruling.rules or call.own:
            call.wants = list(self._wanted(turn, request, call.tariff, call.own, now))
            if (refusal := self.ruling.unkept([rule for rule, _ in call.wants])) is not None:
                return refusal
            self._note(turn, call)
        try:
            wants = [want for _, want in call.wants]
            outcome = await self._reserved(wants, self._record(turn, request, call))
        except StoreError as error:
            why = "that this call is made cannot be recorded"
            if call.wants:
                why = "what is left of a budget cannot be known"
            return Refusal(
                code="budget_unavailable" if call.wants else "ledger_unavailable",
                message=f"{why}: {error}",
                action="send it again when the store works; see `hookgate status`",
            )
        if isinstance(outcome, Short):
            return self._short(turn, call, outcome, now)
        call.hold = outcome
        return None

    async def _reserved(
        self, wants: Sequence[Want], record: CallRecord | None = None
    ) -> Hold | Short:
        """Reserve, or say in time that the store does not answer: before the hook's own limit.

        Raises:
            StoreError: It does not work, or has not answered within `ANSWER_SECONDS`.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self.budgets.reserve(wants, record)
        except TimeoutError:
            raise StoreUnavailableError(
                f"the store has not answered within {ANSWER_SECONDS:g} s"
            ) from None

    def _record(self, turn: Turn, request: ModelRequest, call: _Open) -> CallRecord:
        """Return what a crash leaves of a call: a row for the most that it can use."""
        # Bills of others may move what is known by the time that this one ends.
        call.bound = self._bound(request)
        most = Usage(
            input_tokens=call.bound, output_tokens=request.max_output_tokens, reported=False
        )
        row = call.row.ended(_LOST, most, call.tariff, call.began)
        return CallRecord(request.call_id, json.dumps(row._replace(status=LOST).to_row()))

    def _note(self, turn: Turn, call: _Open) -> None:
        """Remember the counters of a turn, which end with it; a refused call makes them, too."""
        keys = [want.key for rule, want in call.wants if rule.window == "turn"]
        if keys:
            self._of_turns.setdefault(turn.root.id, (turn.root, set()))[1].update(keys)

    def forget(self, turn: Turn) -> None:
        """Let go of the counters of a turn that is over."""
        if found := self._of_turns.pop(turn.id, None):
            self.budgets.drop(found[1])

    def _wanted(
        self,
        turn: Turn,
        request: ModelRequest,
        tariff: Tariff,
        own: Sequence[LimitRule],
        now: datetime,
    ) -> Iterator[tuple[LimitRule, Want]]:
        """Yield each rule that the call falls under, and what it needs of it."""
        amounts: dict[Unit, int] = {"requests": 1, "parallel": 1}
        for rule, key in self.ruling.counters(subjects(turn, request), now, turn.root.id, own):
            if rule.unit not in amounts:
                bound, most, plain = self._sizing.of(request)
                amounts["tokens"] = bound + most
                amounts["usd"] = tariff.worst(bound, most, plain=plain)
            # Counters go no further; who raises one past that is not to have no call at all.
            limit = min(rule.limit + self.ruling.raised(key), MOST)
            yield rule, Want(key, limit, min(amounts[rule.unit], MOST), rule.window != "now")

    def _short(self, turn: Turn, call: _Open, short: Short, now: datetime) -> Refusal:
        [rule] = [rule for rule, want in call.wants if want.key == short.want.key]
        window = short.want.key.rsplit("/", 1)[1]
        needed = amount_text(short.want.amount, rule.unit, name=False)
        taken = amount_text(short.used + short.held, rule.unit, name=False)
        limit = amount_text(short.want.limit, rule.unit)
        found = f"{window}: {taken} of {limit}; this call needs up to {needed}"
        if rule.is_rate:
            return Refusal(
                code="rate_limited",
                message=f"rate limit exceeded ({found})",
                action="send it again later: it is the limit of the key"
                if rule.name == OWN
                else f"send it again later: the limit `{rule.name}` is for one "
                f"{rule.scope} at a time",
                # Nobody knows when one of those ends that run; soon, mostly.
                retry_after=until(rule.window, now) or SOON,
            )
        asked = rule.over == "ask"
        if asked:
            self._warned[short.want.key] = now + timedelta(seconds=until(rule.window, now) or 0)
            self.host.standing(f"budget {short.want.key}").note(
                f"{turn.agent.name} needs more than the budget {rule.name} has left: {found}. "
                f"`hookgate budgets raise '{short.want.key}' AMOUNT` lets it go on"
            )
        return Refusal(
            code="budget_exceeded",
            message=f"budget exceeded ({found})",
            action="an operator has been asked for more: send it again when it was raised"
            if asked
            else "it is the key's own budget: operators raise it by `hookgate keys change`"
            if rule.name == OWN
            else f"the budget `{rule.name}` is for each {rule.scope}; `hookgate budgets show` "
            "tells more",
            retry_after=until(rule.window, now),
        )

    # -- less output, or another model ---------------------------------------

    async def fitting(self, turn: Turn, request: ModelRequest) -> ModelRequest | None:
        """Return the request as the budgets have room for it, where it does not fit as it is.

        First less output is asked for; where not even the least of it fits, the cheapest model
        of the plan that does, if the budgets say so.
        """
        own = self._own(turn) or ()
        if not (self.ruling.rules or own):
            return None
        await self.prices.load()
        now = self.host.clock.now()
        fit = await self._fitted(turn, request, now)
        falls_back = self.ruling.falls_back or any(rule.over == "fallback" for rule in own)
        if fit is None and falls_back and request.cause == "turn":
            fit = await self._of_plan(turn, request, now)
        if fit is None or fit is request:
            return None
        if fit.model != request.model:
            self._tell(turn, "fallback", "model_changed", fit, wanted=str(request.model))
        if (wanted := request.max_output_tokens) > (most := fit.max_output_tokens):
            data = {"wanted": wanted, "max_output_tokens": most}
            self._tell(turn, "output_limited", "output_limited", fit, **data)
        return fit

    async def _of_plan(
        self, turn: Turn, request: ModelRequest, now: datetime
    ) -> ModelRequest | None:
        """Return the request to the cheapest other model of the plan that fits."""
        if await self._fitted(turn, request, now, falling=True) is not None:
            # What is short is a budget that no other model helps with.
            return None
        allowed = [one for one in turn.plan.models if turn.principal.may_use_model(one)]
        others = sorted(
            (one for one in allowed if one != request.model),
            key=lambda one: self.prices.of(one, now).worst(
                request.input_tokens, request.max_output_tokens
            ),
        )
        for model in others:
            fit = await self._fitted(turn, replace(request, model=model), now)
            if fit is not None:
                return fit
        return None

    async def _fitted(
        self, turn: Turn, request: ModelRequest, now: datetime, *, falling: bool = False
    ) -> ModelRequest | None:
        """Return the request with as much output as there is room for; None where it is too little.

        Args:
            turn: The turn.
            request: The request.
            now: The time.
            falling: Whether only the budgets count that fall back to another model.
        """
        tariff, own = self.prices.of(request.model, now), self._own(turn) or ()
        while True:
            pairs = [
                (rule, want)
                for rule, want in self._wanted(turn, request, tariff, own, now)
                if rule.unit in ("tokens", "usd") and (rule.over == "fallback" or not falling)
            ]
            wants = [want for _, want in pairs]
            if all(map(self._is_ample, wants)):
                return request
            try:
                # Nothing is sent for it: it is let go of at once, and leaves no trace.
                outcome = await self._reserved(wants)
            except StoreError:
                # Whoever asks next for the same is told why.
                return request
            if isinstance(outcome, Hold):
                self.budgets.settle(outcome, [0] * len(wants))
                return request
            rule = pairs[wants.index(outcome.want)][0]
            less = self._less(turn, request, rule, outcome, tariff)
            if less is None:
                return None
            request = less

    def _is_ample(self, want: Want) -> bool:
        """Whether so much is left of a counter that nobody needs to look at it more closely."""
        used = self.budgets.used(want.key)
        return used > 0 and used + AMPLE * want.amount <= want.limit

    def _less(
        self, turn: Turn, request: ModelRequest, rule: LimitRule, short: Short, tariff: Tariff
    ) -> ModelRequest | None:
        """Return the request with as much output as fits what is short; None where too little."""
        want = short.want
        if rule.is_rate and want.amount <= want.limit:
            # There is room again within the minute: better late than cut.
            return None
        room = want.limit - short.used - short.held
        size, outputs = self._sizing.of(request), self._sizing.outputs
        if rule.unit == "tokens":
            most = room - size.input_tokens
        else:
            most = tariff.output_for(room, size.input_tokens, plain=size.plain)
        if most < outputs.least(turn.agent.name, request):
            return None
        most = min(most, outputs.ample(turn.agent.name, request))
        if most >= request.max_output_tokens:
            return None
        return replace(request, max_output_tokens=most)

    def _tell(self, turn: Turn, metric: str, event: str, fit: ModelRequest, **data: Any) -> None:
        model = str(fit.model)
        self.host.metric(f"metering.{metric}", model=model)
        turn.emit(Event(event, {**data, "model": model, "why": "budget"}, scope="chat"))

    # -- after -------------------------------------------------------------

    def settle(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> LedgerRow | None:
        """Charge a call, give back what it did not need, and hand over its row.

        Returns:
            The row; None where the call never came to `admit`.
        """
        call = self._open.pop(request.call_id, None)
        if call is None:
            return None
        used = self._charged(turn, request, ending, usage, call)
        now = self.host.clock.now()
        amounts = _amounts(call, ending, used) if call.wants else []
        charged_to = {
            want.key: min(amount, MOST)
            for (_, want), amount in zip(call.wants, amounts, strict=True)
            if call.hold is not None and want.lasting and amount > 0
        }
        windows = json.dumps(charged_to) if charged_to else ""
        row = call.row.ended(ending, used, call.tariff, now, windows)
        if call.hold is not None:
            # What was not sent is not charged: it need not be in the ledger before it is closed.
            self.budgets.settle(call.hold, amounts, recorded=not ending.sent)
            self._warn(call, now)
        self.ledger.hand_over(row)
        self.host.metric(CALL, **call_fields(row))
        self._remember(turn, used, now)
        return row

    def _charged(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None, call: _Open
    ) -> Usage:
        """Return what a call is charged, and learn of it where budgets go by what is learned."""
        used = charged(request, ending, usage, lambda: call.bound)
        if not (self.ruling.rules or call.own):
            return used
        with suppress(TypeError, ValueError):
            # Options that no JSON can hold teach nothing; `_bound` has said so.
            if ending.status == "done" and usage is not None and not usage.reported:
                used = self._sizing.recounted(request, used)
            self._sizing.learn(turn, request, ending, used)
        return used

    def _bound(self, request: ModelRequest) -> int:
        try:
            return self._sizing.of(request).input_tokens
        except (TypeError, ValueError) as error:
            # Options that no JSON can hold: the call is over all the same, and leaves its row.
            self.host.log.warning("no bound", model=str(request.model), error=str(error))
            return request.input_tokens

    def _remember(self, turn: Turn, used: Usage, now: datetime) -> None:
        """Count what a session uses; what it has used before is read once, beside the turn."""
        root = turn.root
        session, guard = str(root.session), self.guard
        guard.add(session, root.id, used.total, now)
        if guard.settings.enabled and not guard.knows(session):
            since = now - timedelta(days=guard.settings.days)
            self.host.spawn(self._recall(session, root.id, since), name="metering.recall")

    async def _recall(self, session: str, turn: str, since: datetime) -> None:
        try:
            turns = await self.ledger.turns(session, since)
        except StoreError as error:
            self.host.log.warning("what a session has used cannot be read", error=str(error))
            return
        self.guard.recall(session, [row for row in turns if row[0] != turn])

    def _warn(self, call: _Open, now: datetime) -> None:
        """Tell operators, once a window, that a budget is nearly used up."""
        for rule, want in call.wants:
            if rule.warn_at > 1:
                continue
            used = self.budgets.used(want.key)
            share = used / want.limit if want.limit else 1.0
            self.host.metric(BUDGET, budget=rule.name, share=share)
            if want.key in self._warned or used < rule.warn_at * want.limit:
                continue
            if (left := until(rule.window, now)) is None:
                continue
            self._warned[want.key] = now + timedelta(seconds=left)
            taken = amount_text(used, rule.unit, name=False)
            self.host.standing(f"budget {want.key}").note(
                f"{taken} of {amount_text(want.limit, rule.unit)} are used"
            )
            self.host.metric("metering.warned", budget=rule.name)

    def tidy(self) -> None:
        """Withdraw what was said of windows that are over, and of budgets that hold no more."""
        now = self.host.clock.now()
        holding = {f"{rule.name}.{rule.unit}" for rule in self.ruling.rules}
        for key, end in list(self._warned.items()):
            name = key.partition("/")[0]
            if end <= now or not (name in holding or name.startswith(f"{OWN}.")):
                del self._warned[key]
                self.host.standing(f"budget {key}").note("")
        # What a plugin asks behind the end of a turn makes the turn's counters once more.
        for turn, _ in list(self._of_turns.values()):
            if turn.ending is not None:
                self.forget(turn)


def _amounts(call: _Open, ending: Ending, used: Usage) -> Sequence[int]:
    """Return how much of each of its wants a call has used."""
    by_unit: dict[Unit, int] = {
        "tokens": used.total,
        "usd": call.tariff.cost(used) if billed(ending, used) else 0,
        "requests": int(ending.sent),
        "parallel": 0,
    }
    return [by_unit[rule.unit] for rule, _ in call.wants]
