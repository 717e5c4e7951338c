"""All stories of a client: ``python_agents.py URL KEY PROVIDER WIRE STORY ...``; JSON out."""

from __future__ import annotations

import asyncio
import json
import sys

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


class City(BaseModel):
    city: str


async def told(client, wire: str, provider: str, story: str) -> dict:
    calls = []

    def looker(name: str):
        async def look(place: str) -> str:
            calls.append([name, {"place": place}])
            return "4 degrees"

        return function_tool(look, name_override=name, description_override="Looks.")

    asked = "nobody/nothing" if story == "error" else f"{provider}/{story}"
    more = {}
    if story in ("tools", "parallel", "denied"):
        more["tools"] = [looker(name) for name in ("weather", "clock", "secret")]
    if story == "schema":
        more["output_type"] = City
    model = MODELS[wire](model=asked, openai_client=client)
    agent = Agent(name="it", instructions="Be brief.", model=model, **more)
    if story == "streamed":
        text = ""
        stream = Runner.run_streamed(agent, "How is Oslo?")
        async for event in stream.stream_events():
            data = getattr(event, "data", None)
            text += data.delta if isinstance(data, ResponseTextDeltaEvent) else ""
        return {"text": text}
    try:
        done = (await Runner.run(agent, "How is Oslo?")).final_output
    except openai.APIStatusError as error:
        return {"error": type(error).__name__, "status": error.status_code}
    if story == "schema":
        return {"value": done.model_dump()}
    return {"text": done, **({"calls": calls} if calls else {})}


async def main(url: str, key: str, provider: str, wire: str, stories: list[str]) -> None:
    set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key)
    print(json.dumps({story: await told(client, wire, provider, story) for story in stories}))


asyncio.run(main(*sys.argv[1:5], sys.argv[5:]))
