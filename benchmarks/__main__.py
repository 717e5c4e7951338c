"""Run the benchmarks, each in a process of its own: ``python -m benchmarks [--quick] [NAME...]``.

A figure that misses its goal is shown and does not fail the run, since a shared machine is
noisy. A benchmark that does not run to its end does.

``retrieval`` measures on sets of tools that are not part of this repository, and is skipped
where the environment variable HOOKGATE_BENCH_DATA names no folder with them. ``agentdojo`` is
skipped where HOOKGATE_AGENTDOJO names no interpreter that has AgentDojo, and ``policy_speed``
measures hookgate alone where HOOKGATE_POLICY_PEERS names none with the other engines; so do
``dispatch``, ``chat`` and ``wasm`` where HOOKGATE_CPEX, HOOKGATE_LITELLM and HOOKGATE_EXTISM name
none. ``against`` compares with another checkout, and is skipped where HOOKGATE_BENCH_BEFORE names
none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all benchmarks: the modules here that have a ``main``."""
    return sorted(
        path.stem
        for path in HERE.glob("*.py")
        if not path.stem.startswith("_") and "\ndef main(" in path.read_text(encoding="utf-8")
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short form of each")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.names) - set(names())):
        parser.error(f"found {', '.join(unknown)}, expected {', '.join(names())}")
    options = ["--quick"] if chosen.quick else []
    failed = []
    for name in chosen.names or names():
        print(f"\n-- {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode != 0:
            failed.append(name)
    if failed:
        print(f"did not run to their end: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
