"""The plugin ``metering``: counts every model call, and holds calls to budgets and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from hookgate import (
    BILLS,
    BUDGETS,
    SIGNALS,
    STORE,
    Ending,
    Host,
    ModelRequest,
    Operation,
    Refusal,
    StartError,
    StoreError,
    StoreUnavailableError,
    Turn,
    Usage,
    new_id,
    operations_of,
)
from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.calls import CALL, INSTRUMENTS, LedgerRow, call_fields
from hookgate.builtin_plugins.metering.gate import Gate
from hookgate.builtin_plugins.metering.ledger import Ledger
from hookgate.builtin_plugins.metering.limits import Ruling, SessionGuard
from hookgate.builtin_plugins.metering.operations.budgets import BudgetOperations
from hookgate.builtin_plugins.metering.operations.prices import PriceOperations
from hookgate.builtin_plugins.metering.operations.usage import CallOperations, UsageOperations
from hookgate.builtin_plugins.metering.prices import Prices
from hookgate.builtin_plugins.metering.settings import MeteringSettings
from hookgate.hookspecs import hookimpl
from hookgate.kit.tables import tables_of
from hookgate.kit.tokens.bills import UsageBills
from hookgate.tasks import stop

PART = "metering.ledger"
COUNTERS = "metering.budgets"
PACKAGE = "hookgate.builtin_plugins.metering"
MOST_FORGOTTEN = 100
"""So often old counters are deleted at one time, some hundred each."""
TIDY_SECONDS = 60.0
"""From one look at windows that are over to the next."""
LATE_SECONDS = 1.0


class Plugin:
    """Meters every model call, whoever makes it."""

    Settings = MeteringSettings
    provides = (BILLS, BUDGETS)

    def __init__(self, settings: MeteringSettings) -> None:
        self._settings = settings
        self._ruling = Ruling(settings)
        self._guard = SessionGuard(settings.guard)
        self._prices = Prices(settings.prices, settings.unknown)
        self._gate: Gate | None = None
        self._budget_operations = BudgetOperations(self._ruling)
        self._usage_operations = UsageOperations()

    def take_settings(self, settings: MeteringSettings) -> Collection[str]:
        """Take over changed settings; calls that run are settled as they began."""
        self._settings = settings
        self._ruling.take(settings)
        self._guard.settings = settings.guard
        self._prices.take(settings.prices, settings.unknown)
        return ()

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Open the ledger and the counters; write and give back everything before closing."""
        provided, gateway = host.get(STORE), new_id("gateway")
        # Asked when a call comes: plugins describe their providers once all have opened.
        self._prices.local = lambda name: name in host.described and host.described[name].local
        _, store = await tables_of(provided, "metering", f"{PACKAGE}.tables")
        # They bring SQLAlchemy with them, as the tables do: it is not loaded on the event loop.
        from hookgate.builtin_plugins.metering.budgets.engine import Budgets
        from hookgate.builtin_plugins.metering.ledger import Ledger, Reports, Rollup

        if provided is None:
            host.standing(PART).bad(
                "no plugin provides a store: what calls cost is kept in memory and lost when the "
                "gateway stops (enable the plugin `storage`)"
            )
        ledger = Ledger(
            store,
            writer=gateway,
            failed=lambda error: host.standing(PART).bad(
                f"what a call has cost could not be recorded, and is tried again: {error}"
            ),
            worked=lambda: host.standing(PART).good(),
            wrote=lambda calls: budgets.recorded(calls),
        )
        budgets = Budgets(
            store,
            host.clock,
            host.get(SIGNALS),
            gateway=gateway,
            tell=host.standing(COUNTERS).bad,
            lost=lambda rows: _lost(host, rows),
        )
        self._usage_operations.reports = Reports(ledger)
        rollup = Rollup(
            store,
            failed=lambda error: host.log.warning(
                "calls could not be added to sums; reports read them one by one", error=str(error)
            ),
        )
        host.instruments.apply("metering", INSTRUMENTS)
        host.provide(BILLS, UsageBills(host))
        host.provide(BUDGETS, self._budget_operations)
        await self._ruling.open(host, durable=store.durable)
        await _opened(budgets)
        self._budget_operations.budgets = budgets
        self._gate = Gate(host, self._ruling, self._guard, budgets, self._prices, ledger)
        tasks = [host.spawn(self._tidy(host, budgets, ledger), name="metering.tidy")]
        if provided is not None:
            tasks.append(host.spawn(rollup.run(), name="metering.sums"))
        try:
            yield
        finally:
            await stop(*tasks)
            self._gate = self._budget_operations.budgets = self._usage_operations.reports = None
            self._ruling.close()
            # First: what a call has used is settled once its row is in the ledger.
            await ledger.close()
            await budgets.close()

    async def _tidy(self, host: Host, budgets: Budgets, ledger: Ledger) -> None:
        # Prices take a third of a second: a command that is soon done needs none.
        await host.started()
        await asyncio.sleep(LATE_SECONDS)
        await self._prices.load()
        while True:
            try:
                self._opened.tidy()
                await self._forget(host, budgets)
                await ledger.trim()
            except StoreError as error:
                host.log.warning("metering cannot tidy up", error=str(error))
            await asyncio.sleep(TIDY_SECONDS)

    async def _forget(self, host: Host, budgets: Budgets) -> None:
        """Delete counters of windows that are long over; those of minutes are no use to anybody."""
        now, keep = host.clock.now(), timedelta(days=self._settings.keep_days)
        for kind, kept in (("minute:", timedelta(hours=1)), ("", keep)):
            for _ in range(MOST_FORGOTTEN):
                if not await budgets.forget(now - kept, kind=kind):
                    break

    # -- calls -------------------------------------------------------------

    @hookimpl(trylast=True)
    async def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest | None:
        """Ask for less output, or a cheaper model, where the budgets have no room for the call."""
        return await self._opened.fitting(turn, request)

    @hookimpl
    async def before_model_call(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        """Reserve the worst case of the call, or refuse it."""
        return await self._opened.admit(turn, request)

    @hookimpl
    def after_model_call(
        self, turn: Turn, request: ModelRequest, ending: Ending, usage: Usage | None
    ) -> None:
        """Charge what the call has used, and hand its row to the ledger."""
        self._opened.settle(turn, request, ending, usage)

    @hookimpl
    async def turn_ended(self, turn: Turn) -> None:
        """Let no client hear of the end before what it has cost is written down."""
        await self._opened.ledger.committed(turn.id)

    @hookimpl
    def after_turn(self, turn: Turn) -> None:
        """Let go of what was counted for the turn alone."""
        self._opened.forget(turn)

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring what shows usage and prices, and what sets budgets."""
        usage = self._usage_operations
        return operations_of(
            self._budget_operations,
            usage,
            CallOperations(usage),
            PriceOperations(self._prices, host),
        )

    @property
    def _opened(self) -> Gate:
        assert self._gate is not None, "a turn runs while the gateway is open"
        return self._gate


async def _opened(budgets: Budgets) -> None:
    try:
        await budgets.open()
    except StoreUnavailableError as error:
        raise StartError(
            f"what calls cost cannot be written: {error}. Make room on the disk of the store "
            "(`[plugin.storage]`, else below `home`), or mend what else keeps it from being "
            "written, and start again"
        ) from error


def _lost(host: Host, rows: Sequence[Mapping[str, Any]]) -> None:
    """Say which calls a crash has cut off."""
    for row in rows:
        host.metric(CALL, **call_fields(LedgerRow.from_row(row)))
    host.log.warning(
        "a gateway has stopped amid model calls; each is charged the most that it could have used",
        calls=len(rows),
    )
