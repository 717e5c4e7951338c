"""A heartbeat that costs little and says nothing where nothing is up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.schedules.conftest import Scheduled
from tests.support.script import Allow, Tools, echo_tool

from hookgate import Address
from hookgate.builtin_plugins.schedules.settings import LEAN_TOKENS, JobSettings
from hookgate.kit.testing.channel import MemoryChannel
from hookgate.kit.testing.gateway import TurnedClock
from hookgate.kit.testing.model import ScriptedModel, call, say

Start = Callable[..., AbstractAsyncContextManager[Scheduled]]

WORDS = "Look whether anything needs attention."
JOB = {"channel": "memory_channel", "account": "a", "peer": "ada", "lean": True, "text": WORDS}
WHOLE = (
    *("control", "storage", "embedding", "memory", "awareness"),
    *("planning", "discovery", "schedules"),
)


@pytest.fixture
def builtin_plugins() -> tuple[str, ...]:
    return WHOLE


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "heartbeat_ok.", "**HEARTBEAT_OK**"])
async def test_a_lean_run_hears_little_and_says_nothing_where_nothing_is_up(
    answer: str, scheduled: Start
) -> None:
    channel, model = MemoryChannel(), ScriptedModel(say("Noted."), say(answer), say("Fire!"))
    address = Address("memory_channel", "a", "ada")
    async with scheduled(channel, Tools(echo_tool()), Allow(), job=JOB, model=model) as one:
        await one.gate.chat("my dog is called Luna, and she needs attention", address=address)
        await one.look(hours=1)
        row = await one.over()
        quiet = list(channel.messages)
        await one.look(hours=1)
        await one.over()

    request = model.requests[1]
    heard = [*(part.text for part in request.system), *(m.text for m in request.messages)]
    assert sum(one.gate.host.tokens.count(text) for text in heard) <= LEAN_TOKENS
    assert request.tools == ()
    assert "Luna" not in repr(request)
    assert request.messages[-1].text.startswith(WORDS)
    assert "answer HEARTBEAT_OK and nothing else" in request.messages[-1].text
    assert (row.last.state, row.last.note) == ("done", "not sent: the answer was HEARTBEAT_OK")
    assert (quiet, list(channel.messages.values())) == ([], ["Fire!"])
    assert one.turns.ended[-1].origin.path == "heartbeat"


async def test_a_lean_run_may_call_the_tools_that_it_names_and_no_other(scheduled: Start) -> None:
    model = ScriptedModel(call("echo", text="x" * 2000), say("It says x."))
    tools, job = Tools(echo_tool(), echo_tool("other")), {**JOB, "tools": ["echo"]}
    async with scheduled(MemoryChannel(), tools, Allow(), job=job, model=model) as one:
        await one.look(hours=1)
        row = await one.over()

    assert [tool.name for tool in model.requests[0].tools] == ["echo"]
    assert [done.result.status for done in one.turns.ended[0].calls] == ["done"]
    assert row.last.state == "done"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tools": ["echo"]}, "for `lean` alone"),
        ({"lean": True, "text": "x" * 501}, "say it shorter"),
    ],
)
def test_what_does_not_fit_a_lean_run_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        JobSettings.model_validate({"every": "1h", "text": "look", **given})


@pytest.mark.parametrize(
    ("job", "lack"),
    [
        ({}, ""),
        ({"channel": "cli", "peer": "main"}, ""),
        ({"channel": "work", "account": "A1", "peer": "D9"}, ""),
        ({"deliver_by": "wasm.telegram", "account": "default", "peer": "42"}, ""),
        ({"channel": "cli"}, "`peer`"),
        ({"channel": "work", "peer": "D9"}, "`account`"),
        ({"channel": "work"}, "`account` and `peer`"),
        ({"deliver_by": "wasm.telegram"}, "`account` and `peer`"),
    ],
)
async def test_a_job_says_whose_session_it_is(
    job: dict[str, Any], lack: str, scheduled: Start, clock: TurnedClock
) -> None:
    del clock
    async with scheduled(job=job) as one:
        plugin: Any = one.gate.plugins.get("schedules")
        found = plugin.check_settings(one.gate.host)

    assert [problem.key for problem in found] == ["plugin.schedules.jobs.job"] * bool(lack)
    assert all(f"without {lack}" in problem.found for problem in found)
    assert all("hookgate sessions list" in problem.expected for problem in found)
