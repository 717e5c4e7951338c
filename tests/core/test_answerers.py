"""Who may answer a question in a person's place: the plugins that the operator names."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.script import Recorder, Script, Scripted, Tools, call, echo_tool, gateway, say

from hookgate.core.domain.tools import Ask, Decision, ToolCall, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.hookspecs import hookimpl


class Asks:
    name = "asks"

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        return Verdict.ask(Ask(title="Send it?"))


class Answers:
    """Answers everything, before anybody else."""

    def __init__(self, name: str, answer: Decision | None = None) -> None:
        self.name = name
        self.answer = answer or Decision.allow(f"{name} says so", by="alice")
        self.asked = 0

    @hookimpl(tryfirst=True)
    def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision | None:
        self.asked += 1
        return self.answer


async def run(*plugins: Any, **sections: Any) -> tuple[Turn, Any]:
    script, recorder = Script(call(("c", "echo", {"text": "x"})), say("ok")), Recorder()
    parts = (Scripted(script), Tools(echo_tool()), Asks(), recorder, *plugins)
    async with gateway(*parts, **sections) as gate:
        turn = await gate.chat("go")
        return turn, dict(gate.host.notices)


async def test_an_installed_plugin_answers_nothing_unless_the_operator_names_it() -> None:
    anybody = Answers("anybody")
    turn, notices = await run(anybody)
    (done,) = turn.calls
    assert (done.result.status, anybody.asked) == ("denied", 0)
    assert "anybody" in done.decision.reason
    assert "turn.answerers" in done.decision.reason
    assert "anybody" in notices["answerers"]
    assert "turn.answerers" in notices["answerers"]


@pytest.mark.parametrize("last", [True, False])
async def test_the_order_of_plugins_gives_nobody_a_say(last: bool) -> None:
    anybody, desk = Answers("anybody"), Answers("policy", Decision.deny("no", by="bob"))
    turn, _ = await run(*((desk, anybody) if last else (anybody, desk)))
    assert (turn.calls[0].decision.by, turn.calls[0].result.status) == ("bob", "denied")
    assert (anybody.asked, desk.asked) == (0, 1)


async def test_a_plugin_that_is_named_answers() -> None:
    anybody = Answers("anybody")
    turn, notices = await run(anybody, turn={"answerers": ["anybody"]})
    assert (turn.calls[0].result.status, turn.calls[0].decision.by) == ("done", "alice")
    assert "answerers" not in notices


async def test_where_nobody_is_named_every_question_is_a_denial() -> None:
    desk = Answers("policy")
    turn, _ = await run(desk, turn={"answerers": []})
    assert (turn.calls[0].result.status, desk.asked) == ("denied", 0)


async def test_a_name_that_no_plugin_answers_by_is_told() -> None:
    turn, notices = await run(Answers("policy"), turn={"answerers": ["policy", "polcy"]})
    assert turn.calls[0].result.status == "done"
    assert "'polcy'" in notices["answerers"]
