"""Rules that somebody is writing, checked and tried in a process of its own.

A condition holds the interpreter while it is evaluated, and one may take seconds and gigabytes.
What comes over the wire is therefore judged where that has an end: in a process that may take so
much memory, and so much time for each thing that it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hookgate import TurnError

SECONDS = 15.0
"""So long the process may take for an answer; for the first one, its start counted."""
CPU_SECONDS = 6
MEMORY_BYTES = 1024**3
MOST_WAITING = 8
LONGEST_ANSWER = 16 * 1024**2
NICE = 10
"""Turns go first where processors are few."""

# What an interpreter may need of the environment to start. Nothing else of it is handed over.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_START = (
    "import sys; sys.path[:0] = sys.argv[1:]; "
    "from hookgate.builtin_plugins.policy.bench.apart import main; main()"
)


class Apart:
    """Has work done in other processes.

    Args:
        at_once: So many of them at once.
        waiting: So many others may run or wait; who comes then is refused.
    """

    def __init__(self, at_once: int = 1, waiting: int = MOST_WAITING) -> None:
        self._some = asyncio.Semaphore(at_once)
        self._most = waiting
        self._waiting = 0

    async def do(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a process has found out.

        Raises:
            TurnError: It took too long or too much, or many others wait.
        """
        async with self.begun() as child:
            return await child.ask(work)

    @contextlib.asynccontextmanager
    async def begun(self) -> AsyncIterator[Child]:
        """Start a process; it ends with the block, whatever it does then.

        Raises:
            TurnError: Many others wait.
        """
        if self._waiting >= self._most:
            raise TurnError("other rules are being tried", code="busy", action="try again")
        self._waiting += 1
        try:
            async with self._some, _started() as child:
                yield child
        finally:
            self._waiting -= 1


class Child:
    """A process that answers one question after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ask(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """Return what it has found out.

        Raises:
            TurnError: It took too long or too much.
        """
        write, read = self._process.stdin, self._process.stdout
        assert write is not None, "it was started with pipes"
        assert read is not None, "it was started with pipes"
        said = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(SECONDS):
                write.write(pickle.dumps(work))
                await write.drain()
                said = await read.readline()
        if not said:
            raise TurnError.invalid(
                f"the rules and cases took more than {CPU_SECONDS} seconds or "
                f"{MEMORY_BYTES // 1024**2} MB, and nothing was found out",
                "try fewer of them, or conditions without loops in loops",
            )
        # JSON and no pickle: what is found out there is about what somebody else wrote.
        found: dict[str, Any] = json.loads(said)
        return found


@contextlib.asynccontextmanager
async def _started() -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _START, *(one for one in sys.path if one)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
        limit=LONGEST_ANSWER,
    )
    try:
        yield Child(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# -- in the process --------------------------------------------------------------------


def main() -> None:
    """Answer what standard input asks, until it ends."""
    _limit()
    from hookgate.builtin_plugins.policy.bench.workbench import Workbench

    workbench = Workbench()
    with contextlib.suppress(EOFError):
        while True:
            work = pickle.load(sys.stdin.buffer)
            _more_time()
            sys.stdout.write(f"{json.dumps(workbench.to(work))}\n")
            sys.stdout.flush()
    os._exit(0)  # what is freed one by one now is gone all the same


def _limit() -> None:
    with contextlib.suppress(OSError):
        os.nice(NICE)
    try:
        import resource
    except ImportError:
        return
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # macOS has no limit of memory that holds.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    _more_time()


def _more_time() -> None:
    """Let the next answer take as much time as each may."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + CPU_SECONDS
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))
