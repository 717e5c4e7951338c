"""The plugin ``dashboard``: a page at ``/ui``, and the turns that it shows.

It shows and does nothing that the command line cannot: every number and every button is an
operation. The page is files; who uses it logs in as any client does, and sees what they may.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookgate import STORE, Host, Operation, Routes, Turn, operations_of
from hookgate.builtin_plugins.dashboard.costs import HookCosts
from hookgate.builtin_plugins.dashboard.keeper import TurnKeeper
from hookgate.builtin_plugins.dashboard.turns import TurnOperations
from hookgate.hookspecs import hookimpl

PATH = "/ui"


class Plugin:
    """Serves the page, and keeps the last turns; it has no settings."""

    uses = (STORE,)

    def __init__(self) -> None:
        self._keeper: TurnKeeper | None = None
        self._costs: HookCosts | None = None

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Keep turns, and write what has ended before closing."""
        keeper = self._keeper_of(host)
        await keeper.open()
        try:
            yield
        finally:
            await keeper.close()
            self._keeper = None

    def _keeper_of(self, host: Host) -> TurnKeeper:
        if self._keeper is None:
            self._keeper = TurnKeeper(host)
        return self._keeper

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the files of the page."""
        routes.static(PATH, __package__, "static", why="the page of the dashboard; it has no data")

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring the operations that list and show turns, and say what hooks cost."""
        # A reload asks again, and ends no measurement.
        self._costs = self._costs or HookCosts(host)
        return operations_of(TurnOperations(self._keeper_of(host)), self._costs)

    @hookimpl(trylast=True)
    def turn_ended(self, turn: Turn) -> None:
        """Keep what is shown of a turn."""
        if self._keeper is not None:
            self._keeper.end(turn)
