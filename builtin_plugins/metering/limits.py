"""What limits say of a call: the rules, which of them count for it, and what guards them."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from math import ceil
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from pydantic import Field, ValidationError

from hookgate import (
    SWITCHES,
    Host,
    ModelRequest,
    Principal,
    Provenance,
    Refusal,
    Section,
    StoreError,
    Switch,
    Turn,
    key_text,
    set_switch,
)
from hookgate.builtin_plugins.metering.calls import MOST_CHARACTERS, PICO, plugin_of, tool_of
from hookgate.builtin_plugins.metering.settings import (
    BudgetSettings,
    GuardSettings,
    MeteringSettings,
    Over,
    RateSettings,
    Scope,
    Unit,
)

_NAMES: dict[Unit, str] = {"tokens": "tokens", "requests": "requests", "parallel": "at one time"}
Span: TypeAlias = Literal["turn", "minute", "day", "month", "now"]


_EXACT = Context(prec=60)


def dollars(pico: int) -> Decimal:
    """Return units of 1e-12 dollars as dollars, exactly."""
    return Decimal(pico).scaleb(-12, _EXACT)


def amount_text(amount: int, unit: Unit, *, name: bool = True) -> str:
    """Return an amount for people, such as ``99,500 tokens`` or ``$0.0125``.

    Args:
        amount: The amount; of money in units of 1e-12 dollars.
        unit: What it is of.
        name: Whether the unit is named; that of money always is.
    """
    if unit == "usd":
        return f"${dollars(amount).normalize():,f}"
    return f"{amount:,} {_NAMES[unit]}" if name else f"{amount:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """One thing that is limited.

    Attributes:
        name: The name of the budget or limit that it belongs to.
        scope: Whose calls are counted together.
        of: A glob of subjects; each has a counter of its own.
        unit: What is counted; ``usd`` in units of 1e-12 dollars.
        window: How long it is counted; ``now`` is what runs at one time.
        limit: The most.
        warn_at: The share from which operators are told; more than 1 for never.
        over: What becomes of a call that does not fit.
    """

    name: str
    scope: Scope
    of: str
    unit: Unit
    window: Span
    limit: int
    warn_at: float = 2.0
    over: Over = "refuse"

    @property
    def is_rate(self) -> bool:
        """Whether it limits a rate, and is over soon by itself."""
        return self.window in ("minute", "now")

    @property
    def prefix(self) -> str:
        """How the keys of its counters begin."""
        return f"{self.name}.{self.unit}/{self.scope}:"

    def covers(self, subject: str) -> bool:
        """Whether it is for the calls of `subject`."""
        return self.of == "*" or fnmatchcase(subject, self.of)


def rules_of(name: str, given: BudgetSettings | RateSettings) -> Iterator[LimitRule]:
    """Yield the rules of a budget or a limit, one for each unit."""
    budget = given if isinstance(given, BudgetSettings) else None
    for unit in given.units:
        if (limit := getattr(given, unit)) is not None:
            yield LimitRule(
                name=name,
                scope=given.scope,
                of=given.of,
                unit=unit,
                window=budget.window if budget else "now" if unit == "parallel" else "minute",
                limit=int(limit * PICO) if unit == "usd" else limit,
                **budget.model_dump(include={"warn_at", "over"}) if budget else {},
            )


OWN = "~key"
"""The name of the budgets and limits that a key brings itself; none of the settings has it."""


def own_rules(principal: Principal) -> Sequence[LimitRule]:
    """Return the rules that a principal's key brings: its claims `budgets` and `limits`.

    Raises:
        ValueError: They cannot be read, so that nobody knows what it may use.
    """
    claims = principal.claims
    if not ("budgets" in claims or "limits" in claims):
        return ()
    return _own_rules(json.dumps([claims.get("budgets") or [], claims.get("limits") or {}]))


@lru_cache(maxsize=4096)
def _own_rules(claimed: str) -> Sequence[LimitRule]:
    budgets, limits = json.loads(claimed)
    given: list[BudgetSettings | RateSettings] = [
        BudgetSettings.model_validate({**one, "scope": "key", "of": "*"}) for one in budgets
    ]
    if limits:
        given.append(RateSettings.model_validate({**limits, "scope": "key", "of": "*"}))
    # Each counter once: of two for one window the lesser counts.
    found: dict[tuple[Unit, Span], LimitRule] = {}
    for rule in (rule for one in given for rule in rules_of(OWN, one)):
        known = found.get((rule.unit, rule.window))
        if known is None or rule.limit < known.limit:
            found[rule.unit, rule.window] = rule
    return tuple(found.values())


def subjects(turn: Turn, request: ModelRequest | None = None) -> Mapping[Scope, str]:
    """Return whose call this is, by scope; without a request, whose those of the turn are.

    A nested turn spends what belongs to the person, session, channel and schedule that the turn
    was started by which a message from outside has started; the agent is its own.
    """
    root = turn.root
    address = root.address
    found: dict[Scope, str] = {
        "global": "*",
        "agent": turn.agent.name,
        "channel": address.channel,
        "account": key_text(address.channel, address.account),
        "key": root.principal.key or root.principal.id,
        "session": str(root.session),
    }
    if tool := tool_of(turn):
        found["tool"] = tool
    if request is not None and (plugin := plugin_of(request)):
        found["plugin"] = plugin
    if root.origin.provenance is Provenance.SCHEDULED:
        found["heartbeat"] = root.origin.path or "scheduled"
    return found


_FORMS = {"minute": "%Y-%m-%dT%H:%M", "day": "%Y-%m-%d", "month": "%Y-%m"}


def window_id(window: Span, now: datetime, turn: str) -> str:
    """Return the name of the window that `now` lies in; days and months are those of UTC."""
    if form := _FORMS.get(window):
        return f"{window}:{now.astimezone(UTC):{form}}"
    return f"turn:{turn}" if window == "turn" else window


def until(window: Span, now: datetime) -> float | None:
    """Return the seconds until the window is over; None where time does not end it."""
    moment = now.astimezone(UTC)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match window:
        case "minute":
            end = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        case "day":
            end = day + timedelta(days=1)
        case "month":
            end = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        case _:
            return None
    return (end - moment).total_seconds()


def counter_key(rule: LimitRule, subject: str, now: datetime, turn: str) -> str:
    """Return the key of the counter of `rule` for `subject`, in the window of `now`."""
    return f"{rule.prefix}{_quoted(subject)}/{window_id(rule.window, now, turn)}"


def counts_in(rule: LimitRule, key: str, now: datetime) -> bool:
    """Whether a counter is of `rule`, in its window of `now`; any turn has one."""
    whose, _, window = key.rpartition("/")
    wanted = window_id(rule.window, now, "")
    return whose.startswith(rule.prefix) and (
        window.startswith(wanted) if rule.window == "turn" else window == wanted
    )


@lru_cache(maxsize=4096)
def _quoted(subject: str) -> str:
    name = quote(subject, safe=" @.+-_~#*:", errors="surrogatepass")
    if len(name) > MOST_CHARACTERS:
        # A key that no index takes would fail what others lease with it. No quoted text has `%~`.
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        return f"{name[:MOST_CHARACTERS]}%~{digest}"
    return name


# -- ruling ----------------------------------------------------------------------

# What is limited now: by the settings, and by what operators have set while the gateway runs.
#
# What operators set is a switch of the store, so that all gateways on it go by it within a
# second, and so that it outlives them. A budget that was set has precedence over one of the
# settings that has its name.

SWITCH = "metering"
PART = "metering.switch"
UNSAID = "budgets of the settings"
"""What `status` calls budgets of the settings that others have taken the place of."""
MOST_RAISES = 200
"""Raises that are kept, the newest ones: a switch is small."""


class Set(Section):
    """What operators have set: the value of the switch.

    Attributes:
        budgets: Budgets by name; None for one of the settings that is taken away.
        raises: By how much single counters have been raised, by their keys.
        paused: Why sessions may ask no model, by session.
    """

    budgets: dict[str, BudgetSettings | None] = Field(default_factory=dict)
    raises: dict[str, int] = Field(default_factory=dict)
    paused: dict[str, str] = Field(default_factory=dict)


class Ruling:
    """Holds the rules, and changes what operators set.

    Attributes:
        settings: What the settings say.
        rules: The rules that hold now.
        set: What operators have set.
    """

    def __init__(self, settings: MeteringSettings) -> None:
        self.settings = settings
        self._version = 0
        self._unwatch: Callable[[], None] = lambda: None
        self._tell: Callable[[str], None] = lambda _: None
        self._durable = True
        self.set = Set()
        self.rules: Sequence[LimitRule] = ()
        self.falls_back = False
        self._apply()

    @property
    def budgets(self) -> dict[str, BudgetSettings]:
        """The budgets that hold now, by name."""
        found = {**self.settings.budgets, **self.set.budgets}
        return {name: budget for name, budget in found.items() if budget is not None}

    async def open(self, host: Host, *, durable: bool) -> None:
        """Read what operators have set, and follow it.

        Args:
            host: The gateway.
            durable: Whether counters outlive the gateway.
        """
        self._host, self._durable = host, durable
        self._tell = host.standing(UNSAID).note
        switches = host[SWITCHES]
        self._unwatch = switches.watch(SWITCH, self._heard)
        self._heard(await switches.get(SWITCH))

    def now(self) -> datetime:
        """Return the time by the gateway's clock."""
        return self._host.clock.now()

    def close(self) -> None:
        """Follow it no more."""
        self._unwatch()

    def take(self, settings: MeteringSettings) -> None:
        """Go by other settings."""
        self.settings = settings
        self._apply()

    def counters(
        self, whose: Mapping[Scope, str], now: datetime, turn: str, own: Sequence[LimitRule] = ()
    ) -> Iterator[tuple[LimitRule, str]]:
        """Yield each rule that a call falls under, and the key of its counter.

        Args:
            whose: Whose call it is, by scope.
            now: The time.
            turn: The id of the turn.
            own: The rules that the caller's key brings.
        """
        for rule in (*self.rules, *own):
            subject = whose.get(rule.scope)
            if subject is not None and rule.covers(subject):
                yield rule, counter_key(rule, subject, now, turn)

    def raised(self, key: str) -> int:
        """Return by how much the limit of a counter has been raised."""
        return self.set.raises.get(key, 0)

    def paused(self, session: str) -> Refusal | None:
        """Return the refusal of a session that is paused; None for any other."""
        why = self.set.paused.get(session)
        if why is None:
            return None
        return Refusal(
            code="session_paused",
            message=f"this session is paused: {why}",
            action=f"an operator looks at it and runs `hookgate budgets resume '{session}'`",
        )

    def unkept(self, rules: Sequence[LimitRule]) -> Refusal | None:
        """Return a refusal where one of `rules` would begin anew with each start."""
        if self._durable or self.settings.without_store == "count":
            return None
        for rule in rules:
            if rule.window in ("day", "month"):
                return Refusal(
                    code="budget_unavailable",
                    message=f"the budget `{rule.name}` cannot be kept: there is no durable store",
                    action="mend the store (`hookgate status`), or set "
                    '`[plugin.metering] without_store = "count"` to count in memory',
                )
        return None

    # -- what operators set --------------------------------------------------

    async def change(self, change: Callable[[Set], dict[str, Any]]) -> Set:
        """Change what is set, and return it once it is durable.

        Args:
            change: Returns the fields that are to be others.

        Raises:
            StoreError: It cannot be kept; nothing was changed.
        """

        def made(known: Switch) -> dict[str, Any]:
            before = self._read(known)
            changed = before.model_copy(update=change(before))
            return changed.model_dump(mode="json", exclude_defaults=True)

        kept = await set_switch(self._host[SWITCHES], SWITCH, made)
        self._heard(kept)
        return self._read(kept)

    async def pause(self, session: str, why: str) -> None:
        """Pause a session: here at once, and everywhere where it can be kept."""

        def paused(known: Set) -> dict[str, Any]:
            return {"paused": {**known.paused, session: why}}

        self.set = self.set.model_copy(update=paused(self.set))
        await self.change(paused)

    def _heard(self, switch: Switch) -> None:
        if switch.version < self._version:
            return
        self._version = switch.version
        try:
            self.set = self._read(switch)
        except StoreError as error:
            self._host.standing(PART).bad(str(error))
        else:
            self._host.standing(PART).good()
        self._apply()

    def _read(self, switch: Switch) -> Set:
        try:
            return Set.model_validate(switch.value or {})
        except ValidationError as error:
            raise StoreError(
                f"what operators have set for budgets cannot be read (switch {SWITCH!r}): "
                f"{error.errors()[0]['msg']}"
            ) from error

    def _apply(self) -> None:
        found: list[Any] = []
        for name, budget in sorted(self.budgets.items()):
            found += rules_of(name, budget)
        for name, limit in sorted(self.settings.limits.items()):
            found += rules_of(name, limit)
        self.rules = tuple(found)
        # Whoever writes another limit into the settings would see it in force nowhere.
        here, there = self.settings.budgets, self.set.budgets
        others = [name for name in sorted(here) if there.get(name, here[name]) != here[name]]
        self._tell(
            f"{', '.join(others)}: what `hookgate budgets set` or `remove` said counts; "
            "have the settings say the same, or set it to what they say"
            if others
            else ""
        )
        self.falls_back = any(rule.over == "fallback" for rule in self.rules)


# -- guard -----------------------------------------------------------------------

# Sessions whose turn burns far more than any of theirs has: they are paused until somebody looks.
#
# What a session's turns have used in the last days is kept in memory, and read from the ledger
# when the session is first seen. A turn that has used more than so many times their 95th
# percentile gets no further model call.

SESSIONS = 4096
"""Sessions that are kept in memory; of others the history is read again."""
TURNS = 1000
"""Turns of a session that are looked at, the last ones."""


def percentile(values: Iterable[int], share: float) -> int:
    """Return the least of `values` that `share` of them do not exceed (the nearest rank)."""
    ordered = sorted(values)
    return ordered[max(ceil(len(ordered) * share) - 1, 0)]


@dataclass(slots=True)
class _Burn:
    """What is known of a session.

    Attributes:
        turns: When each of its turns has last asked a model, and the tokens of it, oldest first.
        known: Whether the ledger was asked for them.
    """

    turns: OrderedDict[str, tuple[datetime, int]] = field(default_factory=OrderedDict)
    known: bool = False


class SessionGuard:
    """Knows what the turns of sessions use.

    Attributes:
        settings: When a turn burns too much.
    """

    def __init__(self, settings: GuardSettings) -> None:
        self.settings = settings
        self._burns: OrderedDict[str, _Burn] = OrderedDict()

    def knows(self, session: str) -> bool:
        """Whether the history of a session has been asked for."""
        burn = self._of(session)
        known, burn.known = burn.known, True
        return known

    def recall(self, session: str, turns: Iterable[tuple[str, datetime, int]]) -> None:
        """Take what the ledger has of a session's earlier turns, the oldest first."""
        burn = self._of(session)
        earlier = {turn: (at, used) for turn, at, used in turns if turn not in burn.turns}
        burn.turns = OrderedDict([*earlier.items(), *burn.turns.items()][-TURNS:])

    def add(self, session: str, turn: str, tokens: int, at: datetime) -> None:
        """Count tokens of a turn; several turns of a session may ask models side by side."""
        turns = self._of(session).turns
        turns[turn] = (at, turns.get(turn, (at, 0))[1] + tokens)
        if len(turns) > TURNS:
            turns.popitem(last=False)

    def strange(self, session: str, turn: str, now: datetime) -> str:
        """Say why a turn may not go on, or "".

        Args:
            session: The session.
            turn: The turn that wants to ask a model.
            now: The time.
        """
        turns, settings = self._of(session).turns, self.settings
        used = turns.get(turn, (now, 0))[1]
        if not settings.enabled or used < settings.least_tokens:
            return ""
        recent = [
            tokens
            for one, (at, tokens) in turns.items()
            if one != turn and (now - at).days < settings.days
        ]
        if len(recent) < settings.samples:
            return ""
        usual = percentile(recent, 0.95)
        if used <= settings.times * usual:
            return ""
        return (
            f"this turn has used {used:,} tokens, {settings.times:g} times more than "
            f"19 of 20 of its session's last {len(recent)} turns ({usual:,} tokens)"
        )

    def _of(self, session: str) -> _Burn:
        burn = self._burns.get(session)
        if burn is not None:
            self._burns.move_to_end(session)
            return burn
        burn = self._burns[session] = _Burn()
        if len(self._burns) > SESSIONS:
            self._burns.popitem(last=False)
        return burn
