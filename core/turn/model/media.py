"""What a model can read of a request: what it cannot is named, and not sent.

Done once, for every provider: one that knows text alone gets text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hookgate.core.domain.messages import Message, Part, ToolResultPart
from hookgate.core.domain.models import ModelInfo, ModelRef, ModelRequest, Provider
from hookgate.core.domain.parts import (
    MEDIA,
    Audio,
    ContentPart,
    Document,
    Image,
    Link,
    Text,
    left_out,
    plain_text,
)

_NOT_ONLY_TEXT = (Link, *MEDIA)


def readable(request: ModelRequest, models: Callable[[], Sequence[ModelInfo]]) -> ModelRequest:
    """Return `request` as its model can read it.

    Links become text, and so do pictures, sound and documents that the model does not read:
    a note names them. A tool's result that is only text then is a plain string.

    Args:
        request: What is to be asked.
        models: Returns what its provider says of its models.
    """
    if not [message for message in request.messages if not message.plain and _holds_more(message)]:
        return request
    known = {info.name: info for info in models()}
    name = request.model.model
    info = known.get(name) or known.get("*") or ModelInfo(name=name)
    messages = tuple(_message(message, info, request.model) for message in request.messages)
    return replace(request, messages=messages)


def passes(request: ModelRequest, provider: Provider) -> bool:
    """Whether `provider` sends the request as it came, so that nothing of it is put in words."""
    raw = request.raw
    if raw is None or request.baseline is None:
        return False
    return bool(getattr(provider, "wire", "") == raw.wire)


def _holds_more(message: Message) -> bool:
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            if not isinstance(part.content, str):
                return True
        elif isinstance(part, _NOT_ONLY_TEXT):
            return True
    return False


def _message(message: Message, info: ModelInfo, model: ModelRef) -> Message:
    if not _holds_more(message):
        return message

    def fitting(part: Part) -> Part:
        if isinstance(part, ToolResultPart) and not isinstance(part.content, str):
            content = tuple(_part(item, info, model) for item in part.content)
            plain = all(isinstance(item, Text) for item in content)
            return replace(part, content=plain_text(content) if plain else content)
        return _part(part, info, model) if isinstance(part, _NOT_ONLY_TEXT) else part

    return replace(message, parts=tuple(map(fitting, message.parts)))


def _part(part: ContentPart, info: ModelInfo, model: ModelRef) -> ContentPart:
    match part:
        case Image() if not info.images:
            return left_out(part, f"{model} reads no images")
        case Audio() if not info.audio:
            return left_out(part, f"{model} hears no audio")
        case Document() if not info.documents:
            text = part.text
            if text is not None:
                return Text(f"{part.name}:\n{text}" if part.name else text)
            return left_out(part, f"{model} reads no documents")
        case Link():
            return Text(plain_text((part,)))
    return part
