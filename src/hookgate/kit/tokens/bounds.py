"""The most tokens that a request can be billed for, pictures included.

`TokenCounter.count` is an estimate, and packs the context; a budget that must hold reserves this.
The sizes of pictures come from the heads of their files: none is decoded.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hookgate.core.domain.messages import FIXED, Message, Opaque, Part, ToolResultPart, ToolUse
from hookgate.core.domain.models import ModelInfo, ModelRequest
from hookgate.core.domain.parts import Audio, Document, Image, Text, plain_text
from hookgate.core.domain.strict_json import canonical
from hookgate.kit.tokens.sizes import Sizes

if TYPE_CHECKING:
    from hookgate.core.host import Host

HEAD_CHARS = 400_000
"""Characters of base64 in which the size of a picture is looked for; in front of a JPEG's may
stand a preview and notes of up to 64 kB each."""

PATCH_TOKENS = 16_384
"""Most tokens of a picture at a server that takes one for each 28 by 28 pixels; the upper limit
that Qwen's models of the 2-VL family document, where Anthropic's is 4,784."""
PATCHES, MULTIPLIER = 10_000, 2.46
"""OpenAI: a patch is 32 by 32 pixels; most patches of a picture at its original detail, and the
largest factor that a model multiplies them by (gpt-4.1-nano)."""


def picture_size(image: Image) -> tuple[int, int] | None:
    """Return the width and the height in pixels; None where the data does not say."""
    try:
        head = b64decode(image.data[: HEAD_CHARS // 4 * 4])
    except ValueError:
        return None
    match _type_of(head):
        case "image/png":
            size = _pair(head, 16, 4, "big")
        case "image/gif":
            size = _pair(head, 6, 2, "little")
        case "image/jpeg":
            size = _jpeg(head)
        case "image/webp":
            size = _webp(head)
        case _:
            size = None
    return size if size and all(size) else None


def picture_type(image: Image) -> str:
    """Return the media type that the data of a picture begins as; "" where it is none known."""
    try:
        return _type_of(b64decode(image.data[:16]))
    except ValueError:
        return ""


def _type_of(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for kind, mark in _MARKS.items() if head.startswith(mark)), "")


_MARKS: dict[str, bytes | tuple[bytes, ...]] = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/jpeg": b"\xff\xd8",
}


def _pair(head: bytes, at: int, length: int, order: str) -> tuple[int, int] | None:
    if len(head) < at + 2 * length:
        return None
    both = (head[at : at + length], head[at + length : at + 2 * length])
    first, second = (int.from_bytes(one, order) for one in both)  # type: ignore[arg-type]
    return first, second


def _jpeg(head: bytes) -> tuple[int, int] | None:
    """Go from marker to marker until one begins a frame (ITU T.81, B.2.2)."""
    at = 2
    while at + 4 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            size = _pair(head, at + 5, 2, "big")
            return None if size is None else size[::-1]
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    """Read the first chunk: lossy, lossless or extended (RFC 9649)."""
    kind = head[12:16]
    if kind == b"VP8X" and len(head) >= 30:
        width, height = head[24:27], head[27:30]
        return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
    if kind == b"VP8L" and len(head) >= 25:
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        size = _pair(head, 26, 2, "little")
        return None if size is None else (size[0] & 0x3FFF, size[1] & 0x3FFF)
    return None


def patches(width: int, height: int, side: int) -> int:
    """Return how many squares with this side cover a picture."""
    return math.ceil(width / side) * math.ceil(height / side)


def picture_tokens(image: Image) -> int:
    """Return the most tokens that a provider takes for `image`, whoever it is.

    The largest of what the public formulas say: OpenAI's tiles of 512 pixels (85 and 170 for each)
    and patches of 32, and patches of 28 elsewhere. Anthropic takes less than these. One model is
    known to take more, gpt-4o-mini: its provider says so itself.
    """
    size = picture_size(image)
    if size is None:
        return max(PATCH_TOKENS, math.ceil(PATCHES * MULTIPLIER))
    return max(
        min(patches(*size, 28), PATCH_TOKENS),
        math.ceil(min(patches(*size, 32), PATCHES) * MULTIPLIER),
        85 + 170 * tiles(*size),
    )


def tiles(width: int, height: int) -> int:
    """Return how many tiles of 512 pixels OpenAI makes of a picture.

    It is made to fit 2048 by 2048, then its shorter side 768; neither makes it larger.
    """
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    return patches(math.ceil(width * scale), math.ceil(height * scale), 512)


# -- requests --------------------------------------------------------------------

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
    behind it. So is what a message is made of, which stands in each request of its session. With
    pictures it is not, since what one takes is each provider's own.
    """
    if request.sized is not None:
        known: Sizes = request.sized
        return known
    sizes = Sizes()
    if request.options:
        sizes.add_json(canonical(dict(request.options)))
    for piece in request.system:
        sizes.add_text(piece.text)
    found: list[Sizes] = [message.sized or _sized(message, picture) for message in request.messages]
    each = zip(sizes.counts, *[one.counts for one in found], strict=True)
    sizes.counts = list(map(sum, each))
    sizes.media = sum([one.media for one in found])
    sizes.pictures = sum([one.pictures for one in found])
    pieces = len(request.system) + len(request.tools)
    sizes.add("framing", REQUEST_TOKENS + PIECE_TOKENS * pieces)
    if request.tools:
        sizes.add("tools", TOOLS_TOKENS)
        # What a tool declares is kept in JSON, which is no shorter than what is sent of it.
        sizes.add_json("".join([tool.declared or tool.declaration for tool in request.tools]))
    if not sizes.pictures:
        object.__setattr__(request, "sized", sizes)
    return sizes


def _sized(message: Message, picture: Callable[[Image], int]) -> Sizes:
    """Return what a message is made of, and keep it with one that nobody can change."""
    sizes = Sizes()
    sizes.add("framing", PIECE_TOKENS * (1 + len(message.parts)))
    for part in message.parts:
        if isinstance(part, Text):
            sizes.add_text(part.text)
        else:
            _add_part(sizes, part, picture)
    if not sizes.pictures and FIXED.issuperset(map(type, message.parts)):
        object.__setattr__(message, "sized", sizes)
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
