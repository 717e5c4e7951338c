"""A request that is longer than the model's context is named as that, with what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.transcripts import chunk, sse
from tests.support.script import Events, settings

from hookgate import Gateway

if TYPE_CHECKING:
    from pathlib import Path


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


WORDINGS: dict[str, tuple[int, Any]] = {
    "openai": (
        400,
        error(
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 130001 tokens. Please reduce the length of the messages.",
            type="invalid_request_error",
            code="context_length_exceeded",
        ),
    ),
    "openai responses": (
        400,
        error("Your input exceeds the context window of this model.", code="x"),
    ),
    "vllm": (
        400,
        error(
            "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens (4000 in the messages, 1000 in the completion).",
            type="BadRequestError",
            code=400,
        ),
    ),
    "vllm decoder": (
        400,
        error("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    ),
    "llama.cpp": (
        400,
        error(
            "the request exceeds the available context size, try increasing it",
            type="exceed_context_size_error",
            code=400,
            n_prompt_tokens=5000,
            n_ctx=4096,
        ),
    ),
    "llama.cpp in the middle": (500, error("Context size has been exceeded.", code=500)),
    "llama.cpp batch": (500, error("input is too large to process. increase the batch size")),
    "ollama": (400, error("prompt too long; exceeded max context length by 123 tokens")),
    "ollama input": (400, {"error": "the input length exceeds the context length"}),
    "lm studio": (
        400,
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, "
            "the model is loaded with context length of only 4096 tokens"
        },
    ),
    "mistral": (
        400,
        {
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length"
        },
    ),
    "gemini": (
        400,
        [
            error(
                "The input token count (1200000) exceeds the maximum number of tokens allowed "
                "(1048575)."
            )
        ],
    ),
}
ANTHROPIC = {
    "prompt": "prompt is too long: 210000 tokens > 200000 maximum",
    "both": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
}


async def failed(server: RawServer, kind: str, home: Path) -> dict[str, Any]:
    """Return the error of a turn."""
    made = settings(
        home,
        agents={"main": {"model": "acme/big"}},
        plugin={"providers": {"acme": {"kind": kind, "base_url": server.url}}},
    )
    events = Events()
    async with Gateway(made, builtin=("egress", "providers")) as gate:
        turn = await gate.chat("hi", sink=events)
        assert turn.ending == "failed"
    (told,) = events.of("error")
    return dict(told)


def named(told: dict[str, Any], said: str) -> None:
    assert (told["code"], told["kind"]) == ("provider_failed", "context_overflow")
    assert said[:30] in told["message"]
    for what in ("shorter message", "context.budget_tokens", "num_ctx", "--ctx-size"):
        assert what in told["action"]


@pytest.mark.parametrize("who", WORDINGS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_it_is_known_by_the_words_of_many_servers(
    who: str, streamed: bool, server: RawServer, tmp_path: Path
) -> None:
    status, body = WORDINGS[who]

    async def script(wire: Wire) -> None:
        if streamed and isinstance(body, dict) and "error" in body:
            await wire.chunks(sse(chunk({"role": "assistant"})), sse(body))
        else:
            await wire.answer(status, json.dumps(body).encode(), content_type="application/json")

    server.script = script
    told = await failed(server, "openai", tmp_path)
    said = json.dumps(body).partition('"message": "')[2] or str(body.get("error"))
    named(told, said)
    assert len(server.requests) == 1, "it is not tried again"


@pytest.mark.parametrize("who", ANTHROPIC)
@pytest.mark.parametrize("streamed", [False, True])
async def test_it_is_known_by_the_words_of_anthropic(
    who: str, streamed: bool, server: RawServer, tmp_path: Path
) -> None:
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": ANTHROPIC[who]},
    }

    async def script(wire: Wire) -> None:
        if streamed:
            await wire.chunks(sse(body))
        else:
            await wire.answer(400, json.dumps(body).encode(), content_type="application/json")

    server.script = script
    named(await failed(server, "anthropic", tmp_path), ANTHROPIC[who])
    assert len(server.requests) == 1, "it is not tried again"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "max_tokens is too large: 5000. This model supports at most 4096"),
        (400, "Unknown parameter: context"),
        (429, "Rate limit reached: too many tokens for the context of your plan"),
        (401, "maximum context length"),
    ],
)
async def test_other_refusals_are_not_taken_for_it(
    status: int, message: str, server: RawServer, tmp_path: Path
) -> None:
    async def script(wire: Wire) -> None:
        body = json.dumps(error(message)).encode()
        await wire.answer(status, body, content_type="application/json", retry_after="3600")

    server.script = script
    told = await failed(server, "openai", tmp_path)
    assert told["kind"] != "context_overflow"
    assert told["action"]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("openai", error("The model `big` does not exist", code="model_not_found")),
        (
            "anthropic",
            {"type": "error", "error": {"type": "not_found_error", "message": "model: big"}},
        ),
    ],
)
async def test_a_model_that_is_not_there_is_said_to_be_unknown(
    kind: str, body: Any, server: RawServer, tmp_path: Path
) -> None:
    async def script(wire: Wire) -> None:
        await wire.answer(404, json.dumps(body).encode(), content_type="application/json")

    server.script = script
    told = await failed(server, kind, tmp_path)
    assert (told["code"], told["kind"]) == ("unknown_model", "rejected")
    assert len(server.requests) == 1, "it is not tried again"
