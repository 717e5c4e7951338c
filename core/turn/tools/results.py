"""A tool's result as a model, a client and the store may have it: masked, and within limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.parts import MEDIA, Text, left_out, plain_text, with_texts
from hookgate.core.domain.strict_json import well_formed

if TYPE_CHECKING:
    from hookgate.core.domain.parts import Content, ContentPart
    from hookgate.core.domain.ports import TokenCounter
    from hookgate.core.domain.tools import ToolResult
    from hookgate.core.host import Host

CUT_MARKER = "\n[cut here: the result was {tokens} tokens, {kept} are shown]"


def masked(host: Host, result: ToolResult) -> ToolResult:
    """Return `result` with every known secret in it masked, and its text well-formed."""
    content = with_texts(result.content, lambda text: host.secrets.redact(well_formed(text)))
    return result if content == result.content else replace(result, content=content)


def cut(host: Host, result: ToolResult) -> ToolResult:
    """Return `result` within `context.result_tokens` and `context.result_media_bytes`."""
    limits, counter = host.settings.context, host.tokens
    content = result.content
    if isinstance(content, str):
        new: Content = _cut_text(content, limits.result_tokens, counter)
    else:
        new = _cut_parts(content, limits.result_tokens, limits.result_media_bytes, counter)
    return result if new == content else replace(result, content=new)


def _cut_text(text: str, limit: int, counter: TokenCounter) -> str:
    tokens = counter.count(text)
    if tokens <= limit:
        return text
    return _beginning(text, limit, counter) + CUT_MARKER.format(tokens=tokens, kept=limit)


def _beginning(text: str, limit: int, counter: TokenCounter) -> str:
    # By bisection, since a counter need not be linear in the length of the text.
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _cut_parts(
    content: tuple[ContentPart, ...], limit: int, most: int, counter: TokenCounter
) -> tuple[ContentPart, ...]:
    """Cut the texts where they are too long together, and leave out media that are too large."""
    counts = [
        0 if isinstance(part, MEDIA) else counter.count(plain_text((part,))) for part in content
    ]
    tokens, room, full = sum(counts), limit, False
    kept: list[ContentPart] = []
    for part, count in zip(content, counts, strict=True):
        if isinstance(part, MEDIA):
            if part.size > most:
                kept.append(left_out(part, f"at most {most:,} bytes of a result are shown"))
            else:
                kept.append(part)
                most -= part.size
        elif not full and count <= room:
            kept.append(part)
            room -= count
        elif not full:
            full = True
            text = _beginning(plain_text((part,)), room, counter)
            kept.append(Text(text + CUT_MARKER.format(tokens=tokens, kept=limit)))
    return tuple(kept)
