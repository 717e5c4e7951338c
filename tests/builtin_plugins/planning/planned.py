"""A gateway that plans turns, and little else; and turns that go as a test wants them to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.script import Allow, Events, Script, Scripted, Tools, call, echo_tool, settings

from hookgate import (
    Gateway,
    Invocation,
    Principal,
    Selection,
    Turn,
    TurnPlan,
    hookimpl,
)
from hookgate.kit.testing.gateway import TurnedClock, _Around
from hookgate.kit.testing.model import say

GOOD = say("This is a whole answer, since it has more than 48 characters.")
SHORT = say("Short.")
DISCOVERED = {"tool_selection": "discovered"}
ALL = ["always", "echo", "other"]
FEW = ["always", "echo"]


def BAD(_: object) -> Sequence[Any]:
    """Fail; each time with an error of its own, which takes its traceback along."""
    return [RuntimeError("broken")]


LOST = call(("lost", "always", {"text": "break"}))
"""Call a tool that fails."""
MISSED = (LOST, SHORT)
"""A turn that goes badly since a tool fails."""
NOWHERE = call(("none", "nowhere", {}))
"""Call a tool that is not there."""


class Finds:
    """A selector that finds `echo`, or fails as long as `broken` is set."""

    name = "finds"

    def __init__(self) -> None:
        self.broken = False
        self.asked = 0

    @hookimpl
    def select_capabilities(self, turn: Turn) -> list[Selection]:
        self.asked += 1
        if self.broken:
            raise RuntimeError("the index is gone")
        return [Selection(id="tool:echo", score=0.9)]


class Plans:
    """Another plugin that plans."""

    name = "plans"

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.seen: list[TurnPlan] = []

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan:
        self.seen.append(plan)
        return replace(plan, **self.changes)


async def breaks(turn: Turn, arguments: Mapping[str, Any]) -> str:
    if arguments["text"] == "break":
        raise RuntimeError("it is broken")
    return str(arguments["text"])


def tools() -> Tools:
    always = echo_tool("always", run=breaks, always_on=True)
    return Tools(always, echo_tool(), echo_tool("other"))


def planning(
    script: Script,
    *plugins: object,
    home: Path | None = None,
    clock: TurnedClock | None = None,
    builtin: Sequence[str] = ("control", "planning"),
    section: Mapping[str, Any] | None = None,
    **sections: Any,
) -> Gateway:
    """Return a gateway with `planning`; its sections are those of the settings."""
    sections.setdefault("turn", DISCOVERED)
    quick = {"discovery": {"retry_backoff_ms": 0}}
    sections["plugin"] = {"planning": {**quick, **(section or {})}, **sections.get("plugin", {})}
    around = [] if clock is None else [_Around(clock, Script(name="unused"), [])]
    parts = (*around, Scripted(script), Allow(), tools(), *plugins)
    return Gateway(settings(home, **sections), builtin=tuple(builtin), plugins=parts)


async def asked(gate: Gateway, flags: Mapping[str, Any] | None = None, text: str = "go") -> Any:
    """Run a turn and what follows it; return it with its events."""
    events = Events()
    options = {"customFlags": flags} if flags else {}
    turn = await gate.chat(text, options=options, sink=events)
    await gate.turns.after.drain()
    return turn, events


async def shown(gate: Gateway, principal: Principal | None = None, **params: Any) -> Any:
    """Return what the operation ``outcomes`` shows."""
    operation = gate.host.operations["outcomes"]
    invocation = Invocation(host=gate.host, principal=principal or Principal.owner())
    result = await operation.handler(invocation, operation.params(**params))
    return result.model_dump(mode="json")


def offered(script: Script, number: int = -1) -> list[str]:
    return [tool.name for tool in script.requests[number].tools]


def states(events: Events) -> list[str]:
    return [data["state"] for data in events.of("lifecycle")]


def heard(gate: Gateway, into: list[Any], *types: str) -> Callable[[], None]:
    """Keep the bus's events of these types from now on."""
    publish = gate.host.events.publish

    def kept(event: Any) -> None:
        if event.type in types:
            into.append(event)
        publish(event)

    gate.host.events.publish = kept  # type: ignore[method-assign]
    return lambda: None
