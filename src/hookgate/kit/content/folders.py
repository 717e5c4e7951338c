"""Content of one kind: read from layers of folders, watched, compared, published and told.

What one file is read into, and where it is published, its plugin says in a class below
`ContentFolder`; the layers, the most important one first, are its plugin's as well.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hookgate.kit.content.problems import ContentError, Problem, brief
from hookgate.kit.content.watch import changes
from hookgate.kit.content.workspaces import Workspaces

if TYPE_CHECKING:
    from hookgate.core.host import Host
    from hookgate.core.registry.snapshots import Registry

__all__ = ["ContentFolder", "left_out", "real_path"]

T = TypeVar("T")


class ContentFolder(ABC, Generic[T]):
    """What folders hold of one kind of content, kept up to date.

    Attributes:
        found: What was read last. Two are equal where nothing has changed.
        problems: What is wrong with it, warnings included.
    """

    part: str
    """What `status` calls it where something is wrong with a file."""
    file: str
    """What the log calls one of its files, such as ``card file``."""
    brought: tuple[str, ...]
    """The folders of a workspace that are read once somebody has accepted it."""

    def __init__(self, found: T, *, workspace: Path | None, debounce_ms: int) -> None:
        """Begin with nothing read.

        Args:
            found: What there is before anything was read.
            workspace: The folder that the gateway was started in; the current one for None.
            debounce_ms: The longest time for which a burst of changes is gathered.
        """
        self.found = found
        self.problems: tuple[Problem, ...] = ()
        self.workspace = Path.cwd() if workspace is None else workspace
        self.debounce_ms = debounce_ms
        self._reading = asyncio.Lock()

    # -- what the plugin says ----------------------------------------------

    @abstractmethod
    def paths(self, host: Host) -> Sequence[Path]:
        """Return the folders and files to watch, beside the workspace's."""

    @abstractmethod
    async def read(self, host: Host, accepted: Path | None) -> tuple[T, Sequence[Problem]]:
        """Read everything again.

        Args:
            host: The gateway.
            accepted: Where what the workspace brings is read; None where nobody has accepted it.

        Returns:
            What there is, and what is wrong.
        """

    @abstractmethod
    def publish(self, host: Host, before: T) -> None:
        """Make what was found what turns see from now on, and say what has changed."""

    def reads_workspace(self, host: Host) -> bool:
        """Whether what the workspace brings is asked about at all."""
        return True

    # -- reading -----------------------------------------------------------

    async def refresh(self, host: Host) -> T:
        """Read everything again, and return it for a hook that publishes it."""
        async with self._reading:
            await self._read(host)
            return self.found

    async def update(self, host: Host) -> None:
        """Read everything again, and publish it where it has changed."""
        async with self._reading:
            before = self.found
            await self._read(host)
            if self.found != before:
                self.publish(host, before)

    async def watch(self, host: Host, *also: Registry[Any]) -> None:
        """Read again whenever a folder or one of `also` changes, until cancelled."""
        stop, wake = asyncio.Event(), asyncio.Event()
        for registry in also:
            registry.watch(wake.set)

        def places() -> list[Path]:
            found = list(self.paths(host))
            if self.reads_workspace(host):
                found += [self.workspace / one for one in self.brought]
                found.append(Workspaces(host.settings.home).path)
            return found

        async def follow() -> None:
            async for _ in changes(places, debounce_ms=self.debounce_ms, stop=stop):
                wake.set()

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(follow())
                while True:
                    await wake.wait()
                    wake.clear()
                    await self.update(host)
        finally:
            stop.set()

    async def _read(self, host: Host) -> None:
        accepted: Path | None = None
        waiting, wrong = "", list[Problem]()
        if self.reads_workspace(host):
            workspaces = Workspaces(host.settings.home)
            try:
                standing = await asyncio.to_thread(workspaces.standing, self.workspace)
            except ContentError as error:
                wrong = [error.problem]
            else:
                accepted, waiting = standing.copy, standing.waiting(self.brought)
        host.standing(f"workspace {self.part}").note(waiting)
        found, problems = await self.read(host, accepted)
        self._tell(host, (*wrong, *problems))
        self.found = found

    def _tell(self, host: Host, problems: tuple[Problem, ...]) -> None:
        known, self.problems = self.problems, problems
        for problem in problems:
            if problem.severity == "warning" and problem not in known:
                host.log.info(self.file, problem=str(problem))
        errors = [str(one) for one in problems if one.severity == "error"]
        host.standing(self.part).bad(f"passed over: {brief(errors)}" if errors else "")


def left_out(
    name: str, *, file: str, winner: str, what: str, line: int | None = None, key: str = ""
) -> Problem:
    """Return what to tell of a thing whose id an earlier layer has already."""
    return Problem(
        file=file,
        line=line,
        key=key,
        found=f"the id {name!r}, which {winner} has already",
        expected=f"another id; this {what} is left out",
        severity="warning",
    )


def real_path(path: Path) -> str:
    """Return where a path leads, or itself where nothing can be there."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)
