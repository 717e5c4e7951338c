"""Anthropic's Messages: an answer, written as events or as a whole.

Blocks come in order and one at a time; each is begun, goes on and is ended. What stands behind a
call that is judged still waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hookgate import ErrorAnswer, Event, StopEvent, Turn, new_id
from hookgate.builtin_plugins.compat.answers import (
    MESSAGES_STOPS,
    WireFrame,
    Written,
    anthropic_error,
    came_by,
    joined,
    matched_of,
    merge,
    stop_of,
)
from hookgate.builtin_plugins.compat.wires.messages_reader import UNSIGNED
from hookgate.kit.usage import as_anthropic_messages
from hookgate.wire import StrictJSONError, TextFrames, dumps, loads

STARTS = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
NOTHING = {"input_tokens": 0, "output_tokens": 0}


class MessagesWriter:
    """Writes one answer of the Messages API.

    Args:
        model: The model as the client has named it.
        stops: The texts that are to end it.
    """

    def __init__(self, model: str, *, stops: Sequence[str] = ()) -> None:
        self._model = model
        self._stops = stops
        self._begun = False
        self._next = 0
        """The index of the next block."""
        self._open = ""
        """The kind of the block that goes on, as far as the writer may add to it."""
        self._own = False
        """Whether the writer has begun it, and so has to end it."""
        self._places: dict[int, int] = {}
        """The upstream's indexes of this round's blocks, and the client's."""
        self._seen = -1
        """The upstream's index of the last block."""
        self._later: list[tuple[int, list[WireFrame]]] = []
        """What waits for calls to be judged, by the upstream's index."""
        self._holds = False
        self._rounds = 0
        self._stop: StopEvent | None = None
        self._last: list[WireFrame] = []

    def take(self, event: Event) -> Iterable[Written]:
        """Return the events that an event of the turn brings."""
        match event.type:
            case "frame" | "opaque":
                return [one for frame in came_by(event) for one in self._frame(frame)]
            case "text":
                return self._said("text", event)
            case "reasoning":
                return self._said("thinking", event)
            case "citation" if self._own and self._open == "text":
                cited = {"type": "citations_delta", "citation": _citation(event.data)}
                return [{"type": "content_block_delta", "index": self._next - 1, "delta": cited}]
            case "tool_use" if event.data.get("owner") == "client":
                self._call(event)
            case "stop":
                self._rounds += 1
                self._stop, self._last = event.value, came_by(event)
        return ()

    def end(self, turn: Turn, said: str = "") -> Iterator[WireFrame]:
        """Return the last events."""
        if self._rounds and self._last == [] and self._stop is None:
            self._later.clear()
        yield from self._begin()
        yield from self._close()
        if said:
            yield from self._start(dict(STARTS["text"]))
            yield self._delta("text", said)
            yield from self._close()
        else:
            self._later.sort(key=lambda one: one[0])
            for _, frames in self._later:
                for frame in frames:
                    yield from self._placed(frame)
        told = False
        for frame in self._last:
            if frame.get("type") == "message_delta":
                told = True
                frame = self._ended(frame, turn, said)
            elif frame.get("type") == "message_stop" and not told:
                continue
            yield frame
        if not told:
            reason = "end_turn" if said else self._reason(turn)
            matched = "" if said else matched_of(self._stop, self._stops)
            if matched and reason == "end_turn":
                reason = "stop_sequence"  # Chat has one word for both ends.
            known = matched if reason == "stop_sequence" else None
            delta = {"stop_reason": reason, "stop_sequence": known or None}
            yield {
                "type": "message_delta",
                "delta": delta,
                "usage": as_anthropic_messages(turn.usage),
            }
        if not any(frame.get("type") == "message_stop" for frame in self._last) or not told:
            yield {"type": "message_stop"}

    def fail(self, error: ErrorAnswer, request_id: str) -> Iterable[WireFrame]:
        """Return what ends an answer that has failed."""
        return (anthropic_error(error, request_id),)

    # -- frames of the same wire --------------------------------------------------

    def _frame(self, frame: WireFrame) -> Sequence[WireFrame]:
        kind, index = frame.get("type"), frame.get("index")
        if kind == "message_start":
            self._places, self._seen, self._holds = {}, -1, False
            self._later.clear()
            if self._begun:
                return ()
            self._begun = True
            # What stands in it already would be a block that nobody has judged.
            message = {**(frame.get("message") or {}), "model": self._model, "content": []}
            return ({**frame, "message": message},)
        if not isinstance(index, int):
            return (frame,) if kind == "ping" or not self._rounds else ()
        begun = () if self._begun else self._begin()
        # A call has no frame before it is judged, so it leaves a gap.
        self._holds = self._holds or index > self._seen + 1
        self._seen = max(self._seen, index)
        if self._holds:
            self._later.append((index, [frame]))
            return tuple(begun)
        return (*begun, *self._placed(frame))

    def _placed(self, frame: WireFrame) -> Sequence[WireFrame]:
        """Return a block's frame at the place that the block has for the client."""
        kind, index = frame.get("type"), frame.get("index")
        if not isinstance(index, int):
            return (frame,)
        ended: Iterable[WireFrame] = ()
        if kind == "content_block_start":
            ended = tuple(self._close())
            self._places[index] = self._next
            self._next += 1
            self._open = str(frame["content_block"].get("type"))
        elif index not in self._places:
            return ()
        elif kind == "content_block_stop":
            self._open = ""
        place = self._places[index]
        return (*ended, frame if place == index else {**frame, "index": place})

    # -- what the writer makes ------------------------------------------------------

    def _begin(self) -> Iterator[WireFrame]:
        if self._begun:
            return
        self._begun = True
        message: WireFrame = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": dict(NOTHING),
        }
        yield {"type": "message_start", "message": message}

    def _start(self, block: WireFrame) -> Iterator[WireFrame]:
        yield from self._close()
        self._open, self._own = block["type"], True
        yield {"type": "content_block_start", "index": self._next, "content_block": block}
        self._next += 1

    def _delta(self, kind: str, text: str) -> WireFrame:
        delta, field = DELTAS[kind]
        return {
            "type": "content_block_delta",
            "index": self._next - 1,
            "delta": {"type": delta, field: text},
        }

    def _close(self) -> Iterator[WireFrame]:
        """End the block that the writer has begun, or that broke off upstream."""
        if not self._open:
            return
        if self._own and self._open == "thinking":
            signed = {"type": "signature_delta", "signature": UNSIGNED}
            yield {"type": "content_block_delta", "index": self._next - 1, "delta": signed}
        yield {"type": "content_block_stop", "index": self._next - 1}
        self._open, self._own = "", False

    def _said(self, kind: str, event: Event) -> Sequence[Written]:
        raw = getattr(event.value, "raw", None)
        if type(raw) is TextFrames and not self._holds:
            index = raw.form.frame.get("index")
            # It goes on with the last block, which has the same place for the client.
            if index == self._seen and self._places.get(index) == index:
                return (raw,)
        if frames := came_by(event):
            return [made for frame in frames for made in self._frame(frame)]
        if not event.data["text"]:
            return ()
        made = list(self._made(kind, event.data["text"]))
        if not self._holds:
            return made
        self._later.append((self._seen, made))
        return ()

    def _made(self, kind: str, text: str) -> Iterator[WireFrame]:
        if not self._begun:
            yield from self._begin()
        if self._open != kind:
            yield from self._start(dict(STARTS[kind]))
        yield self._delta(kind, text)

    def _call(self, event: Event) -> None:
        """Keep a call that was judged, in its place: all of them come at once."""
        frames, data = came_by(event), event.data
        if not frames:
            at = self._seen + 1
            given = data["input"] if isinstance(data["input"], dict) else {}
            block = {"type": "tool_use", "id": data["id"], "name": data["name"], "input": {}}
            written = {"type": "input_json_delta", "partial_json": dumps(given).decode()}
            frames = [
                {"type": "content_block_start", "index": at, "content_block": block},
                {"type": "content_block_delta", "index": at, "delta": written},
                {"type": "content_block_stop", "index": at},
            ]
        index: int = frames[0]["index"]
        self._seen = max(self._seen, index)
        self._later.append((index, frames))

    def _reason(self, turn: Turn) -> str:
        if turn.ending == "awaiting_client":
            return "tool_use"
        reason = stop_of(self._stop, turn)
        return MESSAGES_STOPS.get(reason, "end_turn") if reason else "end_turn"

    def _ended(self, frame: WireFrame, turn: Turn, said: str) -> WireFrame:
        """Return the end with the usage of all rounds, and with the reason that holds now."""
        if said:
            reason = {"stop_reason": "end_turn", "stop_sequence": None}
            frame = {**frame, "delta": {**_object(frame, "delta"), **reason}}
        if self._rounds > 1:
            frame = {**frame, "usage": as_anthropic_messages(turn.usage)}
        return frame


def _citation(page: Mapping[str, Any]) -> WireFrame:
    """Return what a block rests on, as the API has it of a search of its own."""
    return {
        "type": "web_search_result_location",
        "url": page["url"],
        "title": page["title"] or None,
        "cited_text": page["cited"],
        "encrypted_index": UNSIGNED,
    }


def fold(frames: Iterable[WireFrame]) -> WireFrame:
    """Return the whole answer that events make."""
    whole: WireFrame = {}
    blocks: dict[int, WireFrame] = {}
    for frame in frames:
        match frame.get("type"):
            case "message_start":
                whole = {**frame["message"]}
            case "content_block_start":
                block: WireFrame = {}
                blocks[frame["index"]] = block
                merge(block, frame["content_block"])
            case "content_block_delta":
                _grow(blocks[frame["index"]], frame["delta"])
            case "message_delta":
                told = ("type", "usage", "delta")
                more = {key: one for key, one in frame.items() if key not in told}
                whole |= {**_object(frame, "delta"), **more}
                whole["usage"] = {**_object(whole, "usage"), **_object(frame, "usage")}
    whole["content"] = [_block(blocks[index]) for index in sorted(blocks)]
    return whole


def _object(frame: WireFrame, name: str) -> WireFrame:
    """Return what an upstream has under a name; {} where that is no object."""
    found = frame.get(name)
    return found if isinstance(found, dict) else {}


def _grow(block: WireFrame, delta: WireFrame) -> None:
    match delta.get("type"):
        case "signature_delta":
            block["signature"] = delta.get("signature")
        case "citations_delta":
            if type(block.get("citations")) is not list:  # Pieces of a text are another one.
                block["citations"] = []
            block["citations"].append(delta.get("citation"))
        case _:
            merge(block, {key: one for key, one in delta.items() if key != "type"})


def _block(block: WireFrame) -> WireFrame:
    made: dict[str, Any] = joined(block)
    written = made.pop("partial_json", "")
    if written:
        try:
            made["input"] = loads(written)
        except StrictJSONError:
            made["input"] = {}
    return made
