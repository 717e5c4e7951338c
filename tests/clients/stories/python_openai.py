"""One story with the SDK `openai`: ``python_openai.py URL KEY MODEL WIRE STORY``; prints JSON."""

from __future__ import annotations

import json
import sys

import openai
from openai import OpenAI

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks something up.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}},
                "required": ["place"],
            },
        },
    }
    for name in ("weather", "clock")
]
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAA"
    "YAAjCB0C8AAAAASUVORK5CYII="
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def chat(client: OpenAI, model: str, story: str):
    user = {"role": "user", "content": "How is Oslo?"}
    ask = {"model": model, "messages": [{"role": "system", "content": "Be brief."}, user]}
    if story == "plain":
        done = client.chat.completions.create(**ask)
        return {"text": done.choices[0].message.content, "usage": done.usage.total_tokens}
    if story in ("streamed", "cancel"):
        text, usage, finish = "", None, None
        stream = client.chat.completions.create(
            **ask, stream=True, stream_options={"include_usage": True}
        )
        for chunk in stream:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
                finish = chunk.choices[0].finish_reason or finish
                if story == "cancel" and text:
                    stream.close()
                    return {"text": text}
            usage = chunk.usage.total_tokens if chunk.usage else usage
        return {"text": text, "usage": usage, "finish": finish}
    if story in ("tools", "parallel", "forced", "denied"):
        more = {"tool_choice": {"type": "function", "function": {"name": "weather"}}}
        first = client.chat.completions.create(
            **ask, tools=TOOLS, **(more if story == "forced" else {})
        )
        message = first.choices[0].message
        calls = [
            (c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or []
        ]
        if not calls:
            return {"text": message.content, "finish": first.choices[0].finish_reason}
        results = [
            {"role": "tool", "tool_call_id": c.id, "content": "4 degrees"}
            for c in message.tool_calls
        ]
        ask["messages"] += [message.model_dump(exclude_none=True), *results]
        second = client.chat.completions.create(**ask, tools=TOOLS)
        return {"calls": calls, "text": second.choices[0].message.content}
    if story == "picture":
        user["content"] = [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": PICTURE}},
        ]
        return {"text": client.chat.completions.create(**ask).choices[0].message.content}
    if story == "schema":
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
        done = client.chat.completions.create(**ask, response_format=form)
        return {"value": json.loads(done.choices[0].message.content)}
    if story == "caching":
        done = client.chat.completions.create(**ask, prompt_cache_key="k1")
        return {"cached": done.usage.prompt_tokens_details.cached_tokens}
    raise SystemExit(f"no story {story}")


def responses(client: OpenAI, model: str, story: str):
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    ask = {"model": model, "instructions": "Be brief.", "input": "How is Oslo?", "store": False}
    if story == "plain":
        done = client.responses.create(**ask)
        return {"text": done.output_text, "usage": done.usage.total_tokens}
    if story in ("streamed", "cancel"):
        text, last = "", None
        with client.responses.stream(**ask) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    text += event.delta
                    if story == "cancel":
                        return {"text": text}
                last = event.type
            return {"text": text, "last": last, "whole": stream.get_final_response().output_text}
    if story in ("tools", "parallel", "forced", "denied", "thinking"):
        more = {"tool_choice": {"type": "function", "name": "weather"}}
        first = client.responses.create(**ask, tools=tools, **(more if story == "forced" else {}))
        uses = [item for item in first.output if item.type == "function_call"]
        calls = [(use.name, json.loads(use.arguments)) for use in uses]
        if not calls:
            return {"text": first.output_text}
        ask["input"] = [
            {"role": "user", "content": ask["input"]},
            *[item.model_dump(exclude_none=True) for item in first.output],
            *[
                {"type": "function_call_output", "call_id": use.call_id, "output": "4 degrees"}
                for use in uses
            ],
        ]
        second = client.responses.create(**ask, tools=tools)
        thoughts = [item.encrypted_content for item in first.output if item.type == "reasoning"]
        return {"calls": calls, "text": second.output_text, "thoughts": thoughts}
    if story == "picture":
        parts = [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": PICTURE},
        ]
        ask["input"] = [{"role": "user", "content": parts}]
        return {"text": client.responses.create(**ask).output_text}
    if story == "schema":
        form = {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA}}
        return {"value": json.loads(client.responses.create(**ask, text=form).output_text)}
    if story == "caching":
        done = client.responses.create(**ask, prompt_cache_key="k1")
        return {"cached": done.usage.input_tokens_details.cached_tokens}
    raise SystemExit(f"no story {story}")


def main(url: str, key: str, model: str, wire: str, story: str) -> None:
    client = OpenAI(base_url=f"{url}/v1", api_key=key)
    told = {"chat": chat, "responses": responses}[wire]
    try:
        if story == "error":
            client.chat.completions.create(
                model="nobody/nothing", messages=[{"role": "user", "content": "hi"}]
            ) if wire == "chat" else client.responses.create(model="nobody/nothing", input="hi")
            said = {"error": None}
        else:
            said = told(client, model, story)
    except openai.APIStatusError as error:
        said = {"error": type(error).__name__, "status": error.status_code, "text": error.message}
    print(json.dumps(said))


main(*sys.argv[1:])
