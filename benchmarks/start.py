"""What it costs to start, to ask for help, and to do nothing.

Run it with ``python -m benchmarks.start``, or ``--quick`` for some seconds. Each figure is of
processes of their own, of which the first of each kind is not counted: it compiles, and the
others find what it has compiled, as those of an installed package do. The short form counts the
only one: where tests have run, all is compiled. CPU time, user and system,
is what a busy machine changes least; where somebody waits, the time on the clock stands beside
it. A home folder is fresh, or one that a gateway had before.

With HOOKGATE_BENCH_BEFORE=FOLDER another checkout, which has a ``.venv`` of its own, is measured
in turns with this one, and each figure comes with their ratio, the median of pairs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import typer

from benchmarks.report import Figure, report
from benchmarks.turn._servers import free_port
from benchmarks.wire._servers import Server, settle
from hookgate.cli.app import app
from hookgate.cli.state import State

BEFORE = "HOOKGATE_BENCH_BEFORE"
HERE = Path(__file__).parent.parent
QUESTION = "what is 17*23?"
ANSWER = "391"

GOALS = {
    "`serve` ready, fresh home, clock": 0.8,
    "`serve` ready, second start, clock": 0.8,
    "`--help` of hookgate, CPU": 0.4,
    "`--help` of a group, CPU, the most": 0.4,
    "`--help` of a command, CPU, the most": 0.4,
    "an idle second, CPU": 1.0,
}

Measured = dict[str, float]
"""Figures by their names."""


# -- processes that end -------------------------------------------------------------------


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a process: whatever the one here says, modules stay compiled."""
    left = ("HOOKGATE_", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(left)}
    return {**kept, "COLUMNS": "100", "HOOKGATE_HOME": str(home)}


def python(checkout: Path) -> str:
    return str(checkout / ".venv/bin/python")


def spent(checkout: Path, arguments: Sequence[str], home: Path) -> tuple[float, float]:
    """Return the seconds of CPU time and of the clock that a process takes to its end."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [python(checkout), *arguments],
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - begun


def imported(checkout: Path) -> Measured:
    """Measure the interpreter alone, and with a gateway imported."""
    home = Path("unused")
    bare, _ = spent(checkout, ["-c", "pass"], home)
    gateway, _ = spent(checkout, ["-c", "from hookgate import Gateway"], home)
    return {"python alone, CPU": bare, "`from hookgate import Gateway`, CPU": gateway}


def turns(checkout: Path) -> Measured:
    """Measure `hookgate turn`, which starts a gateway of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as home:
        for which in ("fresh home", "second start"):
            cpu, clock = spent(checkout, ["-m", "hookgate", "turn", QUESTION], Path(home))
            found[f"`turn`, {which}, CPU"] = cpu
            found[f"`turn`, {which}, clock"] = clock
    return found


# -- help ---------------------------------------------------------------------------------


def words_of_commands() -> list[tuple[tuple[str, ...], bool]]:
    """Return the words of every command, and whether it is a group."""
    with tempfile.TemporaryDirectory() as home:
        state = State(environ={"HOME": home})
        try:
            root = typer.Context(typer.main.get_command(app), info_name="hookgate", obj=state)
            return list(_below(root, ()))
        finally:
            state.close()


def _below(context: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    names = context.command.list_commands(context)
    for name in names:
        found = context.command.get_command(context, name)
        group = hasattr(found, "list_commands")
        yield (*words, name), group
        if group:
            yield from _below(typer.Context(found, parent=context, info_name=name), (*words, name))


def helps(checkout: Path, chosen: Sequence[tuple[tuple[str, ...], bool]]) -> Measured:
    """Measure ``--help`` of hookgate, and of each of `chosen`."""
    groups: dict[tuple[str, ...], float] = {}
    commands: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory() as home:
        first, _ = spent(checkout, ["-m", "hookgate", "--help"], Path(home))
        for words, group in chosen:
            arguments = ["-m", "hookgate", *words, "--help"]
            (groups if group else commands)[words], _ = spent(checkout, arguments, Path(home))
    found = {"`--help` of hookgate, CPU": first}
    for kind, spents in (("group", groups), ("command", commands)):
        found[f"`--help` of a {kind}, CPU, median of all"] = statistics.median(spents.values())
        found[f"`--help` of a {kind}, CPU, the most"] = max(spents.values())
    return found


# -- a gateway that serves ----------------------------------------------------------------


@contextmanager
def serving(checkout: Path, home: Path) -> Iterator[tuple[Server, float, float]]:
    """Run `hookgate serve`; yield it with the CPU time and the seconds until it was ready."""
    port = free_port()
    command = [python(checkout), "-m", "hookgate", "serve", "--port", str(port)]
    begun = time.perf_counter()
    process = subprocess.Popen(command, env=environment(home), stderr=subprocess.DEVNULL)
    try:
        server = Server("hookgate", process.pid, port, "")
        while not is_ready(port):
            if process.poll() is not None:
                raise RuntimeError(f"serve ended with {process.returncode}")
            time.sleep(0.005)
        yield server, server.cpu(), time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait(timeout=30)


def is_ready(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
    except OSError:
        return False


def turn(server: Server) -> tuple[float, float]:
    """Ask once; return the CPU time of the server, and the seconds that it took."""
    cpu, begun = server.cpu(), time.perf_counter()
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        body = json.dumps({"content": QUESTION})
        connection.request("POST", "/v1/turns", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
    if answer.status != 200 or ANSWER not in text:
        raise RuntimeError(f"found {answer.status} {text[:300]}, expected {ANSWER}")
    return server.cpu() - cpu, time.perf_counter() - begun


def served(checkout: Path, idle_seconds: float) -> Measured:
    """Measure two starts in one home folder, the first turns after each, and then nothing."""
    found = {}
    with tempfile.TemporaryDirectory() as home:
        for which in ("fresh home", "second start"):
            with serving(checkout, Path(home)) as (server, cpu, clock):
                found[f"`serve` ready, {which}, CPU"] = cpu
                found[f"`serve` ready, {which}, clock"] = clock
                found[f"memory when ready, {which}"] = server.memory() / 1e6
                (
                    found[f"first turn after it, {which}, CPU"],
                    found[f"first turn after it, {which}, clock"],
                ) = turn(server)
                found[f"second turn, {which}, clock"] = turn(server)[1]
                settle(server)
                found[f"until it has settled, {which}, CPU"] = server.cpu()
                found[f"turn once settled, {which}, clock"] = turn(server)[1]
                if which == "second start":
                    found["memory once settled"] = server.memory() / 1e6
                    found["an idle second, CPU"] = idle(server, idle_seconds)
    return found


def idle(server: Server, seconds: float) -> float:
    """Return the milliseconds of CPU time that a gateway takes in a second in which nothing is."""
    # What follows the last turn is over; the watchdog has found that nothing happens.
    time.sleep(3)
    before, begun = server.cpu(), time.perf_counter()
    time.sleep(seconds)
    return (server.cpu() - before) * 1e3 / (time.perf_counter() - begun)


# -- the report ---------------------------------------------------------------------------


def measured(
    checkouts: Sequence[Path], measure: Callable[[Path], Measured], rounds: int
) -> list[dict[str, list[float]]]:
    """Measure each checkout in turns; the first of several rounds is not counted."""
    found: list[dict[str, list[float]]] = [{} for _ in checkouts]
    for number in range(rounds):
        order = list(enumerate(checkouts))
        for place, checkout in order[:: -1 if number % 2 else 1]:
            for name, value in measure(checkout).items():
                if number or rounds == 1:
                    found[place].setdefault(name, []).append(value)
    return found


def figures(found: Sequence[dict[str, list[float]]]) -> Iterator[Figure]:
    """Yield the medians; beside those of another checkout, where one was measured."""
    *before, now = found
    for name, values in now.items():
        unit = "MB" if name.startswith("memory") else "ms" if "idle" in name else "s"
        goal = GOALS.get(name)
        yield Figure(name=name, value=statistics.median(values), unit=unit, goal=goal)
        for other in before:
            pairs = zip(values, other[name], strict=True)
            yield Figure(name=f"{name}: before", value=statistics.median(other[name]), unit=unit)
            yield Figure(
                name=f"{name}: now / before",
                value=statistics.median(new / old for new, old in pairs),
                unit="ratio",
                against="the other checkout, median of pairs",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--only", choices=("import", "help", "turn", "serve"), help="one of the parts"
    )
    arguments = parser.parse_args()
    rounds, idle_seconds = (1, 1.0) if arguments.quick else (8, 30.0)
    named = os.environ.get(BEFORE)
    checkouts = [*([Path(named).resolve()] if named else []), HERE]
    every = words_of_commands()
    chosen = (
        every
        if not arguments.quick
        else [row for row in every if row[1]][:1] + [row for row in every if not row[1]][:1]
    )
    parts: dict[str, tuple[Callable[[Path], Measured], int]] = {
        "import": (imported, rounds),
        "help": (lambda checkout: helps(checkout, chosen), 1 if arguments.quick else 4),
        "turn": (turns, rounds),
        "serve": (lambda checkout: served(checkout, idle_seconds), rounds),
    }
    for part, (measure, times) in parts.items():
        if arguments.only in (None, part):
            rows = list(figures(measured(checkouts, measure, times)))
            report(f"start: {part}", rows)


if __name__ == "__main__":
    main()
