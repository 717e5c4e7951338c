"""What the process apart answers: what is wrong with rules, and what becomes of cases and calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

from hookgate.builtin_plugins.policy.bench.bench import Bench
from hookgate.builtin_plugins.policy.bench.cases import (
    Case,
    Coverage,
    TriedCase,
    compare,
    read_text_of_cases,
    run_case,
)
from hookgate.builtin_plugins.policy.bench.replaying import (
    DECIDED,
    FINISHED,
    Replay,
    Tally,
    kind_asked,
    read_row,
    unreadable,
)
from hookgate.builtin_plugins.policy.rules.files import named_once, read_text_of_rules
from hookgate.builtin_plugins.policy.rules.linting import (
    lint,
    lint_tools,
    past_deadline,
    unknown_budgets,
)
from hookgate.builtin_plugins.policy.rules.model import Rule
from hookgate.kit.content.documents import DocumentReading
from hookgate.kit.content.problems import Problem

TRY_SECONDS = 3.0
"""After so long no further case is begun."""
MOST_CASES = 200
"""So many cases are tried; what is left is said."""
MOST_CHARS = 1000
"""So much is told of what is expected and found, and of arguments."""
MOST_FLIPS = 1000
MOST_OTHERS = 200
"""So many decisions that flip, and that cannot be judged again, are told one by one."""
MOST_LINES = 200
"""So many lines of the table are told one by one."""

RULES_FILE = "rules.yaml"
OLD_FILE = "old.yaml"
CASES_FILE = "rules.test.yaml"


class Workbench:
    """Answers what it is asked; a replay is begun, and then given rows, page by page."""

    def __init__(self) -> None:
        self._replay: Replay | None = None
        self._tally = Tally()
        self._listed = {"flip": 0, "other": 0}

    def to(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer, JSON-ready."""
        if "rows" in work:
            assert self._replay is not None, "it was begun"
            return self._judged(self._replay, work["rows"])
        if "replay" in work:
            return self._begun(work)
        return _tried(work)

    def _begun(self, work: Mapping[str, Any]) -> dict[str, Any]:
        settings, period = work["settings"], work["replay"]
        rules = _rules(work["rules"], RULES_FILE, work.get("beside", ()))
        old = None if work.get("old") is None else _rules(work["old"], OLD_FILE)
        cases = read_text_of_cases(work.get("cases") or "cases: []", CASES_FILE)
        readings: list[DocumentReading[Any]] = [rules, cases, *([old] if old else [])]
        found: dict[str, Any] = {
            "ok": not any(one.failed for one in readings),
            "problems": _problems([one for reading in readings for one in reading.problems]),
            **self._so_far(),
        }
        if not found["ok"]:
            return found
        before = Bench(settings, old.found) if old else None
        self._replay = Replay(Bench(settings, rules.found), old=before, **period)
        found |= {**self._so_far(), "kind": kind_asked([*rules.found, *(old.found if old else ())])}
        if old:
            differs = compare(old.found, rules.found, cases.found[:MOST_CASES], settings)
            for key in ("table", "cases"):
                found[f"differing_{key}"] = len(differs[key])
                differs[key] = differs[key][:MOST_LINES]
            found |= differs
        return found

    def _so_far(self) -> dict[str, Any]:
        rules = [] if self._replay is None else _traffic(self._replay.coverage)
        return {**self._tally.to_json(), "at": "", "rules": rules}

    def _judged(self, replay: Replay, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        decisions, at = [], ""
        for row in rows:
            if row.get("kind") not in (DECIDED, FINISHED):
                continue
            at = str(row.get("at", ""))
            try:
                found = replay.take(read_row(row))
            except ValueError as error:
                found = replay.take(unreadable(row, error))
            if found is None:
                continue
            self._tally.take(found)
            if found.standing != "same" and self._is_listed(found.standing):
                one = found.to_json()
                decisions.append({**one, "why": one["why"][:MOST_CHARS]})
        return {
            **self._tally.to_json(),
            "at": at,
            "decisions": decisions,
            "rules": _traffic(replay.coverage) if not rows else [],
        }

    def _is_listed(self, standing: str) -> bool:
        kind = "flip" if standing == "flip" else "other"
        self._listed[kind] += 1
        return self._listed[kind] <= (MOST_FLIPS if kind == "flip" else MOST_OTHERS)


def _rules(
    given: str | Sequence[Rule], file: str, beside: Sequence[Rule] = ()
) -> DocumentReading[Rule]:
    """Return the rules of a text, behind others that it does not replace by name.

    Those of a gateway are returned as they are.
    """
    if not isinstance(given, str):
        return DocumentReading(found=tuple(given), problems=())
    reading = named_once(read_text_of_rules(given, file))
    names = {rule.name for rule in reading.found}
    others = tuple(rule for rule in beside if rule.name not in names)
    return replace(reading, found=others + reading.found)


def _tried(work: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is wrong with rules and cases, and what became of the cases."""
    settings = work["settings"]
    rules = _rules(work["rules"], RULES_FILE)
    late = past_deadline(rules.found, work["deadline"])
    beyond = unknown_budgets(rules.found, work["budgets"])
    problems = [*rules.problems, *late, *beyond]
    if not rules.failed:
        problems += [*lint(rules.found, settings), *lint_tools(rules.found, work["tools"])]
    cases: tuple[Case, ...] = ()
    failed = rules.failed
    if work["cases"] is not None:
        reading = read_text_of_cases(work["cases"], CASES_FILE)
        problems += reading.problems
        failed = failed or reading.failed
        cases = () if failed else reading.found
    # The coverage is of the text alone: its cases are about nothing else.
    together = _rules(work["rules"], RULES_FILE, work["beside"]).found
    tried, coverage = [], Coverage.of(together)
    if cases:
        bench, until = Bench(settings, together), monotonic() + TRY_SECONDS
        for case in cases[:MOST_CASES]:
            if monotonic() > until:
                break
            tried.append(run_case(bench, case))
            coverage.take(tried[-1].found)
    names = [rule.name for rule in rules.found]
    wrong, left = sum(not one.passed for one in tried), len(cases) - len(tried)
    return {
        "ok": not (failed or late or wrong or left),
        "rules": names,
        "problems": _problems(problems),
        "cases": [_case(one) for one in tried],
        "passed": len(tried) - wrong,
        "failed": wrong,
        "left": left,
        "coverage": [one for one in coverage.to_json() if tried and one["rule"] in names],
    }


def _problems(problems: Sequence[Problem]) -> list[dict[str, Any]]:
    ordered = sorted(problems, key=lambda one: (one.file, one.line or 0))
    return [
        {
            "file": one.file,
            "line": one.line or 0,
            "key": one.key[:MOST_CHARS],
            "severity": one.severity,
            "found": one.found[:MOST_CHARS],
            "expected": one.expected[:MOST_CHARS],
        }
        for one in ordered
    ]


def _case(one: TriedCase) -> dict[str, Any]:
    return {
        "name": one.case.name,
        "line": one.case.line,
        "passed": one.passed,
        "wrong": list(_short(one.wrong)),
        "effect": one.found.effect,
        "rule": one.found.rule,
        "why": one.found.why[:MOST_CHARS],
    }


def _traffic(coverage: Coverage) -> list[dict[str, Any]]:
    return [
        {**row, "mode": one.rule.mode, "effects": dict(one.effects), "last": one.last}
        for row, one in zip(coverage.to_json(), coverage.rows.values(), strict=True)
    ]


def _short(texts: Sequence[str]) -> Iterator[str]:
    return (text[:MOST_CHARS] for text in texts)
