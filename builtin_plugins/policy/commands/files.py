"""What the commands of ``hookgate policy`` read: settings, rules, cases and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import HookgateError, StartError
from hookgate.kit.commands import State
from hookgate.kit.content.problems import Problem

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.bench.cases import Case
    from hookgate.builtin_plugins.policy.rules.linting import KnownTool
    from hookgate.builtin_plugins.policy.rules.model import Rule
    from hookgate.builtin_plugins.policy.settings import PolicySettings

Profile: TypeAlias = Literal["open", "balanced", "guarded", "strict"]


def settings_of(state: State) -> PolicySettings:
    """Return ``[plugin.policy]``.

    Raises:
        ConfigError: Something is wrong there.
    """
    from hookgate.builtin_plugins.policy.settings import PolicySettings

    return state.section("policy", PolicySettings)


def paths_of(state: State, given: Sequence[Path] | None, *, needed: bool = True) -> list[Path]:
    """Return the files and folders of rules: those that were given, else the settings'.

    Raises:
        StartError: There are none, and some are needed.
    """
    found = list(given or settings_of(state).rules)
    if needed and not found:
        raise StartError(
            "found no rules: name files or folders of them, or set `rules` of [plugin.policy]"
        )
    return found


def rules(state: State, paths: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the rules of files and folders; where they cannot be used, say why and end."""
    from hookgate.builtin_plugins.policy.bench.cases import rule_paths
    from hookgate.builtin_plugins.policy.rules.files import read_rules

    reading = read_rules(rule_paths(paths))
    if reading.failed:
        stop(state, reading.problems)
    return reading.found


def cases(state: State, paths: Sequence[Path]) -> tuple[Case, ...]:
    """Return the cases beside rules; where they cannot be used, say why and end."""
    from hookgate.builtin_plugins.policy.bench.cases import files_of_cases, read_cases

    reading = read_cases(files_of_cases(paths))
    if reading.failed:
        stop(state, reading.problems)
    return reading.found


def stop(state: State, problems: Sequence[Problem]) -> None:
    """Print what is wrong and end with exit code 1."""
    from hookgate.kit.rendering import problem_line

    data = {"ok": False, "problems": [asdict(one) for one in problems]}
    state.show(data, map(problem_line, problems), failed=True)


def tools(state: State, name: str = "*", *, schemas: bool = False) -> list[KnownTool]:
    """Return the tools of the gateway, or of one in this process.

    Args:
        state: What was asked for.
        name: A name, or a glob.
        schemas: Whether their arguments are wanted, too.

    Raises:
        HookgateError: No gateway can be asked.
    """
    from hookgate.builtin_plugins.policy.rules.linting import known_tool

    rows: list[dict[str, Any]] = state.ask("tools.list", {"name": name})["tools"]
    return [known_tool(row, _schema(state, row["name"]) if schemas else None) for row in rows]


def budgets(state: State) -> frozenset[str] | None:
    """Return the budgets and limits of the gateway, or of one in this process; None: no plugin has.

    Raises:
        HookgateError: No gateway can be asked.
    """
    known = {
        row["name"] for row in state.ask("operations.list", {"name": "budgets.show"})["operations"]
    }
    if not known:
        return None
    return frozenset(row["name"] for row in state.ask("budgets.show", {"limit": 1})["budgets"])


def _schema(state: State, name: str) -> dict[str, Any] | None:
    """Return a tool's schema; None where the gateway does not tell it."""
    try:
        shown = state.ask("capabilities.show", {"id": f"tool:{name}"})
    except HookgateError:
        return None
    schema: dict[str, Any] | None = shown["input_schema"]
    return schema
