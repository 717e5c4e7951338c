"""How many injections the card sanitizer finds, and how often it is wrong.

Run it with ``python -m benchmarks.injection --items ITEMS.jsonl.gz [--out RUN.jsonl]``. A
line of ITEMS is ``{"id", "text", "label": "malicious" | "benign", "kind", "subset"}``; a line
of RUN is ``{"id", "flagged"}``. Flagged is what is rejected as a stranger's text. The
figures are those of the subset ``injection`` against all that is benign; other malicious
subsets have rows of their own. Each time is the least of three.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.report import Figure, report
from hookgate.builtin_plugins.awareness.detector import inspect, verdict

DATA = "HOOKGATE_BENCH_DATA"
ITEMS = Path("injection/items.jsonl.gz")
ROUNDS = 3


def read(path: Path) -> list[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def judge(text: str, rounds: int) -> tuple[bool, float]:
    """Return whether a text is flagged, and the milliseconds of CPU time that took."""
    taken = []
    for _ in range(rounds):
        begun = time.process_time()
        found = inspect(text)
        taken.append(1000 * (time.process_time() - begun))
    return verdict(found, trusted=False) == "reject", min(taken)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.injection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--items", type=Path, help=f"texts (default: ${DATA}/{ITEMS})")
    parser.add_argument("--out", type=Path, metavar="RUN.jsonl", help="a line for each text")
    parser.add_argument("--quick", action="store_true", help="take each time once")
    chosen = parser.parse_args()
    if chosen.items is None and os.environ.get(DATA):
        named = Path(os.environ[DATA]) / ITEMS
        chosen.items = named if named.exists() else None
    return chosen


def main() -> None:
    chosen = arguments()
    if chosen.items is None:
        print(f"skipped: no texts are given, with --items or ${DATA}")
        return
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    times, flags = [], []
    for item in read(chosen.items):
        flagged, taken = judge(item["text"], 1 if chosen.quick else ROUNDS)
        times.append(taken)
        flags.append({"id": item["id"], "flagged": flagged})
        subset = f"{item['label']}/{item['subset']}"
        for key in (item["label"], subset, f"{subset}/{item['kind']}"):
            rows[key][0] += flagged
            rows[key][1] += 1
    if chosen.out:
        lines = "".join(f"{json.dumps(flag)}\n" for flag in flags)
        chosen.out.write_text(lines, encoding="utf-8")
    for key, (hits, count) in sorted(rows.items()):
        print(f"{key:<40} {hits:>5} of {count:>5}  {hits / count:.4f}")
    times.sort()
    shares = {key: hits / count for key, (hits, count) in rows.items()}
    print(f"ms a text: mean {sum(times) / len(times):.2f}, p95 {times[int(0.95 * len(times))]:.2f}")
    report(
        "injection",
        [
            Figure(name=name, value=shares[key], unit="share", goal=goal, at_least=at_least)
            for name, key, goal, at_least in (
                ("recall", "malicious/injection", 0.85, True),
                ("recall in skills", "malicious/injection/skill_md", 0.60, True),
                ("false positives", "benign", 0.01, False),
                ("false positives, security-themed", "benign/security_theme", 0.10, False),
            )
            if key in shares
        ]
        + [Figure(name="longest", value=times[-1], unit="ms", against="CPU time", goal=50)],
    )


if __name__ == "__main__":
    main()
