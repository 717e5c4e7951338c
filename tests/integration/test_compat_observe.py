"""Keys whose clients' calls are decided on and recorded alone: `client_tools = "observe"`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.keys.conftest import new
from tests.integration.test_compat import NAMES, audited, rules
from tests.integration.test_compat_agent import ALL, asked, gone_on, served, text_of
from tests.support.script import call, say
from tests.support.wire import bearer

LIST = ("c1", "Bash", {"command": "ls"})
WITH_KEYS = [*NAMES, "keys"]


def names_of(answer: Any) -> list[str]:
    """Return the tools that an answer of any wire calls."""
    if "choices" in answer:
        calls = answer["choices"][0]["message"].get("tool_calls") or []
        return [one["function"]["name"] for one in calls]
    items = answer.get("output") or answer["content"]
    return [one["name"] for one in items if one["type"] in ("function_call", "tool_use")]


@ALL
@pytest.mark.parametrize("effect", ["deny", "ask"])
async def test_the_call_goes_out_and_the_record_says_what_had_become_of_it(
    path: str, effect: str, tmp_path: Path
) -> None:
    plugin = rules(tmp_path, effect)
    steps = (call(LIST), say("seen"))
    async with served(tmp_path, *steps, plugin=plugin, builtin=WITH_KEYS) as (one, script):
        key = await new(one, name="trial", client_tools="observe")
        body = asked(path, model="script/one")
        headers = {**bearer(key)["headers"], "session-id": "s1"}
        status, answer = await one.post(path, body, headers=headers)
        assert (status, names_of(answer)) == (200, ["Bash"])
        (row,) = await audited(one, "tool_decided")
        data = row["data"]
        assert (row["outcome"], data["would"], data["rule"]) == ("allow", effect, "rule:no-shell")
        why = {"deny": "Bash is not run: nobody runs a shell here", "ask": "May Bash run?"}
        assert data["reason"] == why[effect]
        assert (await one.get("/v1/approvals"))[1]["approvals"] == []
        body = gone_on(path, body, answer, "a.txt")
        status, answer = await one.post(path, body, headers=headers)
        assert (status, text_of(path, answer)) == (200, "seen")
        # What came of it is of a call that was decided on, and taints like any other.
        assert len(await audited(one, "tool_finished")) == 1
    assert script.requests[1].taint >= {"tool:Bash"}


async def test_a_key_is_held_to_the_policy_unless_it_says_so(tmp_path: Path) -> None:
    path, steps = "/v1/messages", (call(LIST), say("nothing"))
    plugin = rules(tmp_path, "deny")
    async with served(tmp_path, *steps, plugin=plugin, builtin=WITH_KEYS) as (one, _):
        key = await new(one, name="trial")
        _, answer = await one.post(path, asked(path, model="script/one"), **bearer(key))
        assert (names_of(answer), text_of(path, answer)) == ([], "nothing")


@ALL
@pytest.mark.parametrize("model", ["timed", "agent/main"])
async def test_the_gateways_own_tools_are_held_to_it_all_the_same(
    path: str, model: str, tmp_path: Path
) -> None:
    text = "version: 1\nrules:\n  - {name: never, match: {tool: clock}, effect: deny, reason: no}\n"
    (tmp_path / "rules.yaml").write_text(text)
    aliases = {"timed": {"to": "script/one", "mode": "assist", "tools": ["clock"]}}
    plugin = {"policy": {"rules": [str(tmp_path / "rules.yaml")]}, "compat": {"aliases": aliases}}
    steps = (call(("c1", "clock", {"text": "x"})), say("it was denied"))
    async with served(tmp_path, *steps, plugin=plugin, builtin=WITH_KEYS) as (one, _):
        more = {"modes": ["guard", "assist", "agent"], "client_tools": "observe"}
        key = await new(one, name="trial", agents=["main"], **more)
        status, answer = await one.post(path, asked(path, model=model), **bearer(key))
        assert (status, text_of(path, answer)) == (200, "it was denied")
        (row,) = await audited(one, "tool_decided")
        assert (row["outcome"], row["data"]["would"]) == ("deny", "")
