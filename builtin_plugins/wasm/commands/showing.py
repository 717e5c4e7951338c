"""A plugin of the sandbox on a terminal, and a folder that is read without a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.folders import Package
    from hookgate.builtin_plugins.wasm.settings import WasmSettings
    from hookgate.kit.commands import State

SAID_CHARS = 400
"""Of a stranger's prose; more could push what stands above it out of sight."""

MARKS = {True: "yes", False: "no", None: "unknown"}


def settings_of(state: State) -> WasmSettings:
    """Return ``[plugin.wasm]``.

    Raises:
        ConfigError: It is wrong.
    """
    from hookgate.builtin_plugins.wasm.settings import WasmSettings
    from hookgate.settings import section_of

    with state.placed():
        return section_of(state.settings, "wasm", WasmSettings)


def folder_of(target: str) -> Path | None:
    """Return the plugin folder that `target` is; None where it is none, but a name perhaps."""
    from hookgate.builtin_plugins.wasm.packages.manifest import MANIFEST

    folder = Path(target).expanduser()
    # A folder without a manifest is still meant as one, and its error says what is missing.
    if (folder / MANIFEST).is_file() or (folder.is_dir() and "/" in target):
        return folder.absolute()
    return None


def read_folder(folder: Path, settings: WasmSettings) -> Package:
    """Read a plugin's folder.

    Raises:
        HookgateError: It cannot be used.
    """
    from hookgate.builtin_plugins.wasm.packages.folders import read_package

    return read_package(folder, max_bytes=settings.limits.module_bytes)


def detail_lines(detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a plugin brings and may do, for a person who decides on it."""
    from hookgate.kit.rendering import one_line, short

    what = "a channel" if detail["kind"] == "channel" else "tools"
    yield one_line(f"{detail['name']} {detail['version']}: {what}, in {detail['folder']}")
    if detail["description"]:
        yield f"  it says of itself: {short(detail['description'], SAID_CHARS)}"
    yield f"  digest {detail['digest']} (module {detail['module']}, {detail['bytes']:,} bytes)"
    yield "  it may do what follows, and nothing else beside computing:"
    yield from (f"    {one_line(one)}" for one in detail["grants"])
    if not detail["grants"]:
        yield "    (nothing)"
    limits = detail["limits"]
    if limits:
        yield (
            f"  a call may take {limits['seconds']:g} s, {limits['fuel']:,.0f} instructions and "
            f"{limits['memory_bytes'] / 1024 / 1024:g} MB"
        )
    for tool in detail["tools"]:
        yield one_line(f"  tool {tool['name']}: ") + short(tool["description"], SAID_CHARS)
        for name, flag in tool["flags"].items():
            ground = f" ({flag['ground']})" if flag["ground"] else ""
            yield one_line(f"    {name}: {MARKS[flag['value']]}, {flag['standing']}{ground}")
    if detail["connection"]:
        yield f"  channel by {detail['connection']}"
    if detail["exports"]:
        yield one_line(f"  {detail['form']} module, exports {', '.join(detail['exports'])}")
    yield from (one_line(f"  not as it was accepted: {one}") for one in detail["changes"])
    if detail["problem"]:
        yield one_line(f"  it cannot be loaded: {detail['problem']}")
