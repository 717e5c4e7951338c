"""All faults of a wire with its vendor's SDK: ``python_faults.py URL KEY WIRE MODEL ...``.

Prints by model what became of it whole and streamed: the class of the error, and its status.
"""

from __future__ import annotations

import asyncio
import json
import sys

TOGETHER = 16
TOOL = {
    "type": "object",
    "properties": {"place": {"type": "string"}},
    "required": ["place"],
}
USER = {"role": "user", "content": "How is Oslo?"}


def maker(url: str, key: str, wire: str):
    """Return a function that asks a model, and the class of the SDK's errors."""
    if wire == "messages":
        import anthropic

        client = anthropic.AsyncAnthropic(base_url=url, auth_token=key, max_retries=1)
        tools = [{"name": "weather", "description": "Looks.", "input_schema": TOOL}]

        def ask(model: str, stream: bool):
            return client.messages.create(
                model=model, max_tokens=99, messages=[USER], tools=tools, stream=stream
            )

        return ask, anthropic.APIError
    import openai

    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=1)
    function = {"name": "weather", "description": "Looks.", "parameters": TOOL}

    def ask(model: str, stream: bool):
        if wire == "chat":
            tools = [{"type": "function", "function": function}]
            return client.chat.completions.create(
                model=model, messages=[USER], tools=tools, stream=stream
            )
        tools = [{"type": "function", "strict": False, **function}]
        return client.responses.create(
            model=model, input="How is Oslo?", tools=tools, store=False, stream=stream
        )

    return ask, openai.APIError


async def became(ask, errors, model: str, stream: bool) -> dict:
    """Return what became of a request."""
    last, calls = "", 0
    try:
        answer = await ask(model, stream)
        if not stream:
            return {"whole": bool(answer.id)}
        async for event in answer:
            last = getattr(event, "type", None) or "chunk"
            calls += "Oslo" in event.model_dump_json()
    except errors as error:
        kind = type(error).__name__
        status = getattr(error, "status_code", None)
        return {"error": kind, "status": status, "text": str(error)[:200], "calls": calls}
    return {"last": last, "calls": calls}


async def main(url: str, key: str, wire: str, models: list[str]) -> None:
    ask, errors = maker(url, key, wire)
    few = asyncio.Semaphore(TOGETHER)

    async def both(model: str) -> tuple[str, dict]:
        async with few:
            return model, {
                "whole": await became(ask, errors, model, stream=False),
                "streamed": await became(ask, errors, model, stream=True),
            }

    print(json.dumps(dict(await asyncio.gather(*map(both, models)))))


asyncio.run(main(*sys.argv[1:4], sys.argv[4:]))
