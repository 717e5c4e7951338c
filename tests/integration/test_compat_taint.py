"""What taints a client's conversation, in whatever form it is there."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.transcripts import chunk
from tests.integration.test_compat_as_it_came import relayed, streamed

from hookgate import Taint, ToolCall, Turn, Verdict, hookimpl
from hookgate.builtin_plugins.compat.modes import _brought, _told
from hookgate.builtin_plugins.compat.wires import messages_reader

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "title": "run this", "url": "https://a.example"}],
}


def anthropic(*blocks: dict[str, Any]) -> list[Any]:
    """An answer that begins with these blocks and calls `Bash`."""
    message = {"id": "m", "role": "assistant", "model": "m", "content": [], "usage": {}}
    frames: list[Any] = [{"type": "message_start", "message": message}]
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    for place, block in enumerate((*blocks, use)):
        frames.append({"type": "content_block_start", "index": place, "content_block": block})
        frames.append({"type": "content_block_stop", "index": place})
    usage = {"input_tokens": 5, "output_tokens": 5}
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}
    return [*frames, end, {"type": "message_stop"}]


FUNCTION = {"name": "Bash", "arguments": '{"command": "ls"}'}
OPENAI = [
    chunk({"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": FUNCTION}]}),
    chunk({}, finish="tool_calls"),
    "[DONE]",
]

CONVERSATIONS: list[tuple[str, list[Any], bool]] = [
    (MESSAGES, [{"role": "user", "content": "go"}], False),
    *(
        (MESSAGES, [{"role": "user", "content": [block, {"type": "text", "text": "go"}]}], True)
        for block in (
            {"type": "document", "source": {"type": "text", "data": "x"}},
            {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
            {"type": "document", "source": {"type": "content", "content": "x"}},
            {"type": "document", "source": {"type": "file", "file_id": "f1"}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
            },
            {"type": "search_result", "source": "a", "title": "b", "content": []},
        )
    ),
    (
        MESSAGES,
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [FOUND, {"type": "text", "text": "so"}]},
            {"role": "user", "content": "on"},
        ],
        True,
    ),
    (
        MESSAGES,
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
            {"role": "user", "content": "on"},
        ],
        False,
    ),
    *(
        (CHAT, [{"role": "user", "content": [part, {"type": "text", "text": "go"}]}], True)
        for part in (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
            {"type": "file", "file": {"file_id": "f1"}},
        )
    ),
    (CHAT, [{"role": "user", "content": "go"}], False),
]  # fmt: skip


def body_of(path: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    common = {"model": "m", "messages": messages, "stream": True}
    if path == CHAT:
        tools = [{"type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}]
        return {**common, "tools": tools, **more}
    tools = [{"name": "Bash", "input_schema": SCHEMA}]
    return {**common, "max_tokens": 64, "tools": [*tools, *more.pop("hosted", ())], **more}


class Seen:
    """A plugin that keeps what a turn is tainted with while its calls are judged."""

    name = "seen"

    def __init__(self) -> None:
        self.taints: list[Taint] = []

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict | None:
        if call.tool.name == "Bash":
            self.taints.append(turn.taint)
        return None


async def is_tainted(
    home: Path, path: str, body: dict[str, Any], answer: list[Any], **compat: Any
) -> bool:
    """Whether a call of the answer is judged as one of a tainted turn."""
    seen = Seen()
    async with relayed(home, answer, compat={"on_ask": "refuse", **compat}, plugins=[seen]) as (
        one,
        _,
    ):
        await streamed(one, path, body)
    return bool(seen.taints[0])


@pytest.mark.parametrize(("path", "messages", "tainted"), CONVERSATIONS)
async def test_a_document_taints_in_whatever_form_it_comes(
    path: str, messages: list[Any], tainted: bool, tmp_path: Path
) -> None:
    answer = OPENAI if path == CHAT else anthropic()
    assert await is_tainted(tmp_path, path, body_of(path, messages), answer) == tainted


async def test_what_a_providers_own_tool_has_brought_taints_the_calls_of_the_answer(
    tmp_path: Path,
) -> None:
    hosted = [{"type": "web_search_20250305", "name": "web_search"}]
    asked = body_of(MESSAGES, [{"role": "user", "content": "go"}], hosted=hosted)
    allowed = {"provider_tools": ["web_search*"]}
    for name, found in (("without", ()), ("with", (FOUND,))):
        told = anthropic(*found)
        assert await is_tainted(tmp_path / name, MESSAGES, asked, told, **allowed) == bool(found)


async def test_a_search_that_leaves_no_trace_taints_from_the_beginning(tmp_path: Path) -> None:
    asked = body_of(CHAT, [{"role": "user", "content": "go"}], web_search_options={})
    allowed = {"provider_tools": ["web_search*"]}
    assert await is_tainted(tmp_path, CHAT, asked, OPENAI, **allowed)
    assert "web_search_options" in json.dumps(asked)


async def test_a_model_that_searches_by_its_name_is_a_tool_of_the_providers(tmp_path: Path) -> None:
    body = body_of(CHAT, [{"role": "user", "content": "go"}]) | {"model": "openai/m:online"}
    async with relayed(tmp_path, OPENAI) as (one, upstream):
        status, answer = await one.post(CHAT, body)
        assert (status, upstream.requests) == (400, [])
        assert "the provider runs" in answer["error"]["message"]


def test_an_agent_is_tainted_by_the_documents_of_what_it_is_asked() -> None:
    body = body_of(MESSAGES, [{"role": "user", "content": [CONVERSATIONS[1][1][0]["content"][0]]}])
    request = _told(messages_reader.read(body).messages)
    assert request.taint
    assert _brought(messages_reader.read(body).messages).taint
