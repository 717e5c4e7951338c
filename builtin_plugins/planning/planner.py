"""From settings, flags and how things went lately to the plan of a turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate import TurnPlan
from hookgate.builtin_plugins.planning import flags

if TYPE_CHECKING:
    from hookgate.builtin_plugins.planning.settings import AdaptiveSettings, PlanningSettings


def planned(plan: TurnPlan, asked: Mapping[str, Any], settings: PlanningSettings) -> TurnPlan:
    """Return `plan` as the settings and a request want it.

    Args:
        plan: The plan so far.
        asked: What the request asks for, by the names of its flags.
        settings: Those of the plugin.
    """
    found = settings.discovery
    kinds = frozenset() if found.kind == "any" else frozenset((found.kind,))
    wanted = {
        "failure_mode": "fail_closed" if pinned(asked) else plan.failure_mode,
        "tool_selection": asked.get(flags.SELECTION, plan.tool_selection),
        "discovery": asked.get(flags.DISCOVERY, found.enabled),
        "kinds": asked.get(flags.KIND, kinds) or None,
        "category": asked.get(flags.CATEGORY, found.category),
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
    return asked.get(flags.FAILURE_MODE) == "fail_closed"


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
    widened = settings.force_all_tools_when_degraded and flags.SELECTION not in asked
    opened = settings.force_fail_open_when_degraded and not held
    return replace(
        plan,
        widened=plan.widened or widened,
        failure_mode="fail_open" if opened else plan.failure_mode,
    )
