"""Loading plugins side by side, each by a task of its own, and what was refused for what it is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hookgate import HookgateError, Host, Tool
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.kit.content.files import write_whole

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
    from hookgate.builtin_plugins.wasm.service import SandboxPlugin

FORMAT: Final = "hookgate-wasm-refused-1"

MOST: Final = 1024
"""Refusals that are kept; the oldest goes first."""

WHY_CHARS: Final = 2_000


class Refusals:
    """Reasons by the digest over manifest and module, in the home folder. All of it blocks.

    They hold for one engine, one version of hookgate and one set of limits: with another one each
    plugin is tried again. What cannot be read or written costs a compilation, and nothing else.

    Args:
        home: The gateway's home folder.
        limits: What plugins may ask for at most, as text.

    Attributes:
        known: Why each one was refused.
    """

    def __init__(self, home: Path, limits: str) -> None:
        self._file = home / "wasm" / "refused.json"
        parts = (
            *map(version, ("hookgate", "wasmtime")),
            platform.system(),
            platform.machine(),
            limits,
        )
        self._engine = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        self.known: dict[str, str] = {}
        # ValueError: no JSON, or no text.
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            data = json.loads(self._file.read_bytes())
            if (data["format"], data["engine"]) == (FORMAT, self._engine):
                self.known = {str(one): str(why) for one, why in data["refused"].items()}

    def put(self, digest: str, why: str) -> None:
        """Remember why a plugin was refused."""
        self.known[digest] = why[:WHY_CHARS]
        while len(self.known) > MOST:
            del self.known[next(iter(self.known))]
        self._write()

    def drop(self, digest: str) -> None:
        """Forget that a plugin was refused."""
        if self.known.pop(digest, None) is not None:
            self._write()

    def _write(self) -> None:
        data = {"format": FORMAT, "engine": self._engine, "refused": dict(self.known)}
        with suppress(OSError):
            write_whole(self._file, json.dumps(data, indent=2).encode() + b"\n", durable=False)


# -- loading ---------------------------------------------------------------------

# Loading plugins side by side: each has its own task and state, and none waits for another.

AT_ONCE: Final = 8
"""Plugins that are being loaded at one time: each holds its module's bytes until it is compiled."""


@dataclass(slots=True, eq=False)
class Load:
    """What has become of one plugin's module; neither `loaded` nor `why`: it is being loaded.

    Attributes:
        loaded: The plugin, ready to be called.
        tools: Its tools.
        why: Why it cannot be loaded.
        lasting: Whether it is refused again for as long as it stays what it is.
        task: What loads it.
    """

    loaded: LoadedPlugin | None = None
    tools: Sequence[Tool] = ()
    why: str = ""
    lasting: bool = False
    task: asyncio.Task[None] | None = field(default=None, repr=False)


NOTHING: Final = Load()


class Loads:
    """The modules of one gateway, by the digest over manifest and module.

    Args:
        host: The gateway.
        settings: The limits.
        guests: Returns what loads and calls guests.
        ready: Called whenever something has become of a plugin.
    """

    def __init__(
        self,
        host: Host,
        settings: WasmSettings,
        guests: Callable[[], Awaitable[Guests]],
        ready: Callable[[], None],
    ) -> None:
        self._host = host
        self._settings = settings
        self._guests = guests
        self._ready = ready
        self._loads: dict[str, Load] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._refusals: Refusals | None = None
        self._writing = asyncio.Lock()

    def of(self, plugin: SandboxPlugin) -> Load:
        """Return what has become of a plugin; of one that does not count, nothing."""
        return self._loads.get(_digest(plugin), NOTHING) if plugin.state == "loading" else NOTHING

    async def begin(self, plugins: Sequence[SandboxPlugin]) -> set[asyncio.Task[None]]:
        """Begin to load those that are neither ready nor under way; return what was begun.

        What was refused for what it is, and is the same still, is not tried again; what was
        refused for what is around it, such as a folder that was missing, is.
        """
        refused = await self._refused() if plugins else {}
        begun = set()
        for plugin in plugins:
            digest = _digest(plugin)
            load = self._loads.get(digest)
            if load is not None and (load.lasting or not load.why):
                continue
            load = self._loads[digest] = Load()
            if digest in refused:
                load.why, load.lasting = refused[digest], True
                continue
            name = f"wasm.load {plugin.found.name}"
            load.task = self._host.spawn(self._load(load, plugin), name=name)
            begun.add(load.task)
        return begun

    def keep_only(self, plugins: Iterable[SandboxPlugin]) -> None:
        """Let go of all but these: what is under way ends, and what was ready is closed."""
        kept = {_digest(one) for one in plugins if one.state == "loading"}
        for digest in self._loads.keys() - kept:
            load = self._loads.pop(digest)
            if load.task is not None:
                load.task.cancel()
            if load.loaded is not None:
                self._host.spawn(load.loaded.door.close(), name="wasm.close")

    async def forget(self, digest: str) -> None:
        """Forget that a plugin was refused, so that it is tried again."""
        if digest in self._loads and self._loads[digest].why:
            del self._loads[digest]
        await self._refused()
        async with self._writing:
            assert self._refusals is not None, "it was just made"
            await asyncio.to_thread(self._refusals.drop, digest)

    async def close(self) -> None:
        """End what is under way, and close what was ready."""
        loads, self._loads = tuple(self._loads.values()), {}
        tasks = [load.task for load in loads if load.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for load in loads:
            if load.loaded is not None:
                await load.loaded.door.close()

    # -- one plugin ----------------------------------------------------------

    async def _load(self, load: Load, plugin: SandboxPlugin) -> None:
        try:
            async with self._places:
                guests = await self._guests()
                await self._load_by(guests, load, plugin)
        except HookgateError as error:
            load.why = str(error)
            load.lasting = getattr(error, "lasting", False)
            if load.lasting:
                await self._remember(_digest(plugin), load.why)
        except Exception as error:
            # Left without a reason it would seem to be loading for ever.
            load.why = f"it cannot be loaded: {error!r}"
            raise
        finally:
            if load.loaded is not None or load.why:
                self._ready()

    async def _load_by(self, guests: Guests, load: Load, plugin: SandboxPlugin) -> None:
        from hookgate.builtin_plugins.wasm.packages.folders import PackageError, read_package
        from hookgate.builtin_plugins.wasm.tools import tools_of

        folder, most = plugin.found.folder, self._settings.limits.module_bytes
        package = await asyncio.to_thread(read_package, folder, max_bytes=most)
        if package.digest != _digest(plugin):
            raise PackageError(
                f"{folder}: it has changed while it was being loaded: reload, and look at it with "
                f"`hookgate wasm inspect {plugin.found.name}`"
            )
        loaded = await guests.load(package)
        load.tools = tools_of(guests, loaded)
        load.loaded = loaded

    # -- what was refused ----------------------------------------------------

    async def _refused(self) -> dict[str, str]:
        if self._refusals is None:
            from hookgate.builtin_plugins.wasm.packages.loads import Refusals

            home = self._host.settings.home.expanduser()
            limits = self._settings.limits.model_dump_json()
            self._refusals = await asyncio.to_thread(Refusals, home, limits)
        return self._refusals.known

    async def _remember(self, digest: str, why: str) -> None:
        await self._refused()
        async with self._writing:
            assert self._refusals is not None, "it was just made"
            await asyncio.to_thread(self._refusals.put, digest, why)


def _digest(plugin: SandboxPlugin) -> str:
    package = plugin.found.package
    return "" if package is None else package.digest
