"""What each wire's request and answer become on each wire: the same, and the other two.

`goldens/CLIENT-UPSTREAM.json` has what the upstream is sent and what the client is told.
HOOKGATE_WRITE_GOLDENS=1 writes them anew; what changed is then to be read.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.providers.raw import Wire, raw_server
from tests.clients.faults import FRAMES, PATHS, WIRES, providers
from tests.clients.upstream import Call, Say
from tests.support.script import settings
from tests.support.wire import Served

from hookgate import Gateway
from hookgate.core.gateway.serve import listen

GOLDENS = Path(__file__).with_name("goldens")
WRITES = os.environ.get("HOOKGATE_WRITE_GOLDENS") == "1"
NAMES = ("control", "egress", "providers", "policy", "compat")
ANSWER = [Say("Zürich first."), Call("weather", {"place": "Zürich"}), Call("clock", {})]
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
ANY = {"type": "object", "properties": {}}
TOOLS = (("weather", "Says how it is.", PLACE), ("clock", "Says when it is.", ANY))
USE = {"place": "Oslo"}
NEW = re.compile(r"(chatcmpl|msg|resp|fc|rs|call|toolu)[-_][0-9a-f]{32}|(?<=\"created\": )\d+")
CREATED = re.compile(r"(?<=\"created_at\": )\d+")


def chat() -> dict[str, Any]:
    use = {"name": "weather", "arguments": json.dumps(USE)}
    return {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How is Oslo?"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [{"id": "call_1", "type": "function", "function": use}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "4 degrees"},
            {"role": "user", "content": "And Zürich?"},
        ],
        "tools": [
            {"type": "function", "function": {"name": name, "description": said, "parameters": it}}
            for name, said, it in TOOLS
        ],
        "max_tokens": 99,
    }


def messages() -> dict[str, Any]:
    used = {"type": "tool_use", "id": "call_1", "name": "weather", "input": USE}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "4 degrees"}
    return {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "How is Oslo?"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, used]},
            {"role": "user", "content": [result, {"type": "text", "text": "And Zürich?"}]},
        ],
        "tools": [
            {"name": name, "description": said, "input_schema": it} for name, said, it in TOOLS
        ],
        "max_tokens": 99,
    }


def responses() -> dict[str, Any]:
    called = {"name": "weather", "arguments": json.dumps(USE)}
    said = {"type": "output_text", "text": "I look.", "annotations": []}
    return {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "How is Oslo?"},
            {"type": "message", "role": "assistant", "content": [said]},
            {"type": "function_call", "call_id": "call_1", **called},
            {"type": "function_call_output", "call_id": "call_1", "output": "4 degrees"},
            {"role": "user", "content": "And Zürich?"},
        ],
        "tools": [
            {"type": "function", "name": name, "description": said, "parameters": it}
            for name, said, it in TOOLS
        ],
        "max_output_tokens": 99,
    }


BODIES = {"chat": chat, "messages": messages, "responses": responses}


def lines(text: str) -> list[Any]:
    """Return the events of a stream."""
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [one if one == "[DONE]" else json.loads(one) for one in data]


def same(value: Any) -> Any:
    """Return JSON without what is new each time."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(CREATED.sub("0", NEW.sub(lambda it: f"{it[1]}_new" if it[1] else "0", text)))


@pytest.mark.parametrize("upstream", WIRES)
@pytest.mark.parametrize("client", WIRES)
async def test_request_and_answer_are_the_golden_ones(
    client: str, upstream: str, tmp_path: Path
) -> None:
    async def answer(wire: Wire) -> None:
        await wire.chunks(*FRAMES[upstream]("m", 1, ANSWER))

    async with raw_server() as there:
        there.script = answer
        url = there.url.removesuffix("/v1")
        plugin = {
            "providers": providers(upstream, url, url, seconds=60),
            "policy": {"profile": "open"},
        }
        config = settings(tmp_path, gateway={"port": 0}, plugin=plugin)
        async with (
            Gateway(config, builtin=NAMES) as gate,
            listen(gate) as listener,
            aiohttp.ClientSession() as http,
        ):
            one = Served(gate, listener, http)
            body = {**BODIES[client](), "model": f"{upstream}/m"}
            status, whole = await one.post(PATHS[client], body)
            assert status == 200, whole
            made = {**body, "stream": True}
            async with http.post(one.url + PATHS[client], json=made) as told:
                streamed = lines(await told.text())
        sent = there.requests
    assert sent[0] == sent[1], "an upstream is always asked for a stream"
    found = same({"sent": sent[0], "whole": whole, "streamed": streamed})
    path = GOLDENS / f"{client}-{upstream}.json"
    if WRITES:
        GOLDENS.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    golden = json.loads(path.read_text(encoding="utf-8"))
    assert found["sent"] == golden["sent"]
    assert found["whole"] == golden["whole"]
    assert found["streamed"] == golden["streamed"]
