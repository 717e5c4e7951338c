"""Requests as the vendors' clients send them, and events as turns tell them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from pydantic import TypeAdapter

from hookgate import (
    Event,
    Frame,
    ModelEvent,
    OpaqueDelta,
    ReasoningDelta,
    StopEvent,
    TextDelta,
    ToolUseEvent,
    Usage,
    WireError,
)
from hookgate.wire import Raw, came_as

PNG = b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
).decode()
CHAT = "openai-chat"
MESSAGES = "anthropic-messages"


def function(name: str = "look", **more: Any) -> dict[str, Any]:
    """A tool of Chat Completions."""
    told = {"name": name, "description": "Looks.", "parameters": {"type": "object"}, **more}
    return {"type": "function", "function": told}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    """A request of Chat Completions."""
    return {"model": "m", "messages": list(messages) or [{"role": "user", "content": "hi"}], **more}


def called(*ids: str) -> dict[str, Any]:
    """A message of Chat Completions that calls tools."""
    calls = [
        {"id": one, "type": "function", "function": {"name": "look", "arguments": '{"at":"it"}'}}
        for one in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def messages(*given: Any, **more: Any) -> dict[str, Any]:
    """A request of the Messages API."""
    turns = list(given) or [{"role": "user", "content": "hi"}]
    return {"model": "m", "max_tokens": 100, "messages": turns, **more}


def refused(read: Callable[[dict[str, Any]], object], body: dict[str, Any]) -> tuple[str, str]:
    """Read what cannot be taken; return what the vendor's ``param`` says, and the text."""
    with pytest.raises(WireError) as caught:
        read(body)
    assert caught.value.data["code"] == "invalid_params"
    return str(caught.value.data["param"]), str(caught.value)


def as_sdk(module: str, kind: str, value: object) -> None:
    """Hold what is sent against the vendor's own types, where its SDK is installed."""
    try:
        types = import_module(module)
    except ModuleNotFoundError:
        return
    TypeAdapter(getattr(types, kind)).validate_python(value)


# -- events ------------------------------------------------------------------------


def frame(wire: str, data: dict[str, Any]) -> Event:
    """A piece of the wire that says nothing to the gateway."""
    return Event("frame", {}, value=Frame(Raw(wire=wire, data=data)))


def text(said: str, wire: str = "", data: dict[str, Any] | None = None) -> Event:
    """Some text, as it came where that is given."""
    raw = None if data is None else Raw(wire=wire, data=data)
    return Event("text", {"text": said}, value=came_as(TextDelta(said), raw) if raw else None)


def tool_use(
    use_id: str, name: str, given: Any, wire: str = "", frames: list[dict[str, Any]] | None = None
) -> Event:
    """A call that was judged and that the client runs."""
    event = ToolUseEvent(id=use_id, name=name, input=given)
    value = came_as(event, Raw(wire=wire, data=frames)) if frames else None
    data = {"id": use_id, "name": name, "input": given, "owner": "client"}
    return Event("tool_use", data, value=value)


def stop(reason: Any, wire: str = "", frames: list[dict[str, Any]] | None = None) -> Event:
    """The end of one answer of the model."""
    event = came_as(StopEvent(reason), Raw(wire=wire, data=frames) if frames else None)
    return Event("stop", {}, value=event)


class Ended:
    """What a writer looks at of a turn that has ended."""

    def __init__(self, ending: str = "done", usage: Usage | None = None) -> None:
        self.ending = ending
        self.usage = usage or Usage(input_tokens=3, output_tokens=2)
        self.stop = None


def told(said: ModelEvent) -> Event | None:
    """What a turn tells of what a provider said, if anything."""
    match said:
        case TextDelta(words):
            return Event("text", {"text": words}, value=said)
        case ReasoningDelta(words):
            return Event("reasoning", {"text": words}, value=said)
        case OpaqueDelta():
            return Event("opaque", {}, value=said)
        case ToolUseEvent():
            data = {"id": said.id, "name": said.name, "input": said.input, "owner": "client"}
            return Event("tool_use", data, value=said)
        case Frame():
            return Event("frame", {}, value=said)
        case StopEvent():
            return Event("stop", {}, value=said)
    return None
