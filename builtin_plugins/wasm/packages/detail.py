"""What people are shown of a plugin before they accept it, and afterwards."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from hookgate import FLAG_NAMES, HookgateError, OperationModel
from hookgate.builtin_plugins.wasm.settings import WasmSettings

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.guests import LoadedPlugin
    from hookgate.builtin_plugins.wasm.packages.acceptance import GuestAcceptance
    from hookgate.builtin_plugins.wasm.packages.folders import Package
    from hookgate.builtin_plugins.wasm.packages.manifest import Manifest


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
