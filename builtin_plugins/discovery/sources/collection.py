"""The capabilities that files and packages bring, kept up to date: which can be used or not."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hookgate import (
    Capability,
    CapabilityKind,
    ConfigError,
    Host,
    Operation,
    PluginInfo,
    Secrets,
    Settings,
    operations_of,
)
from hookgate.builtin_plugins.discovery.operations import CapabilityOperations
from hookgate.builtin_plugins.discovery.sources.folders import Root, Scan, roots_of, scan
from hookgate.builtin_plugins.discovery.sources.manifests import (
    CapabilityText,
    DeclaredCapability,
    display_name,
)
from hookgate.catalogue import described
from hookgate.hookspecs import PROJECT
from hookgate.kit.content.documents import NAME, DocumentReading, parse, read
from hookgate.kit.content.files import CONTENT_BYTES, read_text
from hookgate.kit.content.folders import ContentFolder
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.workspaces import SKILLS
from hookgate.settings import users_home

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


def read_catalogue(path: Path) -> DocumentReading[DeclaredCapability]:
    """Read a catalogue of extensions; TOML where the name ends in ``.toml``, else YAML.

    TOML has one ``[[extensions]]`` table for each, YAML a list, or one below ``extensions``. An
    entry that is wrong costs no other. It never raises.
    """
    try:
        text, stamp = read_text(path.resolve(), max_bytes=CONTENT_BYTES)
        document = parse(text, str(path))
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    at = ("extensions",) if isinstance(document.value, dict) else ()
    entries = document.value.get("extensions") if at else document.value
    if not isinstance(entries, list):
        problem = document.problem(at, shortened(entries), "a list of extensions")
        return DocumentReading(problems=(problem,))
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
    return DocumentReading(found=tuple(declared.values()), problems=tuple(problems))


# -- collection ------------------------------------------------------------------

# The capabilities that files and packages bring, kept up to date: which can be used or not.

ORDINARY = frozenset(
    {
        *("editor", "home", "hostname", "lang", "language", "logname", "mail", "oldpwd", "path"),
        *("pwd", "pythonpath", "shell", "term", "tmpdir", "tz", "user", "username"),
    }
)
"""Variables of every environment. Asked for as a secret, one's value would be masked from then on
wherever it is shown, and a file from anywhere may ask."""


@dataclass
class Availability:
    """Judges capabilities by what there is at one moment.

    Attributes:
        secrets: Where secrets are looked up; each once.
        tools: The names of the tools that are registered.
        channels: The names of the channels.
        disabled: The ids that the settings switch off.
        described: What manifests say of tools, by id: their requirements count, too.
    """

    secrets: Secrets
    tools: Collection[str]
    channels: Collection[str]
    disabled: Collection[str] = ()
    described: Mapping[str, Capability] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def reasons(self, row: Capability) -> tuple[str, ...]:
        """Return why `row` is not available; nothing where it is. It may read key files."""
        reasons = self._own(row)
        for tool in row.required_tools:
            if why := self._tool(tool, {row.id}):
                reasons.append(why)
        return tuple(dict.fromkeys(reasons))

    def _own(self, row: Capability) -> list[str]:
        reasons = []
        if not row.available:
            reasons.append("it is declared as not available")
        if row.id in self.disabled:
            reasons.append("the settings disable it")
        if row.kind == "tool" and row.name not in self.tools:
            reasons.append(f"no tool called {row.name} is registered: a manifest runs nothing")
        if row.kind == "channel" and row.name not in self.channels:
            reasons.append(f"no channel called {row.name} is registered")
        reasons += [why for name in row.required_secrets if (why := self._secret(name))]
        return reasons

    def _tool(self, name: str, asked: set[str]) -> str:
        """Return why a required tool cannot be used, or ""; tools may require each other."""
        row_id = f"tool:{name}"
        if name not in self.tools:
            return f"the tool {name} is not registered"
        if row_id in self.disabled:
            return f"the settings disable the tool {name}"
        row = self.described.get(row_id)
        if row is None or row_id in asked:
            return ""
        asked.add(row_id)
        inner = [*self._own(row), *(self._tool(one, asked) for one in row.required_tools)]
        return next((f"the tool {name} cannot be used: {why}" for why in inner if why), "")

    def _secret(self, name: str) -> str:
        if re.sub(r"[.-]", "_", name).lower() in ORDINARY:
            return f"{name} is no secret but an ordinary variable"
        if name not in self._known:
            try:
                there = self.secrets.get(name) is not None
                self._known[name] = "" if there else f"the secret {name} is not set"
            except ConfigError as error:
                self._known[name] = f"the secret {name} cannot be read: {error}"
        return self._known[name]


# -- collecting ------------------------------------------------------------------

# The capabilities that files and installed packages bring, kept up to date.


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What all sources hold at one moment. Two are equal where nothing has changed.

    Attributes:
        rows: Skills, extensions, and whatever else nobody brings but a file.
        descriptions: What manifests say of tools and channels; see `Host.descriptions`.
        problems: What is wrong, warnings included.
        reasons: Why a capability is not available, by id.
        scan: What the folders hold, to tell whether they have changed.
    """

    rows: tuple[Capability, ...] = ()
    descriptions: tuple[Capability, ...] = ()
    problems: tuple[Problem, ...] = ()
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scan: Scan = field(default_factory=Scan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What a reading depends on beside the files; gathered on the event loop."""

    tools: frozenset[str]
    channels: frozenset[str]
    plugins: tuple[PluginInfo, ...]
    running: tuple[PluginInfo, ...]
    replaced: Mapping[str, str]
    look_for_installed: bool
    settings: Settings


class Sources(ContentFolder[Collected]):
    """The folders, the installed extensions and the catalogue file of one gateway."""

    part = "capabilities"
    file = "capability file"
    brought = SKILLS

    def __init__(
        self,
        *,
        dirs: Sequence[Path] = (),
        skill_dirs: Sequence[Path] = (),
        catalogue: Path | None = None,
        disabled: Sequence[str] = (),
        debounce_ms: int = 500,
        environ: Mapping[str, str] | None = None,
        user_home: Path | None = None,
        workspace: Path | None = None,
        source: str = "discovery",
    ) -> None:
        """Choose what is read; nothing is opened yet.

        Args:
            dirs: More folders of manifests and skills.
            skill_dirs: Folders of skills alone.
            catalogue: A file that names extensions; see `read_catalogue`.
            disabled: Ids of capabilities that are not available whatever else holds.
            debounce_ms: The longest time for which a burst of changes is gathered.
            environ: The environment; this process's where it is None.
            user_home: The user's home folder; the one of this process where it is None.
            workspace: The folder that the gateway was started in; the current one where it is
                None.
            source: The name under which the rows are registered: the plugin's.
        """
        super().__init__(Collected(), workspace=workspace, debounce_ms=debounce_ms)
        self._dirs = tuple(dirs)
        self._skill_dirs = tuple(skill_dirs)
        self._catalogue = catalogue
        self._disabled = tuple(disabled)
        self._environ = os.environ if environ is None else environ
        self._user_home = users_home() if user_home is None else user_home
        self._source = source

    def roots(
        self,
        settings: Settings,
        accepted: Path | None = None,
        plugins: Sequence[PluginInfo] = (),
    ) -> tuple[Root, ...]:
        """Return the folders that are scanned, the most important one first.

        Args:
            settings: The gateway's settings.
            accepted: Where what the workspace brings is read, if somebody has accepted it.
            plugins: The plugins that run.
        """
        return roots_of(
            settings.home,
            environ=self._environ,
            user_home=self._user_home,
            workspace=self.workspace,
            folder=settings.folder,
            dirs=self._dirs,
            skill_dirs=self._skill_dirs,
            accepted=accepted,
            plugins=plugins,
        )

    def operations(self) -> Sequence[Operation[Any, Any]]:
        """Return the operations that show the capabilities and what is wrong with files."""
        return operations_of(CapabilityOperations(lambda: self.found))

    # -- reading -----------------------------------------------------------

    def paths(self, host: Host) -> Sequence[Path]:
        """Return the folders to watch, and the catalogue file."""
        found = [root.path for root in self.roots(host.settings, plugins=host.plugins())]
        return found if self._catalogue is None else [*found, self._catalogue]

    def reads_workspace(self, host: Host) -> bool:
        """Whether the workspace is none of the operator's own folders, which are read as that."""
        here, real = self.workspace, os.path.realpath
        own = real(host.settings.home) == real(here / ".hookgate")
        return not own and real(here) != real(self._user_home)

    async def read(self, host: Host, accepted: Path | None) -> tuple[Collected, Sequence[Problem]]:
        """Read everything again, on a thread.

        What manifests say of tools and channels goes to ``host.descriptions``.
        """
        found = await asyncio.to_thread(self._read_all, host, accepted, self._around(host))
        if found.descriptions != self.found.descriptions:
            host.descriptions.replace(self._source, found.descriptions)
        return found, found.problems

    def publish(self, host: Host, before: Collected) -> None:
        """Register the rows."""
        host.capabilities.replace(self._source, self.found.rows)
        host.log.info("capabilities changed", rows=len(self.found.rows))

    def _around(self, host: Host) -> _Around:
        plugins = host.settings.plugins
        return _Around(
            tools=frozenset(host.tools.view()),
            channels=frozenset(host.channels),
            plugins=tuple(host.plugins(every=True)) if plugins.entry_points else (),
            running=tuple(host.plugins()),
            replaced=dict(plugins.replace),
            look_for_installed=plugins.entry_points,
            settings=host.settings,
        )

    def _read_all(self, host: Host, accepted: Path | None, around: _Around) -> Collected:
        found = scan(self.roots(around.settings, accepted, around.running), self.found.scan)
        problems = list(found.problems)
        declared = {one.row.id: one.row for one in found.declared}
        if self._catalogue is not None:
            listed = read_catalogue(self._catalogue)
            problems += listed.problems
            problems += [_listed_in_vain(one) for one in listed.found if one.row.id in declared]
            declared = {one.row.id: one.row for one in listed.found} | declared
        reasons: dict[str, tuple[str, ...]] = {}
        if around.look_for_installed:
            points = list(entry_points(group=PROJECT))
            extensions, more = installed_extensions(around.plugins, around.replaced, points)
            problems += more
            for extension in extensions:
                row, said = extension.row, declared.get(extension.row.id)
                if extension.why:
                    reasons[row.id] = (extension.why,)
                declared[row.id] = row if said is None else described(row, said)
        for row_id in self._disabled:
            kind, _, name = row_id.partition(":")
            if kind in ("tool", "channel") and row_id not in declared:
                declared[row_id] = _silent(row_id, name, channel=kind == "channel")
        return self._judged(host, around, found, declared, problems, reasons)

    def _judged(
        self,
        host: Host,
        around: _Around,
        found: Scan,
        declared: Mapping[str, Capability],
        problems: Sequence[Problem],
        reasons: dict[str, tuple[str, ...]],
    ) -> Collected:
        judge = Availability(
            secrets=host.secrets,
            tools=around.tools,
            channels=around.channels,
            disabled=self._disabled,
            described=declared,
        )
        rows: list[Capability] = []
        descriptions: list[Capability] = []
        for row_id, row in declared.items():
            why = reasons.get(row_id, ()) + judge.reasons(
                replace(row, available=True) if row_id in reasons else row
            )
            if why:
                reasons[row_id] = why
            judged = replace(row, available=not why)
            about = row_id in (f"tool:{row.name}", f"channel:{row.name}")
            (descriptions if about else rows).append(judged)
        return Collected(
            rows=tuple(rows),
            descriptions=tuple(descriptions),
            problems=tuple(problems),
            reasons=reasons,
            scan=found,
        )


def _silent(row_id: str, name: str, *, channel: bool) -> Capability:
    """Return a row that says nothing of a thing but that it is switched off."""
    kind: CapabilityKind = "channel" if channel else "tool"
    return Capability(id=row_id, kind=kind, name=name, whose="own")


def _listed_in_vain(one: DeclaredCapability) -> Problem:
    return Problem(
        file=str(one.path),
        line=one.line,
        found=f"the id {one.row.id!r}, which a manifest has already",
        expected="another name; this entry is left out",
        severity="warning",
    )
