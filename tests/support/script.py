"""A gateway made of small plugins, and a provider that says what a test tells it to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hookgate import Gateway
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.events import Event
from hookgate.core.domain.models import (
    BETWEEN,
    ModelEvent,
    ModelRequest,
    StopEvent,
    SystemText,
    ToolUseEvent,
    Usage,
    UsageEvent,
)
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Tool, ToolCall, Verdict
from hookgate.core.domain.turn import Turn
from hookgate.core.settings.schema import Settings
from hookgate.hookspecs import hookimpl
from hookgate.kit.testing.model import USAGE, Step, say
from hookgate.kit.testing.model import ScriptedModel as Script

__all__ = [
    "USAGE",
    "Allow",
    "Events",
    "Recorder",
    "Script",
    "Scripted",
    "Step",
    "Tools",
    "blocks",
    "call",
    "echo_tool",
    "gateway",
    "say",
    "settings",
    "settled",
    "until",
]

SPINS = 1000
"""Turns of the loop that `until` waits without a pause."""
PAUSE = 0.001
"""Seconds."""
PATIENCE = float(os.environ.get("HOOKGATE_TEST_PATIENCE", "120"))
"""Seconds for which `until` waits: fewer where a guard is gone, without which some wait in vain."""


def call(*uses: tuple[str, str, Mapping[str, Any] | str]) -> list[ModelEvent]:
    """A message that calls tools: (id, name, input) each."""
    events = [ToolUseEvent(id=i, name=name, input=value) for i, name, value in uses]
    return [*events, UsageEvent(USAGE), StopEvent("tool_use")]


def blocks(request: ModelRequest) -> list[SystemText]:
    """Return what the gateway adds to a request, wherever it stands in it."""
    return [
        *request.system,
        *(
            SystemText(text=part.text.removesuffix(BETWEEN), taint=one.taint, source=part.source)
            for one in request.messages
            if one.is_context
            for part in one.parts
            if isinstance(part, Text)
        ),
    ]


class Scripted:
    """A plugin that brings a `Script` as the provider."""

    name = "scripted"

    def __init__(self, *scripts: Script) -> None:
        self.scripts = scripts

    @hookimpl
    def list_providers(self, host: Any) -> Sequence[Script]:
        return self.scripts


class Allow:
    """A plugin that allows every call."""

    name = "allow"

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        return Verdict.allow()


class Tools:
    """A plugin that brings tools."""

    name = "some_tools"

    def __init__(self, *tools: Tool) -> None:
        self.tools = tools

    @hookimpl
    def list_tools(self, host: Any) -> Sequence[Tool]:
        return self.tools


class Recorder:
    """A plugin that counts what must happen exactly once."""

    name = "recorder"

    def __init__(self) -> None:
        self.before: list[str] = []
        self.after: list[tuple[str, str, Usage | None]] = []
        self.decided: list[tuple[str, str]] = []
        self.finished: list[tuple[str, str]] = []
        self.turns: list[Turn] = []
        self.failures: list[Any] = []

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> None:
        self.before.append(request.call_id)

    @hookimpl
    def after_model_call(self, turn: Turn, request: ModelRequest, ending: Any, usage: Any) -> None:
        self.after.append((request.call_id, ending.status, usage))

    @hookimpl
    def tool_decided(self, turn: Turn, call: ToolCall, decision: Any) -> None:
        self.decided.append((call.id, decision.effect.name))

    @hookimpl
    def tool_finished(self, turn: Turn, call: ToolCall, result: Any) -> None:
        self.finished.append((call.id, result.status))

    @hookimpl
    def after_turn(self, turn: Turn, outcome: Any) -> None:
        self.turns.append(turn)

    @hookimpl
    def hook_failed(self, failure: Any) -> None:
        self.failures.append(failure)


def echo_tool(name: str = "echo", **kwargs: Any) -> Tool:
    """A tool that answers with its `text` argument."""

    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return str(arguments["text"])

    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    kwargs.setdefault("run", run)
    kwargs.setdefault("flags", Flags.none())
    return Tool(name=name, description=f"Says {name}.", schema=schema, **kwargs)


def settings(home: Path | None = None, **sections: Any) -> Settings:
    """Settings with an agent on the scripted provider."""
    data: dict[str, Any] = {
        "home": home or Path(mkdtemp(prefix="hookgate-test-")),
        "agents": {"main": {"model": "script/one"}},
        "default_agent": "main",
        "plugins": {"entry_points": False},
    }
    data.update(sections)
    return Settings.model_validate(data)


def gateway(*plugins: object, config: Settings | None = None, **sections: Any) -> Gateway:
    """A gateway without any builtin plugin but the one that is asked things."""
    return Gateway(config or settings(**sections), builtin=("control",), plugins=plugins)


class Events(list[Event]):
    """A sink that keeps events."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def types(self) -> list[str]:
        return [event.type for event in self]

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [event.data for event in self if event.type == kind]


async def settled(gate: Gateway) -> None:
    """Wait until everything that follows turns has run."""
    await gate.turns.after.drain()


async def until(condition: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    """Wait for `condition`, giving other tasks their turn; fail after `seconds`.

    What other tasks do comes about within some turns of the loop. What comes from a socket or
    a thread takes longer, and this must not take the processor from it.
    """
    async with asyncio.timeout(seconds):
        turns = 0
        while not condition():
            await asyncio.sleep(0 if turns < SPINS else PAUSE)
            turns += 1
