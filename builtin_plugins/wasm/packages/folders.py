"""Plugin folders: found, read and told apart by their digests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hookgate import ConfigError, HookgateError, Host, Problem, Tool
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.kit.content.files import MANIFEST_BYTES, inside, read_bytes, read_text, write_whole
from hookgate.kit.modules import on_demand
from hookgate.tasks import stop

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import Guests, LoadedPlugin
    from hookgate.builtin_plugins.wasm.packages import manifest as manifests
    from hookgate.builtin_plugins.wasm.packages.manifest import Manifest
    from hookgate.builtin_plugins.wasm.service import SandboxPlugin
else:
    manifests = on_demand("hookgate.builtin_plugins.wasm.packages.manifest")

MANIFEST: Final = "hookgate-plugin.toml"
"""The manifest's name in a plugin's folder."""

MOST_FOLDERS: Final = 256
"""Plugin folders below one folder of the settings; the others are left out, and that is told."""


class PackageError(HookgateError):
    """A plugin's folder cannot be used; the text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A plugin's folder as it was read at one moment.

    Attributes:
        folder: Where it lies.
        manifest: What it says.
        text: The manifest as it was written.
        module: The module's bytes.
        manifest_digest: SHA-256 of the manifest's file, in hex.
        module_digest: SHA-256 of the module, in hex.
    """

    folder: Path
    manifest: Manifest
    text: str
    module: bytes
    manifest_digest: str
    module_digest: str

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.manifest.name

    @property
    def digest(self) -> str:
        """SHA-256 over both: what somebody accepts."""
        both = f"hookgate-plugin\n{self.manifest_digest}\n{self.module_digest}\n"
        return hashlib.sha256(both.encode()).hexdigest()


def read_package(folder: Path, *, max_bytes: int) -> Package:
    """Read a plugin's folder. It blocks.

    Args:
        folder: The folder.
        max_bytes: The largest module.

    Raises:
        ContentError: A file is missing, no regular file, too large, or leads out of the folder.
        PackageError: The manifest is wrong (all that is, with lines), or the module is not the one
            whose digest it names.
    """
    place = folder / MANIFEST
    text, _ = read_text(inside(folder, MANIFEST, file=place), max_bytes=MANIFEST_BYTES)
    try:
        manifest = manifests.parse_manifest(text, str(place))
    except ConfigError as error:
        # No settings of the gateway: who reads them would look in the wrong file.
        raise PackageError(str(error)) from error
    path = inside(folder, manifest.module, file=place, key="module")
    if not path.exists():
        raise PackageError(
            f"{path}: found no such file, expected the module that `module` in {place} names: "
            "build it first; what `hookgate wasm new` wrote says how in its README.md"
        )
    module = read_bytes(path, max_bytes=max_bytes)
    digest = hashlib.sha256(module).hexdigest()
    if manifest.digest not in (None, digest):
        raise PackageError(
            f"{path}: found the digest {digest}, expected {manifest.digest}, as `digest` in "
            f"{place} says: the module is another one; build it again, or set the digest"
        )
    return Package(
        folder=folder,
        manifest=manifest,
        text=text,
        module=module,
        manifest_digest=hashlib.sha256(text.encode()).hexdigest(),
        module_digest=digest,
    )


def found_below(folders: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Return the plugin folders that `folders` are or hold, in order, and what is wrong.

    It blocks.

    Args:
        folders: Plugin folders themselves, or folders that hold some.
    """
    found: list[Path] = []
    problems: list[str] = []
    for folder in folders:
        if (folder / MANIFEST).is_file():
            found.append(folder)
            continue
        try:
            with os.scandir(folder) as entries:
                names = sorted(one.name for one in entries if not one.name.startswith("."))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            problems.append(
                f"{folder}: found {why}, expected a folder of plugins, or one with {MANIFEST}; "
                "it stands in `[plugin.wasm] folders`"
            )
            continue
        inner = [folder / name for name in names if (folder / name / MANIFEST).is_file()]
        if len(inner) > MOST_FOLDERS:
            problems.append(
                f"{folder}: found {len(inner)} plugins, expected at most {MOST_FOLDERS}: those "
                "behind them are left out"
            )
        found += inner[:MOST_FOLDERS]
    return list(dict.fromkeys(found)), problems


def lacking(folders: Iterable[Path], host: Host) -> list[Problem]:
    """Return the secrets that guests are granted and that are nowhere. It blocks.

    Args:
        folders: Those of the settings; the copies of installed plugins are looked at, too.
        host: The gateway.
    """
    copies = host.settings.home.expanduser() / "wasm" / "plugins"
    installed = sorted(copies.glob(f"*/*/{MANIFEST}"))
    named = [folder / MANIFEST for folder in found_below(folders)[0]]
    found: dict[tuple[str, str], Problem] = {}
    for place in (*named, *installed):
        try:
            text, _ = read_text(place, max_bytes=MANIFEST_BYTES)
            manifest = manifests.parse_manifest(text, str(place))
        except HookgateError:
            continue  # what is wrong with a folder is told where it is loaded
        for grant in manifest.granted.secrets:
            if not (host.secrets.get(grant.name) or "").strip():
                found[manifest.name, grant.name] = Problem(
                    key="plugin.wasm.folders" if place in named else "plugin.wasm",
                    found=f"no secret {grant.name!r}: the guest {manifest.name!r} is granted it "
                    f"(`{grant.text}`)",
                    expected=", or ".join(host.secrets.how_to_set(grant.name)),
                )
    return list(found.values())


# -- loads -----------------------------------------------------------------------

# Loading plugins side by side, each by a task of its own, and what was refused for what it is.

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
        await stop(*(load.task for load in loads))
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
            from hookgate.builtin_plugins.wasm.packages.folders import Refusals

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
