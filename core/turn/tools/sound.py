"""What plugins, tools and providers hand over, made such that it can be relied on.

Types are declared, and nobody checks them at run time but this module: a value that JSON
cannot hold would break far from where it came from, in the store or on the wire. A tool's result
is masked and cut to what a model, a client and the store may have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.messages import ToolUse, new_id
from hookgate.core.domain.models import ToolUseEvent, Usage
from hookgate.core.domain.parts import (
    MEDIA,
    ContentPart,
    Text,
    left_out,
    parts_of,
    plain_text,
    with_texts,
    wrong_in_content,
)
from hookgate.core.domain.ports import TokenCounter
from hookgate.core.domain.strict_json import StrictJSONError, canonical, loads, well_formed
from hookgate.core.domain.tools import Effect, ToolResult, Verdict

if TYPE_CHECKING:
    from hookgate.core.host import Host

MAX_TOKENS = 1_000_000_000
"""The most tokens that one call can have used; beyond it a figure is an error. The longest
contexts on offer hold some ten million."""

CUT_MARKER = "\n[cut here: the result was {tokens} tokens, {kept} are shown]"


def bytes_of(arguments: Mapping[str, Any] | None) -> bytes:
    """Return arguments in canonical JSON; b"" for what JSON cannot hold."""
    try:
        return canonical(dict(arguments or {}))
    except (TypeError, ValueError):
        return b""


def wrong_in_verdict(verdict: Verdict) -> str:
    """Say why `verdict` cannot be merged with others, or ""."""
    if not isinstance(verdict.effect, Effect):
        return f"{verdict.plugin} judged {verdict.effect!r}, expected an Effect"
    if verdict.arguments is not None and not bytes_of(verdict.arguments):
        return f"{verdict.plugin} rewrote the arguments to something that JSON cannot hold"
    return ""


def wrong_in_result(result: ToolResult) -> str:
    """Say what of `result` is not as declared, or ""."""
    if wrong := wrong_in_content(result.content):
        return f"a ToolResult whose content {wrong}"
    for name, value, kinds in (
        ("taint", result.taint, frozenset | set),
        ("reveal", result.reveal, tuple | list),
    ):
        if not isinstance(value, kinds):
            return f"a ToolResult whose {name} is of type {type(value).__name__}"
    if not all(isinstance(name, str) for name in (*result.taint, *result.reveal)):
        return "a ToolResult whose taint or reveal holds something else than names"
    return ""


def sound_use(event: ToolUseEvent, taken: Collection[str]) -> ToolUse:
    """Return a model's call with an id of its own, and with arguments that JSON can hold.

    Args:
        event: What the provider yielded.
        taken: Ids of the conversation so far. Some models count their calls from 0 in
            each answer; results and calls find each other by these ids.
    """
    given: object = event.id
    use_id = well_formed(given) if isinstance(given, str) else ""
    if not use_id or use_id in taken:
        use_id = new_id("call")
    arguments: Mapping[str, Any] | str
    if isinstance(event.input, str):
        arguments = well_formed(event.input)
    else:
        try:
            # Strictly read again: what is judged, stored and run is the same in all readers.
            arguments = loads(canonical(dict(event.input)))
        except (TypeError, ValueError, StrictJSONError):
            arguments = well_formed(repr(event.input))
    return ToolUse(id=use_id, name=well_formed(str(event.name)), input=arguments)


def sound_usage(usage: object) -> Usage | None:
    """Return `usage`, or None where it holds something else than possible counts."""
    if not isinstance(usage, Usage):
        return None
    odd = [
        count
        for count in usage.counts.values()
        if type(count) is not int or not 0 <= count <= MAX_TOKENS
    ]
    return None if odd else usage


def at_least(counted: Usage, told: Usage | None) -> Usage:
    """Return an estimate that takes in what a provider had told before it was done.

    Args:
        counted: What was counted here.
        told: The provider's figures so far: those of the input are better than what was
            counted, those of the output are of its beginning only.
    """
    if told is None:
        return counted
    written = max(
        told.output_tokens + told.reasoning_tokens,
        counted.output_tokens + counted.reasoning_tokens,
    )
    reasoning = max(told.reasoning_tokens, counted.reasoning_tokens)
    return replace(
        told, output_tokens=written - reasoning, reasoning_tokens=reasoning, reported=False
    )


def note_usage(host: Host, provider: str, found: str) -> None:
    """Tell the operator that a provider reported token counts that cannot be."""
    host.log.warning("impossible usage reported", provider=provider, found=found)
    host.standing(f"usage of provider {provider}").note(
        f"it reports impossible token counts, so they are estimated: {found}"
    )


def masked(host: Host, result: ToolResult) -> ToolResult:
    """Return `result` with every known secret in it masked, and its text well-formed."""
    content = with_texts(result.content, lambda text: host.secrets.redact(well_formed(text)))
    return result if content == result.content else replace(result, content=content)


def masked_alone(host: Host, result: ToolResult) -> ToolResult:
    """Return `result` with every known secret in it masked; the very one where it holds none."""
    content = result.content
    plain = with_texts(content, lambda text: text)
    safe = with_texts(content, host.secrets.redact)
    return result if plain == safe else replace(result, content=safe)


def cut(host: Host, result: ToolResult) -> ToolResult:
    """Return `result` within `context.result_tokens` and `context.result_media_bytes`."""
    limits, content = host.settings.context, result.content
    if isinstance(content, str) and host.tokens.count(content) <= limits.result_tokens:
        return result
    parts = parts_of(content)
    kept = _cut(parts, limits.result_tokens, limits.result_media_bytes, host.tokens)
    if kept == parts:
        return result
    return replace(result, content=plain_text(kept) if isinstance(content, str) else kept)


def _cut(
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
