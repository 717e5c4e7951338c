"""How many injections the card sanitizer finds, how often it is wrong, and how long it takes.

Run it with ``python -m benchmarks.sanitizer.injection --items ITEMS.jsonl.gz [--out RUN.jsonl]``. A
line of ITEMS is ``{"id", "text", "label": "malicious" | "benign", "kind", "subset"}``; a line
of RUN is ``{"id", "flagged"}``. Flagged is what is rejected as a stranger's text. The
figures are those of the subset ``injection`` against all that is benign; other malicious
subsets have rows of their own. Without ITEMS only the time of made-up texts is measured:
50,000 bytes each of what the detector dislikes most, and a quarter of each. ``--slowest N`` also
tries N shapes that are put together by chance, and measures the slowest of them all. Times are
of the processor, the least of several; what is refused as too costly says so.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from benchmarks.report import Figure, report
from benchmarks.sanitizer._orders import misspelt
from benchmarks.sanitizer._shapes import SHAPES, SIZE, cut, searched
from benchmarks.sanitizer.training import descriptions, read, skills, train
from hookgate.builtin_plugins.sanitizer.detector import TOO_COSTLY, inspect, verdict
from hookgate.builtin_plugins.sanitizer.sanitizer import THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hookgate.builtin_plugins.sanitizer.model import ModelWeights

DATA = "HOOKGATE_BENCH_DATA"
ITEMS = Path("injection/items.jsonl.gz")
DIVIDED = {"openclaw/skills": 3}
"""Sources that are left out in so many parts: without all of it, no skill would be learnt from."""
FOLDS = 3
"""Each source is left out once, about two at a time."""
SET_OF = {"BFCL tools": "bfcl", "StableToolBench tools": "stabletoolbench"}
"""The sets of tools that are of the same origin as a source, and are left out with it."""
OWN_SET = "openclaw-skills"
"""What skills say of themselves that are among the texts: it never takes part here."""
THRESHOLDS = sorted({0.7, 0.85, 1.0, 1.2, 1.4, 1.6, 1.8, THRESHOLD})
"""Those at which texts are judged where sources are left out."""
ROUNDS = 3
TRIES = 10
LOOKED = 24
"""So many of the slowest shapes are measured again and again."""
SHOWN = 8
"""So many of the slowest shapes are printed."""


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
        prog="python -m benchmarks.sanitizer.injection",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--items", type=Path, help=f"texts (default: ${DATA}/{ITEMS})")
    parser.add_argument("--out", type=Path, metavar="RUN.jsonl", help="a line for each text")
    parser.add_argument("--tools", type=Path, help=f"sets of tools (default: ${DATA}/retrieval)")
    parser.add_argument("--skills", type=Path, help="repositories of skills to train on")
    parser.add_argument("--leave-one-source-out", action="store_true", dest="leaving_out")
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="search N shapes")
    parser.add_argument("--quick", action="store_true", help="take each time once")
    chosen = parser.parse_args()
    if chosen.items is None and os.environ.get(DATA):
        named = Path(os.environ[DATA]) / ITEMS
        chosen.items = named if named.exists() else None
        chosen.tools = chosen.tools or Path(os.environ[DATA]) / "retrieval"
    return chosen


def main() -> None:
    chosen = arguments()
    figures = []
    if chosen.items is None:
        print(f"no texts are given, with --items or ${DATA}: time alone is measured")
    elif chosen.leaving_out:
        figures = leaving_out(read(chosen.items), chosen.tools, chosen.skills)
        report("injection, sources left out", figures)
        return
    else:
        figures += accuracy(chosen)
    shapes = SHAPES | {f"seed {seed}": searched(seed) for seed in range(chosen.slowest)}
    report("injection", figures + speed(slowest(shapes), 2 if chosen.quick else TRIES))


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


@dataclass(frozen=True)
class Judged:
    """A text, and up to which threshold it is rejected as a stranger's.

    Attributes:
        item: The text.
        plain: The highest of `THRESHOLDS` at which it is rejected, as it is.
        misspelt: The same with typos in it; of attacks alone.
    """

    item: dict[str, Any]
    plain: float
    misspelt: float = 0.0


@dataclass(frozen=True)
class Split:
    """What a model that was trained without some benign texts says of those, and of all attacks."""

    name: str
    source: bool
    benign: list[Judged]
    attacks: list[Judged]


def leaving_out(
    items: list[dict[str, Any]], tools: Path | None, guides: Path | None
) -> list[Figure]:
    """Judge by models that were trained without some sources, a kind, or any of these texts.

    No attack takes part in any training. Print each split, and return the means and the range.
    """
    benign = [item for item in items if item["label"] == "benign"]
    attacks = [item for item in items if item["subset"] == "injection"]
    noisy = [misspelt(item["text"], random.Random(item["id"])) for item in attacks]
    sources = sorted({source_of(item) for item in benign})
    out = {
        ", ".join(some): [item for item in benign if source_of(item) in some]
        for some in (sources[at::FOLDS] for at in range(FOLDS))
    }
    by_source = set(out)
    for kind in sorted({item["kind"] for item in benign}):
        out[f"all of kind {kind}"] = [item for item in benign if item["kind"] == kind]
    out["all of these texts"] = benign
    splits = []
    for name, left in out.items():
        weights = learnt(benign, left, tools, guides)
        judged = [Judged(item, highest(item["text"], weights)) for item in left]
        found = [
            Judged(item, highest(item["text"], weights), highest(text, weights))
            for item, text in zip(attacks, noisy, strict=True)
        ]
        splits.append(Split(name, name in by_source, judged, found))
        by_threshold(f"without {name} ({len(left)})", judged + found)
    every = [row for one in splits if one.source for row in one.benign + one.attacks]
    by_threshold("without a source, all of them", every)
    found_by: dict[str, list[bool]] = defaultdict(list)
    for row in every:
        found_by[f"{row.item['label']:<10} {row.item['source']}"].append(row.plain >= THRESHOLD)
    for source, rows in sorted(found_by.items()):
        print(f"{source:<60} {len(rows):>6}  {sum(rows) / len(rows):.3f}")
    shares_of = [share(one.attacks, THRESHOLD) for one in splits]
    return [
        *means(every, THRESHOLD),
        Figure(name="recall, least of all splits", value=min(shares_of), unit="share", goal=0.75),
        Figure(name="recall, most of all splits", value=max(shares_of), unit="share"),
    ]


def by_threshold(name: str, rows: list[Judged]) -> None:
    """Print the shares of texts that are rejected at each threshold."""
    print(f"{name}: {', '.join(one.name for one in means(rows, THRESHOLD))}")
    for threshold in THRESHOLDS:
        shares = "  ".join(f"{one.value:.3f}" for one in means(rows, threshold))
        print(f"  at {threshold}: {shares}", flush=True)


def share(rows: list[Judged], threshold: float) -> float:
    return sum(row.plain >= threshold for row in rows) / len(rows)


def means(rows: list[Judged], threshold: float) -> list[Figure]:
    """Return the shares of texts that are rejected at a threshold, by what they are."""
    benign = [row for row in rows if row.item["label"] == "benign"]
    attacks = [row for row in rows if row.item["subset"] == "injection"]
    sorts = (
        ("recall", attacks, 0.75, True),
        ("recall in skills", [row for row in attacks if is_skill(row)], 0.5, True),
        ("false alarms", benign, 0.01, False),
        ("false alarms, skills", [row for row in benign if is_skill(row)], 0.02, False),
        (
            "false alarms, security-themed",
            [row for row in benign if row.item["subset"] == "security_theme"],
            0.08,
            False,
        ),
    )
    figures = [
        Figure(
            name=name,
            value=share(some, threshold),
            unit="share",
            goal=goal,
            at_least=at_least,
        )
        for name, some, goal, at_least in sorts
        if some
    ]
    if attacks:
        found = sum(row.misspelt >= threshold for row in attacks) / len(attacks)
        lost = share(attacks, threshold) - found
        name = "recall lost by a typo in every third word"
        figures.append(Figure(name=name, value=lost, unit="share", goal=0.1))
    return figures


def is_skill(row: Judged) -> bool:
    return str(row.item["kind"]) == "skill_md"


def highest(text: str, weights: ModelWeights) -> float:
    """Return the highest of `THRESHOLDS` at which a text is rejected; below all where it is not."""
    bar = -math.inf
    for threshold in THRESHOLDS:
        if verdict(inspect(text, threshold, weights), trusted=False) != "reject":
            break
        bar = threshold
    return bar


def learnt(
    benign: list[dict[str, Any]],
    left: list[dict[str, Any]],
    tools: Path | None,
    guides: Path | None,
) -> ModelWeights:
    """Return what is learnt from benign texts without those that are left out, or much like them.

    Args:
        benign: All benign texts.
        left: Those that are left out.
        tools: A folder of sets of tools. Those of the origin of what is left out are left out, too.
        guides: A folder of repositories of skills.
    """
    hidden = {item["id"] for item in left}
    texts = [item["text"] for item in benign if item["id"] not in hidden]
    sets = {SET_OF.get(item["source"], OWN_SET) for item in left} | {OWN_SET}
    if tools:
        texts += descriptions(tools, sets)
    if guides:
        known = {run for item in left for run in runs_of(item["text"])}
        texts += [text for text in skills(guides) if not alike(text, known)]
    return train(texts)


def runs_of(text: str) -> set[tuple[str, ...]]:
    """Return the runs of five words of a text."""
    words = re.findall(r"\w+", text.lower())
    return set(zip(*(words[at:] for at in range(5)), strict=False))


def alike(text: str, known: set[tuple[str, ...]]) -> bool:
    """Tell whether half of a text, or more, is known."""
    runs = runs_of(text)
    return bool(runs) and 2 * len(runs & known) >= len(runs)


def source_of(item: dict[str, Any]) -> str:
    """Return the source of a text; the part of it, where a source has very many."""
    if item["source"] not in DIVIDED:
        return str(item["source"])
    owner = str(item.get("group") or item["id"])
    return f"{item['source']} {crc32(owner.encode()) % DIVIDED[item['source']]}"


def slowest(shapes: dict[str, str]) -> dict[str, str]:
    """Return the shapes that take longest, at a first glance."""
    taken = {name: judge(text, 2)[1] for name, text in shapes.items()}
    return {name: shapes[name] for name in sorted(taken, key=lambda one: -taken[one])[:LOOKED]}


def speed(shapes: dict[str, str], tries: int) -> list[Figure]:
    """Take the time of made-up texts, whole and a quarter of each."""
    rows = []
    for name, text in shapes.items():
        # In turns: what else runs on the machine then slows both.
        taken = [(judge(text, 1)[1], judge(cut(text, SIZE // 4), 1)[1]) for _ in range(tries)]
        whole = min(whole for whole, _ in taken)
        rows.append((whole, whole / min(quarter for _, quarter in taken), name))
    rows.sort(reverse=True)
    for whole, growth, name in rows[:SHOWN]:
        refused = any(one.rule == TOO_COSTLY for one in inspect(shapes[name]))
        print(
            f"ms, {SIZE} bytes, {name:<24} {whole:>6.1f}, {growth:.1f} times a quarter"
            f"{', refused' if refused else ''}"
        )
    growth = max(growth for _, growth, _ in rows)
    return [
        Figure(name="slowest shape", value=rows[0][0], unit="ms", against="CPU time", goal=25),
        Figure(name="growth", value=growth, unit="", against="a quarter of the text", goal=7),
    ]


def _spread(times: Iterable[float]) -> str:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    mean = sum(ordered) / len(ordered)
    return f"mean {mean:.2f}, p99 {p99:.2f}, longest {ordered[-1]:.2f}"


if __name__ == "__main__":
    main()
