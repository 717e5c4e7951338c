"""From settings, flags and how things went lately to the plan of a turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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


# -- the course of a turn ----------------------------------------------------------

# ::
#
#     planned, executing, completed
#     planned, executing, degraded, completed
#     planned, executing, degraded, recovered, completed
#
# and ``errored`` in place of whatever comes next.

State: TypeAlias = Literal["planned", "executing", "degraded", "recovered", "completed", "errored"]

NEXT: Mapping[State | None, frozenset[State]] = {
    None: frozenset(("planned", "errored")),
    "planned": frozenset(("executing", "errored")),
    "executing": frozenset(("degraded", "completed", "errored")),
    "degraded": frozenset(("recovered", "completed", "errored")),
    "recovered": frozenset(("completed", "errored")),
    "completed": frozenset(),
    "errored": frozenset(),
}
"""What may follow a state; None stands for a turn that nothing is known of yet."""

_BEFORE: Mapping[State, State] = {
    "executing": "planned",
    "degraded": "executing",
    "recovered": "degraded",
    "completed": "executing",
}
"""The state by which each is reached where the one before it was missed."""


class Lifecycle:
    """The states of one turn so far.

    Attributes:
        state: The last one.
    """

    def __init__(self) -> None:
        self.state: State | None = None
        self._seen: set[State] = set()

    def reach(self, state: State) -> Sequence[State]:
        """Go on to `state`, and return what was passed on the way, `state` last.

        Nothing is passed where it was reached before, or cannot be reached any more.
        """
        if state in self._seen or not NEXT[self.state]:
            return ()
        if state in NEXT[self.state]:
            self.state = state
            self._seen.add(state)
            return (state,)
        before = _BEFORE.get(state)
        passed = self.reach(before) if before is not None else ()
        return (*passed, *self.reach(state)) if passed else ()


# -- When plans change because outcomes are bad, and when they change back -------


class WeightedRate:
    """The mean of scores of which each weighs less the longer ago it was.

    Args:
        half_life: So many scores ago, one weighs half as much as the last one.
    """

    def __init__(self, half_life: float) -> None:
        self._decay: float = 0.5 ** (1 / half_life)
        self._sum = self._weight = 0.0

    def add(self, score: float) -> None:
        """Take in a score."""
        self._sum = self._sum * self._decay + score
        self._weight = self._weight * self._decay + 1

    def drop(self, score: float, ago: int) -> None:
        """Let go of a score, as which `ago` others came since."""
        weight = self._decay**ago
        self._sum -= score * weight
        self._weight -= weight

    @property
    def rate(self) -> float:
        """The mean, 0 to 1; 0 of nothing."""
        # Scores of 0.7 are at 0.7, whatever floating point makes of their sum.
        mean = round(self._sum / self._weight, 9) if self._weight > 0 else 0.0
        return min(max(mean, 0.0), 1.0)


class Recovery:
    """Whether the outcomes of a scope are bad.

    They get bad where their weighted rate sinks below one threshold, and good again where the
    mean of the last ones reaches a higher one. After each change only later outcomes count, as
    many as it takes: so plans do not change back and forth.

    Attributes:
        degraded: Whether they are.
    """

    def __init__(self, settings: AdaptiveSettings, half_life: float) -> None:
        self._settings = settings
        self._half_life = half_life
        self.degraded = False
        self._begin()

    def _begin(self) -> None:
        self._samples = 0
        self._rate = WeightedRate(self._half_life)
        self._last: deque[float] = deque(maxlen=self._settings.recover_samples)

    @property
    def rate(self) -> float:
        """The weighted rate since the last change."""
        return self._rate.rate

    def add(self, score: float) -> None:
        """Take in the outcome of a turn."""
        self._samples += 1
        self._rate.add(score)
        self._last.append(score)
        if self._recovers() if self.degraded else self._degrades():
            self.degraded = not self.degraded
            self._begin()

    def _degrades(self) -> bool:
        settings = self._settings
        enough = self._samples >= settings.min_samples
        return enough and self.rate < settings.min_weighted_success_rate

    def _recovers(self) -> bool:
        enough = len(self._last) == self._settings.recover_samples
        mean = round(sum(self._last) / len(self._last), 9)
        return enough and mean >= self._settings.recover_success_rate
