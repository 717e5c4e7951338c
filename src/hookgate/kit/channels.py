"""What channels are built with: an answer in as many messages as it takes, and no word cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hookgate.core.domain.parts import Image, plain_text

if TYPE_CHECKING:
    from hookgate.core.domain.channels.channel import Channel, ChannelFeatures
    from hookgate.core.domain.parts import Content, ContentPart
    from hookgate.core.domain.turn import Address

__all__ = ["deliver", "messages_of", "split"]

LEAST = 32
"""Characters of the shortest message that text is split into."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


async def deliver(
    channel: Channel, address: Address, content: Content, *, thread: str = ""
) -> list[str]:
    """Say `content` by `channel`: split at its longest message, with what it does not show named.

    Returns:
        The ids of the messages, in order. Those behind one that fails are not sent.

    Raises:
        ChannelError: A message was not sent.
    """
    answers = thread if channel.features.threads else ""
    return [
        await channel.send(address, message, thread=answers)
        for message in messages_of(content, channel.features)
    ]


def messages_of(content: Content, features: ChannelFeatures) -> list[Content]:
    """Return the messages that say `content`, in order, as a channel with these features can."""
    messages: list[Content] = []
    for piece in _pieces(content, images=features.images):
        if isinstance(piece, str):
            messages += split(piece, features.max_length, markdown=features.markdown)
        else:
            messages.append((piece,))
    return messages


def _pieces(content: Content, *, images: bool) -> list[str | ContentPart]:
    """Return texts, and the pictures between them where they are shown."""
    if isinstance(content, str):
        return [content]
    pieces: list[str | ContentPart] = []
    for part in content:
        if isinstance(part, Image) and images:
            pieces.append(part)
            continue
        text = plain_text((part,))
        last = pieces[-1] if pieces else None
        if isinstance(last, str):
            pieces[-1] = f"{last}\n{text}"
        else:
            pieces.append(text)
    return pieces


def split(text: str, max_length: int, *, markdown: bool = True) -> list[str]:
    """Return `text` in pieces of at most `max_length` characters; none for blank text.

    It is split between paragraphs, else between lines, else between words; a word is cut only
    where it is longer than a whole piece. In Markdown, code that a split would tear goes into the
    next piece whole where it fits, and is else closed and opened again around the split.

    Args:
        text: The text.
        max_length: Characters of the longest piece; 0 for any number.
        markdown: Whether fences of code count.

    Raises:
        ValueError: `max_length` is too short for anything to fit.
    """
    if not text.strip():
        return []
    if max_length == 0:
        return [text]
    if max_length < LEAST:
        raise ValueError(f"found max_length={max_length}, expected 0 or at least {LEAST}")
    pieces, fence, rest = [], "", text
    while rest:
        head = f"{_opening(fence, max_length)}\n" if fence else ""
        if len(head) + len(rest) <= max_length:
            pieces.append(head + rest)
            break
        cut, fence, tail = _next_cut(rest, max_length - len(head), fence, markdown=markdown)
        pieces.append(head + rest[:cut].rstrip() + tail)
        rest = rest[cut:].lstrip("\n" if fence else None)
    return [piece for piece in pieces if piece.strip()]


def _next_cut(rest: str, room: int, fence: str, *, markdown: bool) -> tuple[int, str, str]:
    """Return where the next piece ends, the fence that is open there, and what closes it."""
    if not markdown:
        return _cut(rest, room), "", ""
    # What closes a fence may have to fit as well, and it is not known yet which is open.
    for spare in (0, 1 + max((len(one) for one in _markers(rest[:room], fence)), default=0)):
        cut = _cut(rest, room - spare)
        open_fence, at = _fence_after(rest[:cut], fence)
        if not open_fence:
            return cut, "", ""
        if at > 0 and rest[:at].strip() and at >= room // 2:
            return at, "", ""
        marker = _marker(open_fence)
        if len(rest[:cut].rstrip()) + 1 + len(marker) <= room:
            return cut, open_fence, f"\n{marker}"
    raise AssertionError("with room for its end, a piece fits")


def _cut(text: str, room: int) -> int:
    """Return how much of `text`, which is longer than that, goes into `room` characters."""
    for between in ("\n\n", "\n"):
        at = text.rfind(between, 1, room + len(between))
        if at >= room // 4 and at <= room:
            return at
    for at in range(room, 0, -1):
        if text[at].isspace() and not text[:at].isspace():
            return at
    # Within a word. Not within a fence, which would be none then.
    at = room
    while at > 1 and text[at] in "`~" and text[at - 1] == text[at]:
        at -= 1
    return at if at > 1 else room


def _fence_after(piece: str, fence: str) -> tuple[str, int]:
    """Return the line of the fence that is open behind `piece`, and where in it that begins."""
    at, where = 0, -1
    for line in piece.split("\n"):
        found = _FENCE.fullmatch(line)
        if found and not fence:
            fence, where = line.strip(), at
        elif found and found[1].startswith(_marker(fence)) and not found[2].strip():
            fence = ""
        at += len(line) + 1
    return (fence, where) if fence else ("", -1)


def _markers(text: str, fence: str) -> list[str]:
    found = [match[1] for line in text.split("\n") if (match := _FENCE.fullmatch(line))]
    return [*found, _marker(fence)] if fence else found


def _marker(fence: str) -> str:
    found = _FENCE.fullmatch(fence)
    return found[1] if found else ""


def _opening(fence: str, max_length: int) -> str:
    """Return the line that opens a fence again, without what it says where that is too long."""
    return fence if len(fence) <= max_length // 4 else _marker(fence)
