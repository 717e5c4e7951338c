"""Workspaces: what the folder one stands in brings counts once a person has accepted it.

A cloned repository brings whatever its author put into it. So what counts is not the folder but
a copy of it in the gateway's home, made of the bytes whose digest a person has accepted. Once
the folder holds anything else, the copy does not count either, until that is accepted, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from hookgate.kit.content.files import open_file, open_step, why, write_whole
from hookgate.kit.content.problems import ContentError, Problem

__all__ = [
    "CARDS",
    "FOLDERS",
    "SKILLS",
    "WorkspaceStanding",
    "Workspaces",
    "content_of",
    "digest_of",
]

SKILLS = (".hookgate/capabilities", ".agentos/capabilities")
CARDS = (".hookgate/cards",)
FOLDERS = (*SKILLS, *CARDS)
"""What is looked for in a workspace."""

MAX_FILES = 2_000
MAX_DEPTH = 16
MAX_BYTES = 32 * 1024 * 1024
"""So many files and bytes of them a person can be asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStanding:
    """What a workspace brings, and whether that counts.

    Attributes:
        workspace: The folder.
        state: ``nothing`` is there; it is ``accepted``; nobody has accepted it (``new``); it is
            not what was accepted (``changed``).
        digest: SHA-256 of all that it brings, as hex; "" where there is nothing.
        files: The names of its files, below the workspace.
        copy: Where what was accepted lies; None where nothing counts.
    """

    workspace: Path
    state: Literal["nothing", "accepted", "new", "changed"] = "nothing"
    digest: str = ""
    files: tuple[str, ...] = ()
    copy: Path | None = None

    def waiting(self, folders: tuple[str, ...]) -> str:
        """Return what to tell an operator of `folders`; "" where nothing in them waits."""
        count = sum(name.startswith(tuple(f"{one}/" for one in folders)) for name in self.files)
        if not count or self.state not in ("new", "changed"):
            return ""
        why = "that nobody has accepted" if self.state == "new" else "changed since it was accepted"
        where = shlex.quote(str(self.workspace))
        return (
            f"{self.workspace} brings {count} file{'' if count == 1 else 's'}, {why}: nothing of "
            f"it counts. Look with `hookgate workspace show {where}`, then "
            f"`hookgate workspace accept {where}`"
        )


@dataclass
class _Content:
    files: dict[str, bytes] = field(default_factory=dict)
    size: int = 0


def content_of(workspace: Path) -> Mapping[str, bytes]:
    """Return the files that a workspace brings, by name. It blocks.

    No link is followed, and nothing but a regular file is read: whatever else there is counts
    for nothing, and is not copied.

    Raises:
        ContentError: It cannot be read, or is more than a person can be asked about.
    """
    found = _Content()
    try:
        top = open_step(os.path.realpath(workspace))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _refused(workspace, why(error)) from None
    try:
        for name in FOLDERS:
            _below(top, name.split("/"), "", found, workspace)
    finally:
        os.close(top)
    return dict(sorted(found.files.items()))


def digest_of(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 of files by name, as hex."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        raw = name.encode("utf-8", "surrogateescape")
        digest.update(b"%d:%s%d:%s" % (len(raw), raw, len(content), content))
    return digest.hexdigest()


def _below(parent: int, parts: list[str], before: str, found: _Content, workspace: Path) -> None:
    """Walk down `parts`, and then take up all that is there."""
    if not parts:
        for name in sorted(os.listdir(parent)):
            _take(parent, name, before, found, workspace)
        return
    try:
        folder = open_step(parts[0], parent)
    except OSError:
        return  # Not there, or a link, or no folder: it brings nothing.
    try:
        _below(folder, parts[1:], f"{before}{parts[0]}/", found, workspace)
    finally:
        os.close(folder)


def _take(parent: int, name: str, before: str, found: _Content, workspace: Path) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if before.count("/") > MAX_DEPTH:
                raise _refused(workspace / before, "deeper folders", f"at most {MAX_DEPTH} deep")
            _below(parent, [name], before, found, workspace)
            return
        if not stat.S_ISREG(mode):
            return
        opened = open_file(name, parent)
    except OSError as error:
        raise _refused(workspace / before / name, why(error)) from None
    with os.fdopen(opened, "rb") as file:
        content = file.read(MAX_BYTES - found.size + 1)
    found.files[before + name] = content
    found.size += len(content)
    if found.size > MAX_BYTES or len(found.files) > MAX_FILES:
        raise _refused(
            workspace / before,
            f"more than {MAX_FILES} files or {MAX_BYTES} bytes",
            "as much as a person can look at",
        )


def _refused(path: Path, found: str, expected: str = "files that can be read") -> ContentError:
    return ContentError(Problem(file=str(path), found=found, expected=expected))


class Workspaces:
    """The workspaces that were accepted in one home."""

    def __init__(self, home: Path) -> None:
        """Name the home folder; nothing is opened yet."""
        self.path = home / "workspaces"

    def standing(self, workspace: Path) -> WorkspaceStanding:
        """Return what `workspace` brings now, and whether it counts. It blocks.

        Raises:
            ContentError: It cannot be read, or is more than a person can be asked about.
        """
        real = Path(os.path.realpath(workspace))
        files = content_of(real)
        if not files:
            return WorkspaceStanding(workspace=real)
        digest = digest_of(files)
        place = self._place(real)
        try:
            said = json.loads((place / "accepted.json").read_text("utf-8"))
            known = said["digest"] if said["path"] == str(real) else ""
        except (OSError, ValueError, KeyError, TypeError):
            known = ""
        state: Literal["accepted", "new", "changed"] = "changed" if known else "new"
        copy = None
        if known == digest:
            state, copy = "accepted", place / "content"
        return WorkspaceStanding(
            workspace=real, state=state, digest=digest, files=tuple(files), copy=copy
        )

    def accept(self, workspace: Path, digest: str, at: str) -> WorkspaceStanding:
        """Let what `workspace` brings count, if it still has this digest. It blocks.

        Args:
            workspace: The folder.
            digest: What a person has looked at.
            at: When that was.

        Raises:
            ContentError: It is something else by now, or there is nothing.
        """
        real = Path(os.path.realpath(workspace))
        files = content_of(real)
        if not files:
            raise _refused(real, "nothing in it", "skills or cards that are to count")
        if (now := digest_of(files)) != digest:
            found = f"content with the digest {now}"
            raise _refused(real, found, f"the digest {digest}: look at it again")
        place = self._place(real)
        fresh = place.with_name(f".{place.name}.{uuid4().hex}")
        for name, content in files.items():
            write_whole(fresh / "content" / name, content, durable=False)
        said = json.dumps({"path": str(real), "digest": digest, "at": at})
        write_whole(fresh / "accepted.json", said.encode(), durable=True)
        self.forget(real)
        fresh.rename(place)
        return self.standing(real)

    def forget(self, workspace: Path) -> bool:
        """Take back that it was accepted; tell whether it was. It blocks."""
        place = self._place(Path(os.path.realpath(workspace)))
        try:
            gone = place.rename(place.with_name(f".{place.name}.{uuid4().hex}"))
        except FileNotFoundError:
            return False
        shutil.rmtree(gone)
        return True

    def _place(self, real: Path) -> Path:
        return self.path / hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
