"""``hookgate wasm new``, ``inspect``, ``install`` and ``run``: a folder, before it counts.

A folder is read without a gateway, and nothing of it runs but by ``run``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hookgate.builtin_plugins.wasm.kits import Kind, Language
from hookgate.kit.commands import JsonOption, State, state_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.wasm.packages.folders import Package
    from hookgate.builtin_plugins.wasm.settings import WasmSettings

SAID_CHARS = 400
"""Of a stranger's prose; more could push what stands above it out of sight."""

MARKS = {True: "yes", False: "no", None: "unknown"}

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Accept what is shown without being asked.")
]


def new(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The plugin's name, such as acme-text.", show_default=False)
    ],
    lang: Annotated[
        Language, typer.Option("--lang", help="What it is written in.", show_default=False)
    ],
    kind: Annotated[
        Kind, typer.Option("--kind", help="What it brings; a channel in Rust or Python.")
    ] = Kind.TOOL,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where to write it; a folder of its name where that is left out.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a plugin for the sandbox: manifest, source and kit. Nothing is overwritten.

    Examples:
        hookgate wasm new acme-text --lang rust
        hookgate wasm new acme-pager --lang rust --kind channel
    """
    from hookgate.builtin_plugins.wasm.kits.scaffold import create

    target = folder or Path(name)
    written = create(name, target, lang, kind)

    data = {"plugin": name, "folder": str(target), "files": [str(path) for path in written]}
    then = f"next: build it, as {target / 'README.md'} says"
    state_of(ctx).show(data, [*(f"wrote {path}" for path in written), then])


def inspect(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="PLUGIN", help="A plugin's folder, or the name of one.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what a plugin brings, what it may do, and what that proves about its tools.

    A folder is read without a gateway, and nothing of it runs.

    Example:
        hookgate wasm inspect ./weather
    """
    state = state_of(ctx)
    folder = folder_of(target)
    if folder is None:
        data = state.ask("wasm.inspect", {"name": target})
    else:
        from hookgate.builtin_plugins.wasm.operations import detail_of

        settings = settings_of(state)
        data = detail_of(read_folder(folder, settings), settings).model_dump(mode="json")

    state.show(data, detail_lines(data))


def install(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(help="The plugin's folder.")],
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Copy a plugin into the home folder and let it run, once you have seen what it may do.

    Installing one of the same name takes its place. What counts is the copy: what changes in the
    folder afterwards changes nothing.

    Example:
        hookgate wasm install ./weather
    """
    state = state_of(ctx)
    place = folder_of(folder)
    if place is None:
        from hookgate.builtin_plugins.wasm.packages.folders import MANIFEST

        raise typer.BadParameter(
            f"found no folder {folder!r} with {MANIFEST}, expected a plugin's folder"
        )
    from hookgate.builtin_plugins.wasm.operations import detail_of

    settings = settings_of(state)
    detail = detail_of(read_folder(place, settings), settings).model_dump(mode="json")
    _ask(detail, yes=yes)
    params = {"folder": str(place), "digest": detail["digest"]}
    _tell(state, state.ask("wasm.install", params))


def _ask(detail: Mapping[str, Any], *, yes: bool) -> None:
    """Show what somebody is about to accept, and ask."""
    for line in detail_lines(detail):
        typer.echo(line, err=True)
    if not yes:
        typer.confirm("May it do that?", abort=True, err=True)


def _tell(state: State, data: Mapping[str, Any]) -> None:
    from hookgate.kit.rendering import one_line

    said = [one_line(f"installed {data['name']} {data['version']}")]
    if data["why"]:
        told = "not yet" if data["state"] == "loading" else "it does not run"
        said.append(one_line(f"{told}: {data['why']}"))
    state.show(data, said, failed=data["state"] not in ("running", "loading"))


def run(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="PLUGIN", help="A plugin's folder, or the name of one installed."),
    ],
    tool: Annotated[
        str, typer.Argument(help="One of its tools; of a channel, one of its exports.")
    ],
    arguments: Annotated[
        str, typer.Argument(metavar="JSON", help="The arguments, an object.")
    ] = "{}",
    as_json: JsonOption = False,
) -> None:
    """Run a tool of a plugin once, without a gateway, under its grants and limits.

    No policy is asked and no model: you are. Secrets and the way out are those of the settings;
    what it keeps in its store is forgotten at the end. Exits with 1 where the tool fails.

    Example:
        hookgate wasm run ./echo echo '{"text": "hello"}'
    """
    from rich.text import Text

    from hookgate.builtin_plugins.wasm.host.single_call import try_out
    from hookgate.kit.rendering import clean

    state = state_of(ctx)
    settings = settings_of(state)
    package = _package(state, target, settings)
    given = _object(arguments)
    result = state.run(try_out(state.settings, settings, package, tool, given))
    data = {"content": result.text, "is_error": result.is_error, "status": result.status}

    said = Text(clean(result.text), style="bold red" if result.is_error else "")
    state.show(data, said, failed=result.is_error)


def _package(state: State, target: str, settings: WasmSettings) -> Package:
    folder = folder_of(target)
    if folder is None:
        verified = state.ask("wasm.verify")["plugins"]
        known = next((row for row in verified if row["name"] == target), None)
        if known is None:
            raise typer.BadParameter(
                f"found neither a plugin's folder {target!r} nor an accepted plugin of that name; "
                "`hookgate wasm list` shows all"
            )
        folder = Path(known["folder"])
    return read_folder(folder, settings)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"found no JSON ({error}), expected an object") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"found {text[:60]!r}, expected an object such as '{{}}'")
    return found


def settings_of(state: State) -> WasmSettings:
    """Return ``[plugin.wasm]``.

    Raises:
        ConfigError: It is wrong.
    """
    from hookgate.builtin_plugins.wasm.settings import WasmSettings

    return state.section("wasm", WasmSettings)


def folder_of(target: str) -> Path | None:
    """Return the plugin folder that `target` is; None where it is none, but a name perhaps."""
    from hookgate.builtin_plugins.wasm.packages.folders import MANIFEST

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


COMMANDS = {"wasm new": new, "wasm inspect": inspect, "wasm install": install, "wasm run": run}
"""What the command line finds here, by its words."""
