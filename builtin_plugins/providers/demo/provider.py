"""The demo provider: offline, deterministic, and no language model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from math import ceil

import orjson

from hookgate import (
    Message,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ProviderError,
    StopEvent,
    SystemText,
    Text,
    TextDelta,
    ToolResultPart,
    ToolUse,
    ToolUseEvent,
    Turn,
    Usage,
    UsageEvent,
)
from hookgate.builtin_plugins.providers.demo import rules

WHAT_I_AM = "I am hookgate's demo provider: I follow a few fixed rules, and I am no language model."
BREATHE = 64
"""Words after which the event loop gets its turn; a long text must not hold it."""

_WORDS = re.compile(r"\s*\S+|\s+$")
_CONTENT_WORD = re.compile(r"[^\W\d_]{3,}", re.UNICODE)
_QUESTION = re.compile(
    r"\?|^\s*(?:who|what|when|where|which|whose|why|how|do|does|is|are)\b", re.IGNORECASE
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for are but not you your was were has have had this that these those with from "
        "what who whom whose which when where why how does did can could would will shall should "
        "about tell please know any there here its his her our their them they then than",
    )
)


class DemoProvider:
    """Answers from the assembled context by fixed rules, streams, and reports usage.

    The same request gives the same answer; only the ids of tool calls differ from call to
    call, since a conversation must not hold one twice. Tokens are counted as one for each
    started four characters.
    """

    def __init__(self, name: str = "demo", models: Sequence[ModelInfo] = ()) -> None:
        self._name = name
        self._models = tuple(models) or (
            ModelInfo(name="demo", context_tokens=200_000, images=True),
            ModelInfo(name="*", context_tokens=200_000, images=True),
        )

    @property
    def name(self) -> str:
        """The name that stands before the slash in ``provider/model``."""
        return self._name

    def models(self) -> Sequence[ModelInfo]:
        """Return the models: ``demo``, and any other name as well."""
        return self._models

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer once, word by word.

        Raises:
            ProviderError: A directive of the message asked for one.
        """
        del turn  # What the model may read stands in the request.
        last, tail = _current(request.messages)
        script = rules.read_script(last.text if last is not None else "")
        if script.fail is not None and script.fail_model in ("", request.model.model):
            raise ProviderError(
                script.fail, f"the message asked for a failure: {script.fail}", provider=self._name
            )
        text, calls = _reply(request, script, last, tail)
        text, stop = _limit(text, request, cut=script.cut)
        if calls and stop.reason == "end":
            stop = StopEvent("tool_use")
        spent = _input_tokens(request)
        written = 0
        yield UsageEvent(Usage(input_tokens=spent))
        for number, word in enumerate(_WORDS.findall(text)):
            if script.pause or number % BREATHE == BREATHE - 1:
                await asyncio.sleep(script.pause)
            written += len(word)
            yield TextDelta(word)
        if script.cut:
            raise ProviderError(
                "cut", "the message asked for a stream that breaks off", provider=self._name
            )
        if stop.reason == "tool_use":
            for number, call in enumerate(calls):
                if script.pause and not text:
                    await asyncio.sleep(script.pause)
                written += len(call.name) + len(orjson.dumps(call.input))
                yield ToolUseEvent(
                    id=f"demo_{request.call_id.removeprefix('call_')}_{number}",
                    name=call.name,
                    input=call.input,
                )
        yield UsageEvent(Usage(input_tokens=spent, output_tokens=ceil(written / 4)))
        yield stop


def _current(messages: Sequence[Message]) -> tuple[Message | None, Sequence[Message]]:
    """Return the last user message and the messages behind it: this turn's rounds of tools."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not messages[index].is_context:
            return messages[index], messages[index + 1 :]
    return None, ()


def _reply(
    request: ModelRequest, script: rules.Script, last: Message | None, tail: Sequence[Message]
) -> tuple[str, Sequence[rules.PlannedCall]]:
    """Return the text and the calls of this round."""
    if script.problem:
        known = "; ".join(f"`{usage}` {meaning}" for usage, meaning in rules.DIRECTIVES.items())
        return f"{WHAT_I_AM} I {script.problem}. My directives: {known}.", ()
    rounds = sum(1 for message in tail if message.tool_uses)
    if rounds < len(script.rounds) and script.rounds[rounds]:
        return script.say or "", script.rounds[rounds]
    if results := _results(tail):
        return script.say or rules.sum_up(results), ()
    if script.context:
        return _show_context(request), ()
    if script.say is not None:
        return script.say, ()
    if last is None:
        return f"{WHAT_I_AM} There is no message for me to answer.", ()
    planned = rules.calls_for(script.rest)
    offered = {tool.name for tool in request.tools}
    if any(call.name == "list_capabilities" for call in planned) and (
        "list_capabilities" not in offered and "discover_capabilities" in offered
    ):
        query = rules.shorten(script.rest, 200)
        planned = [
            rules.PlannedCall("discover_capabilities", {"query": query}, call.at)
            if call.name == "list_capabilities"
            else call
            for call in planned
        ]
    if calls := [call for call in planned if call.name in offered]:
        return "", calls
    return _answer(request, script, planned), ()


def _results(tail: Sequence[Message]) -> list[rules.Finished]:
    uses = {use.id: use for message in tail for use in message.tool_uses}
    finished = []
    for part in (part for message in tail for part in message.tool_results):
        use = uses.get(part.tool_use_id)
        finished.append(
            rules.Finished(
                use.name if use else "the tool",
                use.input if use else {},
                part.text,
                part.is_error,
            )
        )
    return finished


def _answer(
    request: ModelRequest, script: rules.Script, missing: Sequence[rules.PlannedCall]
) -> str:
    spoken = [one for one in request.messages if one.role == "user" and not one.is_context]
    earlier = max(len(spoken) - 1, 0)
    sentences = [f"You said: “{rules.shorten(script.rest, 160)}”."]
    if found := _from_context(request, script.rest):
        sentences.append(f"My context has this on it: “{found}”.")
    if missing:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(call.name for call in missing))
        sentences.append(f"I would call {names}, but that is not offered to me here.")
    sentences.append(
        f"I was given {_count(earlier, 'earlier turn')}, "
        f"{_count(len(_blocks(request)), 'context block')} and "
        f"{_count(len(request.tools), 'tool')} to work with."
    )
    sentences.append(WHAT_I_AM)
    return " ".join(sentences)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _from_context(request: ModelRequest, question: str) -> str:
    """Return the line of the context that shares most words with a question, or ""."""
    if not _QUESTION.search(question):
        return ""
    asked = _content_words(question)
    if not asked:
        return ""
    needed = min(2, len(asked))
    best, most = "", needed - 1
    for line in _context_lines(request):
        shared = len(asked & _content_words(line))
        if shared > most:
            best, most = line, shared
    return rules.shorten(best, 240)


def _content_words(text: str) -> set[str]:
    return {word.lower() for word in _CONTENT_WORD.findall(text)} - _COMMON


def _context_lines(request: ModelRequest) -> Iterator[str]:
    for piece in _blocks(request):
        yield from (line.strip("-*• \t") for line in piece.text.splitlines() if line.strip())
    last, _ = _current(request.messages)
    for message in request.messages:
        if message is last:
            return
        if message.role == "user" and not message.is_context:
            yield from (line for line in message.text.splitlines() if line.strip())


def _blocks(request: ModelRequest) -> list[SystemText | Text]:
    """Return what the gateway has added, wherever it stands."""
    beside = [part for one in request.messages if one.is_context for part in one.parts]
    return [*request.system, *(part for part in beside if isinstance(part, Text))]


def _show_context(request: ModelRequest) -> str:
    lines = [f"{WHAT_I_AM} This is what I was given to read."]
    for number, piece in enumerate(_blocks(request)):
        is_stable = isinstance(piece, SystemText) and piece.stable
        kind = "stable block" if is_stable else "block"
        lines.append(f"{kind} {number}: {rules.shorten(piece.text, 400)}")
    lines += [
        f"message {number} ({message.role}): {rules.shorten(message.text, 200)}"
        for number, message in enumerate(request.messages)
        if not message.is_context
    ]
    lines.append(f"tools: {', '.join(tool.name for tool in request.tools) or 'none'}")
    return "\n".join(lines)


def _limit(text: str, request: ModelRequest, *, cut: bool) -> tuple[str, StopEvent]:
    """Return `text` within the request's limits, and why it stops where it stops."""
    if cut:
        text = text or "This answer breaks off in the middle of"
    stop = StopEvent("end")
    found = [(place, word) for word in request.stop if word and (place := text.find(word)) >= 0]
    if found:
        place, word = min(found)
        text, stop = text[:place], StopEvent("stop_sequence", matched=word)
    most = request.max_output_tokens * 4
    if len(text) > most:
        text, stop = text[:most], StopEvent("max_tokens")
    return text, stop


def _input_tokens(request: ModelRequest) -> int:
    """Return a token for each started four characters of each piece of the request."""
    total = sum(ceil(len(piece.text) / 4) for piece in request.system)
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text(text):
                    total += ceil(len(text) / 4)
                case ToolUse():
                    total += ceil((len(part.name) + len(orjson.dumps(part.input))) / 4)
                case ToolResultPart():
                    total += ceil(len(part.text) / 4)
                case _:
                    pass  # Pictures and other providers' data: the demo reads neither.
    for tool in request.tools:
        described = len(tool.name) + len(tool.description) + len(orjson.dumps(tool.schema))
        total += ceil(described / 4)
    return total
