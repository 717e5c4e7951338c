"""What is limited now: by the settings, and by what operators have set while the gateway runs.

What operators set is a switch of the store, so that all gateways on it go by it within a second,
and so that it outlives them. A budget that was set has precedence over one of the settings that
has its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field, ValidationError

from hookgate import SWITCHES, Host, Refusal, Section, StoreError, Switch
from hookgate.builtin_plugins.metering.limits.rules import Rule, budget_rules, limit_rules
from hookgate.builtin_plugins.metering.settings import BudgetSettings, MeteringSettings

SWITCH = "metering"
PART = "metering.switch"
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
        rules: The rules that hold now.
        set: What operators have set.
    """

    def __init__(self, settings: MeteringSettings) -> None:
        self._settings = settings
        self._version = 0
        self._unwatch: Callable[[], None] = lambda: None
        self._durable = True
        self.set = Set()
        self.rules: Sequence[Rule] = ()
        self.falls_back = False
        self._apply()

    @property
    def budgets(self) -> dict[str, BudgetSettings]:
        """The budgets that hold now, by name."""
        found = {**self._settings.budgets, **self.set.budgets}
        return {name: budget for name, budget in found.items() if budget is not None}

    async def open(self, host: Host, *, durable: bool) -> None:
        """Read what operators have set, and follow it.

        Args:
            host: The gateway.
            durable: Whether counters outlive the gateway.
        """
        self._host, self._durable = host, durable
        switches = host[SWITCHES]
        self._unwatch = switches.watch(SWITCH, self._heard)
        self._heard(await switches.get(SWITCH))

    def close(self) -> None:
        """Follow it no more."""
        self._unwatch()

    def take(self, settings: MeteringSettings) -> None:
        """Go by other settings."""
        self._settings = settings
        self._apply()

    def in_settings(self, name: str) -> bool:
        """Whether the settings have a budget of this name."""
        return name in self._settings.budgets

    def bounded(self, raises: dict[str, int]) -> dict[str, int]:
        """Return the newest of `raises`, as many as are kept."""
        return dict(list(raises.items())[-MOST_RAISES:])

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

    def unkept(self, rules: Sequence[Rule]) -> Refusal | None:
        """Return a refusal where one of `rules` would begin anew with each start."""
        if self._durable or self._settings.without_store == "count":
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

    async def change(self, change: Callable[[Set], Set]) -> Set:
        """Change what is set, and return it once it is durable.

        Raises:
            StoreError: It cannot be kept; nothing was changed.
        """
        switches = self._host[SWITCHES]
        while True:
            known = await switches.get(SWITCH)
            made = change(self._read(known))
            value = made.model_dump(mode="json", exclude_defaults=True)
            kept = await switches.put(SWITCH, value, version=known.version)
            if kept is not None:
                self._heard(kept)
                return made

    async def pause(self, session: str, why: str) -> None:
        """Pause a session: here at once, and everywhere where it can be kept."""
        self.set = self.set.model_copy(update={"paused": {**self.set.paused, session: why}})
        await self.change(
            lambda known: known.model_copy(update={"paused": {**known.paused, session: why}})
        )

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
            found += budget_rules(name, budget)
        for name, limit in sorted(self._settings.limits.items()):
            found += limit_rules(name, limit)
        self.rules = tuple(found)
        self.falls_back = any(rule.over == "fallback" for rule in self.rules)
