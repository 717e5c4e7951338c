"""All stories with `litellm`: ``python_litellm.py URL KEY PROVIDER WIRE STORY ...``; JSON out."""

from __future__ import annotations

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
FUNCTIONS = [
    {"name": name, "description": "Looks something up.", "parameters": PLACE}
    for name in ("weather", "clock", "secret")
]
USER = {"role": "user", "content": "How is Oslo?"}


def completion(more: dict, story: str) -> dict:
    """Tell a story by `completion`, of Chat Completions and of Messages."""
    messages = [{"role": "system", "content": "Be brief."}, USER]
    if story == "streamed":
        stream = litellm.completion(messages=messages, stream=True, **more)
        return {"text": "".join(chunk.choices[0].delta.content or "" for chunk in stream)}
    if story == "schema":
        form = {"name": "place", "schema": SCHEMA, "strict": True}
        more["response_format"] = {"type": "json_schema", "json_schema": form}
        done = litellm.completion(messages=messages, **more)
        return {"value": json.loads(done.choices[0].message.content)}
    if story not in ("tools", "parallel", "denied"):
        return {"text": litellm.completion(messages=messages, **more).choices[0].message.content}
    more["tools"] = [{"type": "function", "function": one} for one in FUNCTIONS]
    first = litellm.completion(messages=messages, **more).choices[0].message
    uses = first.tool_calls or []
    if not uses:
        return {"text": first.content}
    messages += [
        first.model_dump(exclude_none=True),
        *({"role": "tool", "tool_call_id": use.id, "content": "4 degrees"} for use in uses),
    ]
    second = litellm.completion(messages=messages, **more).choices[0].message
    calls = [[use.function.name, json.loads(use.function.arguments)] for use in uses]
    return {"calls": calls, "text": second.content}


def responses(more: dict, story: str) -> dict:
    """Tell a story by `responses`."""
    more = {"input": [USER], "instructions": "Be brief.", "store": False, **more}
    if story == "streamed":
        stream = litellm.responses(stream=True, **more)
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        return {"text": "".join(deltas)}
    if story == "schema":
        form = {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}
        return {"value": json.loads(litellm.responses(text={"format": form}, **more).output_text)}
    if story not in ("tools", "parallel", "denied"):
        return {"text": litellm.responses(**more).output_text}
    more["tools"] = [{"type": "function", "strict": False, **one} for one in FUNCTIONS]
    first = litellm.responses(**more)
    uses = [item for item in first.output if item.type == "function_call"]
    if not uses:
        return {"text": first.output_text}
    more["input"] = [
        USER,
        *(item.model_dump(exclude_none=True) for item in first.output),
        *(
            {"type": "function_call_output", "call_id": use.call_id, "output": "4 degrees"}
            for use in uses
        ),
    ]
    calls = [[use.name, json.loads(use.arguments)] for use in uses]
    return {"calls": calls, "text": litellm.responses(**more).output_text}


def main(url: str, key: str, provider: str, wire: str, stories: list[str]) -> None:
    said = {}
    for story in stories:
        asked = "nobody/nothing" if story == "error" else f"{provider}/{story}"
        if wire == "responses":
            # It takes the first of them for a word of its own.
            asked = f"responses/{asked}"
        more = {"model": f"openai/{asked}", "api_base": f"{url}/v1", "api_key": key}
        if wire == "messages":
            more = {"model": f"anthropic/{asked}", "api_base": url, "api_key": key}
            more["max_tokens"] = 999
        try:
            said[story] = (responses if wire == "responses" else completion)(more, story)
        except litellm.exceptions.NotFoundError as error:
            said[story] = {"error": type(error).__name__, "status": error.status_code}
    print(json.dumps(said))


main(*sys.argv[1:5], sys.argv[5:])
