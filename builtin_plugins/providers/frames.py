"""Answers that are passed on to a client of the same wire: each event with what it came in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeGuard

from hookgate import Frame, ModelEvent, ReasoningDelta, StopEvent, TextDelta, ToolUseEvent
from hookgate.builtin_plugins.providers.anthropic import TEXT as MESSAGES_TEXT
from hookgate.builtin_plugins.providers.anthropic import (
    AnthropicReader,
    AnthropicWire,
    MessagesBlock,
)
from hookgate.builtin_plugins.providers.failures import message_of
from hookgate.builtin_plugins.providers.openai import (
    DONE,
    TEXT,
    OpenAIReader,
    OpenAIWire,
)
from hookgate.builtin_plugins.providers.responses import ResponsesReader, ResponsesWire
from hookgate.builtin_plugins.providers.wire.protocol import Reader, malformed, object_of, parse
from hookgate.builtin_plugins.providers.wire.template import FrameTemplate, TextTemplate
from hookgate.wire import Raw, came_as, raws_together

SAYS = {
    "reasoning_content": 0,
    "reasoning": 0,
    "reasoning_details": 0,
    "content": 1,
    "refusal": 2,
    "audio": 3,
    "tool_calls": 4,
}
"""The fields of a delta that say something to the gateway, in the order in which it reads them; the
rest goes with the first of them. Those with one number say the same, in several forms."""


class OpenAIFrames(OpenAIReader):
    """Reads an answer of Chat Completions such that each event carries its chunks.

    A chunk that says several things is divided, so that none of them carries another: what a
    filter changes is not there beside it, and no call before it was judged. The chunks of the end,
    from the finish reason on, are those of the `StopEvent`.
    """

    def __init__(self, provider: str, complain: Callable[[str], None]) -> None:
        super().__init__(provider, complain)
        self.template = TextTemplate(TEXT, tries=0)
        self.frames = self._texts = FrameTemplate(OpenAIWire.name, TEXT, "content")
        self._tail: list[dict[str, Any]] = []
        self._at = 0
        """The answer that is read."""

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what one event says."""
        if data == DONE:
            self.done = self._final = True
            return self._finish()
        chunk = parse(self._provider, data)
        if chunk.get("error") is not None:
            self._fail(chunk["error"])
        usage = chunk.get("usage")
        if usage is None:
            said = self._events(chunk)
            if _says_text(said, chunk):
                self._texts.learn(data, chunk, said[0].text)
            return said
        self._count(usage)
        said = self._events(chunk)
        self._final = self._stop is not None
        return (*said, *self._counted(done=self._final))

    def _events(self, chunk: dict[str, Any]) -> Sequence[ModelEvent]:
        choices = chunk.get("choices")
        if not choices:
            return self._beside(chunk, is_end=chunk.get("usage") is not None)
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            malformed(self._provider, "`choices` that are no list of objects")
        choice, delta = choices[0], choices[0].get("delta") or {}
        if len(choices) > 1 or choice.get("index", 0) != self._at:
            malformed(self._provider, "several answers, where one was asked for")
        if not isinstance(delta, dict):
            malformed(self._provider, "a `delta` that is no object")
        if delta.get("function_call"):
            malformed(self._provider, "a call in the old form `function_call`")
        reason = choice.get("finish_reason")
        if ends := isinstance(reason, str):
            self._over(reason, choice)
        pieces: dict[int, dict[str, Any]] = {}
        rest: dict[str, Any] = {}
        for key, item in delta.items():
            into = pieces.setdefault(SAYS[key], {}) if item and key in SAYS else rest
            into[key] = item
        if not pieces:
            return self._beside(chunk, is_end=ends)
        calls = delta.get("tool_calls")
        several = len(pieces) > 1 or (isinstance(calls, list) and len(calls) > 1)
        events: list[ModelEvent] = []
        for _, piece in sorted(pieces.items()):
            events += self._piece(None if several or ends else chunk, chunk, piece, rest)
            rest = {}
        if ends:
            choice = {**choice, "delta": {}}
            self._tail.append({**chunk, "choices": [_without_likelihoods(choice)]})
        return events

    def _beside(self, chunk: dict[str, Any], *, is_end: bool) -> Sequence[ModelEvent]:
        """Return what says nothing to the gateway: a frame, or one more chunk of the end."""
        if not (is_end or self._tail):
            return (Frame(Raw(wire=OpenAIWire.name, data=chunk)),)
        self._tail.append(chunk)
        return ()

    def _piece(
        self,
        whole: dict[str, Any] | None,
        chunk: dict[str, Any],
        piece: dict[str, Any],
        rest: dict[str, Any],
    ) -> Sequence[ModelEvent]:
        """Return what one thing says that a chunk holds, with its part of it.

        Args:
            whole: The chunk, where it holds nothing else.
            chunk: The chunk.
            piece: The one thing: fields of its delta.
            rest: Other fields that go with it.
        """
        fragments = piece.get("tool_calls")
        if not fragments:
            events = self._said(piece)
            if not events:
                data = whole or _part(chunk, {**rest, **piece})
                return (Frame(Raw(wire=OpenAIWire.name, data=data)),)
            # Of several events none carries the others.
            if len(events) == 1:
                return [_with_chunk(events[0], whole or _part(chunk, {**rest, **piece}))]
            return events
        if not isinstance(fragments, list):
            malformed(self._provider, "`tool_calls` that are no list")
        for number, fragment in enumerate(fragments):
            self._call(number, fragment)
            frame = whole or _part(chunk, {**rest, "tool_calls": [fragment]})
            self._calls[self._last_call].frames.append(frame)
            rest = {}
        return ()

    def _said(self, piece: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return what one thing says: of thoughts and of sound whatever of it is text."""
        if "audio" in piece:
            audio = piece["audio"]
            spoken = audio.get("transcript") if isinstance(audio, dict) else None
            return (TextDelta(spoken),) if isinstance(spoken, str) and spoken else ()
        if not any(SAYS[name] == 0 for name in piece):
            return self._delta(piece)
        texts = [piece.get("reasoning_content"), piece.get("reasoning")]
        details = piece.get("reasoning_details")
        for one in details if isinstance(details, list) else ():
            if isinstance(one, dict):
                texts += [one.get("text"), one.get("summary")]
        # One text is told in several forms; where they differ, none of them is passed over.
        told = dict.fromkeys(text for text in texts if isinstance(text, str) and text)
        return [ReasoningDelta(text) for text in told]

    def _finish(self) -> Iterator[ModelEvent]:
        """Yield the calls, the usage and the stop, each with what it came in."""
        calls = iter(self._all_calls)
        for event in super()._finish():
            frames: list[dict[str, Any]] = []
            if isinstance(event, ToolUseEvent):
                call = next(calls)
                frames = call.frames if call.id and _agree(call.frames) else []
            elif isinstance(event, StopEvent):
                frames = self._tail
            yield _with_chunk(event, frames) if frames else event


class OpenAIChoices(OpenAIFrames):
    """Reads several answers to one question: each whole before the next one.

    They come side by side. Whoever filters an answer reads it from its beginning to its end, so
    what comes of the others waits until it is over.

    Args:
        provider: The provider's name.
        complain: Takes what is wrong with the usage.
        answers: How many there may be.
    """

    def __init__(self, provider: str, complain: Callable[[str], None], answers: int) -> None:
        super().__init__(provider, complain)
        self._answers = answers
        self._waiting: dict[int, list[dict[str, Any]]] = {}
        self._begins = False
        """Whether nothing was told yet of the answer that is read, which is not the first."""

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what one event says."""
        if data == DONE:
            self.done = self._final = True
            return chain(self._left(), self._finish())
        chunk = parse(self._provider, data)
        if chunk.get("error") is not None:
            self._fail(chunk["error"])
        said = list(self._divided(chunk))
        if chunk.get("usage") is not None:
            self._count(chunk["usage"])
            self._final = not chunk.get("choices")
            said += self._counted(done=self._final)
        return said

    def whole(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what answers in one piece say: the message of each is a delta with all in it."""
        answer = parse(self._provider, data)
        if answer.get("error") is not None:
            self._fail(answer["error"])
        choices = answer.get("choices")
        if not isinstance(choices, list) or not choices:
            malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
        head = {key: one for key, one in answer.items() if key not in ("usage", "choices")}
        said: list[ModelEvent] = []
        for choice in choices:
            if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
                malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
            one = {**choice, "delta": choice["message"]}
            del one["message"]
            said += self._divided({**head, "object": "chat.completion.chunk", "choices": [one]})
        if answer.get("usage") is not None:
            self._count(answer["usage"])
        self.done = self._final = True
        return chain(said, self._left(), self._finish())

    def end(self) -> Iterable[ModelEvent]:
        """Accept an end behind the finish reasons of all answers."""
        if self._at < self._answers:
            self._stop = None
        return super().end()

    def _divided(self, chunk: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield what a chunk says of the answer that is read; keep what it says of others."""
        choices = chunk.get("choices")
        if not choices:
            yield from self._events(chunk)
            return
        if not isinstance(choices, list) or not all(isinstance(one, dict) for one in choices):
            malformed(self._provider, "`choices` that are no list of objects")
        for choice in choices:
            place, delta = choice.get("index"), choice.get("delta")
            if type(place) is not int or not self._at <= place < self._answers:
                malformed(self._provider, f"an answer at {place!r}, of {self._answers}")
            if isinstance(delta, dict) and delta.get("tool_calls"):
                malformed(self._provider, "a call in one of several answers")
            one = {**chunk, "choices": [choice]} if len(choices) > 1 else chunk
            if place == self._at:
                yield from self._one(one)
            else:
                self._waiting.setdefault(place, []).append(one)

    def _one(self, chunk: dict[str, Any]) -> Iterator[ModelEvent]:
        """Yield what a chunk says of the answer that is read; at its end, what waits behind it."""
        events = list(self._events(chunk))
        choice = chunk["choices"][0]
        if self._begins:
            self._begins = False
            if events and isinstance(events[0], Frame):
                events[0] = replace(events[0], ends=True)
            else:
                begun = _part(chunk, {"role": "assistant", "content": ""})
                events.insert(0, Frame(Raw(wire=OpenAIWire.name, data=begun), ends=True))
        yield from events
        if isinstance(choice.get("finish_reason"), str):
            self._at += 1
            self._begins = True
            for waiting in self._waiting.pop(self._at, ()):
                yield from self._one(waiting)

    def _left(self) -> Iterator[ModelEvent]:
        """Yield what waits behind answers of which nothing has come, or no end."""
        for place in sorted(self._waiting):
            if place in self._waiting:
                self._at, self._begins = place, True
                for chunk in self._waiting.pop(place):
                    yield from self._one(chunk)

    def _beside(self, chunk: dict[str, Any], *, is_end: bool) -> Sequence[ModelEvent]:
        """Return what says nothing to the gateway: an answer may begin behind another's end."""
        if is_end or not chunk.get("choices"):
            return super()._beside(chunk, is_end=is_end)
        return (Frame(Raw(wire=OpenAIWire.name, data=chunk)),)


def _says_text(said: Sequence[ModelEvent], chunk: dict[str, Any]) -> TypeGuard[Sequence[TextDelta]]:
    """Whether a chunk says some text of the answer and nothing else."""
    if len(said) != 1 or type(said[0]) is not TextDelta or said[0].raw is None:
        return False
    delta = chunk["choices"][0]["delta"]
    return said[0].raw.data is chunk and delta.get("content") == said[0].text


def _agree(frames: Sequence[dict[str, Any]]) -> bool:
    """Whether clients read of a call's chunks what was judged: its first one alone names it."""
    fragments = [frame["choices"][0]["delta"]["tool_calls"][0] for frame in frames]
    own, other, field = "function", "custom", "arguments"
    if fragments[0].get("type") == "custom":
        own, other, field = "custom", "function", "input"
    for place, fragment in enumerate(fragments):
        said = fragment.get(own) or {}
        if fragment.get("type") not in (None, "", own) or fragment.get(other):
            return False
        if not isinstance(said.get(field, ""), str | None):
            return False
        if place and (fragment.get("id") or said.get("name")):
            return False
    return True


def _with_chunk(event: ModelEvent, data: Any) -> ModelEvent:
    """Return an event with the chunk, or the chunks, that it came in."""
    if isinstance(event, Frame):
        return event
    return came_as(event, Raw(wire=OpenAIWire.name, data=data))


def _part(chunk: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Return that part of a chunk which has this delta: neither its end nor its usage."""
    choice = {**chunk["choices"][0], "delta": delta, "finish_reason": None}
    if "content" not in delta and "refusal" not in delta:
        choice = _without_likelihoods(choice)
    part = {**chunk, "choices": [choice]}
    return {**part, "usage": None} if "usage" in part else part


def _without_likelihoods(choice: dict[str, Any]) -> dict[str, Any]:
    """Return a choice without the likelihoods of the text that it holds no more."""
    return {**choice, "logprobs": None} if "logprobs" in choice else choice


class AnthropicFrames(AnthropicReader):
    """Reads an answer of the Messages API such that each event carries those of the stream.

    A call, and a block that only its provider reads, carries all of them once it is whole, and
    the `StopEvent` those of the end. All others are frames of their own.
    """

    def __init__(self, provider: str, complain: Callable[[str], None]) -> None:
        super().__init__(provider, complain)
        self.template = TextTemplate(TEXT, tries=0)
        self.frames = self._texts = FrameTemplate(AnthropicWire.name, MESSAGES_TEXT, "text")
        self._tail: list[dict[str, Any]] = []

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what one event says."""
        event = parse(self._provider, data)
        match event.get("type"):
            case "content_block_start":
                if event.get("content_block") is None:
                    malformed(self._provider, "a content_block_start without its block")
                said = self._start(event)
                return _begun(event, said[0]) if said else self._of_block(event)
            case "content_block_delta":
                said = self._delta(event)
                if not said:
                    return self._of_block(event)
                self._index(event)  # Text is read without it, and passed on by it.
                if type(said[0]) is TextDelta:
                    self._texts.learn(data, event, said[0].text)
                return (_with_event(said[0], event),)
            case "content_block_stop":
                block = self._blocks.pop(self._index(event), None)
                frames = [*(block.frames if block is not None else ()), event]
                whole = block is not None and bool(block.start.get("id")) and _is_said_once(block)
                said = [
                    one if isinstance(one, ToolUseEvent) and not whole else _with_event(one, frames)
                    for one in self._finish(block)
                ]
                return said or (_frame(event),)
            case "message_start":
                message = object_of(self._provider, event, "message")
                if message.get("content"):
                    # It is not said here, so nobody has looked at it.
                    event = {**event, "message": {**message, "content": []}}
                return (_frame(event), *self._count(message.get("usage"), final=False))
            case "message_delta":
                self._tail.append(event)
                return self._message_delta(event)
            case "message_stop":
                self._tail.append(event)
                self.done = True
                return (_with_event(self._ended(), self._tail),)
            case "error":
                self._fail(event)
        if self._tail:
            self._tail.append(event)
            return ()
        return (_frame(event),)

    def end(self) -> Sequence[ModelEvent]:
        """Accept an end behind the stop reason, with which the usage comes."""
        return [_with_event(event, self._tail) for event in super().end()]

    def _of_block(self, event: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return what a piece of a block says: of one that is judged or read whole, nothing."""
        block = self._blocks.get(self._index(event))
        if block is None or block.start.get("type") in ("text", "thinking"):
            return (_frame(event),)
        block.frames.append(event)
        return ()


def _begun(event: dict[str, Any], said: ModelEvent) -> Sequence[ModelEvent]:
    """Return the beginning of a block without its first words, and these as a delta behind it.

    Who changes the words loses what they came in, and with it the block would have no beginning.
    """
    block = event["content_block"]
    kind: str = block["type"]
    delta = {"type": f"{kind}_delta", kind: block[kind]}
    words = {"type": "content_block_delta", "index": event["index"], "delta": delta}
    return (
        _frame({**event, "content_block": {**block, kind: ""}}),
        _with_event(said, words),
    )


def _is_said_once(block: MessagesBlock) -> bool:
    """Whether clients read of a call's events the input that was judged."""
    deltas = [one["delta"] for one in block.frames if one.get("type") == "content_block_delta"]
    written = [
        one.get("partial_json") or "" for one in deltas if one.get("type") == "input_json_delta"
    ]
    return written == block.pieces and not (any(written) and block.start.get("input"))


def joined(reader: Reader, found: Sequence[bytes]) -> Iterator[ModelEvent]:
    """Yield what events say that came together: text behind text is one piece, with all frames.

    Each piece costs the way to the client anew, and where many come together, time is short.
    """
    waiting: list[ModelEvent] = []
    frames = reader.frames
    place = 0
    while place < len(found):
        if frames is not None and (texts := frames.run(found, place)):
            if waiting:
                yield _one(waiting)
                waiting = []
            yield frames.said(texts)
            place += len(texts)
            continue
        place += 1
        for event in reader.read(found[place - 1]):
            joins = isinstance(event, TextDelta | ReasoningDelta) and event.raw is not None
            if waiting and not (joins and type(event) is type(waiting[0])):
                yield _one(waiting)
                waiting = []
            if joins:
                waiting.append(event)
            else:
                yield event
    if waiting:
        yield _one(waiting)


def _one(pieces: Sequence[ModelEvent]) -> ModelEvent:
    first = pieces[0]
    if len(pieces) == 1 or not isinstance(first, TextDelta | ReasoningDelta):
        return first
    text = "".join([piece.text for piece in pieces if isinstance(piece, type(first))])
    raws = [piece.raw for piece in pieces if piece.raw is not None]
    return came_as(type(first)(text), raws_together(raws))


def _with_event(event: ModelEvent, data: Any) -> ModelEvent:
    """Return an event of the stream of the Messages API with what it came in."""
    if isinstance(event, Frame):
        return event
    return came_as(event, Raw(wire=AnthropicWire.name, data=data))


def _frame(event: dict[str, Any]) -> Frame:
    return Frame(Raw(wire=AnthropicWire.name, data=event))


FRAMES: Mapping[str, Callable[[str, Callable[[str], None]], Reader]] = {
    OpenAIWire.name: OpenAIFrames,
    AnthropicWire.name: AnthropicFrames,
    ResponsesWire.name: partial(ResponsesReader, as_it_came=True),
}
"""By wire, what reads the answer to a request that was sent as it came."""
