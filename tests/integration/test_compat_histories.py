"""Histories that clients have edited: nothing breaks, no taint is lost, nothing is made up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.support.examples import sampled
from tests.support.script import Allow, Script, Scripted, call, say, settings, settled
from tests.support.wire import Served

from hookgate import Gateway, ModelRequest, ToolCall, ToolResult, Turn, hookimpl
from hookgate.core.gateway.serve import listen

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
TOOLS = {
    RESPONSES: [{"type": "function", "name": "Bash", "parameters": {"type": "object"}}],
    CHAT: [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}],
    MESSAGES: [{"name": "Bash", "input_schema": {"type": "object"}}],
}
EDITS = 50


class Watch:
    """A plugin that keeps which calls were over, and what each turn was tainted with."""

    name = "watch"

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.taint: frozenset[str] = frozenset()

    @hookimpl
    def tool_finished(self, turn: Turn, call: ToolCall, result: ToolResult) -> None:
        self.finished.append(call.id)

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> None:
        self.taint = turn.taint


def answer(request: ModelRequest) -> Sequence[Any]:
    """Release a call of the id that the last message names, or say something."""
    text = request.messages[-1].text
    if text.startswith("release "):
        return call((text.removeprefix("release "), "Bash", {"command": "ls"}))
    return say("well")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(path: str, use_id: str, name: str = "Bash") -> dict[str, Any]:
    if path == CHAT:
        made = {"name": name, "arguments": '{"command":"ls"}'}
        use = {"id": use_id, "type": "function", "function": made}
        return {"role": "assistant", "content": None, "tool_calls": [use]}
    if path == RESPONSES:
        made = {"name": name, "arguments": '{"command":"ls"}'}
        return {"type": "function_call", "call_id": use_id, **made}
    block = {"type": "tool_use", "id": use_id, "name": name, "input": {"command": "ls"}}
    return {"role": "assistant", "content": [block]}


def result(path: str, use_id: str) -> dict[str, Any]:
    if path == CHAT:
        return {"role": "tool", "tool_call_id": use_id, "content": "a.txt"}
    if path == RESPONSES:
        return {"type": "function_call_output", "call_id": use_id, "output": "a.txt"}
    block = {"type": "tool_result", "tool_use_id": use_id, "content": "a.txt"}
    return {"role": "user", "content": [block]}


def edited(path: str, true_id: str, chance: random.Random) -> tuple[list[Any], set[str]]:
    """Return a history with edits, and the ids of the results in it."""
    history = [user("release it"), called(path, true_id), result(path, true_id)]
    for number in range(chance.randrange(4)):
        made_up = f"x{number}-{true_id}"
        pair = [called(path, made_up), result(path, made_up)]
        at = chance.choice([0, 1, 3, len(history)])
        history[at:at] = chance.choice([pair, [*pair, user("and")], pair[:1], pair[::-1]])
    for _ in range(chance.randrange(3)):
        if chance.random() < 0.5:
            del history[chance.randrange(len(history))]
        else:
            one, other = (chance.randrange(len(history)) for _ in range(2))
            history[one], history[other] = history[other], history[one]
        history = history or [user("hi")]
    if chance.random() < 0.2:
        history.append(chance.choice(history))
    if chance.random() < 0.2:
        place = chance.randrange(len(history))
        roles = ["user", "assistant", "system", "tool", "wizard"]
        history[place] = {**history[place], "role": chance.choice(roles)}
    return history, set(results_in(history))


def results_in(history: Sequence[Any]) -> Sequence[str]:
    ids = [
        one["tool_call_id"] for one in history if "tool_call_id" in one and one["role"] == "tool"
    ]
    ids += [one["call_id"] for one in history if one.get("type") == "function_call_output"]
    for one in history:
        content = one.get("content")
        blocks = content if isinstance(content, list) else []
        ids += [block["tool_use_id"] for block in blocks if "tool_use_id" in block]
    return ids


@pytest.mark.parametrize("seed", sampled(range(20)))
@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
async def test_an_edited_history_breaks_nothing_and_believes_nothing(
    path: str, seed: int, tmp_path: Path
) -> None:
    watch, chance = Watch(), random.Random(f"{path} {seed}")
    own = {"compat": {"openai": "script", "anthropic": "script"}}
    config = settings(tmp_path, gateway={"port": 0}, plugin=own)
    plugins = [Scripted(Script(answer)), Allow(), watch]
    taken = 0
    async with (
        Gateway(config, builtin=("control", "compat"), plugins=plugins) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        one = Served(gate, listener, http)
        body: dict[str, Any] = {"model": "one", "tools": TOOLS[path]}
        body |= {} if path == RESPONSES else {"max_tokens": 9}
        said = "input" if path == RESPONSES else "messages"
        for number in range(EDITS):
            true_id = f"r{seed}-{number}"
            headers = {"headers": {"session-id": true_id}}
            release = {**body, said: [user(f"release {true_id}")]}
            assert (await one.post(path, release, **headers))[0] == 200
            watch.finished.clear()
            history, ids = edited(path, true_id, chance)
            status, told = await one.post(path, {**body, said: history}, **headers)
            assert status in (200, 400), (history, told)
            assert watch.finished in ([], [true_id])
            if status == 400:
                assert watch.finished == []
                continue
            taken += 1
            assert (true_id in ids) or not watch.finished
            invented = ids - {true_id}
            assert not invented or watch.taint & {"client:unverified", "client:history"}
            was = watch.taint
            later = {**body, said: [user("what now?")]}
            assert (await one.post(path, later, **headers))[0] == 200
            assert watch.taint >= was
        await settled(gate)
    assert taken > EDITS // 5
