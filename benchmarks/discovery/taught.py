"""What three learned examples a tool bring, with intervals: learning from use on sets of tools.

Of the queries of each set half, by the digests of their ids, are said first: each is an example of
the tools that answer it, three a tool at most, as use or `hookgate examples import` brings them.
The other half is asked, with them and without: Recall@5 and NDCG@5 of the whole search, and the
difference with its 95 % bootstrap interval over queries. ``foreign`` are examples that were
imported without being trusted, which count less.

Run: ``python -m benchmarks.discovery.taught --data FOLDER [--cache FOLDER] [--quick]``
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.discovery._stages import DEPTH, Stages
from benchmarks.discovery._tool_sets import Question, ToolSet, read_set, score, set_folders
from benchmarks.discovery._vectors import Vectors, model_of
from benchmarks.report import Figure, report
from hookgate.builtin_plugins.discovery.learn.lessons import Learned

DATA, CACHE = "HOOKGATE_BENCH_DATA", "HOOKGATE_BENCH_CACHE"
EXAMPLES = 3
SAMPLES = 2000
"""Bootstrap samples."""
METRICS = ("Recall@5", "NDCG@5")


def halves(questions: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Return what is said first, and what is asked."""
    ordered = sorted(questions, key=lambda one: hashlib.sha256(one.id.encode()).digest())
    return ordered[::2], ordered[1::2]


def taught(said: Sequence[Question]) -> list[tuple[str, str]]:
    """Return the examples: a tool's id, and what was said when it was used."""
    of_tool: dict[str, list[str]] = defaultdict(list)
    for one in said:
        for tool in sorted(one.gold):
            if len(of_tool[tool]) < EXAMPLES:
                of_tool[tool].append(one.text)
    return [(tool, text) for tool, texts in of_tool.items() for text in texts]


def asked_with(
    stages: Stages, asked: Sequence[Question], learned: Learned | None
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return a row of `METRICS` for each question."""
    wanted = {one.id for one in asked}
    rows = stages.index.rows
    table = []
    for question, query in zip(stages.tools.questions, stages.queries, strict=True):
        if question.id in wanted:
            known = None if learned is None else learned.of(query, stages.index)
            places = stages.index.search(query, learned=known).places[:DEPTH].tolist()
            scores = score([question], {question.id: [rows[place].id for place in places]})
            table.append([scores[name] for name in METRICS])
    return np.array(table)


def figures(tools: ToolSet, vectors: Vectors) -> list[Figure]:
    """Return what one set comes to."""
    stages = Stages(tools, vectors)
    said, asked = halves(tools.questions)
    pairs = taught(said)
    owners, made = [tool for tool, _ in pairs], vectors.of([text for _, text in pairs])
    before = asked_with(stages, asked, None)
    own = asked_with(stages, asked, Learned(owners, made))
    foreign = asked_with(stages, asked, Learned(owners, made, range(len(owners))))
    mean = len(pairs) / max(len(set(owners)), 1)
    drawn = np.random.default_rng(7).integers(0, len(asked), (SAMPLES, len(asked)))
    found = []
    for at, name in enumerate(METRICS):
        for how, after in (("own", own), ("foreign", foreign)):
            gain = after[:, at] - before[:, at]
            low, high = np.percentile(gain[drawn].mean(1), [2.5, 97.5])
            told = (
                f"{before[:, at].mean():.3f} without; {gain.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
            )
            found.append(
                Figure(name=f"taught.{tools.name}.{how}.{name}", value=float(after[:, at].mean()),
                       unit="share", against=f"{told}; {len(asked)} queries, {mean:.1f} a tool")
            )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.discovery.taught",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"default: ${DATA}")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help=f"default: ${CACHE}")
    parser.add_argument("--sets", nargs="*", metavar="NAME", help="these alone")
    parser.add_argument("--quick", action="store_true", help="skipped: it takes a model")
    chosen = parser.parse_args()
    data = chosen.data or os.environ.get(DATA)
    if not data or chosen.quick:
        print(f"skipped: no sets of tools are given, with --data or ${DATA}")
        return
    vectors = Vectors(model_of("onnx"), chosen.cache or os.environ.get(CACHE))
    for folder in set_folders(Path(data)):
        if not chosen.sets or folder.name in chosen.sets:
            report(f"taught, {folder.name}", figures(read_set(folder), vectors))


if __name__ == "__main__":
    main()
