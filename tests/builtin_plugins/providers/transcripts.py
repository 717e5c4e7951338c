"""Streams as the two protocols send them, for tests of the readers."""

from __future__ import annotations

import json
from typing import Any


def sse(*events: Any, end: str = "\n") -> bytes:
    """Return events as server-sent ones; typed ones get their name, as Anthropic does."""
    out = ""
    for event in events:
        if isinstance(event, dict) and "type" in event:
            out += f"event: {event['type']}{end}"
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        out += f"data: {data}{end}{end}"
    return out.encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> Any:
    """Return a chunk of Chat Completions."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c1", "object": "chat.completion.chunk", "choices": choices, **more}


OPENAI = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Zürich – 日本\u2028語 😀 "}),
    chunk({"content": "and on"}),
    chunk(
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_a",
                    "type": "function",
                    "function": {"name": "calculate", "arguments": ""},
                }
            ]
        }
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"expres'}}]}),
    chunk(
        {
            "tool_calls": [
                {
                    "index": 1,
                    "id": "call_b",
                    "type": "function",
                    "function": {"name": "clock", "arguments": ""},
                }
            ]
        }
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'sion": "17*23"}'}}]}),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
    chunk(
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 64},
            "completion_tokens_details": {"reasoning_tokens": 10},
        }
    ),
    "[DONE]",
]

ANTHROPIC: list[Any] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "content": [],
            "usage": {
                "input_tokens": 25,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 900,
                "output_tokens": 1,
            },
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    },
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "Let me "},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "see."},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "EqQBCgIY="},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "redacted_thinking", "data": "b3BhcXVl"},
    },
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "text_delta", "text": "Zürich – 日本\u2028語 😀 "},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "and on"}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "toolu_a", "name": "calculate", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "input_json_delta", "partial_json": ""},
    },
    {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "input_json_delta", "partial_json": '{"expression": "17'},
    },
    {
        "type": "content_block_delta",
        "index": 3,
        "delta": {"type": "input_json_delta", "partial_json": '*23"}'},
    },
    {"type": "content_block_stop", "index": 3},
    {
        "type": "content_block_start",
        "index": 4,
        "content_block": {"type": "tool_use", "id": "toolu_b", "name": "clock", "input": {}},
    },
    {"type": "content_block_stop", "index": 4},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 89},
    },
    {"type": "message_stop"},
]
