"""The most tokens that a request can be billed for.

`TokenCounter.count` is an estimate, and packs the context; a budget that must hold reserves this.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from hookgate.core.domain.messages import Opaque, ToolResultPart, ToolUse
from hookgate.core.domain.parts import Audio, Document, Image, parts_of, plain_text
from hookgate.core.domain.strict_json import canonical
from hookgate.core.turn.model.pictures import picture_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from hookgate.core.domain.messages import Message, Part
    from hookgate.core.domain.models import ModelInfo, ModelRequest
    from hookgate.core.host import Host

__all__ = ["Bounded", "input_bound", "upper_bound"]

REQUEST_TOKENS = 64
"""What a chat format spends once a request, and to spare."""
PIECE_TOKENS = 16
"""What it spends on a message, a part, a piece of the instructions or a tool, beside its text."""
TOOLS_TOKENS = 1024
"""What a provider tells the model of tools in general; Anthropic documents up to 804."""
RESULT_TOKENS = 96
"""What is sent for a call that has no result, and for one that failed."""
NAMED_TOKENS = 256
"""The words with which a picture, a sound or a document is named besides."""
AUDIO_BYTES_PER_TOKEN = 16
"""Gemini takes 32 tokens for a second of sound and OpenAI 10; a second has 1,000 bytes at least."""
PAGES, PAGE_TOKENS = 600, 8000
"""Most pages of a PDF that Anthropic takes, and tokens of one as text (3,000) and picture."""


class Bounded(Protocol):
    """A provider that knows more of its bills than `upper_bound` does."""

    def bound(self, request: ModelRequest) -> int:
        """Return the most tokens of input that `request` can be billed for."""


def input_bound(host: Host, request: ModelRequest) -> int:
    """Return the most tokens of input that `request` can be billed for: what a budget reserves.

    It is what the provider says, where it has a method ``bound`` (`Bounded`), and `upper_bound`
    elsewhere; never less than `ModelRequest.input_tokens`, which is an estimate.
    """
    provider = host.providers.get(request.model.provider)
    bound: object = None
    # Looking at a protocol's names takes longer than counting a short request.
    own = getattr(provider, "bound", None)
    if own is not None:
        try:
            bound = own(request)
        except Exception as error:
            host.log.warning("no bound", provider=request.model.provider, exc_info=error)
    if type(bound) is not int or bound < 0:
        bound = upper_bound(request)
    return max(bound, request.input_tokens)


def upper_bound(
    request: ModelRequest,
    info: ModelInfo | None = None,
    *,
    picture: Callable[[Image], int] = picture_tokens,
) -> int:
    """Return the most tokens of input that a provider can bill for `request`.

    Text has at most a token for each byte of UTF-8, as in every tokenizer that goes by bytes.
    What a provider fetches by itself because `ModelRequest.options` ask for it, such as the
    results of its own web search, is in no request, and so in no bound.

    Args:
        request: The request, as it is sent.
        info: Its model, where that is known: no input is longer than its context.
        picture: Returns the most tokens of a picture.
    """
    tokens = REQUEST_TOKENS + _bytes(canonical(dict(request.options)))
    tokens += sum(PIECE_TOKENS + _bytes(piece.text) for piece in request.system)
    tokens += sum(_message(message, picture) for message in request.messages)
    if request.tools:
        tokens += TOOLS_TOKENS
    # What a tool declares is kept in JSON, which is no shorter than what is sent of it.
    tokens += sum(PIECE_TOKENS + _bytes(tool.declaration) for tool in request.tools)
    if info is not None and info.context_tokens is not None:
        return min(tokens, info.context_tokens)
    return tokens


def _message(message: Message, picture: Callable[[Image], int]) -> int:
    return PIECE_TOKENS + sum(PIECE_TOKENS + _part(part, picture) for part in message.parts)


def _part(part: Part, picture: Callable[[Image], int]) -> int:
    match part:
        case ToolUse():
            given = part.input if isinstance(part.input, str) else canonical(part.input)
            # The text of arguments that are no JSON is sent as a string in JSON.
            return RESULT_TOKENS + 2 * _bytes(given) + _bytes(part.name) + _bytes(part.id)
        case ToolResultPart():
            inside = parts_of(part.content)
            own = _bytes(part.tool_use_id) + PIECE_TOKENS * len(inside)
            return own + sum(_part(item, picture) for item in inside)
        case Opaque():
            return _bytes(canonical(part.data))
        case Image():
            return NAMED_TOKENS + picture(part)
        case Audio():
            return NAMED_TOKENS + math.ceil(part.size / AUDIO_BYTES_PER_TOKEN)
        case Document():
            text = part.text
            name = NAMED_TOKENS + 2 * _bytes(part.name)
            return name + (PAGES * PAGE_TOKENS if text is None else _bytes(text))
        case _:
            return _bytes(plain_text((part,)))


def _bytes(text: str | bytes) -> int:
    if isinstance(text, bytes) or text.isascii():
        return len(text)
    # A lone half of a surrogate pair is sent as the three bytes of a replacement.
    return len(text.encode("utf-8", "surrogatepass"))
