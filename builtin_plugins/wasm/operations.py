"""The operations of the sandbox: what there is, what it may do, and accepting it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from hookgate import (
    FLAG_NAMES,
    POSITIONAL,
    HookgateError,
    Invocation,
    OperationModel,
    TurnError,
    not_found,
    operation,
)
from hookgate.builtin_plugins.wasm.settings import WasmSettings

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import LoadedPlugin
    from hookgate.builtin_plugins.wasm.packages.acceptance import GuestAcceptance
    from hookgate.builtin_plugins.wasm.packages.folders import Package
    from hookgate.builtin_plugins.wasm.packages.manifest import Manifest
    from hookgate.builtin_plugins.wasm.service import SandboxPlugin, WasmPlugins


class FlagDetail(OperationModel):
    """One of the five statements about what a tool does."""

    value: bool | None
    """Yes, no, or null where nothing is known."""
    standing: Literal["proven", "declared", "unknown"]
    """Whether the grants prove it."""
    ground: str
    """By which grant, or for want of which."""


class ToolDetail(OperationModel):
    """One tool."""

    name: str
    """The name by which a model calls it."""
    description: str
    """What it does."""
    flags: dict[str, FlagDetail]
    """The five statements by name."""
    seconds: float
    """The longest time of one call."""


class PluginHead(OperationModel):
    """What there is to say of every plugin of the sandbox; empty where it cannot be read."""

    name: str
    """Its name."""
    version: str
    """Its version."""
    folder: str
    """Where it lies."""
    digest: str
    """SHA-256 over manifest and module: what is accepted."""
    module: str
    """SHA-256 of the module."""
    form: Literal["core", "component", "extism", ""]
    """The form of the module, where it runs."""
    grants: tuple[str, ...]
    """All that it may do beside computing."""


class PluginDetail(PluginHead):
    """All about one plugin of the sandbox."""

    kind: Literal["tool", "channel"]
    """What it brings."""
    description: str
    """What it is."""
    bytes: int
    """The size of the module."""
    limits: dict[str, float]
    """What one call may use."""
    tools: tuple[ToolDetail, ...]
    """Its tools."""
    connection: Literal["webhook", "polling", ""]
    """How messages come in, of a channel."""
    exports: tuple[str, ...]
    """What the module exports, where it runs."""
    accepted: bool
    """Whether it is what was accepted."""
    changes: tuple[str, ...]
    """What is not as it was accepted; empty where all is, or nothing was."""
    problem: str
    """Why it could not be loaded as it is; empty where nothing is known against it."""


def detail_of(
    package: Package,
    settings: WasmSettings,
    *,
    accepted: GuestAcceptance | None = None,
    loaded: LoadedPlugin | None = None,
) -> PluginDetail:
    """Return all about a plugin.

    Args:
        package: The plugin as it was read.
        settings: What it may ask for at most.
        accepted: What was accepted under its name.
        loaded: The module in the sandbox, where the plugin runs.
    """
    from hookgate.builtin_plugins.wasm.guests import limits_of
    from hookgate.builtin_plugins.wasm.packages.acceptance import changes

    manifest, problem, limits = package.manifest, "", dict[str, float]()
    try:
        limits = asdict(limits_of(manifest, settings))
    except HookgateError as error:
        problem = str(error)
    told = [] if accepted is None else changes(accepted, package)
    channel = manifest.channel
    runs = loaded is not None and loaded.package.digest == package.digest
    return PluginDetail(
        name=package.name,
        version=manifest.version,
        kind=manifest.kind,
        description=manifest.description,
        folder=str(package.folder),
        digest=package.digest,
        module=package.module_digest,
        bytes=len(package.module),
        grants=manifest.granted.texts,
        limits=limits,
        tools=tuple(_tools(manifest, limits.get("seconds", 0.0))),
        connection="" if channel is None else "webhook" if channel.webhook else "polling",
        form=loaded.guest.form if runs and loaded is not None else "",
        exports=tuple(sorted(loaded.guest.exports)) if runs and loaded is not None else (),
        accepted=accepted is not None and not told,
        changes=tuple(told),
        problem=problem,
    )


def held_against(accepted: GuestAcceptance, package: Package) -> list[str]:
    """Return what of `package` is not what was accepted; nothing: []."""
    from hookgate.builtin_plugins.wasm.packages.acceptance import changes

    if accepted.digest == package.digest:
        return []
    return changes(accepted, package) or ["another digest"]


def _tools(manifest: Manifest, seconds: float) -> list[ToolDetail]:
    made = []
    for tool in manifest.tools:
        flags = manifest.flags_of(tool)
        rows: dict[str, Any] = {
            name: FlagDetail(
                value=flags.get(name), standing=flags.standing(name), ground=flags.ground(name)
            )
            for name in FLAG_NAMES
        }
        made.append(
            ToolDetail(
                name=tool.name,
                description=tool.description,
                flags=rows,
                seconds=tool.timeout or seconds,
            )
        )
    return made


# -- the operations ----------------------------------------------------------------

Name = Annotated[str, Field(min_length=1, max_length=256)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class GuestRow(PluginHead):
    """One plugin of the sandbox; of a folder that cannot be read, `name` is the folder's."""

    kind: Literal["tool", "channel", ""]
    """What it brings."""
    state: Literal["running", "loading", "new", "changed", "hidden", "broken"]
    """It runs; it is being compiled, and runs then; nobody has accepted it; it is not what was
    accepted; another of its name comes before it; it cannot be used."""
    why: str
    """Why it does not run; empty where it does."""
    installed: bool
    """Whether it is a copy in the home folder."""
    tools: tuple[str, ...]
    """The names of its tools."""


class GuestRows(OperationModel):
    """The plugins of the sandbox."""

    plugins: tuple[GuestRow, ...]
    """The installed ones, then those of the folders of the settings."""


class Removed(OperationModel):
    """What was removed."""

    name: str
    """The plugin."""
    removed: bool
    """False where nothing was accepted under the name."""
    values: int
    """How many values of the store were deleted."""


class VerifiedGuest(OperationModel):
    """One accepted plugin, held against what lies in its folder now."""

    name: str
    """The plugin."""
    folder: str
    """Where it lies."""
    intact: bool
    """Whether it is what was accepted, byte by byte."""
    why: str
    """What is not; empty where all is."""
    accepted: str
    """The digest that was accepted."""
    found: str
    """The digest that was found; empty where nothing can be read."""
    by: str
    """Who accepted it; empty where the settings named its folder."""
    at: str
    """When, ISO 8601 in UTC."""


class VerifiedGuests(OperationModel):
    """All accepted plugins, held against what lies there."""

    intact: bool
    """Whether all of them are what was accepted."""
    plugins: tuple[VerifiedGuest, ...]
    """One row for each."""


class WasmOperations:
    """Plugins of the sandbox: begin, install, inspect, verify and run them.

    Args:
        current: Returns the plugins of the running gateway.
    """

    def __init__(self, current: Callable[[], WasmPlugins]) -> None:
        self._current = current

    @operation("wasm.list", rest=("GET", "/v1/wasm"))
    async def list(self, _: Invocation) -> GuestRows:
        """List the plugins of the sandbox, and why one does not run.

        Example:
            hookgate wasm list
        """
        return GuestRows(plugins=tuple(map(_row, self._current().plugins)))

    @operation("wasm.inspect", command="")
    async def inspect(self, _: Invocation, name: Name) -> PluginDetail:
        """Show what a plugin of the sandbox brings and may do, as it lies in its folder now.

        Args:
            name: Its name.
        """
        plugins = self._current()
        plugin = plugins.named(name)
        package = await plugins.read(plugin.found.folder)
        accepted = (await plugins.accepted()).get(package.name)
        return detail_of(package, plugins.settings, accepted=accepted, loaded=plugin.loaded)

    @operation("wasm.verify")
    async def verify(
        self, _: Invocation, name: Annotated[str, POSITIONAL, Field(max_length=64)] = ""
    ) -> VerifiedGuests:
        """Hold what was accepted against what lies in the folders now, byte by byte.

        Exits with 1 where a plugin is not what was accepted.

        Args:
            name: One plugin; all that were accepted without it.

        Examples:
            hookgate wasm verify
            hookgate wasm verify telegram
        """
        plugins = self._current()
        rows = []
        places = {one.found.name: one.found.folder for one in reversed(plugins.plugins)}
        all_accepted = await plugins.accepted()
        if name and name not in all_accepted:
            raise TurnError(
                f"nothing was accepted of a plugin {name!r}",
                code="not_found",
                action="`hookgate wasm list` shows all; `hookgate wasm install` accepts one",
            )
        for one, accepted in sorted(all_accepted.items()):
            if name not in ("", one):
                continue
            folder = places.get(one, Path(accepted.folder))
            try:
                package = await plugins.read(folder)
            except HookgateError as error:
                found, why = "", str(error)
            else:
                found, why = package.digest, ", ".join(held_against(accepted, package))
            rows.append(
                VerifiedGuest(
                    name=one,
                    folder=str(folder),
                    intact=not why,
                    why=why,
                    accepted=accepted.digest,
                    found=found,
                    by=accepted.by,
                    at=accepted.at,
                )
            )
        return VerifiedGuests(intact=all(row.intact for row in rows), plugins=tuple(rows))

    @operation("wasm.install", scope="operate", command="")
    async def install(
        self,
        invocation: Invocation,
        folder: Annotated[str, Field(min_length=1, max_length=4096)],
        digest: Digest,
    ) -> GuestRow:
        """Copy a plugin from a folder of the gateway's machine, and accept it.

        Args:
            folder: A folder on the gateway's machine, as an absolute path.
            digest: The digest over its manifest and module: what was looked at is what is
                installed.
        """
        place = Path(folder)
        if not place.is_absolute():
            raise TurnError.invalid(f"found the folder {folder!r}, expected an absolute path")
        plugins = self._current()
        accepted = await plugins.install(place, digest=digest, by=invocation.principal.id)
        # Its tools are looked at, as those of others are, before a model sees them.
        await invocation.host.reload()
        return _row(plugins.named(accepted.name))

    @operation("wasm.remove", scope="operate")
    async def remove(self, invocation: Invocation, name: Name, values: bool = False) -> Removed:
        """Forget what was accepted of a plugin, and delete its copy.

        One that lies in a folder of the settings is new then. What it has kept stays, for when it
        comes back, unless `values` says otherwise.

        Args:
            name: Its name.
            values: Whether all that it has kept in the store is deleted as well, of every peer.

        Example:
            hookgate wasm remove weather
        """
        removed, deleted = await self._current().remove(
            name, values=values, by=invocation.principal.id
        )
        if not (removed or deleted):
            raise not_found("plugin", name, "nothing was accepted under that name")
        if removed:
            await invocation.host.reload()
        return Removed(name=name, removed=removed, values=deleted)


def _row(plugin: SandboxPlugin) -> GuestRow:
    found, package = plugin.found, plugin.found.package
    manifest = None if package is None else package.manifest
    return GuestRow(
        name=found.name,
        version="" if manifest is None else manifest.version,
        kind="" if manifest is None else manifest.kind,
        state=plugin.state,
        why=plugin.why,
        folder=str(found.folder),
        installed=found.accepted is not None and found.accepted.installed,
        digest="" if package is None else package.digest,
        module="" if package is None else package.module_digest,
        form="" if plugin.loaded is None else plugin.loaded.guest.form,
        grants=() if manifest is None else manifest.granted.texts,
        tools=() if manifest is None else tuple(one.name for one in manifest.tools),
    )
