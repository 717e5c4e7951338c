"""Scanning folders for manifests and skills."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hookgate.builtin_plugins.discovery.sources.folders import Root, Walk
from hookgate.builtin_plugins.discovery.sources.manifests import (
    CONTENT,
    MANIFEST,
    SCHEMA,
    Declared,
    read_manifest,
)
from hookgate.builtin_plugins.discovery.sources.skills import read_skill
from hookgate.kit.content.documents import Reading
from hookgate.kit.content.files import stamp_of
from hookgate.kit.content.folders import left_out
from hookgate.kit.content.problems import ContentError, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What the folders hold. Two scans are equal where nothing has changed.

    Attributes:
        declared: The capabilities, each id once, in the order of folders and names.
        problems: What is wrong, and which files were left out for an earlier one.
    """

    declared: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()


def scan(roots: Sequence[Root], before: Scan | None = None) -> Scan:
    """Read every manifest and skill below `roots`. It blocks, and never raises.

    Args:
        roots: The folders, the most important one first.
        before: An earlier scan: files that have not changed since are not read again.
    """
    known = _without_problems(before or Scan())
    now = time.time_ns()
    first: dict[str, Declared] = {}
    problems: list[Problem] = []
    for root in roots:
        walk = Walk(root)
        for path in walk.files():
            same = known.get(path)
            if same is not None and _is_unchanged(same, now):
                reading = Reading(found=(same,))
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


def _without_problems(before: Scan) -> dict[Path, Declared]:
    """Return what can be taken over; what is worth a word is read, and said, again."""
    named = {problem.file for problem in before.problems}
    return {one.path: one for one in before.declared if str(one.path) not in named}


def _is_unchanged(declared: Declared, now: int) -> bool:
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
