"""How turns are planned: by the settings, by what requests ask for, never past what is held."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builtin_plugins.planning.planned import (
    ALL,
    DISCOVERED,
    FEW,
    GOOD,
    LOST,
    Finds,
    Plans,
    asked,
    offered,
    planning,
)
from tests.support.examples import sampled
from tests.support.script import Script, Tools, call, echo_tool

from hookgate import TurnError, hookimpl
from hookgate.core.domain.errors import ConfigError
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel

FLAGS: list[tuple[str, str, Any, str, Any]] = [
    *(
        ("toolFailureMode", alias, value, "failure_mode", meaning)
        for alias in ("toolFailureMode", "tool_failure_mode", "failureMode", "failMode")
        for value, meaning in (
            ("fail_open", "fail_open"),
            ("open", "fail_open"),
            ("fail_closed", "fail_closed"),
            ("closed", "fail_closed"),
        )
    ),
    *(
        ("toolSelectionMode", alias, value, "tool_selection", meaning)
        for alias in ("toolSelectionMode", "tool_selection_mode")
        for value, meaning in (
            ("all", "all"),
            ("full", "all"),
            ("discovered", "discovered"),
            ("selected", "discovered"),
            ("retrieved", "discovered"),
        )
    ),
    *(
        ("capabilityDiscoveryKind", alias, kind, "kinds", None if kind == "any" else {kind})
        for alias in ("capabilityDiscoveryKind", "capability_discovery_kind")
        for kind in ("tool", "skill", "extension", "channel", "any")
    ),
    *(
        ("capabilityCategory", alias, "files", "category", "files")
        for alias in ("capabilityCategory", "capability_category")
    ),
    *(
        ("enableCapabilityDiscovery", alias, value, "discovery", meaning)
        for alias in ("enableCapabilityDiscovery", "enable_capability_discovery")
        for value, meaning in ((True, True), (False, False), ("true", True), ("FALSE", False))
    ),
]


@pytest.mark.parametrize(("name", "alias", "value", "field", "meaning"), sampled(FLAGS, every=3))
async def test_every_flag_and_alias_changes_the_plan(
    name: str, alias: str, value: Any, field: str, meaning: Any
) -> None:
    # The settings say otherwise, so that each has something to change.
    section = {"discovery": {"enabled": meaning is False, "kind": "card", "category": "none"}}
    async with planning(Script(GOOD), section=section) as gate:
        turn, _ = await asked(gate, {alias: value})

    assert name in turn.flags
    assert getattr(turn.plan, field) == meaning


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("toolFailureMode", "sometimes"),
        ("toolSelectionMode", "auto"),
        ("capabilityDiscoveryKind", "banana"),
        ("capabilityCategory", 7),
        ("capabilityCategory", "x" * 81),
        ("capabilityCategory", "a\nb"),
        ("enableCapabilityDiscovery", "perhaps"),
        ("taskOutcome", "splendid"),
        ("taskOutcome", 1.01),
        ("taskOutcome", -0.1),
        ("taskOutcome", True),
        ("taskSuccess", "maybe"),
        ("taskSuccess", 1),
    ],
)
async def test_an_unknown_value_is_an_error_before_anything_is_asked_of_a_model(
    flag: str, value: Any
) -> None:
    script = Script(GOOD)
    async with planning(script) as gate:
        with pytest.raises(TurnError, match=f"the flag `{flag}`, expected") as caught:
            await asked(gate, {flag: value})

    assert (caught.value.code, script.requests) == ("invalid_params", [])


async def test_the_settings_say_how_turns_are_planned() -> None:
    discovery = {
        "only_available": False,
        "kind": "skill",
        "category": "files",
        "include_prompt_context": False,
        "max_retries": 3,
        "retry_backoff_ms": 200,
        "fallback_tool_tokens": 50,
    }
    async with planning(Script(GOOD), section={"discovery": discovery}) as gate:
        plan = (await asked(gate))[0].plan

    assert (plan.only_available, plan.kinds, plan.category) == (False, {"skill"}, "files")
    assert (plan.prompt_context, plan.discovery) == (False, True)
    assert (plan.discovery_retries, plan.discovery_retry_delay) == (3, 0.2)
    assert plan.fallback_tool_tokens == 50


async def test_the_defaults_are_those_of_the_core() -> None:
    async with planning(Script(GOOD), section={"discovery": {}}, turn={}) as gate:
        planned = (await asked(gate))[0].plan
    async with planning(Script(GOOD), section={"enabled": False}, turn={}) as gate:
        plain = (await asked(gate))[0].plan

    assert planned == plain
    assert (plain.failure_mode, plain.discovery_retries, plain.discovery_retry_delay) == (
        "fail_open",
        1,
        0.15,
    )


async def test_another_plugin_goes_on_from_this_plan() -> None:
    other = Plans(category="mine")
    async with planning(Script(GOOD), other) as gate:
        turn, _ = await asked(gate, {"toolSelectionMode": "all", "capabilityCategory": "files"})

    assert (other.seen[0].tool_selection, other.seen[0].category) == ("all", "files")
    assert turn.plan.category == "mine"


@pytest.mark.parametrize("section", [{"allow_request_overrides": False}, {"enabled": False}])
async def test_requests_may_be_kept_from_changing_plans_but_not_from_failing_closed(
    section: dict[str, Any],
) -> None:
    asks = {"toolSelectionMode": "all", "failMode": "closed", "enableCapabilityDiscovery": False}
    async with planning(Script(GOOD), Finds(), section=section) as gate:
        turn, events = await asked(gate, asks)
        _, quiet = await asked(gate, {"failMode": "open"})

    plan = turn.plan
    assert (plan.tool_selection, plan.discovery) == ("discovered", True)
    assert plan.failure_mode == "fail_closed"
    assert [data["code"] for data in events.of("warning")] == ["flags_not_followed"]
    assert "enableCapabilityDiscovery, toolSelectionMode" in events.of("warning")[0]["message"]
    assert quiet.of("warning") == []


# -- what is offered -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, FEW),
        ({"toolSelectionMode": "all"}, ALL),
        ({"enableCapabilityDiscovery": False}, ALL),
    ],
)
async def test_a_request_chooses_which_tools_are_offered(
    flags: dict[str, Any], names: list[str]
) -> None:
    script = Script(GOOD)
    async with planning(script, Finds()) as gate:
        await asked(gate, flags)

    assert offered(script) == names


async def test_a_request_gets_nothing_that_is_withheld() -> None:
    class Withholds:
        name = "withholds"

        @hookimpl
        def withhold_capabilities(self) -> set[str]:
            return {"tool:other"}

    script = Script(GOOD)
    async with planning(script, Finds(), Withholds()) as gate:
        await asked(gate, {"toolSelectionMode": "all", "failMode": "open"})

    assert offered(script) == FEW


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_meta_tool_can_be_taken_away(wanted: bool, tmp_path: Any) -> None:
    model = ScriptedModel(GOOD)
    section = {"planning": {"discovery": {"register_meta_tool": wanted}}}
    async with started(home=tmp_path, model=model, plugin=section) as gate:
        await gate.chat("hello")

    names = [tool.name for tool in model.requests[0].tools]
    assert ("discover_capabilities" in names) is wanted


@pytest.mark.parametrize("ahead", [True, False])
async def test_the_index_is_made_ahead_or_by_the_first_turn(ahead: bool, tmp_path: Any) -> None:
    model = ScriptedModel(GOOD)
    section = {"discovery": {"index_ahead": ahead, "watch": False}}
    async with started(home=tmp_path, model=model, plugin=section, turn=DISCOVERED) as gate:
        tasks = {task.get_name() for task in gate.host._tasks}
        await gate.chat("what is 17 * 23? calculate it")

    assert ("discovery.index" in tasks) is ahead
    assert "calculate" in [tool.name for tool in model.requests[0].tools]


# -- failures --------------------------------------------------------------------------


async def test_fail_closed_ends_the_turn_when_discovery_fails() -> None:
    script, finds = Script(GOOD), Finds()
    finds.broken = True
    async with planning(script, finds) as gate:
        closed, _ = await asked(gate, {"toolFailureMode": "fail_closed"})
        open_turn, _ = await asked(gate)

    assert closed.error is not None and closed.error.code == "discovery_failed"
    assert "fail_closed" in str(closed.error) and "the index is gone" in str(closed.error)
    assert finds.asked == 4, "each search was tried again once"
    assert (open_turn.ending, offered(script)) == ("done", ALL)
    assert len(script.requests) == 1


async def test_fail_closed_ends_the_turn_when_a_tool_fails() -> None:
    async def broken(turn: Any, arguments: Any) -> str:
        raise RuntimeError("the disk is gone")

    script = Script(call(("1", "breaks", {"text": "x"})), GOOD)
    async with planning(script, Tools2(echo_tool("breaks", run=broken, always_on=True))) as gate:
        turn, _ = await asked(gate, {"failMode": "closed"})

    assert turn.error is not None and turn.error.code == "tool_failed"
    assert "fail_closed" in str(turn.error) and "the disk is gone" in str(turn.error)


class Tools2(Tools):
    name = "more_tools"


@pytest.mark.parametrize("flags", [{}, {"toolFailureMode": "fail_open"}])
async def test_no_request_and_no_bad_outcome_loosens_a_configured_fail_closed(
    flags: dict[str, Any],
) -> None:
    turn_section = {"tool_selection": "discovered", "failure_mode": "fail_closed"}
    script = Script(*[LOST] * 6, GOOD)
    async with planning(script, Finds(), turn=turn_section) as gate:
        for _ in range(6):
            await asked(gate, flags)
        turn, events = await asked(gate, flags)

    assert turn.plan.widened, "plans are changed"
    assert turn.plan.failure_mode == "fail_closed"
    assert events.of("lifecycle")[0]["details"]["failure_mode"] == "fail_closed"


# -- settings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("room", "key", "good", "bad"),
    [
        ("outcomes", "rolling_window_size", (8, 5000), (4, 5001)),
        ("outcomes", "alert_min_samples", (1, 100), (0, 10_001)),
        ("outcomes", "alert_cooldown_ms", (0, 86_400_000), (-1, 86_400_001)),
        ("outcomes", "alert_below_weighted_success_rate", (0, 1), (-0.1, 1.1)),
        ("outcomes", "half_life", (1, 5000), (0, 5001)),
        ("outcomes", "scope", ("global", "organization_persona"), ("galaxy", 3)),
        ("adaptive", "min_samples", (1, 1000), (0, 1001)),
        ("adaptive", "recover_samples", (1, 1000), (0, 1001)),
        ("adaptive", "min_weighted_success_rate", (0, 0.8), (-0.1, 1.1)),
        # Below the rate at which plans change they would change back and forth.
        ("adaptive", "recover_success_rate", (0.7, 1), (0.69, 1.1)),
        ("discovery", "max_retries", (0, 10), (-1, 11)),
        ("discovery", "retry_backoff_ms", (0, 60_000), (-1, 60_001)),
        ("discovery", "kind", ("any", "tool"), ("", "two words")),
    ],
)
async def test_every_constant_can_be_set_within_its_bounds(
    room: str, key: str, good: tuple[Any, Any], bad: tuple[Any, Any]
) -> None:
    for value in good:
        async with planning(Script(GOOD), section={room: {key: value}}):
            pass
    for value in bad:
        with pytest.raises(ConfigError, match=key):
            planning(Script(GOOD), section={room: {key: value}})


def test_an_alert_that_could_never_be_given_is_an_error() -> None:
    outcomes = {"rolling_window_size": 10, "alert_min_samples": 11}
    with pytest.raises(ConfigError, match="nobody would ever be told"):
        planning(Script(GOOD), section={"outcomes": outcomes})
