"""Where manifests and skills are looked for, and what a scan of these folders finds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Literal

from hookgate import PluginInfo
from hookgate.builtin_plugins.discovery.sources.manifests import (
    CONTENT,
    MANIFEST,
    SCHEMA,
    SKILL,
    DeclaredCapability,
    read_manifest,
    read_skill,
)
from hookgate.catalogue import Whose
from hookgate.kit.content.documents import DocumentReading
from hookgate.kit.content.files import stamp_of
from hookgate.kit.content.folders import left_out
from hookgate.kit.content.problems import ContentError, Problem
from hookgate.kit.content.workspaces import SKILLS

FOLDER_DEPTH = 8
"""Folders below a root are looked into this deep."""

FOLDERS = 250_000
"""Folders below one root that are looked into: a root such as / must have an end."""

# The format's own folders beside a SKILL.md hold its material; a template there is no skill.
MATERIAL = {"assets", "references", "scripts"}
PASSED_OVER = {"__pycache__", "node_modules"}
MISSPELT = {"CAPABILITY.yml", "capability.yaml", "capability.yml", "Capability.yaml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A folder that is scanned.

    Attributes:
        path: The folder.
        origin: Why it is scanned: ``user``, ``workspace``, ``environment``, ``settings``,
            ``plugin`` or ``hookgate``.
        skills_only: Whether manifests in it are passed over.
        expected: Whether somebody named it, so that its absence is worth a word.
        whose: Whose the words in it are; a workspace may come from anywhere.
    """

    path: Path
    origin: Literal["user", "workspace", "environment", "settings", "plugin", "hookgate"]
    skills_only: bool = False
    expected: bool = False
    whose: Whose = "own"


def shipped_folder() -> Path:
    """Return the folder of the capabilities that come with hookgate."""
    return Path(str(files("hookgate"))) / "capabilities"


def whose_of(plugin: PluginInfo) -> Whose:
    """Return whose the words are that come with a plugin: an embedding program speaks itself."""
    return "own" if plugin.origin == "program" else "plugin"


def roots_of(
    home: Path,
    *,
    environ: Mapping[str, str],
    user_home: Path,
    workspace: Path,
    folder: Path,
    dirs: Sequence[Path] = (),
    skill_dirs: Sequence[Path] = (),
    accepted: Path | None = None,
    plugins: Sequence[PluginInfo] = (),
) -> tuple[Root, ...]:
    """Return the folders to scan; of two that have the same id, the earlier one counts.

    Args:
        home: The gateway's home folder.
        environ: Names more folders in ``HOOKGATE_CAPABILITY_DIRS``, separated as in ``PATH``.
            ``AGENTOS_CAPABILITY_DIRS`` is read behind it, and so are the ``.agentos`` folders
            behind those of the same rank.
        user_home: The user's home folder.
        workspace: The folder in which the gateway was started.
        folder: The folder of the settings file, where relative paths of the environment begin.
        dirs: More folders of the settings.
        skill_dirs: Folders of the settings in which there are skills alone.
        accepted: Where what the workspace brings is read; None where nobody has accepted it. Of
            its folders those count all the same that the environment or the settings name.
        plugins: The plugins that run; what comes with their packages is read.
    """
    named = [
        folder / Path(part).expanduser()
        for variable in ("HOOKGATE_CAPABILITY_DIRS", "AGENTOS_CAPABILITY_DIRS")
        for part in environ.get(variable, "").split(os.pathsep)
        if part
    ]
    candidates = [
        Root(path=home / "capabilities", origin="user"),
        Root(path=user_home / ".agentos" / "capabilities", origin="user"),
        *(
            Root(path=place / name, origin="workspace", whose="foreign")
            for place in (() if accepted is None else (accepted,))
            for name in SKILLS
        ),
        *(Root(path=path, origin="environment", expected=True) for path in named),
        *(Root(path=path, origin="settings", expected=True) for path in dirs),
        *(
            Root(path=path, origin="settings", skills_only=True, expected=True)
            for path in skill_dirs
        ),
        *(
            Root(path=info.content, origin="plugin", whose=whose_of(info))
            for info in plugins
            if info.content is not None
        ),
        Root(path=shipped_folder(), origin="hookgate", expected=True),
    ]
    own = {Path(os.path.realpath(root.path)) for root in candidates if root.origin == "user"}
    brought = [Path(os.path.realpath(workspace / name)) for name in SKILLS]
    roots: dict[Path, Root] = {}
    for root in candidates:
        real = Path(os.path.realpath(root.path))
        if any(real.is_relative_to(one) for one in brought if one not in own):
            root = replace(root, whose="foreign")
        roots.setdefault(real, root)
    return tuple(roots.values())


@dataclass
class Walk:
    """A walk over one root, in the order of names.

    Attributes:
        root: The root.
        problems: What could not be looked into.
    """

    root: Root
    problems: list[Problem] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def files(self) -> Iterator[Path]:
        """Yield every CAPABILITY.yaml, and every SKILL.md that has none beside it."""
        path = self.root.path
        if not path.is_dir():
            if self.root.expected or path.exists() or path.is_symlink():
                found = "something that is no folder" if path.exists() else "no such folder"
                self._warn(path, found, "a folder of capabilities")
            return
        top = os.path.realpath(path)
        yield from self._folder(path, top, top, 0, within=False)

    def _folder(
        self, folder: Path, real: str, top: str, depth: int, *, within: bool
    ) -> Iterator[Path]:
        if real in self._seen:
            return
        if len(self._seen) >= FOLDERS:
            if len(self._seen) == FOLDERS:
                self._warn(folder, f"more than {FOLDERS} folders", "a folder of capabilities alone")
                self._seen.add("")
            return
        self._seen.add(real)
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            why = (error.strerror or "an error").lower()
            self.problems.append(
                Problem(file=str(folder), found=why, expected="a folder that can be read")
            )
            return
        names = {entry.name for entry in listed}
        own = self._own(folder, names)
        if own is not None:
            yield own
        for entry in listed:
            inner = within or own is not None
            below = self._real(entry, real, top, within=inner)
            if below is not None:
                if depth == FOLDER_DEPTH:
                    self._warn(Path(entry.path), "a deeper folder", f"at most {FOLDER_DEPTH} deep")
                    return
                yield from self._folder(folder / entry.name, below, top, depth + 1, within=inner)

    def _own(self, folder: Path, names: set[str]) -> Path | None:
        if not self.root.skills_only:
            if MANIFEST in names:
                return folder / MANIFEST
            for name in sorted(names & MISSPELT):
                self._warn(folder / name, f"the name {name}", f"the name {MANIFEST}")
        return folder / SKILL if SKILL in names else None

    def _real(self, entry: os.DirEntry[str], folder: str, top: str, *, within: bool) -> str | None:
        """Return where a folder really is that is to be looked into; None for anything else."""
        name = entry.name
        if name.startswith(".") or name in PASSED_OVER or (within and name in MATERIAL):
            return None
        try:
            if not entry.is_dir():
                return None
            linked = entry.is_symlink()
        except OSError as error:
            self._warn(Path(entry.path), (error.strerror or "an error").lower(), "a folder")
            return None
        real = os.path.realpath(entry.path) if linked else os.path.join(folder, name)
        if linked and not Path(real).is_relative_to(top):
            found = f"a link that leads out of {self.root.path}"
            expected = "a folder within: copy it there, or name its target in the settings"
            self.problems.append(Problem(file=entry.path, found=found, expected=expected))
            return None
        return real

    def _warn(self, path: Path, found: str, expected: str) -> None:
        self.problems.append(
            Problem(file=str(path), found=found, expected=expected, severity="warning")
        )


# -- Scanning folders for manifests and skills -----------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the folders hold. Two scans are equal where nothing has changed.

    Attributes:
        declared: The capabilities, each id once, in the order of folders and names.
        problems: What is wrong, and which files were left out for an earlier one.
    """

    declared: tuple[DeclaredCapability, ...] = ()
    problems: tuple[Problem, ...] = ()


def scan(roots: Sequence[Root], before: Scan | None = None) -> Scan:
    """Read every manifest and skill below `roots`. It blocks, and never raises.

    Args:
        roots: The folders, the most important one first.
        before: An earlier scan: files that have not changed since are not read again.
    """
    known = _without_problems(before or Scan())
    now = time.time_ns()
    first: dict[str, DeclaredCapability] = {}
    problems: list[Problem] = []
    for root in roots:
        walk = Walk(root)
        for path in walk.files():
            same = known.get(path)
            if same is not None and _is_unchanged(same, now):
                reading = DocumentReading(found=(same,))
            else:
                reading = read_manifest(path) if path.name == MANIFEST else read_skill(path)
            problems += reading.problems
            for read in reading.found:
                declared = read
                if read.row.whose != root.whose:
                    declared = replace(read, row=replace(read.row, whose=root.whose))
                winner = first.setdefault(declared.row.id, declared)
                if winner is not declared:
                    file, first_file = str(declared.path), str(winner.path)
                    problems.append(
                        left_out(
                            declared.row.id,
                            file=file,
                            line=declared.line,
                            winner=first_file,
                            what="file",
                        )
                    )
        problems += walk.problems
    return Scan(declared=tuple(first.values()), problems=tuple(problems))


def _without_problems(before: Scan) -> dict[Path, DeclaredCapability]:
    """Return what can be taken over; what is worth a word is read, and said, again."""
    named = {problem.file for problem in before.problems}
    return {one.path: one for one in before.declared if str(one.path) not in named}


def _is_unchanged(declared: DeclaredCapability, now: int) -> bool:
    """Whether a file and those that it names are the ones that were read.

    A file that changed just now does not count: it may change again within the same tick of
    the clock that stamps it.
    """
    try:
        if os.stat(declared.path).st_ino != declared.stamps[0].inode:
            return False  # A link leads to another file now.
        for stamp in declared.stamps:
            if not stamp.is_settled(now) or stamp_of(Path(stamp.path)) != stamp:
                return False
    except (OSError, ContentError):
        return False
    if declared.path.name != MANIFEST:
        return True
    beside = {os.path.basename(stamp.path) for stamp in declared.stamps}
    folder = declared.path.parent
    return all(os.path.lexists(folder / name) == (name in beside) for name in (CONTENT, SCHEMA))
