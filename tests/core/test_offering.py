"""Which tools a turn is offered when discovery fails, or finds other things than tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.turns import make_call, make_turn
from tests.support.script import Allow, Events, Script, Scripted, Tools, echo_tool, gateway, say

from hookgate import Capability, Flags, Host, Outcome, Selection, Turn, TurnPlan, hookimpl
from hookgate.core.domain.messages import Message
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Decision, ToolResult
from hookgate.core.domain.turn import FinishedCall
from hookgate.core.turn.end import outcome_by_ending

DISCOVERED = {"tool_selection": "discovered"}
ALL = ["always", "echo", "other"]
WHOLE = "x" * 48


class Selects:
    """A selector that does one of `steps` after the other, the last one over and over."""

    name = "selects"

    def __init__(self, *steps: Callable[[], Sequence[Selection]]) -> None:
        self.steps = list(steps)
        self.asked = 0

    @hookimpl
    def select_capabilities(self, turn: Turn) -> Sequence[Selection]:
        self.asked += 1
        return (self.steps.pop(0) if len(self.steps) > 1 else self.steps[0])()


class Steady(Selects):
    name = "steady"


class Skills:
    """A plugin that brings a skill, and plans as a test says."""

    name = "skills"

    def __init__(self, **plan: Any) -> None:
        self._plan = {"discovery_retry_delay": 0.0, **plan}

    @hookimpl
    def list_capabilities(self, host: Host) -> Sequence[Capability]:
        return [Capability(id="skill:bread", kind="skill", name="bread", description="Bake.")]

    @hookimpl
    def plan_turn(self, turn: Turn, plan: TurnPlan) -> TurnPlan:
        return replace(plan, **self._plan)


def found(*ids: str, **more: Any) -> Callable[[], Sequence[Selection]]:
    return lambda: [Selection(id=one, score=0.9, **more) for one in ids]


def gone() -> Sequence[Selection]:
    raise RuntimeError("the index is gone")


def tools() -> Tools:
    return Tools(echo_tool("always", always_on=True), echo_tool(), echo_tool("other"))


async def offered(*parts: object, **sections: Any) -> tuple[list[str], Turn, Events]:
    script, events = Script(say("ok")), Events()
    async with gateway(Scripted(script), Allow(), tools(), *parts, **sections) as gate:
        turn = await gate.chat("go", sink=events)
    return [tool.name for tool in script.requests[0].tools], turn, events


# -- asked again -----------------------------------------------------------------------


async def test_a_selector_that_raised_is_asked_again_and_the_others_are_not() -> None:
    shaky, steady = Selects(gone, found("tool:echo")), Steady(found("tool:other"))

    names, turn, events = await offered(shaky, steady, Skills(), turn=DISCOVERED)

    assert names == ALL
    assert (shaky.asked, steady.asked, turn.degraded) == (2, 1, {})
    assert events.of("discovery_failed") == []


@pytest.mark.parametrize(("retries", "asked"), [(0, 1), (1, 2), (3, 4)])
async def test_it_is_asked_as_often_as_is_planned(retries: int, asked: int) -> None:
    broken = Selects(gone)

    names, turn, events = await offered(broken, Skills(discovery_retries=retries), turn=DISCOVERED)

    assert (broken.asked, names) == (asked, ALL)
    assert "the index is gone" in turn.degraded["discovery_failed"]
    assert len(events.of("discovery_failed")) == 1


async def test_one_that_answers_wrongly_is_not_asked_again() -> None:
    wrong = Selects(lambda: ["tool:echo"])  # type: ignore[list-item, return-value] - that is wrong

    _, turn, _ = await offered(wrong, Skills(), turn=DISCOVERED)

    assert wrong.asked == 1
    assert "discovery_failed" in turn.degraded


# -- what is offered -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        (found("tool:echo"), ["always", "echo"]),
        (found("tool:echo", "skill:bread"), ["always", "echo"]),
        (found("skill:bread"), ALL),
        # Nothing fits.
        (found(), ["always"]),
        (found("skill:unknown"), ["always"]),
        # What is forced says nothing of what fits.
        (found("skill:bread", forced=True), ["always"]),
        (found("tool:other", forced=True), ["always", "other"]),
        (
            lambda: [*found("skill:bread")(), *found("tool:other", forced=True)()],
            ALL,
        ),
    ],
)
async def test_all_tools_are_offered_only_where_something_fits_that_is_no_tool(
    selector: Callable[[], Sequence[Selection]], names: list[str]
) -> None:
    got, turn, _ = await offered(Selects(selector), Skills(), turn=DISCOVERED)

    assert (got, turn.degraded) == (names, {})


@pytest.mark.parametrize("selector", [gone, found("skill:bread")])
async def test_a_fallback_to_all_tools_has_a_cap(
    selector: Callable[[], Sequence[Selection]],
) -> None:
    plan = Skills(fallback_tool_tokens=60)

    names, turn, _ = await offered(Selects(selector), plan, turn=DISCOVERED)

    assert names == ["always"], turn.offered


@pytest.mark.parametrize(
    ("plan", "sections", "names"),
    [
        ({}, DISCOVERED, ALL),
        # What was found comes first under the cap.
        ({"fallback_tool_tokens": 100}, DISCOVERED, ["always", "other"]),
        # Where all are offered anyway there is nothing to widen.
        ({"fallback_tool_tokens": 100}, {"tool_selection": "all"}, ALL),
        ({"fallback_tool_tokens": 100}, {"tool_selection": "auto"}, ALL),
    ],
)
async def test_a_plan_may_widen_what_was_discovered_to_all_tools(
    plan: dict[str, Any], sections: dict[str, Any], names: list[str]
) -> None:
    found_one = Selects(found("tool:other"))

    got, turn, _ = await offered(found_one, Skills(widened=True, **plan), turn=sections)

    assert got == names
    assert set(turn.degraded) == ({"tools_widened"} if sections == DISCOVERED else set())


async def test_no_plan_offers_what_is_withheld() -> None:
    class Withholds:
        name = "withholds"

        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> set[str]:
            return {"tool:other"}

    plan = Skills(widened=True)

    names, _, _ = await offered(Selects(gone), plan, Withholds(), turn=DISCOVERED)

    assert names == ["always", "echo"]


# -- how it is judged ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "answer", "calls", "degraded", "outcome"),
    [
        ("failed", WHOLE, 0, False, ("failed", 0.0)),
        ("refused", WHOLE, 0, True, ("failed", 0.0)),
        ("cancelled", WHOLE, 1, False, ("failed", 0.0)),
        ("done", WHOLE, 0, False, ("success", 0.95)),
        ("done", WHOLE, 1, True, ("success", 0.85)),
        ("done", WHOLE[1:], 0, False, ("partial", 0.6)),
        ("done", f"  {WHOLE[1:]}\n", 0, False, ("partial", 0.6)),
        ("done", "ok", 0, True, ("partial", 0.5)),
        ("done", "", 1, False, ("partial", 0.6)),
        ("done", "", 1, True, ("partial", 0.5)),
        # The calls of a client are not over yet.
        ("awaiting_client", "", 0, False, ("partial", 0.6)),
        ("done", "", 0, False, ("failed", 0.1)),
        ("done", " \n", 0, True, ("failed", 0.1)),
    ],
)
def test_a_turn_is_judged_by_its_end_and_its_answer(
    ending: str, answer: str, calls: int, degraded: bool, outcome: tuple[str, float]
) -> None:
    turn = make_turn()
    turn.ending = ending  # type: ignore[assignment] - one of them
    if answer:
        turn.messages.append(Message(role="assistant", parts=(Text(answer),)))
    finished = FinishedCall(
        make_call(flags=Flags.none()), Decision.allow("a test"), ToolResult(content="done")
    )
    turn.calls = [finished] * calls
    turn.offered = {finished.call.name: finished.call.tool}
    if degraded:
        turn.degrade("discovery_failed", "the index is gone")
        turn.degrade("discovery_failed", "again")

    judged = outcome_by_ending(turn)

    assert (judged.status, judged.score) == outcome
    assert (judged.source, judged.claimed) == ("heuristic", False)
    assert turn.degraded == ({"discovery_failed": "the index is gone"} if degraded else {})


def test_an_outcome_says_whether_its_request_gave_it() -> None:
    assert Outcome(status="success", score=1.0, source="request_override").claimed
