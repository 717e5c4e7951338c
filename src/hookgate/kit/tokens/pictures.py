"""How large a picture is, and how many tokens providers take for it at most.

The sizes come from the heads of the files: no picture is decoded.
"""

from __future__ import annotations

import math
from base64 import b64decode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hookgate.core.domain.parts import Image

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
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        size = _pair(head, 16, 4, "big")
    elif head[:6] in (b"GIF87a", b"GIF89a"):
        size = _pair(head, 6, 2, "little")
    elif head[:2] == b"\xff\xd8":
        size = _jpeg(head)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp(head)
    else:
        size = None
    return size if size and all(size) else None


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
