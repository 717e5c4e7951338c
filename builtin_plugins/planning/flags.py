"""What requests may ask of their plan and say of their outcome, in ``customFlags``."""

from __future__ import annotations

from typing import Any

from hookgate import REQUEST_OVERRIDE, Outcome, RequestFlag

FAILURE_MODE = "toolFailureMode"
"""The core's own flag."""
SELECTION = "toolSelectionMode"
KIND = "capabilityDiscoveryKind"
CATEGORY = "capabilityCategory"
DISCOVERY = "enableCapabilityDiscovery"
OUTCOME = "taskOutcome"
SUCCESS = "taskSuccess"
OUTCOMES = frozenset((OUTCOME, SUCCESS))
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


def _kind(kind: str) -> frozenset[str]:
    return frozenset((kind,))


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
            **{kind: _kind(kind) for kind in ("tool", "skill", "extension", "channel")},
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
        name=OUTCOME,
        values={"success": claimed(1.0), "partial": claimed(0.5), "failed": claimed(0.0)},
        read=_score,
        expected="success or partial or failed, or a number from 0 to 1",
    ),
    RequestFlag(name=SUCCESS, values={"true": claimed(1.0), "false": claimed(0.0)}),
)
"""All that is read here, but for the core's own."""
