"""A model that says what a test tells it to, and keeps what it was asked."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

from hookgate.core.domain.models import (
    ModelEvent,
    ModelInfo,
    ModelRequest,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.turn import Turn
from hookgate.kit.tokens.bills import least_input

__all__ = ["USAGE", "ScriptedModel", "Step", "call", "say"]

Step: TypeAlias = Sequence[Any] | Callable[[ModelRequest], Sequence[Any]]
"""What one request is answered with: events in order, or a function of the request that
returns them. An exception among them is raised, a function is called and awaited."""

USAGE = Usage(input_tokens=11, output_tokens=7)
"""What every scripted answer reports: of a request for which that is too little to be believed,
the least input that is."""


def say(text: str) -> list[ModelEvent]:
    """Return a whole answer: each word as a chunk, usage, stop."""
    words = text.split(" ")
    chunks = [TextDelta(word if number == 0 else f" {word}") for number, word in enumerate(words)]
    return [*chunks, UsageEvent(USAGE), StopEvent("end")]


_numbers = count(1).__next__


def call(tool: str, **arguments: Any) -> list[ModelEvent]:
    """Return a message that calls `tool` with `arguments`."""
    use = ToolUseEvent(id=f"call_{_numbers()}", name=tool, input=arguments)
    return [use, UsageEvent(USAGE), StopEvent("tool_use")]


def _honest(item: ModelEvent, request: ModelRequest) -> ModelEvent:
    if not isinstance(item, UsageEvent) or item.usage is not USAGE:
        return item
    least = least_input(request, USAGE.input_tokens)
    return UsageEvent(replace(USAGE, input_tokens=max(least, USAGE.input_tokens)))


class ScriptedModel:
    """A provider that plays one step for each request; the last step is played over and over.

    Attributes:
        name: The provider's name, which stands before the slash in ``provider/model``.
        steps: What is still to be played.
        requests: What was asked, in order.
        closed: How many streams have ended, whichever way.
    """

    def __init__(self, *steps: Step, name: str = "script") -> None:
        self.name = name
        self.steps: list[Step] = list(steps)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    def models(self) -> Sequence[ModelInfo]:
        """Return one entry that accepts any name."""
        return [ModelInfo(name="*", images=True, audio=True, documents=True)]

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Play the next step."""
        self.requests.append(request)
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        try:
            for item in step(request) if callable(step) else step:
                if isinstance(item, BaseException):
                    raise item
                if callable(item):
                    value = item()
                    if inspect.isawaitable(value):
                        await value
                    continue
                yield _honest(item, request)
        finally:
            self.closed += 1
