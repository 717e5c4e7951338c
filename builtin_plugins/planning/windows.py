"""The windows of all scopes, and how they come to where they are kept."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hookgate import OutcomeEntry, OutcomeWindows
from hookgate.builtin_plugins.planning.kpi import OutcomeWindow

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.settings import PlanningSettings

BATCH_SECONDS = 0.5
"""What comes within so many seconds is written at once."""
RETRY_SECONDS = 5.0
"""Until what could not be written is tried again."""
CLOSE_SECONDS = 5.0
"""So long a stop waits for what is written."""
MOST_SCOPES = 1000
"""Clients name channels: of more scopes than these, the one that was used longest ago is let go."""


class KeptWindows:
    """The windows, by the scopes' keys. It belongs to one event loop.

    Args:
        settings: Those of the plugin.
        kept: Where windows are kept; None for this process alone.
        durable: Whether that outlives the process.
        shared: Whether others write there as well.
        tell: Told why something cannot be kept, and "" once it can.

    Attributes:
        durable: Whether windows outlive the process.
    """

    def __init__(
        self,
        settings: PlanningSettings,
        kept: OutcomeWindows | None = None,
        *,
        durable: bool = True,
        shared: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self.durable = durable and kept is not None
        self._shared = shared
        self._tell = tell
        # In the order of use, the one that was used longest ago first.
        self._windows: OrderedDict[str, OutcomeWindow] = OrderedDict()
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._saving = asyncio.Lock()
        self._told = False
        self._loaded = kept is None

    def __len__(self) -> int:
        return len(self._windows)

    def all(self) -> Mapping[str, OutcomeWindow]:
        """Return all windows by key."""
        return dict(sorted(self._windows.items()))

    def get(self, scope: str) -> OutcomeWindow | None:
        """Return the window of a scope; None where nothing is known of it."""
        return self._windows.get(scope)

    def add(self, scope: str, entry: OutcomeEntry) -> OutcomeWindow:
        """Take in the outcome of a turn, and return its window; never waits."""
        window = self._windows.get(scope)
        if window is None:
            window = self._windows[scope] = OutcomeWindow(self._settings)
        self._windows.move_to_end(scope)
        window.add(entry)
        self._changed[scope] = None
        while len(self._windows) > MOST_SCOPES:
            self._changed[self._windows.popitem(last=False)[0]] = None
        self._wake.set()
        return window

    def take(self, settings: PlanningSettings) -> None:
        """Go on with other settings."""
        self._settings = settings
        for scope, window in tuple(self._windows.items()):
            self._put(scope, window.entries)

    # -- keeping -------------------------------------------------------------

    async def load(self) -> None:
        """Take in what is kept, beside what is here."""
        if self._kept is None:
            return
        for scope, entries in (await self._kept.load_windows()).items():
            window = self._windows.get(scope)
            mine = () if window is None else window.entries
            merged = {entry.turn: entry for entry in (*entries, *mine)}
            if len(merged) > len(mine):
                self._put(scope, sorted(merged.values(), key=lambda entry: (entry.at, entry.turn)))
        self._loaded = True

    def _put(self, scope: str, entries: Sequence[OutcomeEntry]) -> None:
        window = OutcomeWindow(self._settings, entries)
        if (before := self._windows.get(scope)) is not None:
            window.alerted = before.alerted
        self._windows[scope] = window

    async def keep(self) -> None:
        """Write what changes, until it is cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            if not await self.flush():
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def flush(self) -> bool:
        """Write what has changed; return whether all of it is written."""
        if self._kept is None:
            self._changed.clear()
            self._wake.clear()
            return True
        async with self._saving:
            self._wake.clear()
            try:
                while self._changed:
                    scope = next(iter(self._changed))
                    del self._changed[scope]
                    try:
                        await self._save(self._kept, scope)
                    except BaseException:
                        self._changed[scope] = None
                        raise
                if self._shared or not self._loaded:
                    await self.load()
            except Exception as error:  # noqa: BLE001 - a plugin may keep them
                self._told = True
                self._tell(f"outcomes of turns cannot be kept, and are tried again: {error}")
                return False
            if self._told:
                self._told = False
                self._tell("")
            return True

    async def _save(self, kept: OutcomeWindows, scope: str) -> None:
        window = self._windows.get(scope)
        await kept.save_window(scope, () if window is None else window.entries)

    async def close(self) -> None:
        """Write what has changed; what takes too long is lost, and said."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.flush()
        except TimeoutError:
            self._tell(f"outcomes of turns were not kept within {CLOSE_SECONDS:.0f} seconds")
