"""Making every tool call of a conversation have its result.

Both protocols refuse a conversation with a call that has no result, or a result without a
call. A turn that was cut short, or a history that a caller keeps, can hold either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hookgate import Message, Part, Text, ToolResultPart, ToolUse

NO_RESULT = "This call has no result: it was not run, or its result was not kept."


def paired(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield `messages` so that behind each message with calls stand exactly their results.

    A missing result becomes an error result. A result without a call becomes text of the
    user's side, so that nothing that was read is lost.
    """
    waiting: list[ToolUse] = []
    for message in messages:
        if message.plain and not waiting:
            yield message
            continue
        results = message.tool_results
        if waiting:
            given = {part.tool_use_id: part for part in results}
            answered = [given.pop(use.id) if use.id in given else _missing(use) for use in waiting]
            yield Message(role="tool", parts=tuple(answered), id=f"{message.id}/results")
            message = _without_results(message, set(given))
        elif results:
            message = _without_results(message, {one.tool_use_id for one in results})
        waiting = list(message.tool_uses) if message.role == "assistant" else []
        if message.parts:
            yield message
    if waiting:
        yield Message(role="tool", parts=tuple(_missing(use) for use in waiting))


def _missing(use: ToolUse) -> ToolResultPart:
    return ToolResultPart(tool_use_id=use.id, content=NO_RESULT, is_error=True)


def _without_results(message: Message, orphans: set[str]) -> Message:
    """Return `message` without its results; those in `orphans` become text."""
    if not message.tool_results:
        return message
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, ToolResultPart):
            parts.append(part)
        elif part.tool_use_id in orphans:
            told = "Result of an earlier tool call: "
            if isinstance(part.content, str):
                parts.append(Text(told + part.content))
            else:
                parts += (Text(told), *part.content)
    role = "user" if message.role == "tool" else message.role
    return replace(message, role=role, parts=tuple(parts))
