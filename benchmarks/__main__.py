"""Run the benchmarks, each in a process of its own.

    python -m benchmarks [--quick] [--jobs N] [NAME...]

A figure that misses its goal is shown and does not fail the run, since a shared machine is
noisy. A benchmark that does not run to its end does.

A name is that of a module below this folder, as in ``turn.chat``, which is also run by itself:
``python -m benchmarks.turn.chat``. Modules that begin with ``_`` are what others need.

``discovery.retrieval`` measures on sets of tools that are not part of this repository, and is
skipped where the environment variable HOOKGATE_BENCH_DATA names no folder with them.
``policy.agentdojo`` is skipped where HOOKGATE_AGENTDOJO names no interpreter that has AgentDojo,
and ``policy.speed`` measures hookgate alone where HOOKGATE_POLICY_PEERS names none with the other
engines; so do ``turn.dispatch``, ``turn.chat`` and ``wasm.guests`` where HOOKGATE_CPEX,
HOOKGATE_LITELLM and HOOKGATE_EXTISM name none. ``turn.against`` compares with another checkout,
and is skipped where HOOKGATE_BENCH_BEFORE names none. ``dashboard`` needs what `make test-browser`
installs, and says loudly where that is not there.

With `--jobs` several run side by side, which says whether they run to their ends and nothing of
how fast anything is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all benchmarks: the modules below that have a ``main``.

    What the product weighs is left out: `make weigh` tells it, and fails where it has risen.
    """
    return sorted(
        ".".join(path.relative_to(HERE).with_suffix("").parts)
        for path in HERE.rglob("*.py")
        if not path.stem.startswith("_")
        and path.parent.name != "weight"
        and "\ndef main(" in path.read_text(encoding="utf-8")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short form of each")
    parser.add_argument("--jobs", type=int, default=1, help="so many side by side")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(names())):
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(names())}")
    wanted = chosen.names or names()
    options = ["--quick"] if chosen.quick else []
    alone = chosen.jobs == 1

    def run(name: str) -> bool:
        if alone:
            print(f"\n-- {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        streams: dict[str, Any] = {}
        if not alone:
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=HERE.parent, check=False, **streams)
        if not alone:
            print(f"\n-- {name}\n{done.stdout}", end="", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(chosen.jobs) as threads:
        well = dict(zip(wanted, threads.map(run, wanted), strict=True))
    failed = [name for name in wanted if not well[name]]
    if failed:
        print(f"did not run to their end: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
