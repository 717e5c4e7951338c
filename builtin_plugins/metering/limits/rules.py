"""Which budgets and limits a model call falls under, and which window of each.

A counter is one rule for one subject in one window; its key is
``NAME.UNIT/SCOPE:SUBJECT/WINDOW``, such as ``daily.tokens/agent:main/day:2026-11-22``. The window
is part of it, so that a call is settled in the window in which it was reserved, whatever the clock
says by then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

from hookgate import ModelRequest, Provenance, Turn, key_text
from hookgate.builtin_plugins.metering.calls import MOST_CHARACTERS, plugin_of, tool_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.metering.settings import (
        BudgetSettings,
        LimitSettings,
        Over,
        Scope,
    )

PICO = 10**12
"""Units of money in a dollar."""

Unit: TypeAlias = Literal["tokens", "usd", "requests", "parallel"]
Span: TypeAlias = Literal["turn", "minute", "day", "month", "now"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
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

    def covers(self, subject: str) -> bool:
        """Whether it is for the calls of `subject`."""
        return self.of == "*" or fnmatchcase(subject, self.of)


def budget_rules(name: str, budget: BudgetSettings) -> Iterator[Rule]:
    """Yield the rules of a budget, one for each unit."""
    limits: tuple[tuple[Unit, int | None], ...] = (
        ("tokens", budget.tokens),
        ("usd", None if budget.usd is None else int(budget.usd * PICO)),
    )
    for unit, limit in limits:
        if limit is not None:
            yield Rule(
                name=name,
                scope=budget.scope,
                of=budget.of,
                unit=unit,
                window=budget.window,
                limit=limit,
                warn_at=budget.warn_at,
                over=budget.over,
            )


def limit_rules(name: str, given: LimitSettings) -> Iterator[Rule]:
    """Yield the rules of a limit, one for each unit."""
    limits: tuple[tuple[Unit, Span, int | None], ...] = (
        ("requests", "minute", given.requests),
        ("tokens", "minute", given.tokens),
        ("parallel", "now", given.parallel),
    )
    for unit, window, limit in limits:
        if limit is not None:
            yield Rule(
                name=name, scope=given.scope, of=given.of, unit=unit, window=window, limit=limit
            )


def subjects(turn: Turn, request: ModelRequest) -> Mapping[Scope, str]:
    """Return whose call this is, by scope.

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
    if plugin := plugin_of(request):
        found["plugin"] = plugin
    if root.origin.provenance is Provenance.SCHEDULED:
        found["heartbeat"] = root.origin.path or "scheduled"
    return found


def window_id(window: Span, now: datetime, turn: str) -> str:
    """Return the name of the window that `now` lies in; days and months are those of UTC."""
    moment = now.astimezone(UTC)
    match window:
        case "turn":
            return f"turn:{turn}"
        case "minute":
            return f"minute:{moment:%Y-%m-%dT%H:%M}"
        case "day":
            return f"day:{moment:%Y-%m-%d}"
        case "month":
            return f"month:{moment:%Y-%m}"
        case "now":
            return "now"


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


def counter_key(rule: Rule, subject: str, now: datetime, turn: str) -> str:
    """Return the key of the counter of `rule` for `subject`, in the window of `now`."""
    window = window_id(rule.window, now, turn)
    return f"{rule.name}.{rule.unit}/{rule.scope}:{_quoted(subject)}/{window}"


@lru_cache(maxsize=4096)
def _quoted(subject: str) -> str:
    name = quote(subject, safe=" @.+-_~#*:", errors="surrogatepass")
    if len(name) > MOST_CHARACTERS:
        # A key that no index takes would fail what others lease with it. No quoted text has `%~`.
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        return f"{name[:MOST_CHARACTERS]}%~{digest}"
    return name
