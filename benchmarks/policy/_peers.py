"""Times the decisions of two other engines; the interpreter that has them runs it.

It imports nothing of hookgate. ``cedarpy`` is Cedar, in Rust, with policies that are parsed
once. ``agent_os.policies`` is the rule engine of agent-governance-toolkit-core, in Python.
Both get a hundred rules, about one tool each or about an amount that each call has, none of
which forbids the call. Prints JSON: for each name the nanoseconds of each decision.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

RULES = 100
AMOUNT = 5
"""Less than any rule looks for."""


def main(number: int) -> None:
    """Time `number` decisions of each sort."""
    warnings.simplefilter("ignore")
    found: dict[str, list[int]] = {}
    for engine in (cedar, agent_os):
        try:
            deciders = engine()
        except ImportError:
            continue
        for name, decide in deciders.items():
            for place in range(200):
                if not decide(place):
                    raise SystemExit(f"{name} forbade what no rule is about")
            found[name] = times(decide, number)
    json.dump(found, sys.stdout)


def times(decide: Callable[[int], object], number: int) -> list[int]:
    """Return the nanoseconds of each of `number` decisions."""
    taken = []
    for place in range(number):
        start = time.thread_time_ns()
        decide(place)
        taken.append(time.thread_time_ns() - start)
    return taken


def cedar() -> dict[str, Callable[[int], bool]]:
    """Return deciders by Cedar."""
    cedarpy = importlib.import_module("cedarpy")
    every = "permit(principal, action, resource);\n"
    amounts = "".join(
        f"forbid(principal, action, resource) when {{ context.amount > {1000 + n} }};\n"
        for n in range(RULES)
    )
    tools = "".join(
        f'forbid(principal, action == Action::"tool_{n}", resource)'
        f" when {{ context.amount > {1000 + n} }};\n"
        for n in range(RULES)
    )

    def decider(text: str) -> Callable[[int], bool]:
        policies = cedarpy.PolicySet.from_str(text)
        entities = cedarpy.Entities.from_json_str("[]")

        def decide(place: int) -> bool:
            request = {
                "principal": {"type": "Agent", "id": "main"},
                "action": {"type": "Action", "id": "tool_50"},
                "resource": {"type": "Peer", "id": "ann"},
                "context": {"amount": AMOUNT, "to": f"peer-{place}@example.com"},
            }
            allowed: bool = cedarpy.is_authorized(request, policies, entities).allowed
            return allowed

        return decide

    return {
        "cedarpy, one rule": decider(every),
        "cedarpy, 100 tool-specific": decider(every + tools),
        "cedarpy, 100 all looked at": decider(every + amounts),
    }


def agent_os() -> dict[str, Callable[[int], bool]]:
    """Return deciders by the toolkit's evaluator."""
    evaluator = importlib.import_module("agent_os.policies.evaluator").PolicyEvaluator
    schema: Any = importlib.import_module("agent_os.policies.schema")

    def decider(rules: list[dict[str, Any]]) -> Callable[[int], bool]:
        document = schema.PolicyDocument.model_validate(
            {"name": "bench", "rules": rules, "defaults": {"action": "allow"}}
        )
        engine = evaluator(policies=[document])

        def decide(place: int) -> bool:
            to = f"peer-{place}@example.com"
            context = {"tool_name": "tool_500", "amount": AMOUNT, "to": to}
            allowed: bool = engine.evaluate(context).allowed
            return allowed

        return decide

    def rule(number: int, field: str, operator: str, value: object) -> dict[str, Any]:
        condition = {"field": field, "operator": operator, "value": value}
        return {"name": f"r{number}", "condition": condition, "action": "deny"}

    return {
        "agent-governance-toolkit, no rules": decider([]),
        "agent-governance-toolkit, 100 tool-specific": decider(
            [rule(n, "tool_name", "eq", f"tool_{n}") for n in range(RULES)]
        ),
        "agent-governance-toolkit, 100 all looked at": decider(
            [rule(n, "amount", "gt", 1000 + n) for n in range(RULES)]
        ),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
