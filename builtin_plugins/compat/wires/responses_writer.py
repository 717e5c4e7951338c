"""OpenAI's Responses: an answer, written as events or as a whole.

One response id, numbers without gaps, an item is added before anything of it comes, and exactly one
event at the end. The protocol says each text twice, while it comes and once more whole: the whole
ones are made of what was shown, so that nothing is said by them that a guard has taken out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hookgate import ErrorAnswer, Event, StopEvent, Turn, Usage, new_id
from hookgate.builtin_plugins.compat.answers import WireFrame, came_by, openai_error, stop_of
from hookgate.builtin_plugins.compat.fields import Asked
from hookgate.builtin_plugins.compat.wires.responses_reader import CALLS, OWN, named
from hookgate.wire import dumps

BEGINNINGS = ("response.created", "response.in_progress", "response.queued")

TEXTS = {
    "response.output_text": ("text", "content_index"),
    "response.refusal": ("refusal", "content_index"),
    "response.reasoning_text": ("text", "content_index"),
    "response.reasoning_summary_text": ("text", "summary_index"),
}
"""Texts that come in deltas: the field of the whole one, and what it is counted by."""

PARTS = {
    "response.content_part.done": "content_index",
    "response.reasoning_summary_part.done": "summary_index",
}
"""Events that hold a part once more, whole."""

LISTS = {"content": "content_index", "summary": "summary_index"}
"""The lists of an item that hold its parts."""

ENDS = {
    "max_tokens": "max_output_tokens",
    "paused": "max_output_tokens",
    "refusal": "content_filter",
}
"""Why an answer is not whole, as the protocol calls it."""

BESIDE: Mapping[str, WireFrame] = {
    "computer_call": {"pending_safety_checks": []},
    "tool_search_call": {"execution": "client"},
}
"""What else calls have that the vendor has defined."""

CODES = {400: "invalid_prompt", 413: "invalid_prompt", 429: "rate_limit_exceeded"}
"""What a failed answer's error is called, by the HTTP status; a server's error otherwise."""


def responses_usage(usage: Usage) -> WireFrame:
    """Return usage as Responses has it: the parts are parts of the sums."""
    return {
        "input_tokens": usage.total_input,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens + usage.cache_write_hour_tokens,
        },
        "output_tokens": usage.total_output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total,
    }


class ResponsesWriter:
    """Writes one answer of the Responses API.

    Args:
        asked: The request.
    """

    def __init__(self, asked: Asked) -> None:
        self._model = asked.model
        self._forms = _forms(asked.body.get("tools") or ())
        self._head: WireFrame = {
            "id": new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "model": asked.model,
            "output": [],
            "parallel_tool_calls": asked.body.get("parallel_tool_calls") is not False,
            "tool_choice": asked.body.get("tool_choice") or "auto",
            "tools": asked.body.get("tools") or [],
            "usage": None,
            **asked.told,
        }
        self._own_names = ["id", "created_at", "model", *asked.told]
        """What of the answer is the gateway's own, whatever its upstream says."""
        self._named = bool(asked.told.get("background"))
        """Whether the client knows its name already."""
        self.came_from: dict[str, list[str]] = {}
        """The upstreams' own ids of what the answer was made of, by provider."""
        self._unnamed: list[str] = []
        """Those of the round that has not ended."""
        self._begun = False
        self._number = 0
        self._items: list[WireFrame] = []
        """The items that the client has been shown, whole."""
        self._next = 0
        """The index of the next item."""
        self._places: dict[int, int] = {}
        """The upstream's indexes of this round's items, and the client's."""
        self._texts: dict[tuple[str, str, int], list[str]] = {}
        """What was shown of each text, by item, what it is counted by, and its number."""
        self._likely: dict[tuple[str, str, int], list[Any]] = {}
        """The likelihoods that came with them, in the same way."""
        self._at: WireFrame = {}
        """Where the text of the answer goes on, of an item that the upstream has begun."""
        self._own: WireFrame = {}
        """The item that the writer has begun."""
        self._written = self._before = 0
        """Characters of the messages that the writer has made, and those in front of this one."""
        self._notes: list[WireFrame] = []
        """What the message that the writer has begun rests on."""
        self._rounds = 0
        self._stop: StopEvent | None = None
        self._last: list[WireFrame] = []

    def head(self) -> WireFrame:
        """Return what is known of the response before anything of it has come."""
        return dict(self._head)

    def queued(self) -> list[WireFrame]:
        """Return the events by which a client learns of a response that nothing has come of yet."""
        self._begun = True
        response = {**self._head, "status": "queued"}
        return [self._stamped({"type": BEGINNINGS[0], "response": response})]

    def made_by(self, provider: str) -> None:
        """Note who has made what was not said of anybody yet: an id says nothing elsewhere."""
        if self._unnamed:
            self.came_from.setdefault(provider, []).extend(self._unnamed)
            self._unnamed.clear()

    def take(self, event: Event) -> Iterable[WireFrame]:
        """Return the events that an event of the turn brings."""
        match event.type:
            case "frame" | "opaque":
                return [made for one in came_by(event) for made in self._passed(one)]
            case "text":
                return list(self._said("message", event))
            case "reasoning":
                return list(self._said("reasoning", event))
            case "citation" if self._own.get("type") == "message":
                return [self._noted(event.data)]
            case "tool_use" if event.data.get("owner") == "client":
                return list(self._call(event))
            case "model_ended":
                self.made_by(event.data["model"].partition("/")[0])
            case "stop":
                self._rounds += 1
                self._stop, self._last = event.value, came_by(event)
                self._places, self._at = {}, {}
                # Another round's items may have the same names.
                own = self._own.get("id")
                self._texts = {key: said for key, said in self._texts.items() if key[0] == own}
                self._likely.clear()
        return ()

    def end(self, turn: Turn, said: str = "") -> Iterator[WireFrame]:
        """Return the last events."""
        yield from self._begin()
        if said:
            yield from self._add("message", said)
        yield from self._close()
        last = self._last[-1] if self._last and not said else None
        stop = stop_of(self._stop, turn)
        reason = ENDS.get(stop, "") if stop and not said else ""
        kind = "response.incomplete" if reason else "response.completed"
        response = {**self._head, "status": kind.removeprefix("response.")}
        response["incomplete_details"] = {"reason": reason} if reason else None
        if last is not None:
            kind, response = last["type"], {**last["response"]}
        if last is None or self._rounds > 1 or response.get("usage") is None:
            response["usage"] = responses_usage(turn.usage)
        response |= {name: self._head[name] for name in self._own_names}
        response["output"] = self._items
        yield self._stamped({**(last or {}), "type": kind, "response": response})

    def fail(self, error: ErrorAnswer, request_id: str) -> Iterator[WireFrame]:
        """Return the last events of an answer that has failed."""
        del request_id
        yield from self._begin()
        code = CODES.get(error.status, "server_error")
        named = {"code": code, "message": openai_error(error)["error"]["message"]}
        response = {**self._head, "status": "failed", "error": named, "output": self._items}
        yield self._stamped({"type": "response.failed", "response": response})

    # -- frames of the same wire --------------------------------------------------

    def _stamped(self, frame: WireFrame) -> WireFrame:
        """Return an event with its number; the client counts those that it gets."""
        number, self._number = self._number, self._number + 1
        return {**frame, "sequence_number": number}

    def _passed(self, frame: WireFrame) -> Iterator[WireFrame]:
        kind = frame["type"]
        if kind in BEGINNINGS:
            answer = frame["response"].get("id")
            if kind == BEGINNINGS[0] and isinstance(answer, str) and answer:
                self._unnamed.append(answer)
            if not self._begun or (not self._rounds and kind != "response.created"):
                if not self._begun:
                    self._begun = True
                    own = self._own_names if self._named else self._own_names[2:]
                    kept = {name: self._head[name] for name in own}
                    self._head |= {**frame["response"], **kept, "output": []}
                names = {name: self._head[name] for name in self._own_names} | {"output": []}
                response = {**frame["response"], **names}
                yield self._stamped({**frame, "response": response})
            return
        yield from self._begin()
        index = frame.get("output_index")
        if isinstance(index, int):
            if index not in self._places:
                yield from self._close()
                self._places[index] = self._next
                self._next += 1
            frame = {**frame, "output_index": self._places[index]}
        yield self._stamped(self._filled(frame))

    def _filled(self, frame: WireFrame) -> WireFrame:
        """Return an event with the whole texts in it that the client was shown."""
        kind, item_id = frame["type"], frame.get("item_id")
        base, _, what = kind.rpartition(".")
        if base in TEXTS and isinstance(item_id, str):
            field, by = TEXTS[base]
            key = (item_id, by, frame.get(by, 0))
            if what == "delta":
                self._texts.setdefault(key, []).append(frame["delta"])
                if likely := frame.get("logprobs"):
                    self._likely.setdefault(key, []).extend(likely)
                if base == "response.output_text":
                    self._at = {k: frame.get(k) for k in ("item_id", "output_index", by)}
            elif what == "done":
                return self._whole(frame, field, key)
        elif kind in PARTS and isinstance(item_id, str):
            by = PARTS[kind]
            return {**frame, "part": self._part(frame["part"], item_id, by, frame.get(by, 0))}
        elif kind == "response.content_part.added":
            names = ("item_id", "output_index", "content_index")
            self._at = {name: frame.get(name) for name in names}
        elif kind == "response.output_item.added" and frame["item"].get("type") == "message":
            place = {"item_id": frame["item"].get("id"), "output_index": frame.get("output_index")}
            self._at = {**place, "content_index": 0}
        elif kind == "response.output_item.done":
            self._at = {}
            item = self._item(frame["item"])
            self._items.append(item)
            return {**frame, "item": item}
        return frame

    def _item(self, item: WireFrame) -> WireFrame:
        item_id = item.get("id")
        if not isinstance(item_id, str):
            return item
        made = {
            name: [self._part(part, item_id, by, at) for at, part in enumerate(item[name])]
            for name, by in LISTS.items()
            if isinstance(item.get(name), list)
        }
        return {**item, **made}

    def _part(self, part: Any, item_id: str, by: str, at: int) -> Any:
        """Return a part with its text as it was shown; what is no text stays as it is."""
        if not isinstance(part, dict):
            return part
        field = next((name for name in ("text", "refusal") if name in part), None)
        return part if field is None else self._whole(part, field, (item_id, by, at))

    def _whole(self, holder: WireFrame, field: str, key: tuple[str, str, int]) -> WireFrame:
        """Return what holds a text once more, with what was shown of it, and its likelihoods."""
        made = {**holder, field: "".join(self._texts.get(key, ()))}
        if "logprobs" in made:
            made["logprobs"] = self._likely.get(key, [])
        return made

    # -- what the writer makes ------------------------------------------------------

    def _begin(self) -> Iterator[WireFrame]:
        if not self._begun:
            self._begun = True
            for kind in BEGINNINGS[:2]:
                yield self._stamped({"type": kind, "response": dict(self._head)})

    def _said(self, kind: str, event: Event) -> Iterator[WireFrame]:
        if frames := came_by(event):
            for frame in frames:
                yield from self._passed(frame)
        elif text := event.data["text"]:
            yield from self._begin()
            if kind == "message" and self._at:
                made = {
                    "type": "response.output_text.delta",
                    **self._at,
                    "delta": text,
                    "logprobs": [],
                }
                yield self._stamped(self._filled(made))
            else:
                yield from self._add(kind, text)

    def _add(self, kind: str, text: str) -> Iterator[WireFrame]:
        """Add text to an item of the writer's own; begin it where there is none."""
        if self._own.get("type") != kind:
            yield from self._close()
            yield from self._open(kind)
        more: WireFrame = {"logprobs": []}
        name, by = "output_text", "content_index"
        if kind == "message":
            self._written += len(text)
        if kind == "reasoning":
            name, by, more = "reasoning_summary_text", "summary_index", {}
        delta = {"type": f"response.{name}.delta", **self._place(), by: 0, "delta": text, **more}
        self._texts.setdefault((self._own["id"], by, 0), []).append(text)
        yield self._stamped(delta)

    def _noted(self, page: Mapping[str, Any]) -> WireFrame:
        """Return the event that tells what some of the message rests on."""
        start, end = (max(page[name] - self._before, 0) for name in ("start", "end"))
        note = {"type": "url_citation", "start_index": start, "end_index": end}
        note |= {"url": page["url"], "title": page["title"]}
        at = {**self._place(), "content_index": 0, "annotation_index": len(self._notes)}
        self._notes.append(note)
        return self._stamped(
            {"type": "response.output_text.annotation.added", **at, "annotation": note}
        )

    def _place(self) -> WireFrame:
        return {"item_id": self._own["id"], "output_index": self._next - 1}

    def _open(self, kind: str) -> Iterator[WireFrame]:
        self._before, self._notes = self._written, []
        begun: WireFrame = {"id": new_id("msg" if kind == "message" else "rs"), "type": kind}
        if kind == "message":
            begun |= {"status": "in_progress", "role": "assistant", "content": []}
        else:
            begun |= {"summary": []}
        self._own = begun
        self._next += 1
        added = {"type": "response.output_item.added", "output_index": self._next - 1}
        yield self._stamped({**added, "item": begun})
        name, by, part = _part_of(kind, "")
        yield self._stamped(
            {"type": f"response.{name}.added", **self._place(), by: 0, "part": part}
        )

    def _close(self) -> Iterator[WireFrame]:
        """End the item that the writer has begun."""
        if not self._own:
            return
        kind, own = self._own["type"], self._own
        name, by, _ = _part_of(kind, "")
        text = "".join(self._texts.get((own["id"], by, 0), ()))
        part = _part_of(kind, text)[2]
        if self._notes:
            part["annotations"] = self._notes
        said = "output_text" if kind == "message" else "reasoning_summary_text"
        place = {**self._place(), by: 0}
        more: WireFrame = {"logprobs": []} if kind == "message" else {}
        yield self._stamped({"type": f"response.{said}.done", **place, "text": text, **more})
        yield self._stamped({"type": f"response.{name}.done", **place, "part": part})
        whole = {**own, "content": [part]} if kind == "message" else {**own, "summary": [part]}
        if kind == "message":
            whole["status"] = "completed"
        self._items.append(whole)
        self._own = {}
        done = {"type": "response.output_item.done", "output_index": self._next - 1}
        yield self._stamped({**done, "item": whole})

    def _call(self, event: Event) -> Iterator[WireFrame]:
        """Yield a call that was judged: as it came, or made."""
        yield from self._begin()
        if frames := came_by(event):
            for frame in frames:
                yield from self._passed(frame)
            return
        yield from self._close()
        data = event.data
        given = data["input"]
        called = self._forms.get(data["name"]) or {"type": "function_call", "name": data["name"]}
        if called["type"] != "function_call" and not isinstance(given, dict):
            called = {"type": "function_call", "name": data["name"]}
        free = called["type"] == "custom_tool_call"
        item: WireFrame = {
            "id": new_id("ctc" if free else "fc"),
            **called,
            "status": "completed",
            "call_id": data["id"],
        }
        at = {"output_index": self._next}
        self._next += 1
        if called["type"] in CALLS:
            yield from self._own_call(item, given, at)
            return
        field, part = "arguments", "function_call_arguments"
        written = given if isinstance(given, str) else dumps(given).decode()
        if free:
            field, part = "input", "custom_tool_call_input"
            written = str(given.get("input", ""))
        place = {"item_id": item["id"], **at}
        added = {**item, "status": "in_progress", field: ""}
        yield self._stamped({"type": "response.output_item.added", **at, "item": added})
        yield self._stamped({"type": f"response.{part}.delta", **place, "delta": written})
        yield self._stamped({"type": f"response.{part}.done", **place, field: written})
        item[field] = written
        self._items.append(item)
        yield self._stamped({"type": "response.output_item.done", **at, "item": item})

    def _own_call(self, item: WireFrame, given: WireFrame, at: WireFrame) -> Iterator[WireFrame]:
        """Yield a call of a tool that the vendor has defined: its items have no deltas."""
        names = CALLS[item["type"]][1]
        item |= {name: given[name] for name in names if name in given}
        added = {**item, "status": "in_progress"}
        yield self._stamped({"type": "response.output_item.added", **at, "item": added})
        self._items.append(item)
        yield self._stamped({"type": "response.output_item.done", **at, "item": item})


def _forms(tools: Iterable[Any]) -> Mapping[str, WireFrame]:
    """Return what the calls of tools have that are no functions of a name alone."""
    forms: dict[str, WireFrame] = {}
    for tool in tools:
        kind, name = tool.get("type"), tool.get("name")
        if kind == "custom":
            forms[name] = {"type": "custom_tool_call", "name": name}
        elif kind == "namespace":
            for one in tool["tools"]:
                inner = "custom_tool_call" if one["type"] == "custom" else "function_call"
                called = {"type": inner, "name": one["name"], "namespace": name}
                forms[named(one["name"], name)] = called
        elif kind in OWN:
            call = OWN[kind].call
            forms[CALLS[call][0]] = {"type": call, **BESIDE.get(call, {})}
    return forms


def _part_of(kind: str, text: str) -> tuple[str, str, WireFrame]:
    """Return the name of an item's part, what it is counted by, and the part."""
    if kind == "message":
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        return "content_part", "content_index", part
    return "reasoning_summary_part", "summary_index", {"type": "summary_text", "text": text}


def fold(frames: Iterable[WireFrame]) -> WireFrame:
    """Return the whole answer that events make: it stands in the last one."""
    last: WireFrame = {}
    for frame in frames:
        last = frame.get("response") or last
    return last
