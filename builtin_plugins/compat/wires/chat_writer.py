"""Chat Completions: an answer, written as chunks or as a whole.

One id, the role first, every call begun with its index, id, type and name; one finish reason, and
the usage behind it where it was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from hookgate import ErrorAnswer, Event, StopEvent, Turn, new_id
from hookgate.builtin_plugins.compat.answers import (
    CHAT_STOPS,
    WireFrame,
    Written,
    came_by,
    joined,
    matched_of,
    merge,
    openai_error,
    stop_of,
)
from hookgate.kit.usage import as_openai_chat
from hookgate.wire import TextForm, TextFrames, dumps

DONE = "[DONE]"


class ChatWriter:
    """Writes one answer of Chat Completions.

    Args:
        model: The model as the client has named it.
        usage: Whether the client wants to know the usage.
        custom: The names of the tools that are called in free text.
        stops: The texts that are to end it.
    """

    def __init__(
        self,
        model: str,
        *,
        usage: bool,
        custom: Collection[str] = (),
        stops: Collection[str] = (),
    ) -> None:
        self._model = model
        self._usage = usage
        self._custom = custom
        self._stops = stops
        self._head: WireFrame = {
            "id": new_id("chatcmpl").replace("_", "-"),
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self._begun = False
        self._at = 0
        """The answer that is written, of several."""
        self._role = False
        """Whether the client was told whose message it is."""
        self._form: tuple[TextForm | None, TextForm | None] = (None, None)
        """A form of frames that have come, and what it is for the client."""
        self._calls = 0
        self._rounds = 0
        self._stop: StopEvent | None = None
        self._last: list[WireFrame] = []

    def take(self, event: Event) -> Iterable[Written]:
        """Return the chunks that an event of the turn brings."""
        match event.type:
            case "frame":
                return [chunk for one in came_by(event) if (chunk := self._passed(one))]
            case "text":
                return self._said("content", event)
            case "reasoning":
                return self._said("reasoning_content", event)
            case "opaque":
                return [self._like(one) for one in came_by(event)]
            case "citation":
                return [*self._begin(), self._chunk({"annotations": [_note(event.data)]})]
            case "tool_use" if event.data.get("owner") == "client":
                return self._call(event)
            case "stop":
                self._rounds += 1
                self._stop, self._last = event.value, came_by(event)
        return ()

    def end(self, turn: Turn, said: str = "") -> Iterator[WireFrame]:
        """Return the last chunks."""
        yield from self._begin()
        if said:
            yield self._chunk({"content": said})
        reason = "stop" if said else self._reason(turn)
        ended, told = set[int](), False
        for one in self._last:
            choices = one.get("choices")
            if not choices:
                told = told or one.get("usage") is not None
                if self._usage or one.get("usage") is None:
                    yield self._like(self._counted(one, turn))
                continue
            if choices[0].get("finish_reason") is not None:
                if (at := _index(one)) in ended:
                    continue
                if said:
                    one = {**one, "choices": [{**choices[0], "finish_reason": reason}]}
                ended.add(at)
            told = told or one.get("usage") is not None
            yield self._like(self._counted(one, turn))
        for at in range(self._at + 1):
            if at not in ended:
                self._at = at
                yield self._ended(reason, "" if said else matched_of(self._stop, self._stops))
        if self._usage and not told:
            yield {**self._head, "choices": [], "usage": as_openai_chat(turn.usage)}

    def fail(self, error: ErrorAnswer, request_id: str) -> Iterable[WireFrame]:
        """Return what ends an answer that has failed."""
        del request_id
        return (openai_error(error),)

    # -- chunks ------------------------------------------------------------------

    def _passed(self, frame: WireFrame) -> WireFrame | None:
        """Return a chunk that says nothing of the answer; of a hidden round's, none."""
        if self._begun and self._rounds:
            return None
        self._know(frame)
        self._role = self._role or _has_role(frame)
        return self._like(frame)

    def _know(self, frame: WireFrame) -> None:
        """Take over from the first chunk what is the same in all of them."""
        if not self._begun:
            self._begun = True
            names = ("id", "created", "system_fingerprint", "service_tier")
            self._head |= {name: frame[name] for name in names if name in frame}
        if frame.get("choices"):
            self._at = _index(frame)

    def _like(self, frame: WireFrame) -> WireFrame:
        """Return a chunk as it came, but for the one id and the model that was asked for."""
        chunk = {**frame, "id": self._head["id"], "model": self._model}
        if any("message" in choice for choice in frame.get("choices") or ()):
            # A whole message beside the delta could hold calls that nobody has judged.
            chunk["choices"] = [
                {key: one for key, one in choice.items() if key != "message"}
                for choice in frame["choices"]
            ]
        if not self._usage:
            chunk.pop("usage", None)
        return chunk

    def _chunk(self, delta: WireFrame, reason: str | None = None) -> WireFrame:
        choice = {"index": self._at, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {**self._head, "choices": [choice]}

    def _ended(self, reason: str, matched: str) -> WireFrame:
        """Return the chunk of an end; Chat's own has no place for the text that has ended it."""
        chunk = self._chunk({}, reason)
        if matched:
            # As vLLM tells it, whose clients are those of Chat.
            chunk["choices"][0]["stop_reason"] = matched
        return chunk

    def _begin(self) -> Iterator[WireFrame]:
        self._begun = True
        if not self._role:
            self._role = True
            yield self._chunk({"role": "assistant", "content": ""})

    def _said(self, kind: str, event: Event) -> Iterator[Written]:
        raw = getattr(event.value, "raw", None)
        if self._role and type(raw) is TextFrames and (own := self._own(raw)) is not None:
            yield own
            return
        if frames := came_by(event):
            self._know(frames[0])
            self._role = self._role or _has_role(frames[0])
            yield from self._begin()
            for one in frames:
                yield self._like(one)
        elif event.data["text"]:
            yield from self._begin()
            yield self._chunk({kind: event.data["text"]})

    def _own(self, frames: TextFrames) -> TextFrames | None:
        """Return frames of one form with the one id and the model that was asked for."""
        came, form = self._form
        if came is not frames.form:
            form = frames.form.like(self._like(dict(frames.form.frame)))
            self._form = frames.form, form
        return None if form is None else TextFrames(frames.wire, form, frames.texts)

    def _call(self, event: Event) -> Iterator[WireFrame]:
        """Yield a call that was judged: as it came, if it begins as clients need it."""
        yield from self._begin()
        index, self._calls = self._calls, self._calls + 1
        frames = came_by(event)
        if frames and _begins_call(frames[0]):
            for one in frames:
                yield self._like(_numbered(one, index))
            return
        name, given = event.data["name"], event.data["input"]
        call: WireFrame = {"index": index, "id": event.data["id"]}
        if name in self._custom and isinstance(given, Mapping):
            custom = {"name": name, "input": str(given.get("input", ""))}
            call |= {"type": "custom", "custom": custom}
        else:
            written = given if isinstance(given, str) else dumps(given).decode()
            call |= {"type": "function", "function": {"name": name, "arguments": written}}
        yield self._chunk({"tool_calls": [call]})

    def _reason(self, turn: Turn) -> str:
        if turn.ending == "awaiting_client":
            return "tool_calls"
        reason = stop_of(self._stop, turn)
        return CHAT_STOPS.get(reason, "stop") if reason else "stop"

    def _counted(self, frame: WireFrame, turn: Turn) -> WireFrame:
        """Return a chunk with the usage of all rounds, where there were hidden ones."""
        if self._rounds > 1 and frame.get("usage") is not None:
            return {**frame, "usage": as_openai_chat(turn.usage)}
        return frame


def _note(page: Mapping[str, Any]) -> WireFrame:
    """Return what some of the answer rests on, as Chat has it."""
    places = {"start_index": page["start"], "end_index": page["end"]}
    told = {**places, "url": page["url"], "title": page["title"]}
    return {"type": "url_citation", "url_citation": told}


def _has_role(frame: WireFrame) -> bool:
    return any("role" in (one.get("delta") or {}) for one in frame.get("choices") or ())


def _index(frame: WireFrame) -> int:
    """Return which of several answers a chunk is of."""
    at = frame["choices"][0].get("index")
    return at if isinstance(at, int) else 0


def _calls(frame: WireFrame) -> list[Any]:
    choices = frame.get("choices") or [{}]
    return (choices[0].get("delta") or {}).get("tool_calls") or []


def _begins_call(frame: WireFrame) -> bool:
    """Whether a call's first chunk has all that clients look for in it."""
    calls = _calls(frame)
    first = calls[0] if len(calls) == 1 else {}
    called = first.get("custom" if first.get("type") == "custom" else "function")
    named = isinstance(called, dict) and called.get("name")
    return bool(first.get("id") and first.get("type") and named and "index" in first)


def _numbered(frame: WireFrame, index: int) -> WireFrame:
    """Return a chunk of a call with its place among the calls that the client gets."""
    calls = _calls(frame)
    if not calls or all(call.get("index") == index for call in calls):
        return frame
    choice = frame["choices"][0]
    delta = {**choice["delta"], "tool_calls": [{**call, "index": index} for call in calls]}
    return {**frame, "choices": [{**choice, "delta": delta}]}


def fold(frames: Iterable[WireFrame]) -> WireFrame:
    """Return the whole answer that chunks make."""
    whole: WireFrame = {}
    found: dict[int, WireFrame] = {}
    for frame in frames:
        for key, value in frame.items():
            if key != "choices" and (value is not None or key not in whole):
                whole[key] = value
        for choice in frame.get("choices") or ():
            at = choice.get("index") or 0
            begun: WireFrame = {"index": at, "message": {}, "logprobs": None, "finish_reason": None}
            made = found.setdefault(at, begun)
            merge(made["message"], choice.get("delta") or {})
            made["finish_reason"] = choice.get("finish_reason") or made["finish_reason"]
            if "stop_reason" in choice:
                made["stop_reason"] = choice["stop_reason"]
            likely = choice.get("logprobs")
            if likely and isinstance(likely, dict):
                made["logprobs"] = made["logprobs"] or {}
                merge(made["logprobs"], likely)
    usage = whole.pop("usage", None)
    choices = [_whole_choice(one) for _, one in sorted(found.items())]
    whole |= {"object": "chat.completion", "choices": choices}
    whole.pop("obfuscation", None)
    return {**whole, **({} if usage is None else {"usage": usage})}


def _whole_choice(choice: WireFrame) -> WireFrame:
    """Return one answer with its texts in one piece each, as it stands in a whole one."""
    message, logprobs = joined(choice["message"]), joined(choice["logprobs"])
    for call in message.get("tool_calls") or ():
        call.pop("index", None)
    if message.get("tool_calls") and not message.get("content"):
        message["content"] = None
    return {**choice, "message": message, "logprobs": logprobs}
