from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.discovery.lessons import SUCCESS, finished, selected, taught, use
from tests.builtin_plugins.turns import make_turn

from hookgate.builtin_plugins.discovery.learn.view import META_TOOL, fold, used_well
from hookgate.core.domain.messages import Provenance
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import Outcome


def test_a_tool_that_was_selected_and_called_in_a_success_was_used_well() -> None:
    turn = finished(taught("q", "a", "b"), use("a"))
    assert used_well(turn, SUCCESS) == ("tool:a", "tool:b")


@pytest.mark.parametrize(
    "outcome", [None, Outcome(status="partial", score=0.6), Outcome(status="failed", score=0)]
)
def test_only_a_success_teaches(outcome: Outcome | None) -> None:
    assert used_well(taught("q", "a"), outcome) == ()


def test_the_cores_own_judgement_counts_unless_it_must_be_a_plugins() -> None:
    turn = taught("q", "a")
    assert used_well(turn, SUCCESS, judged_only=True) == ()
    assert used_well(turn, replace(SUCCESS, source="judge"), judged_only=True) == ("tool:a",)


@pytest.mark.parametrize(
    "result",
    [
        ToolResult.error("it broke"),
        ToolResult.error("no", status="denied"),
        ToolResult(content="", status="timeout"),
    ],
)
def test_a_call_that_failed_does_not_count(result: ToolResult) -> None:
    assert used_well(finished(selected(make_turn("q"), "a"), use("a", result)), SUCCESS) == ()


def test_a_tool_that_works_at_the_second_attempt_counts() -> None:
    turn = finished(selected(make_turn("q"), "a"), use("a", ToolResult.error("it broke")))
    assert used_well(finished(turn, use("a")), SUCCESS) == ("tool:a",)


def test_a_tool_that_was_only_selected_or_only_called_does_not_count() -> None:
    turn = finished(selected(make_turn("q"), "a"), use("b"))
    assert used_well(turn, SUCCESS) == ()


def test_a_tool_that_was_revealed_counts_and_what_revealed_it_does_not() -> None:
    found = ToolResult(content="{}", reveal=("a", "unused"))
    turn = selected(make_turn("q"), META_TOOL)
    finished(turn, use(META_TOOL, found, always_on=True))
    finished(turn, use("a"))
    assert used_well(turn, SUCCESS) == ("tool:a",)


def test_what_another_tool_reveals_does_not_count() -> None:
    turn = finished(make_turn("q"), use("other", ToolResult(content="", reveal=("a",))))
    assert used_well(finished(turn, use("a")), SUCCESS) == ()


@pytest.mark.parametrize("tool", [{"always_on": True}, {"owner": "client"}])
def test_tools_that_are_offered_anyway_do_not_count(tool: dict[str, Any]) -> None:
    turn = finished(selected(make_turn("q"), "a"), use("a", **tool))
    assert used_well(turn, SUCCESS) == ()


@pytest.mark.parametrize(
    "provenance", [one for one in Provenance if one is not Provenance.EXTERNAL_USER]
)
def test_only_a_principals_own_message_teaches(provenance: Provenance) -> None:
    turn = taught("q", "a", provenance=provenance)
    assert used_well(turn, SUCCESS) == ()


def test_a_tainted_message_teaches_nothing() -> None:
    turn = taught("q", "a")
    turn.message = replace(turn.message, taint=frozenset({"tool:http_get"}))
    assert used_well(turn, SUCCESS) == ()


def test_a_nested_turn_teaches_nothing() -> None:
    turn = taught("q", "a")
    turn.parent = make_turn("above")
    assert used_well(turn, SUCCESS) == ()


def test_a_call_counts_only_where_the_model_had_read_nothing_tainted() -> None:
    turn = finished(selected(make_turn("q"), "http_get", "send"), use("http_get"))
    finished(turn, use("send"), taint={"tool:http_get"})
    assert used_well(turn, SUCCESS) == ("tool:http_get",)


def test_an_id_that_a_tainted_round_uses_again_does_not_count() -> None:
    turn = finished(selected(make_turn("q"), "a", "b"), use("a", call_id="1"))
    finished(turn, use("b", call_id="1"), taint={"tool:a"})
    assert used_well(turn, SUCCESS) == ()


def test_texts_compare_without_case_width_and_white_space() -> None:
    assert fold("  Ｉs it\n Raining? ") == "is it raining?"
