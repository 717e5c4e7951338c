"""Reading what lies in a runtime's folder: bounded, within the folder, and never for writing."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from json.scanner import py_make_scanner  # type: ignore[attr-defined]  # typeshed has not got it
from pathlib import Path
from typing import Any

from hookgate.kit.content.files import CONTENT_BYTES, Stamp, inside, read_text, stamp_of
from hookgate.kit.content.frontmatter import split
from hookgate.kit.content.problems import ContentError
from hookgate.kit.content.yaml_reader import read_yaml

CONFIG_BYTES = 1024 * 1024
"""The largest file of settings."""

AT_ONCE = 256 * 1024
"""Characters of JSON that are read in one go; it takes some milliseconds."""

DEPTH = 6
"""So many folders below the folder of skills are looked into."""

ENTRIES = 20_000
"""So many files and folders of one folder of skills are looked at."""

SKILLS = 2000
"""So many skills of one folder are read."""

PROJECTS = 200
"""So many projects of one runtime are read."""

PROBLEMS = 20
"""So many problems of one home are told."""

DESCRIPTION_CHARS = 1024
NAME_CHARS = 128

SKILL = "SKILL.md"
MARKDOWN = ".md"

_PASSED_OVER = frozenset(
    {"__pycache__", "assets", "env", "node_modules", "references", "scripts", "templates", "venv"}
)
"""Folders that belong to a skill, or to no skill. Those that begin with a dot are passed over."""


class Home:
    """The folder of a runtime, opened for reading alone.

    Attributes:
        root: The folder.
        also: Other folders that links of skills may lead into, such as one that runtimes share.
        problems: What could not be read, and why, for people.
    """

    def __init__(self, root: Path, also: Sequence[Path] = ()) -> None:
        self.root = root.expanduser()
        self.also = tuple(also)
        self.problems: list[str] = []

    def exists(self) -> bool:
        """Whether the folder is there.

        Raises:
            OSError: It cannot be looked at: then nobody knows what is in it.
        """
        return self.root.is_dir()

    def tell(self, problem: str) -> None:
        """Note what could not be read."""
        if len(self.problems) < PROBLEMS:
            self.problems.append(problem[:1000])

    def text(self, name: str, *, max_bytes: int = CONFIG_BYTES) -> str | None:
        """Return what a file holds; None where it is not there, or a problem was noted."""
        path = self.root / name
        if not os.path.lexists(path):
            return None
        try:
            return read_text(inside(self.root, name, file=path), max_bytes=max_bytes)[0]
        except ContentError as error:
            self.tell(str(error))
            return None

    def json(self, name: str, *, max_bytes: int = CONFIG_BYTES) -> dict[str, Any]:
        """Return the object that a JSON file holds; {} where there is none."""
        text = self.text(name, max_bytes=max_bytes)
        if text is None or not text.strip():
            return {}
        try:
            return self._object(name, _parsed(text))
        except (ValueError, RecursionError) as error:
            self.tell(f"{self.root / name}: found no JSON ({error}), expected an object")
            return {}

    def json5(self, name: str) -> dict[str, Any]:
        """Return the object that a file of JSON5 holds, as people write it; {} without one."""
        text = self.text(name)
        if text is None or not text.strip():
            return {}
        try:
            return self._object(name, json.loads(_plain_json(text)))
        except (ValueError, RecursionError) as error:
            self.tell(f"{self.root / name}: found no JSON5 ({error}), expected an object")
            return {}

    def toml(self, name: str) -> dict[str, Any]:
        """Return what a TOML file holds; {} where there is none."""
        text = self.text(name)
        if text is None:
            return {}
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            self.tell(f"{self.root / name}: found no TOML ({error})")
            return {}

    def yaml(self, name: str) -> dict[str, Any]:
        """Return what a YAML file holds; {} where there is none."""
        text = self.text(name)
        if text is None:
            return {}
        path = str(self.root / name)
        try:
            value = read_yaml(text, path, max_bytes=CONFIG_BYTES, max_values=50_000).value
        except ContentError as error:
            self.tell(str(error))
            return {}
        return {} if value is None else self._object(name, value)

    def table(self, data: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
        """Return the object under `key` of what the file `name` holds; {} where there is none."""
        value = data.get(key)
        return {} if value is None else self._object(f"{name}: {key}", value)

    def _object(self, name: str, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self.tell(f"{self.root / name}: found a {type(value).__name__}, expected an object")
        return {}


def _parsed(text: str) -> Any:
    """Read JSON, on whatever thread, without holding up the others.

    The parser in C lets no other thread run before it is done, which takes it a tenth of a second
    for ten megabytes. The one in Python takes several times as long, and lets the event loop go on.
    """
    if len(text) <= AT_ONCE:
        return json.loads(text)
    decoder = json.JSONDecoder()
    decoder.scan_once = py_make_scanner(decoder)  # type: ignore[attr-defined]  # as above
    return decoder.decode(text)


_TOKEN = re.compile(
    r"""(?P<space>(?:\s++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)++)
    |(?P<double>"(?:[^"\\\n]++|\\.)*+")
    |'(?P<single>(?:[^'\\\n]++|\\.)*+)'
    |(?P<word>[^\W\d][\w$]*+|\$[\w$]*+)
    |(?P<number>[-+]?(?:0[xX][\da-fA-F]++|(?:\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?+))
    |(?P<mark>[{}\[\]:,])""",
    re.VERBOSE | re.DOTALL,
)
"""A token of JSON5, in as much of it as people write into settings."""


def _plain_json(text: str) -> str:
    """Return JSON5 as JSON: no comments, all keys in quotes, no comma before the end.

    Raises:
        ValueError: It is none.
    """
    made: list[str] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: found {text[at : at + 20]!r}")
        at = token.end()
        kind, said = token.lastgroup, token.group(token.lastgroup or 0)
        if kind == "single":
            said = '"' + re.sub(r"\\'", "'", re.sub(r'(?<!\\)"', r"\"", said)) + '"'
        elif kind == "word" and said not in {"true", "false", "null"}:
            said = json.dumps(said)
        elif kind == "number":
            said = repr(int(said, 16) if "x" in said.lower() else float(said)).removesuffix(".0")
        if kind == "mark" and said in "}]" and made and made[-1] == ",":
            made.pop()
        if kind != "space":
            made.append(said)
    return "".join(made)


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A folder with a SKILL.md, or a file of a folder in which each Markdown file is one.

    Attributes:
        key: The folder or file, from the folder that was read.
        name: What its frontmatter calls it; the folder's own name where it says nothing.
        description: What it is for.
        path: The file.
        problem: What is wrong with it; "" for nothing.
        usable: Whether it can be read at all.
    """

    key: str
    name: str
    description: str
    path: Path
    problem: str = ""
    usable: bool = True


class Skills:
    """Reads folders of skills. What has not changed since is not read again."""

    def __init__(self, *, each_file: bool = False) -> None:
        """Read folders with a SKILL.md.

        Args:
            each_file: Whether each Markdown file is one instead, as commands and subagents are.
        """
        self._each_file = each_file
        self._known: dict[Path, tuple[Stamp, SkillFile]] = {}

    def read(self, homes: Mapping[str, tuple[Home, str]]) -> dict[str, list[SkillFile]]:
        """Return the skills of each folder; the folders are named with their homes.

        Args:
            homes: By any name, the home, and the folder of skills within it.
        """
        known: dict[Path, tuple[Stamp, SkillFile]] = {}
        found = {
            name: list(self._of(home, within, known)) for name, (home, within) in homes.items()
        }
        self._known = known
        return found

    def _of(
        self, home: Home, within: str, known: dict[Path, tuple[Stamp, SkillFile]]
    ) -> Iterator[SkillFile]:
        root = home.root / within
        for number, path in enumerate(_files(home, root, each_file=self._each_file)):
            if number == SKILLS:
                home.tell(f"{root}: found more than {SKILLS} skills; the others are left out")
                return
            place = path.with_suffix("") if self._each_file else path.parent
            key = place.relative_to(root).as_posix()
            if place.is_symlink() and not _leads_inside(home, place):
                problem = "a link that leads out of the home, which is not followed"
                yield SkillFile(key, place.name, "", path, problem)
                continue
            try:
                stamp = stamp_of(path)
                before = self._known.get(path)
                skill = before[1] if before and before[0] == stamp else _skill(home, path, key)
            except ContentError as error:
                yield SkillFile(key, place.name, "", path, str(error), usable=False)
                continue
            known[path] = (stamp, skill)
            yield skill


def _files(home: Home, root: Path, *, each_file: bool) -> Iterator[Path]:
    """Yield the files of skills below a folder, in order; those of links out of the home too."""
    if not os.path.lexists(root):
        return
    if not _leads_inside(home, root):
        home.tell(f"{root}: found a link that leads out of the home, which is not followed")
        return
    left, seen = ENTRIES, set[tuple[int, int]]()
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                found = sorted(islice(entries, left + 1), key=lambda one: one.name)
        except OSError as error:
            home.tell(f"{folder}: {(error.strerror or 'it cannot be read').lower()}")
            continue
        left -= len(found)
        if left < 0:
            home.tell(f"{root}: found more than {ENTRIES} files; the others are left out")
            return
        if each_file:
            yield from (folder / one.name for one in found if one.name.endswith(MARKDOWN))
        elif depth and any(entry.name == SKILL for entry in found):
            yield folder / SKILL
        below = []
        for entry in found:
            name, path = entry.name, folder / entry.name
            linked = entry.is_symlink()
            # Of a circle of links `DirEntry.is_dir` raises.
            is_folder = os.path.isdir(path) if linked else entry.is_dir()
            if name.startswith(".") or name in _PASSED_OVER or not is_folder:
                continue
            if linked and not _leads_inside(home, path):
                if not each_file:
                    yield path / SKILL
            elif depth < DEPTH:
                below.append((path, depth + 1))
        folders += reversed(below)


def _leads_inside(home: Home, path: Path) -> bool:
    return _root_of(home, path) is not None


def _root_of(home: Home, path: Path) -> str | None:
    """Return the folder, of those that links may lead into, that a path is in at last."""
    real = os.path.realpath(path)
    for folder in (home.root, *home.also):
        root = os.path.realpath(folder)
        if os.path.commonpath([root, real]) == root:
            return root
    return None


def _skill(home: Home, path: Path, key: str) -> SkillFile:
    whole = path.name == SKILL
    name = path.parent.name if whole else path.stem
    root = _root_of(home, path) or os.path.realpath(home.root)
    real = inside(Path(root), os.path.relpath(os.path.realpath(path), root), file=path)
    text, _ = read_text(real, max_bytes=CONTENT_BYTES)
    if not whole and not text.startswith("---"):
        # A command is its text alone where nobody has said more of it.
        first = next((line for line in text.splitlines() if line.strip()), "")
        return SkillFile(key, name, first.strip("# ").strip()[:DESCRIPTION_CHARS], path)
    try:
        head, _ = split(text, str(path))
        value = read_yaml(head, str(path), first_line=2).value
    except ContentError as error:
        # The runtimes guess where they cannot read; so it is there, with what is odd about it.
        return SkillFile(key, name, "", path, str(error))
    if not isinstance(value, dict):
        return SkillFile(key, name, "", path, f"{path}: found no keys in the frontmatter")
    called, description = value.get("name"), value.get("description")
    return SkillFile(
        key,
        called.strip()[:NAME_CHARS] if isinstance(called, str) and called.strip() else name,
        " ".join(description.split())[:DESCRIPTION_CHARS] if isinstance(description, str) else "",
        path,
    )


def projects_of(home: Home, paths: Iterable[str], *, own: str) -> dict[str, Home]:
    """Return the folders of projects that are there, by path.

    Args:
        home: The runtime's folder, which is told what cannot be looked at.
        paths: The folders that the runtime knows.
        own: The runtime's folder in a project. The user's own is no project's, where the runtime
            has run in the folder above it.
    """
    found: dict[str, Home] = {}
    for path in paths:
        if len(found) == PROJECTS:
            home.tell(f"found more than {PROJECTS} projects; the others are left out")
            break
        project = Home(Path(path))
        if not project.root.is_absolute() or project.root / own == home.root:
            continue
        try:
            if project.exists():
                found[str(project.root)] = project
        except OSError as error:
            home.tell(f"{path}: {(error.strerror or 'it cannot be looked at').lower()}")
    return found


def texts_of(value: Any) -> frozenset[str]:
    """Return the strings of a list; nothing where it is none."""
    return (
        frozenset(one for one in value if isinstance(one, str))
        if isinstance(value, list)
        else frozenset()
    )


def truth(value: Any, *, default: bool) -> bool:
    """Return what a switch says, in words or as a boolean."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.strip().lower() not in {"false", "no", "off", "0"}
    return default
