"""How many injections the card sanitizer finds, how often it is wrong, and how long it takes.

Run it with ``python -m benchmarks.injection --items ITEMS.jsonl.gz [--out RUN.jsonl]``. A
line of ITEMS is ``{"id", "text", "label": "malicious" | "benign", "kind", "subset"}``; a line
of RUN is ``{"id", "flagged"}``. Flagged is what is rejected as a stranger's text. The
figures are those of the subset ``injection`` against all that is benign; other malicious
subsets have rows of their own. Without ITEMS only the time of made-up texts is measured:
50,000 characters each of what the detector dislikes most, and a quarter of each. Times are
of the processor, the least of several.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._shapes import SHAPES, SIZE
from benchmarks.report import Figure, report
from hookgate.builtin_plugins.sanitizer.detector import inspect, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = "HOOKGATE_BENCH_DATA"
ITEMS = Path("injection/items.jsonl.gz")
ROUNDS = 3
TRIES = 10
SHOWN = 8
"""So many of the slowest shapes are printed."""


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
    figures = []
    if chosen.items is None:
        print(f"no texts are given, with --items or ${DATA}: time alone is measured")
    else:
        figures += accuracy(chosen)
    report("injection", figures + speed(2 if chosen.quick else TRIES))


def accuracy(chosen: argparse.Namespace) -> list[Figure]:
    """Judge all texts, and print the shares and times of each sort of them."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    times: dict[str, list[float]] = defaultdict(list)
    flags = []
    for item in read(chosen.items):
        flagged, taken = judge(item["text"], 1 if chosen.quick else ROUNDS)
        times["all"].append(taken)
        times[item["kind"]].append(taken)
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
    for kind, taken_by in sorted(times.items()):
        print(f"ms a text, {kind:<30} {_spread(taken_by)}")
    shares = {key: hits / count for key, (hits, count) in rows.items()}
    goals = (
        ("recall", "malicious/injection", 0.85, True),
        ("recall in skills", "malicious/injection/skill_md", 0.60, True),
        ("false positives", "benign", 0.01, False),
        ("false positives, security-themed", "benign/security_theme", 0.10, False),
    )
    figures = [
        Figure(name=name, value=shares[key], unit="share", goal=goal, at_least=at_least)
        for name, key, goal, at_least in goals
        if key in shares
    ]
    if cards := times.get("card"):
        mean = sum(cards) / len(cards)
        figures.append(Figure(name="a card", value=mean, unit="ms", against="CPU time", goal=10))
    return figures


def speed(tries: int) -> list[Figure]:
    """Take the time of the made-up texts, whole and a quarter of each."""
    rows = []
    for name, text in SHAPES.items():
        # In turns: what else runs on the machine then slows both.
        taken = [(judge(text, 1)[1], judge(text[: SIZE // 4], 1)[1]) for _ in range(tries)]
        whole = min(whole for whole, _ in taken)
        rows.append((whole, whole / min(quarter for _, quarter in taken), name))
    rows.sort(reverse=True)
    for whole, growth, name in rows[:SHOWN]:
        print(f"ms, {SIZE} characters, {name:<20} {whole:>6.1f}, {growth:.1f} times a quarter")
    growth = max(growth for _, growth, _ in rows)
    return [
        Figure(name="slowest shape", value=rows[0][0], unit="ms", against="CPU time", goal=50),
        Figure(name="growth", value=growth, unit="", against="a quarter of the text", goal=7),
    ]


def _spread(times: Iterable[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    mean = sum(ordered) / len(ordered)
    return f"mean {mean:.2f}, p99 {p99:.2f}, longest {ordered[-1]:.2f}"


if __name__ == "__main__":
    main()
