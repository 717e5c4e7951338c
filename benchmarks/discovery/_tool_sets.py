"""Sets of tools and queries with gold labels: reading them, and scoring a run.

A set is a folder with ``tools.jsonl`` and ``queries.jsonl``, either of them gzipped or not:

- a tool: ``id``, ``kind``, ``name``, ``description``, and where there are any ``category``,
  ``tags`` and ``parameters`` (each ``name``, ``type``, ``description``);
- a query: ``id``, ``query``, ``gold`` (ids of tools).

A run has one ``{"id", "ranked"}`` a line: the id of a query, and ids of tools, best first.
"""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hookgate.core.domain.descriptors import Capability

METRICS = ("Recall@1", "Recall@5", "Recall@10", "Complete@5", "NDCG@5", "MRR")
DEPTH = 10
"""Ids of a run for each query."""

Run: TypeAlias = dict[str, list[str]]
Scores: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Question:
    """A query and the ids of the tools that it needs."""

    id: str
    text: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A set as it was read.

    Attributes:
        name: The name of its folder.
        rows: Its tools.
        schemas: The JSON Schema of each, in the same order.
        questions: Its queries.
        queries_file: Where these came from.
    """

    name: str
    rows: tuple[Capability, ...]
    schemas: tuple[Mapping[str, Any], ...]
    questions: tuple[Question, ...]
    queries_file: Path


# -- reading -------------------------------------------------------------------


def set_folders(folder: Path) -> list[Path]:
    """Return `folder` where it is a set, or the sets that stand in it, by name.

    Raises:
        SystemExit: There is none.
    """
    if _file(folder, "tools"):
        return [folder]
    inner = [path for path in sorted(folder.glob("*")) if path.is_dir() and _file(path, "tools")]
    if not inner:
        raise SystemExit(
            f"{folder}: found no set, expected tools.jsonl[.gz] and queries.jsonl[.gz] in it, "
            "or in folders below it"
        )
    return inner


def read_set(folder: Path) -> ToolSet:
    """Read a set.

    Raises:
        SystemExit: One of its files is not there.
    """
    tools_file, queries_file = _file(folder, "tools"), _file(folder, "queries")
    if tools_file is None or queries_file is None:
        raise SystemExit(f"{folder}: expected both tools.jsonl[.gz] and queries.jsonl[.gz]")
    tools = read_lines(tools_file)
    return ToolSet(
        name=folder.resolve().name,
        rows=tuple(map(capability_of, tools)),
        schemas=tuple(map(schema_of, tools)),
        questions=tuple(
            Question(line["id"], line["query"], frozenset(line["gold"]))
            for line in read_lines(queries_file)
        ),
        queries_file=queries_file,
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines, gzipped or not."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    # Not splitlines: it also breaks at characters that JSON leaves as they are.
    return [json.loads(line) for line in data.decode("utf-8").split("\n") if line.strip()]


def _file(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}.jsonl.gz", folder / f"{stem}.jsonl")
    return next((path for path in paths if path.is_file()), None)


def capability_of(tool: Mapping[str, Any]) -> Capability:
    """Return a tool as the gateway knows it."""
    parameters = tool.get("parameters") or ()
    return Capability(
        id=tool["id"],
        kind=tool["kind"],
        name=tool["name"],
        description=tool.get("description") or "",
        category=tool.get("category") or "",
        tags=tuple(tool.get("tags") or ()),
        parameters=tuple(one["name"] for one in parameters),
        parameter_texts=tuple(one.get("description") or "" for one in parameters),
        whose="own",
    )


TYPES = {
    "array": "array", "bool": "boolean", "boolean": "boolean", "dict": "object",
    "float": "number", "int": "integer", "integer": "integer", "list": "array",
    "number": "number", "object": "object", "tuple": "array",
}  # fmt: skip


def schema_of(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of what a tool takes; a type that is not known is a string."""
    properties: dict[str, Any] = {}
    for one in tool.get("parameters") or ():
        said: dict[str, Any] = {"type": TYPES.get(str(one.get("type")).casefold(), "string")}
        if one.get("description"):
            said["description"] = one["description"]
        properties[one["name"]] = said
    return {"type": "object", "properties": properties}


# -- scoring -------------------------------------------------------------------


def score(questions: Iterable[Question], run: Mapping[str, Sequence[str]]) -> Scores:
    """Return the mean of each metric; a query without an answer counts 0.

    Recall@k is the share of the gold among the first k; Complete@5 is 1 where all of it is
    among the first 5; NDCG@5 has gains of 0 and 1, and the ideal holds as much gold as fits;
    MRR is one over the place of the first hit.
    """
    table = [_score_one(one.gold, run.get(one.id, ())) for one in questions]
    if not table:
        return dict.fromkeys(METRICS, 0.0)
    return {
        name: sum(column) / len(table)
        for name, column in zip(METRICS, zip(*table, strict=True), strict=True)
    }


def _score_one(gold: frozenset[str], ranked: Sequence[str]) -> tuple[float, ...]:
    hits = [item in gold for item in ranked]
    recall = [sum(hits[:depth]) / len(gold) for depth in (1, 5, 10)]
    gain = sum(1 / math.log2(at + 2) for at, hit in enumerate(hits[:5]) if hit)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(len(gold), 5)))
    first = hits.index(True) if True in hits else None
    return (
        *recall,
        float(recall[1] == 1),
        gain / ideal,
        0.0 if first is None else 1 / (first + 1),
    )


def write_run(path: Path, run: Mapping[str, Sequence[str]]) -> None:
    """Write a run, the best `DEPTH` ids of each query."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for id_, ranked in run.items():
            file.write(json.dumps({"id": id_, "ranked": list(ranked[:DEPTH])}) + "\n")


def score_by(scorer: Path, queries_file: Path, run_file: Path) -> Scores:
    """Return what the program `scorer` makes of a run.

    It is called with the two files and ``--json``, and prints an object with a number, or a
    list that begins with one, for each metric.

    Raises:
        SystemExit: It failed.
    """
    command = [sys.executable, str(scorer), str(queries_file), str(run_file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{scorer.name} failed: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout)
    return {
        name: float(found[name][0] if isinstance(found[name], list) else found[name])
        for name in METRICS
    }
