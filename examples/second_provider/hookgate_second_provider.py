"""A hookgate plugin that brings a provider of its own: a model that says back what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate import ModelInfo, Section, StopEvent, TextDelta, Usage, UsageEvent, hookimpl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from hookgate import ModelEvent, ModelRequest, Provider, Turn


class Echo(Section):
    """``[plugin.providers]`` where it replaces those, ``[plugin.second_provider]`` beside them."""

    prefix: str = "You said: "
    """What stands before the echo."""


class EchoProvider:
    """Answers ``echo/ANYTHING`` with the last message."""

    def __init__(self, settings: Echo) -> None:
        self.settings = settings

    @property
    def name(self) -> str:
        """The name that stands before the slash in ``provider/model``."""
        return "echo"

    def models(self) -> Sequence[ModelInfo]:
        """Return one entry that accepts any name."""
        return [ModelInfo(name="*", tools=False)]

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Say the last message back, word by word."""
        text = self.settings.prefix + request.messages[-1].text
        words = text.split(" ")
        for number, word in enumerate(words):
            yield TextDelta(word if number == 0 else f" {word}")
        # What this costs is reported like any other model's, so that budgets hold.
        yield UsageEvent(Usage(input_tokens=request.input_tokens, output_tokens=len(words)))
        yield StopEvent("end")


class Plugin:
    """Brings the provider."""

    Settings = Echo

    def __init__(self, settings: Echo) -> None:
        self.settings = settings

    @hookimpl
    def list_providers(self) -> Sequence[Provider]:
        """Return the one provider."""
        return [EchoProvider(self.settings)]
