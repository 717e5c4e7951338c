"""From settings, flags and how things went lately to the plan of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate import REQUEST_OVERRIDE, Outcome, RequestFlag, TurnPlan

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.settings import AdaptiveSettings, PlanningSettings

FAILURE_MODE = "toolFailureMode"
"""The core's own flag."""
SELECTION = "toolSelectionMode"
KIND = "capabilityDiscoveryKind"
CATEGORY = "capabilityCategory"
DISCOVERY = "enableCapabilityDiscovery"
TASK_OUTCOME = "taskOutcome"
TASK_SUCCESS = "taskSuccess"
OUTCOMES = frozenset((TASK_OUTCOME, TASK_SUCCESS))
"""What a request says of its outcome, whatever the plan."""

SUCCESS_FROM = 0.7
PARTIAL_FROM = 0.3
CATEGORY_CHARS = 80


def claimed(score: float) -> Outcome:
    """Return the outcome that a request gives itself, by a score from 0 to 1."""
    why = "the request says so"
    if score >= SUCCESS_FROM:
        return Outcome(status="success", score=score, source=REQUEST_OVERRIDE, reason=why)
    if score >= PARTIAL_FROM:
        return Outcome(status="partial", score=score, source=REQUEST_OVERRIDE, reason=why)
    return Outcome(status="failed", score=score, source=REQUEST_OVERRIDE, reason=why)


def _score(value: Any) -> Outcome:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError("no score")
    return claimed(float(value))


def _category(value: Any) -> str:
    if not isinstance(value, str) or len(value) > CATEGORY_CHARS or not value.isprintable():
        raise ValueError("no category")
    return value.strip()


FLAGS = (
    RequestFlag(
        name=SELECTION,
        values={
            "all": "all",
            "full": "all",
            "discovered": "discovered",
            "selected": "discovered",
            "retrieved": "discovered",
        },
    ),
    RequestFlag(
        name=KIND,
        # None, for any, would be as if nothing was asked for.
        values={
            **{kind: frozenset((kind,)) for kind in ("tool", "skill", "extension", "channel")},
            "any": frozenset(),
        },
    ),
    RequestFlag(
        name=CATEGORY,
        read=_category,
        expected=f"the name of a category, at most {CATEGORY_CHARS} characters",
    ),
    RequestFlag(name=DISCOVERY, values={"true": True, "false": False}),
    RequestFlag(
        name=TASK_OUTCOME,
        values={"success": claimed(1.0), "partial": claimed(0.5), "failed": claimed(0.0)},
        read=_score,
        expected="success or partial or failed, or a number from 0 to 1",
    ),
    RequestFlag(name=TASK_SUCCESS, values={"true": claimed(1.0), "false": claimed(0.0)}),
)
"""All that is read here, but for the core's own."""


# -- From settings, flags and how things went lately to the plan of a turn -------


def planned(plan: TurnPlan, asked: Mapping[str, Any], settings: PlanningSettings) -> TurnPlan:
    """Return `plan` as the settings and a request want it.

    Args:
        plan: The plan so far.
        asked: What the request asks for, by the names of its
        settings: Those of the plugin.
    """
    found = settings.discovery
    kinds = frozenset() if found.kind == "any" else frozenset((found.kind,))
    wanted = {
        "failure_mode": "fail_closed" if pinned(asked) else plan.failure_mode,
        "tool_selection": asked.get(SELECTION, plan.tool_selection),
        "discovery": asked.get(DISCOVERY, found.enabled),
        "kinds": asked.get(KIND, kinds) or None,
        "category": asked.get(CATEGORY, found.category),
        "only_available": found.only_available,
        "prompt_context": found.include_prompt_context,
        "discovery_retries": found.max_retries,
        "discovery_retry_delay": found.retry_backoff_ms / 1000,
        "fallback_tool_tokens": found.fallback_tool_tokens,
    }
    # Mostly nothing is asked for that is not so already, and a new plan costs more than a look.
    changed = {name: value for name, value in wanted.items() if getattr(plan, name) != value}
    return replace(plan, **changed) if changed else plan


def pinned(asked: Mapping[str, Any]) -> bool:
    """Whether a request asks for ``fail_closed``, which nothing loosens."""
    return asked.get(FAILURE_MODE) == "fail_closed"


def adapted(
    plan: TurnPlan, asked: Mapping[str, Any], settings: AdaptiveSettings, *, held: bool
) -> TurnPlan:
    """Return `plan` as it is while outcomes are bad: more tools, and no end at a failure.

    It changes what a model is offered and when a turn gives up. What a tool may do, what is
    withheld, and what may be spent stand elsewhere, and stay as they are.

    Args:
        plan: The plan as it would be.
        asked: What the request asks for; a selection of tools that it asks for stays.
        settings: What may change.
        held: Whether ``fail_closed`` is to stay.
    """
    widened = settings.force_all_tools_when_degraded and SELECTION not in asked
    opened = settings.force_fail_open_when_degraded and not held
    return replace(
        plan,
        widened=plan.widened or widened,
        failure_mode="fail_open" if opened else plan.failure_mode,
    )
