"""Delete each guard in a copy of the tree, and expect its test to go red.

Run: ``python -m tests.guards [PART ...] [--since REV] [--most N] [--workers N]``

A part is a list or one of its guards: ``doors``, ``doors:3``. Before anything is deleted all
tests that are named have to pass, so that none counts which is red anyway.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import importlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory

from tests.guards import ROOT, Guard, guards

LIMIT = 180.0
"""Seconds for one test; one that hangs without its guard has noticed that it is gone."""
HANGS = 60
"""Seconds after which a test ends itself that is not said to take longer."""

HEAVY = ("pytest", "aiohttp", "httpx", "numpy", "pydantic",
         "sqlmodel", "alembic", "structlog", "rich", "yaml", "orjson")  # fmt: skip
"""What most tests import, and what is none of this product's: read once, before the forks."""

FAILED = 1
"""What pytest exits with where tests have failed; anything else says that they did not run."""


def run_tests(copy: Path, tests: Sequence[str], log: Path) -> int:
    """Run `tests` in `copy` in a process of their own; return what pytest exits with."""
    child = multiprocessing.get_context("fork").Process(target=_child, args=(copy, tests, log))
    child.start()
    child.join(LIMIT if len(tests) == 1 else None)
    if child.exitcode is None:
        child.kill()
        child.join()
        return FAILED
    # Whoever reads outside of a memory that nothing guards may find none there.
    return FAILED if child.exitcode == -signal.SIGSEGV else child.exitcode


def _child(copy: Path, tests: Sequence[str], log: Path) -> None:
    os.setsid()
    os.chdir(copy)
    # Bytecode that is written while a guard is gone would outlive it.
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["HOOKGATE_TEST_PATIENCE"] = "20"
    sys.path[:0] = [str(copy / "src"), str(copy)]
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "hookgate")]:
        del sys.modules[name]
    import pytest

    with log.open("w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "-o", f"timeout={HANGS}"]
        code = pytest.main([*options, *tests])
        out.flush()
        os._exit(int(code))


def make_copy(at: Path) -> Path:
    """Copy the files of the working tree, links as links, with bytecode that knows its source."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, at / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    for folder in ("core", "builtin_plugins", "src"):
        compileall.compile_dir(
            at / folder, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )
    return at


def notices(guard: Guard, copy: Path, log: Path) -> str:
    """Delete `guard` in `copy` and put it back; return what is wrong where no test went red."""
    path = copy / guard.file
    whole = path.read_text("utf-8")
    path.write_text(guard.deleted(copy), "utf-8")
    try:
        code = run_tests(copy, [guard.test], log)
    finally:
        path.write_text(whole, "utf-8")
    if code == FAILED:
        return ""
    tail = "" if code == 0 else "\n" + "\n".join(log.read_text().splitlines()[-12:])
    return ("SURVIVES" if code == 0 else f"could not be tried (pytest exits with {code})") + tail


def work(copy: Path, some: Sequence[Guard], tell: Callable[[Guard, str, float], None]) -> None:
    """Try some guards in a copy, one after the other."""
    for number, guard in enumerate(some):
        begun = time.monotonic()
        try:
            problem = notices(guard, copy, copy / f".guard-{number}.log")
        except (OSError, ValueError) as error:
            problem = str(error)
        tell(guard, problem, time.monotonic() - begun)


def chosen(parts: Sequence[str], since: str, most: int) -> list[Guard]:
    """Return the guards of `parts`, of files or tests that have changed since `since`."""
    found = [
        guard
        for guard in guards()
        if not parts or guard.part in parts or guard.part.split(":")[0] in parts
    ]
    if since:
        listed = subprocess.run(
            ["git", "diff", "--name-only", since],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        changed = set(listed.splitlines())
        found = [one for one in found if changed & one.files]
    # Of too many, some of each list.
    step = max(1, -(-len(found) // most)) if most else 1
    return found[::step]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help="lists, or guards of them: doors, doors:3")
    parser.add_argument("--since", default="", help="those of what has changed since a revision")
    parser.add_argument("--most", type=int, default=0, help="so many of them at most")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    some = chosen(options.parts, options.since, options.most)
    if not some:
        print("no guard is concerned")
        return 0
    for name in HEAVY:
        importlib.import_module(name)
    with TemporaryDirectory(prefix="guards-") as folder:
        copies = [make_copy(Path(folder) / f"{n}") for n in range(options.workers)]
        log = Path(folder) / "before.log"
        if run_tests(copies[0], sorted({one.test for one in some}), log) != 0:
            print(log.read_text()[-4000:])
            print("these tests have to pass while all guards are there")
            return 1
        return 1 if survivors(some, copies) else 0


def survivors(some: Sequence[Guard], copies: Sequence[Path]) -> int:
    """Try all guards, side by side; say what came out, and how many nobody has noticed."""
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[tuple[Guard, str, float]] = context.Queue()
    workers = [
        context.Process(
            target=work,
            args=(copy, some[n :: len(copies)], lambda *row: results.put(row)),
        )
        for n, copy in enumerate(copies)
    ]
    for worker in workers:
        worker.start()
    wrong = 0
    for _ in some:
        guard, problem, seconds = results.get()
        if problem:
            wrong += 1
            print(f"{guard.part}: {problem}\n  {guard.holds}\n  {guard.file}\n  {guard.test}")
        else:
            print(f"{guard.part}: red after {seconds:.1f} s")
    for worker in workers:
        worker.join()
    print(f"{len(some) - wrong} passed, {wrong} failed")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
