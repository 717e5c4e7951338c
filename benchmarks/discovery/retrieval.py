"""How well the right capabilities are found: sets of tools and queries with gold labels.

The sets are not part of this repository; ``benchmarks/discovery/_tool_sets.py`` says what a set is.
`--data` names a folder that is one, or that holds several; the environment variable
``HOOKGATE_BENCH_DATA`` does the same. Nothing but the text of a query is used to answer it.
The mean is taken over all sets but one that is called ``mix``, a pool of all the others.

Each stage is measured by itself: words alone, meaning alone, the two together (what the
product does), and that with results lifted by related ones. Beside them stand a plain
hybrid, and one that takes a message apart (``clauses``). ``learned`` gives capabilities some
of a set's own queries as examples, and asks others. ``all`` also measures what the floor of
relevance does to small talk and to what was asked for, and what the model reads of 100
capabilities.

``--leave-one-out`` judges the constants of the ranking: they are searched for on all sets but
one, and that one is scored with them, for each set. ``--cost`` shows what is found against the
CPU time of a query, for four ways to make a query of a message.

Run: ``python -m benchmarks.discovery.retrieval --data FOLDER [--out RUN.jsonl] [--stage STAGE]
[--embedder NAME] [--scorer FILE] [--cache FOLDER] [--leave-one-out | --cost]
[--quick]``
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.discovery._floor import Passed, let_through
from benchmarks.discovery._left_out import GRID, LeftOut, Trial, described, leave_one_out, tuned
from benchmarks.discovery._stages import BASELINES, KS, STAGES, Stages, split_of
from benchmarks.discovery._token_cost import token_costs
from benchmarks.discovery._tool_sets import (
    METRICS,
    Run,
    Scores,
    ToolSet,
    read_set,
    score,
    score_by,
    set_folders,
    write_run,
)
from benchmarks.discovery._vectors import Vectors, model_of
from benchmarks.discovery._ways import costs, show_costs
from benchmarks.report import Figure, report

DATA, CACHE = "HOOKGATE_BENCH_DATA", "HOOKGATE_BENCH_CACHE"
TINY = Path(__file__).parents[2] / "tests" / "benchmarks" / "corpus"
"""A small corpus of our own: it shows that the benchmark runs, and says nothing of quality."""

POOL = "mix"
TOKENS = "sealtools"
"""Whose tools the costs in tokens are measured with; another set where it is not there."""

MULTI = "Complete@5, 2+"
"""Complete@5 over the queries that need two or more tools."""

MEAN_RECALL, MEAN_NDCG, POOL_RECALL, TOKENS_SAVED = 0.80, 0.74, 0.72, 90.0
COMPLETE = {"sealtools": 0.70}
LEFT_OUT = {"Recall@5": 0.81, "NDCG@5": 0.74}


@dataclass(slots=True)
class Result:
    """What one set came to.

    Attributes:
        name: The set.
        stages: The metrics of each stage.
        learned: The mean examples a capability, and the metrics, by the most examples.
        passed: What the floor of relevance lets through.
    """

    name: str
    stages: dict[str, Scores] = field(default_factory=dict)
    learned: dict[int, tuple[float, Scores]] = field(default_factory=dict)
    passed: Passed | None = None


def measure(
    tools: ToolSet, stages: Stages, chosen: Sequence[str], *, learning: bool
) -> tuple[Result, Mapping[str, Run]]:
    """Return the metrics of each chosen stage, and its run."""
    result, runs = Result(tools.name), {}
    for stage in chosen:
        runs[stage] = stages.run(stage)
        result.stages[stage] = _scores(tools, runs[stage])
    split = split_of(tools.questions) if learning else None
    if split is not None:
        asked = [question for question in tools.questions if question.id in split.asked]
        for count in KS:
            runs["learned"] = stages.learned(split, count)
            result.learned[count] = (split.mean(count), score(asked, runs["learned"]))
    return result, runs


def _scores(tools: ToolSet, run: Run) -> Scores:
    several = [question for question in tools.questions if len(question.gold) > 1]
    return score(tools.questions, run) | {
        MULTI: score(several, run)["Complete@5"] if several else float("nan")
    }


def check_by_scorer(scorer: Path, tools: ToolSet, run: Run, found: Scores) -> None:
    """Score a run with another program and show what it says.

    Raises:
        SystemExit: It says something else than this benchmark.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        write_run(path, run)
        theirs = score_by(scorer, tools.queries_file, path)
    shown = "  ".join(f"{name} {value:.4f}" for name, value in theirs.items())
    print(f"   {scorer.name}: {shown}")
    if wrong := [name for name in METRICS if abs(theirs[name] - found[name]) > 1e-3]:
        raise SystemExit(f"{scorer.name} says something else of {tools.name}: {', '.join(wrong)}")


# -- what is shown -------------------------------------------------------------


def means(results: Sequence[Result]) -> Result:
    """Return the plain mean over the sets other than the pool."""
    counted = [result for result in results if result.name != POOL] or results
    mean = Result("mean")
    for stage in counted[0].stages:
        mean.stages[stage] = {
            name: sum(one.stages[stage][name] for one in counted) / len(counted) for name in METRICS
        } | {MULTI: float("nan")}
    return mean


def show(results: Sequence[Result], embedder: str) -> None:
    console = Console(width=120)
    table = Table(title=f"retrieval, embedder {embedder}")
    for heading in ("set", "stage"):
        table.add_column(heading)
    for heading in (*METRICS, MULTI):
        table.add_column(heading, justify="right")
    for result in results:
        for stage, scores in result.stages.items():
            row = [f"{scores[name]:.4f}".replace("nan", "") for name in (*METRICS, MULTI)]
            table.add_row(result.name, stage, *row)
        for count, (mean, scores) in result.learned.items():
            row = [f"{scores[name]:.4f}" for name in METRICS]
            table.add_row(result.name, f"learned, {count} ({mean:.1f})", *row, "")
        table.add_section()
    console.print(table)
    if any(result.learned for result in results):
        print(
            "learned: at most so many examples a capability (in brackets their mean), over "
            "queries that are no examples, the same ones in each row"
        )


def quality_figures(results: Sequence[Result], mean: Result) -> list[Figure]:
    """Return the figures of each set, and the means of the whole search with their goals."""
    figures = []
    several = len([one for one in results if one.name != POOL]) > 1
    for result in results:
        figures += set_figures(result)
    if several and "fused" in mean.stages:
        for name, goal in (("Recall@5", MEAN_RECALL), ("NDCG@5", MEAN_NDCG)):
            figures.append(
                Figure(name=f"retrieval.mean.{name}", value=mean.stages["fused"][name],
                       unit="share", goal=goal, at_least=True)
            )  # fmt: skip
    floors = [one.passed for one in results if one.passed is not None and one.name != POOL]
    if several and floors:
        for name, values in (
            ("small_talk", [one.small_talk for one in floors]),
            ("lost", [one.lost for one in floors]),
            ("Recall@5", [one.recall_kept for one in floors]),
        ):
            figures.append(
                Figure(name=f"floor.mean.{name}", value=sum(values) / len(values), unit="share")
            )
    return figures


def set_figures(result: Result) -> list[Figure]:
    figures = []
    fused = result.stages.get("fused")
    if fused is not None:
        against = [result.stages[name] for name in BASELINES if name in result.stages]
        said = "the better of the plain hybrids" if against else ""
        goals: list[tuple[str, float | None, str]] = [
            (name, max((one[name] for one in against), default=None), said)
            for name in ("Recall@5", "NDCG@5")
        ]
        if result.name == POOL:
            goals.append(("Recall@5", POOL_RECALL, ""))
        if result.name in COMPLETE:
            goals.append((MULTI, COMPLETE[result.name], ""))
        for name, goal, against in goals:
            figures.append(
                Figure(name=f"retrieval.{result.name}.{name}", value=fused[name], unit="share",
                       against=against, goal=goal, at_least=True)
            )  # fmt: skip
    for count, (_, scores) in result.learned.items():
        figures.append(
            Figure(name=f"retrieval.{result.name}.learned.{count}.Recall@5",
                   value=scores["Recall@5"], unit="share")
        )  # fmt: skip
    if result.passed is not None:
        for name, value, against in (
            ("small_talk", result.passed.small_talk, "200 messages that need no capability"),
            ("lost", result.passed.lost, "queries with gold among the first 5"),
            ("Recall@5", result.passed.recall_kept, f"{result.passed.recall:.3f} without it"),
        ):
            figures.append(
                Figure(name=f"floor.{result.name}.{name}", value=value, unit="share",
                       against=f"floor {result.passed.floor:g}: {against}")
            )  # fmt: skip
    return figures


def token_figures(tools: ToolSet, vectors: Vectors) -> list[Figure]:
    """Return what is read; on a small corpus without the goal, which is for 100."""
    figures = []
    for cost in token_costs(tools, vectors):
        against = f"all schemas of {cost.capabilities}, {cost.counted}"
        name = "tokens.wordpiece" if "MiniLM" in cost.counted else "tokens.quarter"
        goal = TOKENS_SAVED if cost.capabilities >= 100 else None
        figures += [
            Figure(name=f"{name}.dump", value=cost.dump, unit="tokens a query"),
            Figure(name=f"{name}.tiers", value=cost.tiers, unit="tokens a query"),
            Figure(name=f"{name}.saved", value=cost.saved(cost.tiers), unit="%",
                   against=against, goal=goal, at_least=True),
            Figure(name=f"{name}.request", value=cost.request, unit="tokens a query"),
            Figure(name=f"{name}.request.saved", value=cost.saved(cost.request), unit="%",
                   against="the same, schemas of chosen tools counted"),
        ]  # fmt: skip
    return figures


# -- leaving out ---------------------------------------------------------------


def each_set(folders: Sequence[Path], vectors: Vectors) -> list[Stages]:
    """Return the sets but for the pool, which holds the tools of all the others."""
    return [Stages(read_set(one), vectors) for one in folders if one.name != POOL]


def leave_out(folders: Sequence[Path], vectors: Vectors) -> None:
    """Show what the constants come to in sets that they were not tuned on."""
    trials, plain = [], {}
    for stages in each_set(folders, vectors):
        questions = stages.tools.questions
        trials.append(Trial(stages))
        plain[trials[-1].name] = {name: score(questions, stages.run(name)) for name in BASELINES}
    for name, values in GRID.items():
        print(f"{name}: {', '.join(f'{value:g}' for value in values)}")
    results = leave_one_out(trials)
    print("-- nothing is left out")
    tuned(trials)
    show_left_out(results, plain)
    figures = []
    for metric, goal in LEFT_OUT.items():
        mean = sum(one.scores[metric] for one in results) / len(results)
        figures.append(
            Figure(name=f"retrieval.left_out.mean.{metric}", value=mean, unit="share",
                   goal=goal, at_least=True)
        )  # fmt: skip
    report("retrieval", figures)


def show_left_out(results: Sequence[LeftOut], plain: Mapping[str, Mapping[str, Scores]]) -> None:
    table = Table(title="Recall@5 and NDCG@5, each set left out in turn")
    for heading in ("set", *BASELINES, "shipped", "left out", "constants found on the others"):
        table.add_column(heading)
    columns = [
        [plain[one.name][name] for name in BASELINES] + [one.shipped, one.scores] for one in results
    ]
    for one, scores in zip(results, columns, strict=True):
        table.add_row(one.name, *map(_both, scores), described(one.constants))
    table.add_section()
    means = [
        {name: sum(one[name] for one in column) / len(column) for name in METRICS}
        for column in zip(*columns, strict=True)
    ]
    table.add_row("mean", *map(_both, means), "")
    Console(width=150).print(table)


def _both(scores: Scores) -> str:
    return f"{scores['Recall@5']:.4f} {scores['NDCG@5']:.4f}"


# -- the run -------------------------------------------------------------------


def out_of(path: Path, name: str, *, several: bool) -> Path:
    """Return the file for the run of a set: `path`, or one beside it where there are several."""
    return path.with_name(f"{path.stem}-{name}{path.suffix}") if several else path


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.discovery.retrieval",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"sets (default: ${DATA})")
    parser.add_argument("--out", type=Path, metavar="RUN.jsonl",
                        help="the best ten ids of each query, by the chosen stage or `fused`; "
                        "with several sets RUN-SET.jsonl for each")  # fmt: skip
    parser.add_argument("--stage", choices=["all", *STAGES, "learned"], default="all")
    parser.add_argument("--embedder", choices=["onnx", "sentence-transformers"], default="onnx")
    parser.add_argument("--scorer", type=Path, metavar="FILE",
                        help="a program that scores a run: FILE QUERIES RUN --json")  # fmt: skip
    parser.add_argument("--cache", type=Path, metavar="FOLDER",
                        help=f"keeps vectors from run to run (default: ${CACHE})")  # fmt: skip
    parser.add_argument("--leave-one-out", action="store_true",
                        help="tune on all sets but one and score that one, for each; nothing "
                        "else is measured")  # fmt: skip
    parser.add_argument(
        "--cost",
        action="store_true",
        help="what is found against CPU time; nothing else is measured",
    )
    parser.add_argument("--quick", action="store_true", help="a small corpus of our own")
    chosen = parser.parse_args()
    if chosen.data is None:
        named = "" if chosen.quick else os.environ.get(DATA, "")
        chosen.data = Path(named) if named else TINY if chosen.quick else None
    if chosen.cache is None and os.environ.get(CACHE):
        chosen.cache = Path(os.environ[CACHE])
    return chosen


def main() -> None:
    chosen = arguments()
    if chosen.data is None:
        print(f"skipped: no sets of tools are given, with --data or ${DATA}")
        return
    folders = set_folders(chosen.data)
    vectors = Vectors(model_of(chosen.embedder), chosen.cache)
    if chosen.leave_one_out:
        leave_out(folders, vectors)
        return
    if chosen.cost:
        show_costs(costs(each_set(folders, vectors), vectors))
        return
    stages = STAGES if chosen.stage == "all" else [one for one in STAGES if one == chosen.stage]
    results, figures = [], []
    costed = next((path for path in folders if path.name == TOKENS), folders[0])
    for folder in folders:
        tools = read_set(folder)
        print(f"-- {tools.name}: {len(tools.rows):,} tools, {len(tools.questions):,} queries",
              flush=True)  # fmt: skip
        made = Stages(tools, vectors)
        result, runs = measure(tools, made, stages, learning=chosen.stage in ("all", "learned"))
        if chosen.stage == "all":
            result.passed = let_through(made, vectors)
        results.append(result)
        kept = "fused" if chosen.stage == "all" else chosen.stage
        if chosen.out and kept in runs:
            write_run(out_of(chosen.out, tools.name, several=len(folders) > 1), runs[kept])
        if chosen.scorer and kept in result.stages:
            check_by_scorer(chosen.scorer, tools, runs[kept], result.stages[kept])
        if folder == costed and chosen.stage == "all":
            figures = token_figures(tools, vectors)
    mean = means(results)
    show([*results, mean] if len(results) > 1 else results, chosen.embedder)
    figures = quality_figures(results, mean) + figures
    if figures:
        report("retrieval", figures)


if __name__ == "__main__":
    main()
