"""All stories of a client: ``python_pydantic.py URL KEY PROVIDER WIRE STORY ...``; JSON out."""

from __future__ import annotations

import asyncio
import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError


class City(BaseModel):
    city: str


def made(url: str, key: str, wire: str, name: str):
    """Return a model of the wire."""
    if wire == "messages":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(base_url=url, auth_token=key)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}[wire]
    return kind(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key=key))


async def told(url: str, key: str, wire: str, provider: str, story: str) -> dict:
    calls = []

    def looker(name: str):
        async def look(place: str) -> str:
            """Look something up."""
            calls.append([name, {"place": place}])
            return "4 degrees"

        look.__name__ = name
        return look

    more = {}
    if story in ("tools", "parallel", "denied"):
        more["tools"] = [looker(name) for name in ("weather", "clock", "secret")]
    if story == "schema":
        more["output_type"] = NativeOutput(City)
    asked = "nobody/nothing" if story == "error" else f"{provider}/{story}"
    agent = Agent(made(url, key, wire, asked), instructions="Be brief.", **more)
    if story == "streamed":
        async with agent.run_stream("How is Oslo?") as stream:
            text = [piece async for piece in stream.stream_text(delta=True)]
        return {"text": "".join(text)}
    try:
        done = (await agent.run("How is Oslo?")).output
    except ModelHTTPError as error:
        return {"error": "NotFoundError" if error.status_code == 404 else "", "status": 404}
    if story == "schema":
        return {"value": done.model_dump()}
    return {"text": done, **({"calls": calls} if calls else {})}


async def main(url: str, key: str, provider: str, wire: str, stories: list[str]) -> None:
    said = {story: await told(url, key, wire, provider, story) for story in stories}
    print(json.dumps(said))


asyncio.run(main(*sys.argv[1:5], sys.argv[5:]))
