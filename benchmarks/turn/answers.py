"""What mocked models say: sentences as people get them, and no two answers the same."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

OPENINGS = (
    "I have looked it up for you",
    "Here is what I found",
    "That is a good question",
    "As far as I can tell",
    "Let me go through it",
)
SENTENCES = (
    "The train from {place} leaves at {hour}:{minute} and takes about {number} hours.",
    "In {place} it is {number} degrees, and it stays dry until {day}.",
    "Anna's invoice number {number}{minute} was paid on {day}.",
    "The hotel near the harbour of {place} has a room for {number}{minute} crowns a night.",
    "Your table holds {number} rows now; the last one is of {day}.",
    "Nobody has answered the letter to {place} yet, so I would ask again on {day}.",
    "The report of {day} names {number} open points, two of which are yours.",
    "If you leave before {hour}:{minute}, the road to {place} is free.",
)
PLACES = ("Oslo", "Bergen", "Turin", "Vienna", "Porto", "Gdansk", "Leeds", "Basel")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

LAST = "Tell me if you need more."
"""Ends every whole answer."""


def answer(seed: str, length: int = 300) -> str:
    """Return an answer of about so many characters, the same for the same `seed`."""
    chance = random.Random(seed)
    said = f"{chance.choice(OPENINGS)}."
    while len(said) + len(LAST) < length:
        said += " " + chance.choice(SENTENCES).format(
            place=chance.choice(PLACES),
            hour=chance.randint(6, 22),
            minute=chance.randint(10, 59),
            number=chance.randint(2, 29),
            day=chance.choice(DAYS),
        )
    return f"{said} {LAST}"


def pieces(text: str, count: int) -> list[str]:
    """Return `text` in so many pieces, as a model streams it: whole words, of uneven lengths."""
    words = text.split(" ")
    cuts = [len(words) * place // count for place in range(count + 1)]
    parts = [" ".join(words[start:end]) for start, end in pairwise(cuts)]
    return [part if place == 0 else f" {part}" for place, part in enumerate(parts) if part]


# -- on the wire -------------------------------------------------------------------------

PIECES = 20
"""An answer comes in so many pieces."""
TOOL, ARGUMENTS, RESULT = "clock", '{"timezone": "Europe/Oslo"}', "Europe/Oslo"
"""The tool that models call, with what, and what stands in its result if it has run."""
DONE = b"data: [DONE]\n\n"


def sse(**more: object) -> bytes:
    """Return a chunk of an answer of OpenAI's, as a server-sent event."""
    data = {"id": "c", "object": "chat.completion.chunk", "model": "m", **more}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    """Return the event that says `delta`."""
    return sse(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


def used(asked: Mapping[str, Any], said: str) -> dict[str, int]:
    """Return what an answer has used, as a provider bills it: a token for four characters."""
    read = len(json.dumps([asked["messages"], asked.get("tools", [])])) // 4
    written = len(said) // 4
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }


def streamed(asked: Mapping[str, Any], seed: str) -> list[bytes]:
    """Return the events of an answer."""
    said = answer(seed)
    spoken = [chunk({"content": piece}) for piece in pieces(said, PIECES)]
    return [*spoken, chunk({}, "stop"), sse(choices=[], usage=used(asked, said)), DONE]


def called(asked: Mapping[str, Any]) -> list[bytes]:
    """Return the events of a call of the tool."""
    function = {"name": TOOL, "arguments": ARGUMENTS}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    spoken = [chunk({"tool_calls": [call]}), chunk({}, "tool_calls")]
    return [*spoken, sse(choices=[], usage=used(asked, TOOL + ARGUMENTS)), DONE]


def whole(asked: Mapping[str, Any]) -> dict[str, object]:
    """Return an answer that is not streamed."""
    said = answer(str(asked["messages"][-1]["content"]))
    message = {"role": "assistant", "content": said}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": used(asked, said)}


def reply(asked: Mapping[str, Any], call: str) -> list[bytes]:
    """Return the events by which a model answers a conversation.

    Args:
        asked: The request.
        call: Stands in a message that is answered by a call of the tool first.

    Raises:
        ValueError: The tool was called, and has not run.
    """
    messages: Sequence[Mapping[str, Any]] = asked["messages"]
    told = str(next(each["content"] for each in reversed(messages) if each["role"] == "user"))
    if call not in told:
        return streamed(asked, told)
    last = messages[-1]
    if last["role"] != "tool":
        return called(asked)
    if RESULT not in str(last["content"]):
        raise ValueError(f"the tool has not run: {last['content']}")
    return streamed(asked, told)
