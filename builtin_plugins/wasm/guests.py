"""The guests of a gateway: loaded, called under their limits, and told apart when they change."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from hookgate import HookgateError, Host
from hookgate.builtin_plugins.wasm.engine.limits import (
    GuestError,
    GuestRefusedError,
    Limits,
    WasiGrants,
)
from hookgate.builtin_plugins.wasm.engine.sandbox import Guest, Sandbox
from hookgate.builtin_plugins.wasm.engine.wasi import FolderJudge
from hookgate.builtin_plugins.wasm.host.functions import (
    GuestCall,
    HostFunctions,
    HostRefusal,
    environment,
)
from hookgate.builtin_plugins.wasm.host.http import Door
from hookgate.builtin_plugins.wasm.packages.folders import Package
from hookgate.builtin_plugins.wasm.packages.grants import Granted
from hookgate.builtin_plugins.wasm.packages.manifest import Manifest, ToolSection, within
from hookgate.builtin_plugins.wasm.service import CALL, REFUSED
from hookgate.builtin_plugins.wasm.settings import WasmSettings
from hookgate.builtin_plugins.wasm.wire import (
    Description,
    FaultError,
    WireForm,
    WireFormError,
    aside,
    read_answer,
    written,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.tables import Values

NEEDED = {"tool": ("handle_tool_call",), "channel": ("parse_incoming", "format_outgoing")}
"""What a guest of each kind exports; one that polls exports ``poll`` as well."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedPlugin:
    """One plugin whose module is loaded.

    Attributes:
        package: The plugin, without the bytes of its module.
        guest: The module in the sandbox.
        limits: What its calls may use.
        functions: What it may ask of the host.
        door: Its way out.
    """

    package: Package
    guest: Guest
    limits: Limits
    functions: HostFunctions
    door: Door

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.package.name

    @property
    def manifest(self) -> Manifest:
        """What it says of itself."""
        return self.package.manifest

    @property
    def granted(self) -> Granted:
        """Its grants."""
        return self.functions.granted

    @property
    def plain_exports(self) -> bool:
        """Whether each tool is an export of its own, as modules made for Extism have it."""
        return self.guest.form == "extism" and "handle_tool_call" not in self.guest.exports

    def limits_of(self, tool: ToolSection) -> Limits:
        """Return what a call of one of its tools may use."""
        return self.limits if tool.timeout is None else replace(self.limits, seconds=tool.timeout)


class Guests:
    """Loads guests, and calls them.

    Args:
        host: The gateway.
        settings: The limits.
        values: Where guests keep values; None where there is no store.
    """

    def __init__(self, host: Host, settings: WasmSettings, values: Values | None) -> None:
        self._host = host
        self._settings = settings
        self._values = values
        self._sandbox: Sandbox | None = None

    async def load(self, package: Package) -> LoadedPlugin:
        """Compile a plugin's module, or take what was compiled, and try it.

        Raises:
            HookgateError: It cannot be used; says why.
        """
        manifest = package.manifest
        granted = manifest.granted
        limits = limits_of(manifest, self._settings)
        guest = await self._open().load(
            package.module,
            name=package.name,
            limits=limits,
            imports=granted.imports,
            wasi=self._wasi(granted),
        )
        door = Door(self._host, self._settings, package.name, granted)
        loaded = LoadedPlugin(
            package=replace(package, module=b""),
            guest=guest,
            limits=limits,
            functions=HostFunctions(self._host, door, self._values, granted),
            door=door,
        )
        _check_exports(loaded)
        await self._check_description(loaded)
        return loaded

    async def call(
        self,
        loaded: LoadedPlugin,
        export: str,
        request: WireForm | bytes,
        call: GuestCall,
        *,
        limits: Limits | None = None,
    ) -> bytes:
        """Call an export of a guest and return its answer.

        Raises:
            GuestError: It trapped or met a limit; names plugin, limit and figure.
        """
        host, began, ending = self._host, monotonic(), "done"
        data = request if isinstance(request, bytes) else written(request)
        try:
            return await loaded.guest.call(
                export, data, host=loaded.functions.of(call), limits=limits
            )
        except GuestError as error:
            ending = error.kind
            raise
        except asyncio.CancelledError:
            ending = "cancelled"
            raise
        finally:
            seconds = monotonic() - began
            host.metric(CALL, plugin=loaded.name, export=export, ending=ending, seconds=seconds)
            for (function, code), count in call.refused.items():
                for _ in range(min(count, MOST_REFUSALS)):
                    host.metric(REFUSED, plugin=loaded.name, function=function, code=code)

    async def close(self) -> None:
        """End the sandbox."""
        if self._sandbox is not None:
            await self._sandbox.close()
            self._sandbox = None

    # -- loading -------------------------------------------------------------

    def _open(self) -> Sandbox:
        # Made when the first guest comes: a gateway without guests has no threads for them.
        if self._sandbox is None:
            cache = self._host.settings.home.expanduser() / "wasm" / "compiled"
            settings = self._settings
            self._sandbox = Sandbox(
                cache, threads=settings.threads, memory_bytes=settings.memory_bytes
            )
        return self._sandbox

    def _wasi(self, granted: Granted) -> WasiGrants | None:
        clock, random = granted.has("clock"), granted.has("random")
        if not (clock or random or granted.env or granted.folders):
            return None
        try:
            env = environment(self._host, granted)
        except HostRefusal as refusal:
            raise HookgateError(str(refusal)) from None
        judge = FolderJudge(self._host.settings)
        folders = {str(one.folder): judge.judged(Path(one.folder)) for one in granted.folders}
        return WasiGrants(
            clock=clock, random=random, env=env, read_only=folders, why_not=judge.why_not
        )

    async def _check_description(self, loaded: LoadedPlugin) -> None:
        """Hold what a guest says of itself against its manifest, which counts."""
        if "describe" not in loaded.guest.exports or loaded.plain_exports:
            return
        call = GuestCall(plugin=loaded.name, granted=loaded.granted)
        try:
            data = await self.call(loaded, "describe", b"{}", call)
            described = await aside(len(data), read_answer, Description, data, export="describe")
        except (GuestError, WireFormError) as error:
            raise GuestRefusedError(
                f"it cannot describe itself: {error}",
                guest=loaded.name,
                # What it asked of the host or of others may be there the next time.
                lasting=isinstance(error, WireFormError) and not isinstance(error, FaultError),
            ) from error
        known = {one.name for one in described.tools}
        for tool in loaded.manifest.tools:
            if known and tool.name not in known:
                raise GuestRefusedError(
                    f"the manifest names the tool {tool.name!r}, and it describes "
                    f"{', '.join(sorted(known))} alone",
                    guest=loaded.name,
                )


MOST_REFUSALS = 100
"""Records that one call makes of one function's refusals: a guest may try in a loop."""


def limits_of(manifest: Manifest, settings: WasmSettings) -> Limits:
    """Return what the calls of a plugin may use.

    Raises:
        HookgateError: It asks for more than the operator allows.
    """
    most = Limits(**settings.limits.model_dump())
    try:
        limits = within(manifest.limits, most)
    except ValueError as error:
        raise HookgateError(str(error)) from None
    for number, tool in enumerate(manifest.tools):
        if tool.timeout is not None and tool.timeout > most.seconds:
            raise HookgateError(
                f"`tools[{number}].timeout` is {tool.timeout:g}, and at most {most.seconds:g} are "
                "allowed here: the operator sets that in `[plugin.wasm.limits] seconds`"
            )
    return limits


def _check_exports(loaded: LoadedPlugin) -> None:
    manifest, exports = loaded.manifest, loaded.guest.exports
    needed = list(NEEDED[manifest.kind])
    if loaded.plain_exports:
        needed = [one.name for one in manifest.tools]
    if manifest.channel is not None and manifest.channel.polling is not None:
        needed.append("poll")
    missing = [name for name in needed if name not in exports]
    if missing:
        raise GuestRefusedError(
            f"it does not export {', '.join(missing)}, which a plugin of the kind "
            f"{manifest.kind!r} needs; it exports {', '.join(sorted(exports)) or 'nothing'}",
            guest=loaded.name,
        )
