"""The most tokens that a request can be billed for.

`TokenCounter.count` is an estimate, and packs the context; a budget that must hold reserves this.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hookgate.core.domain.messages import Opaque, Part, ToolResultPart, ToolUse
from hookgate.core.domain.models import ModelInfo, ModelRequest
from hookgate.core.domain.parts import Audio, Document, Image, Text, plain_text
from hookgate.core.domain.strict_json import canonical
from hookgate.kit.tokens.pictures import picture_tokens
from hookgate.kit.tokens.sizes import Sizes

if TYPE_CHECKING:
    from hookgate.core.host import Host

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
    tokens = sizes_of(request, picture=picture).most
    if info is not None and info.context_tokens is not None:
        return min(tokens, info.context_tokens)
    return tokens


def sizes_of(request: ModelRequest, *, picture: Callable[[Image], int] = picture_tokens) -> Sizes:
    """Return what `request` is made of; its sum is the most tokens that it can be billed for.

    It is kept with the request, which nobody can change: a call is looked at before it is made, and
    behind it. With pictures it is not, since what one takes is each provider's own.
    """
    if request.sized is not None:
        known: Sizes = request.sized
        return known
    sizes = Sizes()
    if request.options:
        sizes.add_json(canonical(dict(request.options)))
    pieces = len(request.system) + len(request.tools)
    for piece in request.system:
        sizes.add_text(piece.text)
    for message in request.messages:
        pieces += 1 + len(message.parts)
        for part in message.parts:
            if isinstance(part, Text):
                sizes.add_text(part.text)
            else:
                _add_part(sizes, part, picture)
    sizes.add("framing", REQUEST_TOKENS + PIECE_TOKENS * pieces)
    if request.tools:
        sizes.add("tools", TOOLS_TOKENS)
        # What a tool declares is kept in JSON, which is no shorter than what is sent of it.
        sizes.add_json("".join([tool.declaration for tool in request.tools]))
    if not sizes.pictures:
        object.__setattr__(request, "sized", sizes)
    return sizes


def _add_part(sizes: Sizes, part: Part, picture: Callable[[Image], int]) -> None:
    match part:
        case ToolUse():
            given = part.input if isinstance(part.input, str) else canonical(part.input)
            sizes.add("framing", RESULT_TOKENS)
            # The text of arguments that are no JSON is sent as a string in JSON.
            sizes.add_json(given, times=2)
            sizes.add_json(part.name + part.id)
        case ToolResultPart():
            content = part.content
            inside = (content,) if isinstance(content, str) else content
            sizes.add("framing", PIECE_TOKENS * len(inside))
            sizes.add_json(part.tool_use_id)
            for item in inside:
                if isinstance(item, str):
                    sizes.add_text(item)
                else:
                    _add_part(sizes, item, picture)
        case Opaque():
            sizes.add("opaque", len(canonical(part.data)))
        case Image():
            sizes.pictures += 1
            sizes.media += NAMED_TOKENS + picture(part)
        case Audio():
            sizes.media += NAMED_TOKENS + math.ceil(part.size / AUDIO_BYTES_PER_TOKEN)
        case Document():
            text = part.text
            sizes.add("framing", NAMED_TOKENS)
            sizes.add_json(part.name, times=2)
            if text is None:
                sizes.media += PAGES * PAGE_TOKENS
            else:
                sizes.add_text(text)
        case _:
            sizes.add_text(plain_text((part,)))
