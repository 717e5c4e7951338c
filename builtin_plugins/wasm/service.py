"""The plugins of the sandbox: which there are, which count, and what they bring."""

from __future__ import annotations

import asyncio

# What reads plugins, and the engine that runs them, is loaded with the first plugin: most
# gateways have none.
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from hookgate import (
    STORE,
    HookgateError,
    Host,
    Instrument,
    Label,
    RecordSource,
    Tool,
    TurnError,
    not_found,
)
from hookgate.builtin_plugins.wasm.packages.folders import Loads, Package
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.kit.acceptance.acceptances import (
    AcceptanceBook,
    AcceptanceDesk,
    WaitingSubject,
    acceptances_of,
)
from hookgate.tasks import stop

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.channel import GuestChannel
    from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
    from hookgate.builtin_plugins.wasm.packages.acceptance import (
        Copies,
        FoundGuest,
        GuestAcceptance,
    )
    from hookgate.builtin_plugins.wasm.tables import Values

# What the sandbox measures, for Prometheus and OpenTelemetry.
#
# This is apart from `guests`, which loads all of the sandbox: a start without guests does not.

CALL = "wasm.call"
"""The record of a call of a guest: ``plugin``, ``export``, ``ending`` and ``seconds``."""
REFUSED = "wasm.refused"
"""The record of what a host function refused: ``plugin``, ``function`` and ``code``."""

_PLUGIN = Label(name="plugin")
_ENDINGS = frozenset(
    (
        *("done", "trap", "fuel", "time", "memory", "table", "stack"),
        *("host-calls", "host", "output", "answer", "busy", "cancelled"),
    )
)

INSTRUMENTS = (
    Instrument(
        name="hookgate_wasm_calls",
        help="Calls of guests, by how they ended: done, a trap, or the limit that was met.",
        sources=(RecordSource(record=CALL),),
        labels=(_PLUGIN, Label(name="export"), Label(name="ending", values=_ENDINGS)),
        unit="{call}",
    ),
    Instrument(
        name="hookgate_wasm_call_seconds",
        help="Wall time of calls of guests, their host calls included.",
        kind="histogram",
        sources=(RecordSource(record=CALL, value="seconds"),),
        labels=(_PLUGIN,),
        boundaries=(0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60),
        unit="s",
    ),
    Instrument(
        name="hookgate_wasm_refusals",
        help="What host functions refused to guests, by function and why.",
        sources=(RecordSource(record=REFUSED),),
        labels=(_PLUGIN, Label(name="function"), Label(name="code", attribute="error.type")),
        unit="{call}",
    ),
)
"""All of them, for ``host.instruments``."""


# -- the service -------------------------------------------------------------------

SOURCE = "wasm"
"""Under this name the plugins' tools stand in the gateway's registry."""

GUEST = "guest"
"""What plugins of the sandbox are called among all that is accepted."""

PART = "wasm plugins"
"""What `status` calls plugins that cannot be looked through at all."""

TABLES = "hookgate.builtin_plugins.wasm.tables"

LOAD_SECONDS = 20.0
"""So long a start or a reload waits for modules that it has begun to compile; each that takes
longer comes when it is ready."""

LOADING = "its module is being compiled; what it brings comes when that is done"

PluginState: TypeAlias = Literal["running", "loading", "new", "changed", "hidden", "broken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlugin:
    """One plugin, as it was found the last time that somebody looked.

    Attributes:
        found: What was found.
        state: It runs, it is being loaded, or why it does not run, in a word.
        why: The reason, in sentences; "" where it runs.
        loaded: The module in the sandbox, where it runs.
    """

    found: FoundGuest
    state: PluginState
    why: str = ""
    loaded: LoadedPlugin | None = None


@dataclass(slots=True)
class _Look:
    """What one look at all plugins came to; those that count are ``loading`` in it."""

    plugins: list[SandboxPlugin] = field(default_factory=list)
    problem: str = ""
    begun: set[asyncio.Task[None]] = field(default_factory=set)


class WasmPlugins:
    """Finds, accepts and loads the plugins of one gateway.

    Args:
        host: The gateway.
        settings: The settings.
    """

    def __init__(self, host: Host, settings: WasmSettings) -> None:
        self.host = host
        self.settings = settings
        self._home = host.settings.home.expanduser()
        self._look = _Look()
        self._guests: Guests | None = None
        self._loads = Loads(host, settings, self._open, self._publish)
        self._brought: list[Tool] = []
        self._channels: dict[str, GuestChannel] = {}
        self._looking = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._late: asyncio.Task[None] | None = None
        self._told: set[str] = set()
        self._book: AcceptanceBook | None = None
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Read what was accepted; what another gateway on the store accepts counts, too."""
        self._book = await acceptances_of(self.host)
        self._unwatch = self._book.watch(self._heard)
        self._book.desks[GUEST] = AcceptanceDesk(self._waiting, self._let_in)

    async def _waiting(self) -> Sequence[WaitingSubject]:
        return [
            WaitingSubject(one.found.name, package.digest, one.why)
            for one in self.plugins
            if one.state in ("new", "changed") and (package := one.found.package) is not None
        ]

    async def _let_in(self, name: str, *, by: str, digest: str) -> None:
        await self.accept(name, digest=digest, by=by)
        # Its tools are looked at, as those of others are, before a model sees them.
        await self.host.reload()

    @property
    def book(self) -> AcceptanceBook:
        """What was accepted; there once this is open."""
        assert self._book is not None, "it is opened before anything is looked at"
        return self._book

    async def accepted(self) -> Mapping[str, GuestAcceptance]:
        """Return what was accepted, by name.

        Raises:
            HookgateError: It cannot be read.
        """
        if self.book.problem:
            await self.book.load()
        record = self._home / "wasm" / "accepted.json"
        there = await asyncio.to_thread(record.exists)
        if not there and not self.book.of(GUEST):
            return {}
        from hookgate.builtin_plugins.wasm.packages.acceptance import GuestAcceptance, recorded

        if there:
            # A version before kept it there, for this home alone.
            before = await asyncio.to_thread(recorded, record)
            for one in before:
                if one.name not in self.book.of(GUEST):
                    await self.book.accept(GUEST, [one.subject], by=one.by)
            if self.book.trusts_first:
                await asyncio.to_thread(record.unlink)
        rows = self.book.of(GUEST)
        return {name: GuestAcceptance.read(row) for name, row in rows.items() if row.digest}

    def _heard(self) -> None:
        async def use() -> None:
            if (found := await self.look_again()) is not None:
                found()

        self.host.spawn(use(), name="wasm.accepted")

    @property
    def _copies(self) -> Copies:
        """The copies of installed plugins, in the home folder."""
        from hookgate.builtin_plugins.wasm.packages.acceptance import Copies

        return Copies(self._home)

    # -- what there is -------------------------------------------------------

    @property
    def plugins(self) -> Sequence[SandboxPlugin]:
        """All plugins, as they were found the last time, and what has become of them since."""
        return tuple(map(self._now_of, self._look.plugins))

    def _now_of(self, one: SandboxPlugin) -> SandboxPlugin:
        if one.state != "loading":
            return one
        load = self._loads.of(one)
        if load.loaded is not None:
            return replace(one, state="running", loaded=load.loaded)
        return replace(one, state="broken", why=load.why) if load.why else replace(one, why=LOADING)

    @property
    def guests(self) -> Guests:
        """What calls guests; there once one is loaded."""
        assert self._guests is not None, "a guest that is called was loaded"
        return self._guests

    def loaded(self, name: str) -> LoadedPlugin | None:
        """Return the plugin called `name` where it runs."""
        for one in self._look.plugins:
            if one.found.name == name and (loaded := self._loads.of(one).loaded) is not None:
                return loaded
        return None

    # -- looking -------------------------------------------------------------

    async def look_again(self) -> Callable[[], None] | None:
        """Look at all plugins; return what puts into force what was found.

        It waits `LOAD_SECONDS` at most, and for no module that was being compiled before. What is
        not ready by then is brought when it is, each for itself. None is returned where looking
        alone takes longer: then all comes later.
        """
        if self._late is not None and not self._late.done():
            self._late.cancel()
        began = monotonic()
        look = asyncio.ensure_future(self._looked())
        done, _ = await asyncio.wait({look}, timeout=LOAD_SECONDS)
        if not done:
            self.host.standing(PART).note(
                "their folders are being read; what they bring comes then"
            )
            self._late = self.host.spawn(self._use_late(look), name="wasm.look")
            return None
        found = look.result()
        if found.begun:
            left = max(0.0, LOAD_SECONDS - (monotonic() - began))
            await asyncio.wait(found.begun, timeout=left)
        return lambda: self._use(found)

    async def _use_late(self, look: asyncio.Future[_Look]) -> None:
        try:
            self._use(await look)
        finally:
            look.cancel()

    async def _looked(self) -> _Look:
        async with self._looking:
            look = _Look()
            try:
                accepted = await self.accepted()
            except HookgateError as error:
                look.problem = str(error)
                return look
            if not accepted and not self.settings.folders:
                return look
            # Off the loop: it is long to load.
            survey = await asyncio.to_thread(
                import_module, "hookgate.builtin_plugins.wasm.packages.acceptance"
            )
            fresh: list[GuestAcceptance] = []
            found = survey.look_through(
                self.settings.folders, accepted, self._copies, self.settings.limits.module_bytes
            )
            while (one := await asyncio.to_thread(next, found, None)) is not None:
                look.plugins.append(self._looked_at(one, fresh))
            if fresh:
                try:
                    for accepted_now in fresh:
                        await self._record(accepted_now)
                    await self.book.add(GUEST, [one.subject for one in fresh])
                except HookgateError as error:
                    # What cannot be kept would be new each time, whatever became of it.
                    names, why = {one.name for one in fresh}, f"it cannot be accepted: {error}"
                    look.plugins = [
                        replace(one, state="broken", why=why) if one.found.name in names else one
                        for one in look.plugins
                    ]
                look.plugins = [self._held_to_first(one) for one in look.plugins]
            look.begun = await self._loads.begin(
                [one for one in look.plugins if one.state == "loading"]
            )
            return look

    def _looked_at(self, found: FoundGuest, fresh: list[GuestAcceptance]) -> SandboxPlugin:
        from hookgate.builtin_plugins.wasm.packages.acceptance import GuestAcceptance

        package = found.package
        light = _without_bytes(found)
        unasked = self.settings.accept_new and self.book.trusts_first
        # What was taken back waits, although its folder is named.
        unasked = unasked and found.name not in self.book.of(GUEST)
        if found.state == "new" and unasked and package is not None:
            fresh.append(GuestAcceptance.of(package, installed=False, by="", at=self._now()))
        elif found.state != "accepted" or package is None:
            state: PluginState = "broken" if found.state == "accepted" else found.state
            return SandboxPlugin(found=light, state=state, why=found.why)
        return SandboxPlugin(found=light, state="loading")

    def _held_to_first(self, one: SandboxPlugin) -> SandboxPlugin:
        """Hold what was new against what another gateway may have accepted first."""
        first, package = self.book.of(GUEST).get(one.found.name), one.found.package
        if one.state != "loading" or package is None or first is None:
            return one
        why = "another gateway has accepted another one of this name meanwhile"
        return one if first.digest == package.digest else replace(one, state="changed", why=why)

    # -- publishing ----------------------------------------------------------

    def _use(self, look: _Look) -> None:
        """Put into force what was found. What runs meanwhile ends with the module it began with."""
        if look.problem:
            # What counted before still does: a file that cannot be read accepts nothing new.
            self.host.standing(PART).bad(look.problem)
            return
        self.host.standing(PART).good()
        self._look = look
        self._loads.keep_only(look.plugins)
        self._publish()

    def _publish(self) -> None:
        """Bring what is ready, and say what is not: after a look, and whenever that changes."""
        host = self.host
        parts = {_part(one): one.why for one in self.plugins if one.why and one.state != "loading"}
        brought = [tool for one in self._look.plugins for tool in self._loads.of(one).tools]
        good = []
        for tool in brought:
            try:
                good.append(host.tools.admit(SOURCE, tool))
            except HookgateError as error:
                parts[f"tool {tool.name} of {SOURCE}"] = str(error)
        if brought != self._brought:
            host.tools.replace(SOURCE, good)
        self._brought = brought
        self._publish_channels(parts)
        waiting = [one.found.name for one in self.plugins if one.state == "loading"]
        names = ", ".join(waiting[:8]) + (", ..." if len(waiting) > 8 else "")
        what = f"being compiled, and brought when that is done: {names}" if waiting else ""
        host.standing(PART).note(what)
        self._told = host.standing.turned(self._told, parts)

    def _publish_channels(self, parts: dict[str, str]) -> None:
        """Bring the channels that are ready.

        One that does not run for now stays: its platform is told to come again, and what is to be
        said waits. It goes with its plugin.
        """
        channels = self.host.channels
        for one in self._look.plugins:
            load = self._loads.of(one)
            if load.loaded is None or load.loaded.manifest.kind != "channel":
                continue
            from hookgate.builtin_plugins.wasm.channel import channel_of

            made = channel_of(self.guests, self.loaded, load.loaded)
            known = self._channels.get(made.name)
            if known is not None and known.is_as(made):
                continue
            try:
                channels.apply(SOURCE, [made])
            except HookgateError as error:
                parts[f"channel {made.name} of {SOURCE}"] = str(error)
            else:
                self._channels[made.name] = made
        there = {one.found.name for one in self._look.plugins}
        gone = [name for name, one in self._channels.items() if one.plugin not in there]
        for name in gone:
            del self._channels[name]
        if gone:
            channels.apply(SOURCE, remove=gone)

    async def _open(self) -> Guests:
        # Several plugins are loaded at a time, and all of them share one sandbox.
        async with self._opening:
            if self._guests is None:
                module = "hookgate.builtin_plugins.wasm.guests"
                guests = await asyncio.to_thread(import_module, module)
                self._guests = guests.Guests(self.host, self.settings, await self._values())
        assert self._guests is not None, "it was just made"
        return self._guests

    async def _values(self) -> Values | None:
        """Return where guests keep values; None where there is no store."""
        from hookgate.kit.tables import tables_of

        store = self.host.get(STORE)
        if store is None:
            return None
        values: Values = (await tables_of(store, SOURCE, TABLES))[0].Values(store)
        return values

    async def close(self) -> None:
        """Close connections, and end the sandbox."""
        self._unwatch()
        await stop(self._late)
        await self._loads.close()
        if self._guests is not None:
            await self._guests.close()

    # -- changing --------------------------------------------------------------

    def named(self, name: str) -> SandboxPlugin:
        """Return the plugin called `name`: the one that counts, where there are several.

        Raises:
            TurnError: There is none.
        """
        for one in self._matching(name):
            return one
        raise not_found("plugin of the sandbox", name, "`hookgate wasm list` shows all")

    def _matching(self, name: str) -> Iterator[SandboxPlugin]:
        named = [one for one in self.plugins if one.found.name == name]
        yield from sorted(named, key=lambda one: one.state == "hidden")

    async def read(self, folder: Path) -> Package:
        """Read a plugin's folder.

        Raises:
            TurnError: It cannot be used.
        """
        from hookgate.builtin_plugins.wasm.packages.folders import read_package

        with _told():
            return await asyncio.to_thread(
                read_package, folder, max_bytes=self.settings.limits.module_bytes
            )

    async def install(self, folder: Path, *, digest: str, by: str) -> GuestAcceptance:
        """Copy a plugin into the home folder, accept it and load it, if it can be loaded.

        Args:
            folder: Its folder.
            digest: What somebody has looked at and accepts.
            by: Who.

        Raises:
            TurnError: It is another one by now, or cannot be loaded.
            HookgateError: It cannot be kept; what was installed before still is.
        """
        package = await self.read(folder)
        _check_digest(package, digest)
        # Tried before it takes the place of what works.
        with _told():
            await (await self._open()).load(package)
        return await self._keep(package, installed=True, by=by)

    async def accept(self, name: str, *, digest: str, by: str) -> GuestAcceptance:
        """Accept a plugin as it lies in its folder now.

        Args:
            name: The plugin.
            digest: What somebody has looked at and accepts.
            by: Who.

        Raises:
            TurnError: There is none, or it is another one by now.
            HookgateError: It cannot be kept.
        """
        found = self.named(name).found
        package = await self.read(found.folder)
        _check_digest(package, digest)
        # The copy of an installed one lies where its digest says, so that it is made anew.
        installed = found.accepted is not None and found.accepted.installed
        return await self._keep(package, installed=installed, by=by)

    async def _keep(self, package: Package, *, installed: bool, by: str) -> GuestAcceptance:
        """Record that a plugin is accepted, and let it count: what cannot be recorded does not."""
        from hookgate.builtin_plugins.wasm.packages.acceptance import GuestAcceptance

        accepted = GuestAcceptance.of(package, installed=installed, by=by, at=self._now())
        await self._record(accepted)
        # Who accepts it now wants it tried, whatever became of it before.
        await self._loads.forget(package.digest)
        if installed:
            await asyncio.to_thread(self._copies.write, package, accepted)
        # It counts from here on.
        await self.book.accept(GUEST, [accepted.subject], by=by)
        if installed:
            await asyncio.to_thread(self._copies.keep_only, accepted)
        return accepted

    async def remove(self, name: str, *, values: bool, by: str) -> tuple[bool, int]:
        """Forget what was accepted of a plugin, and delete its copy.

        Args:
            name: The plugin.
            values: Whether what it has kept in the store is deleted as well.
            by: Who.

        Returns:
            Whether anything was accepted, and how many values were deleted.
        """
        removed, deleted = await self.book.forget(GUEST, name), 0
        if removed:
            await asyncio.to_thread(self._copies.remove, name)
        if values and (kept := await self._values()) is not None:
            deleted = await kept.forget(name)
        if removed or deleted:
            log = self.host.log
            log.info("plugin of the sandbox removed", plugin=name, values=deleted, by=by)
        return removed, deleted

    async def _record(self, accepted: GuestAcceptance) -> None:
        data = {
            "plugin": accepted.name,
            "version": accepted.version,
            "digest": accepted.digest,
            "grants": list(accepted.grants),
            "folder": accepted.folder,
            "installed": accepted.installed,
            "by": accepted.by,
        }
        self.host.log.info("plugin of the sandbox accepted", **data)
        await self.host.record("wasm_accepted", **data)

    def _now(self) -> str:
        return self.host.clock.now().isoformat()


def _part(plugin: SandboxPlugin) -> str:
    """Return what `status` calls a plugin that does not run."""
    place = f" in {plugin.found.folder}" if plugin.state == "hidden" else ""
    return f"wasm plugin {plugin.found.name}{place}"


@contextmanager
def _told() -> Iterator[None]:
    """Tell whoever has named a folder what is wrong with it."""
    try:
        yield
    except HookgateError as error:
        raise TurnError.invalid(error, "mend the plugin's folder") from error


def _check_digest(package: Package, digest: str) -> None:
    if package.digest != digest:
        raise TurnError.invalid(
            f"{package.name} in {package.folder} has the digest {package.digest}, and {digest} "
            "was accepted: it has changed since it was looked at",
            "look at it again with `hookgate wasm inspect`",
        )


def _without_bytes(found: FoundGuest) -> FoundGuest:
    package = found.package
    return found if package is None else replace(found, package=replace(package, module=b""))
