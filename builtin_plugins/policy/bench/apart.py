"""Rules that somebody is writing, checked and tried in a process of its own.

A condition holds the interpreter while it is evaluated, and one may take seconds and gigabytes.
What comes over the wire is therefore judged where that has an end: in a process that may take so
much time and memory, one at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from hookgate import Flags, TurnError

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.bench.cases import Case, Tried
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool
    from hookgate.kit.content.problems import Problem

SECONDS = 15.0
"""So long the process may take, its start counted."""
CPU_SECONDS = 6
TRY_SECONDS = 3.0
"""After so long no further case is begun."""
MEMORY_BYTES = 1024**3
MOST_CASES = 200
"""So many cases are tried; what is left is said."""
MOST_CHARS = 1000
"""So much is told of what is expected and found, and of arguments."""
MOST_WAITING = 8

RULES_FILE = "rules.yaml"
CASES_FILE = "rules.test.yaml"

# What an interpreter may need of the environment to start. Nothing else of it is handed over.
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_START = (
    "import sys; sys.path[:0] = sys.argv[1:]; "
    "from hookgate.builtin_plugins.policy.bench.apart import main; main()"
)


class Apart:
    """Has work done in another process, one at a time."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._waiting = 0

    async def do(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the process has found.

        Raises:
            TurnError: It took too long or too much, or many others wait.
        """
        if self._waiting >= MOST_WAITING:
            raise TurnError("other rules are being tried", code="busy", action="try again")
        self._waiting += 1
        try:
            async with self._one:
                return await _done(json.dumps(work).encode())
        finally:
            self._waiting -= 1


async def _done(work: bytes) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", _START, *(one for one in sys.path if one)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        env={name: os.environ[name] for name in _KEPT if name in os.environ},
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate(work)
    except TimeoutError:
        said = b""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode or not said:
        raise TurnError(
            f"the rules and cases took more than {CPU_SECONDS} seconds or "
            f"{MEMORY_BYTES // 1024**2} MB, and nothing was found out",
            code="invalid_params",
            action="try fewer of them, or conditions without loops in loops",
        )
    found: dict[str, Any] = json.loads(said)
    return found


def plain(tool: KnownTool) -> dict[str, Any]:
    """Return a tool as JSON has it."""
    arguments = None if tool.arguments is None else sorted(tool.arguments)
    return {**asdict(tool), "flags": tool.flags.to_json(), "arguments": arguments}


# -- in the process --------------------------------------------------------------------


def main() -> None:
    """Read the work from standard input, and write what was found."""
    _limit()
    work = json.load(sys.stdin.buffer)
    sys.stdout.write(json.dumps(found_of(work)))
    sys.stdout.flush()
    os._exit(0)  # what is freed one by one now is gone all the same


def _limit() -> None:
    try:
        import resource
    except ImportError:
        return
    for kind, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # macOS has no limit of memory that holds.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def found_of(work: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is wrong with rules and cases, and what became of the cases."""
    from hookgate.builtin_plugins.policy.bench.bench import Bench
    from hookgate.builtin_plugins.policy.bench.cases import read_text_of_cases, run_case
    from hookgate.builtin_plugins.policy.rules.files import named_once, read_text_of_rules
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool, lint, lint_tools
    from hookgate.builtin_plugins.policy.settings import PolicySettings

    settings = PolicySettings.model_validate(work["settings"])
    rules = named_once(read_text_of_rules(work["rules"], RULES_FILE))
    problems = list(rules.problems)
    if not rules.failed:
        tools = [KnownTool(**_read_tool(one)) for one in work["tools"]]
        problems += [*lint(rules.found, settings), *lint_tools(rules.found, tools)]
    found: dict[str, Any] = {"rules": [rule.name for rule in rules.found]}
    cases: tuple[Case, ...] = ()
    failed = rules.failed
    if work["cases"] is not None:
        reading = read_text_of_cases(work["cases"], CASES_FILE)
        problems += reading.problems
        failed = failed or reading.failed
        cases = () if failed else reading.found
    problems.sort(key=lambda one: (one.file, one.line or 0))
    found["problems"] = [_problem(one) for one in problems]
    tried: list[Tried] = []
    if cases:
        bench, until = Bench(settings, rules.found), monotonic() + TRY_SECONDS
        for case in cases[:MOST_CASES]:
            if monotonic() > until:
                break
            tried.append(run_case(bench, case))
    found |= {
        "cases": [_case(one) for one in tried],
        "passed": sum(one.passed for one in tried),
        "failed": sum(not one.passed for one in tried),
        "left": len(cases) - len(tried),
    }
    found["ok"] = not failed and not found["failed"] and not found["left"]
    return found


def _read_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    arguments = tool["arguments"]
    return {
        **tool,
        "flags": Flags.from_mapping(tool["flags"]),
        "arguments": None if arguments is None else frozenset(arguments),
    }


def _problem(one: Problem) -> dict[str, Any]:
    return {
        "file": one.file,
        "line": one.line or 0,
        "key": one.key[:MOST_CHARS],
        "severity": one.severity,
        "found": one.found[:MOST_CHARS],
        "expected": one.expected[:MOST_CHARS],
    }


def _case(one: Tried) -> dict[str, Any]:
    return {
        "name": one.case.name,
        "line": one.case.line,
        "passed": one.passed,
        "wrong": list(_short(one.wrong)),
        "effect": one.found.effect,
        "rule": one.found.rule,
        "why": one.found.why[:MOST_CHARS],
    }


def _short(texts: Sequence[str]) -> Iterator[str]:
    return (text[:MOST_CHARS] for text in texts)
