"""The vendors' SDKs, unmodified, where the gateway adds something: tools, or all of an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import MODELS, between, told
from tests.clients.test_sdks import CALLED, COLD, WEATHER
from tests.clients.upstream import Call, Say, answers

SDKS = pytest.mark.parametrize(
    ("program", "wire"),
    [("python_openai", "chat"), ("python_openai", "responses"), ("python_anthropic", "messages")],
)
SUM = Call("calculate", {"expression": "3*4"})


def counting(wire: str) -> dict[str, Any]:
    """Settings with an alias that brings a tool of the gateway's along."""
    alias = {"to": MODELS[wire], "mode": "assist", "tools": ["calculate"]}
    return {"compat": {"aliases": {"counting": alias}}}


@SDKS
async def test_a_tool_of_the_gateways_runs_unseen(program: str, wire: str, tmp_path: Path) -> None:
    script = answers([SUM], [WEATHER], COLD)
    async with between(tmp_path, script, plugin=counting(wire)) as there:
        said = await told(program, wire, "tools", there, "counting")
        assert {name: said[name] for name in CALLED} == CALLED, said
        _, second, third = [one.json for one in there.upstream.sent if one.method == "POST"]
        # What the client was not shown is there again when its history returns.
        for body in (second, third):
            assert ("3*4" in str(body), str(body).count("12") > 0) == (True, True)


@pytest.mark.parametrize("story", ["plain", "streamed"])
@SDKS
async def test_an_agent_answers(program: str, wire: str, story: str, tmp_path: Path) -> None:
    async with between(tmp_path, answers([SUM], [Say("It is 12.")])) as there:
        said = await told(program, wire, story, there, "agent/main")
        assert said["text"] == "It is 12."
        assert len([one for one in there.upstream.sent if one.method == "POST"]) == 2
