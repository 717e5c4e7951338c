"""Where a path leads: into the client's workspace, out of it, or to what nobody is to read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache

MAX_CHARS = 4_096
HOME = "~"
"""Stands in front of a path for the home folder of whoever runs the client."""


class PathPlace(Enum):
    """Where a path leads, in words for people."""

    NOTHING = "nothing"
    WORKSPACE = "the workspace"
    OWN = "what acts by itself or instructs an agent, in the workspace"
    SYSTEM = "the system's own files"
    OUTSIDE = "files outside of the workspace"
    SECRET = "keys or secrets"
    UNKNOWN = "a place that is not known before it runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Lists of names, from the packs' tables: globs of one component each, in lower case.

    Attributes:
        secret: What nobody is to read.
        not_secret: Exceptions to that.
        own: What acts by itself, or instructs an agent, once it is written.
        system: Folders that everybody may read.
        nothing: Files that hold and keep nothing.
    """

    secret: Sequence[str]
    not_secret: Sequence[str]
    own: Sequence[str]
    system: Sequence[str]
    nothing: Sequence[str]

    def __hash__(self) -> int:
        return id(self)

    def is_secret(self, part: str) -> bool:
        """Whether one component of a path names a secret; a glob does where it may fit one."""
        return _fits(part, self, "secret")

    def may_select_secrets(self, glob: str) -> bool:
        """Whether a glob that a program reads may stand for a secret, its braces looked into."""
        found = re.fullmatch(r"([^{}]*)\{([^{}]*)\}([^{}]*)", glob)
        globs = [glob]
        if found is not None:
            before, choices, after = found.groups()
            globs = [before + one + after for one in choices.split(",")]
        elif "{" in glob:
            return True
        return any(self.is_secret(part) for one in globs for part in one.split("/") if part != "**")

    def is_own(self, part: str) -> bool:
        """Whether one component of a path names what acts by itself or instructs an agent."""
        return _fits(part, self, "own")


@lru_cache(maxsize=4096)
def _fits(part: str, names: Names, which: str) -> bool:
    # Some systems pass over blanks and dots at the end of a name.
    part = part.casefold().rstrip(" .")
    globs: Sequence[str] = getattr(names, which)
    if which == "secret" and any(fnmatchcase(part, glob) for glob in names.not_secret):
        return False
    if any(fnmatchcase(part, glob) for glob in globs):
        return True
    if not re.search(r"[*?\[]", part):
        return False
    if "[" in part:
        return True  # what a bracket may stand for is not looked into
    hidden = part.startswith(".")
    samples = [glob.replace("*", "x").replace("?", "x") for glob in globs]
    bare = [glob.replace("*", "") for glob in globs]
    return any(
        fnmatchcase(one, part) for one in (*samples, *bare) if hidden or not one.startswith(".")
    )


class Workspace:
    """The folder that a client works in.

    Args:
        root: The folder; "" where nobody has said it, so that every absolute path is outside.
        names: The lists of names.
        home: The home folder, where it is known: a path below it can be written with a tilde.
    """

    def __init__(self, root: str, names: Names) -> None:
        self.root = root
        self.names = names
        parts = root.split("/")
        # /home/ada/shop lies in the home folder /home/ada, whose paths may be written with a tilde.
        known = len(parts) > 3 and parts[1] in ("home", "Users")
        self._home = "/".join(parts[:3]) if known else ""

    def joined(self, folder: str, path: str) -> str:
        """Return `path` as seen from `folder`: relative to the workspace, or absolute."""
        if path == HOME or path.startswith(HOME + "/"):
            path = self._home + path[1:] if self._home else path
        if not path.startswith(("/", HOME)):
            path = posixpath.join(folder, path) if folder not in ("", ".") else path
        path = posixpath.normpath(path)
        if path.startswith("//"):
            path = path[1:]
        if self.root and (path == self.root or path.startswith(self.root + "/")):
            path = path[len(self.root) + 1 :] or "."
        return path

    def place(
        self, path: str, *, folder: str = ".", home: bool = False, glob: bool = False
    ) -> PathPlace:
        """Return where `path` leads, as seen from `folder`.

        Args:
            path: The path; a glob leads to the worst of what it may stand for.
            folder: Where it is looked at from: relative to the workspace, or absolute.
            home: Whether a tilde in front is the home folder.
            glob: Whether ``*``, ``?`` and brackets stand for other names.
        """
        if not glob:
            path = re.sub(r"[*?\[]", "x", path)
        if not path:
            return PathPlace.WORKSPACE
        if len(path) > MAX_CHARS or "\\" in path or not path.isprintable():
            return PathPlace.UNKNOWN  # also a name that some systems take for another one
        if re.match(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*:/", path):
            return PathPlace.OUTSIDE
        if path.startswith(HOME) and not home:
            path = "./" + path
        elif path.startswith(HOME) and not (path == HOME or path.startswith(HOME + "/")):
            return PathPlace.UNKNOWN
        if path in self.names.nothing:
            return PathPlace.NOTHING
        raw = path.split("/")
        if any(
            re.search(r"[*?\[]", one) and fnmatchcase("..", one) and one[0] == "." for one in raw
        ):
            return PathPlace.OUTSIDE
        if ".." in raw and re.search(r"[*?\[]", path):
            return PathPlace.OUTSIDE
        whole = self.joined(folder, path)
        parts = [one for one in whole.split("/") if one not in ("", ".")]
        if any(self.names.is_secret(one) for one in parts):
            return PathPlace.SECRET
        if whole.startswith(("/", HOME)) or whole == ".." or whole.startswith("../"):
            system = any(whole == one or whole.startswith(one + "/") for one in self.names.system)
            return PathPlace.SYSTEM if system and "/proc/self" not in whole else PathPlace.OUTSIDE
        if any(self.names.is_own(one) for one in parts) or any(one[0] == "-" for one in parts):
            # A name that begins with a dash becomes an option where a glob brings it.
            return PathPlace.OWN
        return PathPlace.WORKSPACE


FOLDERS = (
    re.compile(
        r"^\s*(?:-\s*)?(?:Primary )?[Ww]orking directory: *`?(/[^\n`<>\"']{1,1000}?)`? *$", re.M
    ),
    re.compile(r"<cwd>(/[^\n<>]{1,1000})</cwd>"),
    re.compile(r"currently working in the directory: *(/[^\n`<>\"']{1,1000}?)\.? *$", re.M),
)
"""How clients tell the model which folder they work in."""


def folder_of(text: str) -> str:
    """Return the folder that a client's own instructions name; "" where they name none for sure."""
    found = {
        posixpath.normpath(one.strip())
        for pattern in FOLDERS
        for one in pattern.findall(text[:500_000])
    }
    return found.pop() if len(found) == 1 and is_workspace(*found) else ""


def is_workspace(folder: str) -> bool:
    """Whether a folder is one to work in, and not a whole home or a whole machine."""
    parts = folder.strip("/").split("/")
    if not folder.startswith("/") or not all(parts) or ".." in parts:
        return False
    if parts[0] in ("home", "Users"):
        return len(parts) >= 3 and not parts[2].startswith(".")
    if parts[0] in ("root", "tmp", "opt", "mnt", "media", "srv", "private", "Volumes"):
        return len(parts) >= 2 and not parts[1].startswith(".")
    odd = ("etc", "usr", "bin", "sbin", "lib", "lib64", "boot", "dev", "proc", "sys", "var", "run")
    return parts[0] not in odd
