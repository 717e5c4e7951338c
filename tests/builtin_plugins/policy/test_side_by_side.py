"""Calls that are judged beside one another are counted as if one came after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.core.test_inner_calls import model, outer_tool, turned
from tests.support.script import Tools, echo_tool, gateway

from hookgate import Flags, ToolCall, Turn, hookimpl
from hookgate.builtin_plugins.policy.plugin import Plugin
from hookgate.builtin_plugins.policy.settings import PolicySettings

RULES = """
rules:
- name: few
  match: {tool: look}
  more_than: {calls: 2, within: 1h}
  effect: %s
  reason: not so often
"""


class Slow:
    """Judges, too, and takes its time."""

    @hookimpl
    async def before_tool_call(self, turn: Turn, call: ToolCall) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_no_more_calls_run_beside_one_another_than_a_rule_allows(
    effect: str, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES % effect)
    settings = PolicySettings(rules=(str(rules),), profile="open")

    async def run(turn: Turn, _: Mapping[str, Any]) -> str:
        calls = (turn.call("look", {"text": "x"}) for _ in range(6))
        return " ".join(sorted([one.result.status for one in await asyncio.gather(*calls)]))

    tools = Tools(outer_tool(run), echo_tool("look", flags=Flags.none()))
    async with gateway(model(), Slow(), Plugin(settings), tools) as gate:
        turn = await turned(gate.host)
    assert turn.calls[-1].result.content == "denied denied denied denied done done"
    denied = [one for one in turn.calls if one.result.status == "denied"]
    assert all("rule:few" in one.result.text or "not so" in one.result.text for one in denied)
