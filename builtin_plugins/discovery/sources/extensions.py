"""Extensions: the plugins that are installed, whether they run or not, and a catalogue file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from hookgate import Capability, PluginInfo
from hookgate.builtin_plugins.discovery.sources.manifests import (
    CapabilityText,
    DeclaredCapability,
    display_name,
)
from hookgate.hookspecs import PROJECT
from hookgate.kit.content.documents import NAME, Reading, parse, read
from hookgate.kit.content.files import CONTENT_BYTES, read_text
from hookgate.kit.content.problems import ContentError, Problem, shortened

CATEGORY = "extension"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """An installed plugin.

    Attributes:
        row: The capability; `available` is whether the plugin runs.
        why: Why it does not run; "" where it does.
    """

    row: Capability
    why: str = ""


def installed_extensions(
    infos: Sequence[PluginInfo],
    replaced: Mapping[str, str],
    points: Sequence[EntryPoint] | None = None,
) -> tuple[list[Extension], list[Problem]]:
    """Return the plugins of installed distributions, in the order of their names.

    Args:
        infos: What the gateway knows of its plugins.
        replaced: Builtin name -> name of the plugin that runs in its place.
        points: The entry points; those of this environment where it is None.

    Returns:
        The extensions, and the entry points whose names cannot be shown.
    """
    if points is None:
        points = list(entry_points(group=PROJECT))
    roles = {other: builtin for builtin, other in replaced.items()}
    states = {(info.name, info.origin): info for info in infos}
    found: dict[str, Extension] = {}
    problems: list[Problem] = []
    for point in sorted(points, key=lambda one: one.name):
        dist = point.dist
        name, version = (dist.name, dist.version) if dist else ("an unknown distribution", "")
        if not NAME.fullmatch(point.name):
            problems.append(
                Problem(
                    file=name,
                    found=f"a plugin called {shortened(point.name)}",
                    expected="a name of letters, digits, `.`, `_` and `-`, at most 64",
                    severity="warning",
                )
            )
            continue
        origin = f"{name} {version}".strip()
        info = states.get((roles.get(point.name, point.name), origin))
        info = info or states.get((point.name, origin))
        runs = info is not None and info.state == "running"
        summary = dist.metadata["Summary"] if dist and "Summary" in dist.metadata else ""
        row = Capability(
            id=f"extension:{point.name}",
            kind="extension",
            name=point.name,
            display_name=display_name(point.name),
            description=_shown(summary or f"A plugin of the distribution {name}."),
            category=CATEGORY,
            available=runs,
            source_ref=f"{name}=={version}" if version else name,
            whose="plugin",
        )
        why = "" if runs else "its plugin does not run"
        if info is not None and not runs:
            why = f"its plugin does not run: {info.state}, {info.reason}"
        found.setdefault(row.id, Extension(row=row, why=why))
    return list(found.values()), problems


def _shown(text: str) -> str:
    """Return somebody's one-line summary as it can be shown."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())[:1024]


class ListedExtension(CapabilityText):
    """An entry of a catalogue."""

    available: bool = True


def read_catalogue(path: Path) -> Reading[DeclaredCapability]:
    """Read a catalogue of extensions; TOML where the name ends in ``.toml``, else YAML.

    TOML has one ``[[extensions]]`` table for each, YAML a list, or one below ``extensions``. An
    entry that is wrong costs no other. It never raises.
    """
    try:
        text, stamp = read_text(path.resolve(), max_bytes=CONTENT_BYTES)
        document = parse(text, str(path))
    except ContentError as error:
        return Reading(problems=(error.problem,))
    at = ("extensions",) if isinstance(document.value, dict) else ()
    entries = document.value.get("extensions") if at else document.value
    if not isinstance(entries, list):
        problem = document.problem(at, shortened(entries), "a list of extensions")
        return Reading(problems=(problem,))
    declared: dict[str, DeclaredCapability] = {}
    problems: list[Problem] = []
    for number in range(len(entries)):
        reading = read(ListedExtension, document, (*at, number), lenient=True)
        problems += reading.problems
        if (listed := reading.one) is None:
            continue
        row = listed.row(
            id=f"extension:{listed.name}",
            kind="extension",
            category=listed.category or CATEGORY,
            available=listed.available,
            source_ref=f"{path}:{reading.line}",
            whose="own",
        )
        if row.id in declared:
            place, found = (*at, number, "name"), shortened(row.name)
            problems.append(document.problem(place, found, "each extension once"))
        else:
            declared[row.id] = DeclaredCapability(
                row=row, path=path, line=reading.line, stamps=(stamp,)
            )
    return Reading(found=tuple(declared.values()), problems=tuple(problems))
