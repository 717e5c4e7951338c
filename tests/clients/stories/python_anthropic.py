"""One story with the SDK `anthropic`: ``python_anthropic.py URL KEY MODEL WIRE STORY``."""

from __future__ import annotations

import json
import sys

import anthropic
from anthropic import Anthropic

TOOLS = [
    {
        "name": name,
        "description": "Looks something up.",
        "input_schema": {
            "type": "object",
            "properties": {"place": {"type": "string"}},
            "required": ["place"],
        },
    }
    for name in ("weather", "clock")
]
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def text_of(message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def called(client: Anthropic, ask: dict, story: str):
    more = {}
    if story == "forced":
        more = {"tool_choice": {"type": "tool", "name": "weather"}}
    if story == "thinking":
        more = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 3000}
    first = client.messages.create(**{**ask, **more}, tools=TOOLS)
    uses = [block for block in first.content if block.type == "tool_use"]
    if not uses:
        return {"text": text_of(first), "stop": first.stop_reason}
    results = [
        {"type": "tool_result", "tool_use_id": use.id, "content": "4 degrees"} for use in uses
    ]
    ask["messages"] += [
        {
            "role": "assistant",
            "content": [b.model_dump(exclude_none=True) for b in first.content],
        },
        {"role": "user", "content": results},
    ]
    second = client.messages.create(**{**ask, **more}, tools=TOOLS)
    thoughts = [block.signature for block in first.content if block.type == "thinking"]
    calls = [(use.name, use.input) for use in uses]
    return {"calls": calls, "text": text_of(second), "thoughts": thoughts}


def told(client: Anthropic, model: str, story: str):
    ask = {
        "model": model,
        "max_tokens": 1000,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "How is Oslo?"}],
    }
    if story == "plain":
        done = client.messages.create(**ask)
        return {"text": text_of(done), "usage": done.usage.output_tokens}
    if story in ("streamed", "cancel"):
        text = ""
        with client.messages.stream(**ask) as stream:
            for piece in stream.text_stream:
                text += piece
                if story == "cancel":
                    return {"text": text}
            final = stream.get_final_message()
        return {"text": text, "stop": final.stop_reason, "usage": final.usage.output_tokens}
    if story in ("tools", "parallel", "forced", "denied", "thinking"):
        return called(client, ask, story)
    if story == "picture":
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        ask["messages"][0]["content"] = [
            {"type": "image", "source": source},
            {"type": "text", "text": "What is it?"},
        ]
        return {"text": text_of(client.messages.create(**ask))}
    if story == "schema":
        schema = {"type": "object", "properties": {"city": {"type": "string"}}}
        form = {"format": {"type": "json_schema", "schema": schema}}
        return {"value": json.loads(text_of(client.messages.create(**ask, output_config=form)))}
    if story == "caching":
        ask["system"] = [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
        ]
        return {"cached": client.messages.create(**ask).usage.cache_read_input_tokens}
    if story == "count":
        del ask["max_tokens"]
        return {"tokens": client.messages.count_tokens(**ask).input_tokens}
    if story == "models":
        return {"models": [model.id for model in client.models.list()]}
    if story == "error":
        client.messages.create(**{**ask, "model": "nobody/nothing"})
        return {"error": None}
    raise SystemExit(f"no story {story}")


def main(url: str, key: str, model: str, wire: str, story: str) -> None:
    client = Anthropic(base_url=url, auth_token=key)
    try:
        said = told(client, model, story)
    except anthropic.APIStatusError as error:
        said = {"error": type(error).__name__, "status": error.status_code, "text": error.message}
    print(json.dumps(said))


main(*sys.argv[1:])
