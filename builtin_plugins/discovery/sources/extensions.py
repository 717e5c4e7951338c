"""Extensions: the plugins that are installed, whether they run or not, and a catalogue file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hookgate import Capability, PluginInfo
from hookgate.builtin_plugins.discovery.sources.manifests import Declared, Reading, display_name
from hookgate.hookspecs import PROJECT
from hookgate.kit.content.fields import (
    DESCRIPTION_CHARS,
    DISPLAY_CHARS,
    LABEL,
    NAME,
    SECRET,
    TOOL,
    Fields,
)
from hookgate.kit.content.files import CONTENT_BYTES, Stamp, read_text
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.yaml_reader import Place, SourceDocument, read_yaml
from hookgate.settings import locate

CATEGORY = "extension"

KEYS = (
    "name",
    "description",
    "display_name",
    "category",
    "tags",
    "examples",
    "available",
    "required_secrets",
    "required_tools",
)


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
    return " ".join(shown.split())[:DESCRIPTION_CHARS]


def read_catalogue(path: Path) -> Reading:
    """Read a catalogue of extensions; TOML where the name ends in ``.toml``, else YAML.

    TOML has one ``[[extensions]]`` table for each, YAML a list, or one below ``extensions``.
    It never raises.
    """
    try:
        text, stamp = read_text(path.resolve(), max_bytes=CONTENT_BYTES)
        document = _toml(text, path) if path.suffix == ".toml" else read_yaml(text, str(path))
    except ContentError as error:
        return Reading(problems=(error.problem,))
    at = ("extensions",) if isinstance(document.value, dict) else ()
    entries = document.value.get("extensions") if at else document.value
    if not isinstance(entries, list):
        problem = document.problem(at, shortened(entries), "a list of extensions")
        return Reading(problems=(problem,))
    declared: dict[str, Declared] = {}
    problems: list[Problem] = []
    for number, entry in enumerate(entries):
        where = (*at, number)
        if not isinstance(entry, dict):
            problems.append(document.problem(where, shortened(entry), "the keys of an extension"))
            continue
        fields = Fields(document, where)
        made = _entry(fields, path, document.places.get(where, Place(1, 1)), stamp)
        if made is not None and made.row.id in declared:
            fields.problem("name", shortened(made.row.name), "each extension once")
        elif made is not None:
            declared[made.row.id] = made
        problems += fields.problems
    return Reading(declared=tuple(declared.values()), problems=tuple(problems))


def _entry(fields: Fields, path: Path, place: Place, stamp: Stamp) -> Declared | None:
    fields.only(KEYS)
    fields.required("name")
    fields.required("description")
    name = fields.text("name", NAME)
    available = fields.truth("available")
    row = Capability(
        id=f"extension:{name}",
        kind="extension",
        name=name,
        display_name=fields.prose("display_name", DISPLAY_CHARS) or display_name(name),
        description=fields.prose("description", DESCRIPTION_CHARS),
        category=fields.text("category", LABEL) or CATEGORY,
        tags=fields.texts("tags", LABEL),
        examples=fields.examples("examples"),
        required_secrets=fields.texts("required_secrets", SECRET),
        required_tools=fields.texts("required_tools", TOOL),
        available=available is not False,
        source_ref=f"{path}:{place.line}",
        whose="own",
    )
    row = replace(
        row, required_tools=tuple(one.removeprefix("tool:") for one in row.required_tools)
    )
    if fields.failed:
        return None
    return Declared(row=row, path=path, line=place.line, stamps=(stamp,))


def _toml(text: str, path: Path) -> SourceDocument:
    def refuse(found: str) -> ContentError:
        return ContentError(Problem(file=str(path), found=f"no TOML ({found})", expected="TOML"))

    try:
        value: dict[str, Any] = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise refuse(str(error)) from None
    except RecursionError:
        raise refuse("it is nested too deep") from None
    places = {key: Place(line, 1) for key, line in locate(text).items()}
    return SourceDocument(file=str(path), value=value, places=places)
