"""OpenAI's Responses: requests in its shape, and its stream read.

The shapes are those of https://platform.openai.com/docs/api-reference/responses, as far as the
servers that speak the protocol (vLLM, LM Studio, Ollama, llama.cpp) share them. Nothing is kept at
the provider: the conversation is sent whole each time, and reasoning comes and goes back encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, TypeVar

import orjson

from hookgate import (
    Citation,
    Content,
    ContentPart,
    Document,
    Frame,
    Image,
    Message,
    ModelEvent,
    ModelRequest,
    Opaque,
    OpaqueDelta,
    Part,
    ProviderError,
    ReasoningDelta,
    StopEvent,
    StopReason,
    TextDelta,
    Tool,
    ToolResultPart,
    ToolUse,
    ToolUseEvent,
    UsageEvent,
    new_id,
    plain_text,
)
from hookgate.builtin_plugins.providers.failures import (
    kind_of_names,
    kind_of_overflow,
    message_of,
)
from hookgate.builtin_plugins.providers.openai import (
    DONE,
    FAILED,
    RESPONSES,
    TEXT,
    OpenAIWire,
    free_names,
    free_text,
)
from hookgate.builtin_plugins.providers.wire.protocol import (
    Reader,
    arguments_of,
    as_it_is,
    body_of,
    brought,
    cannot_carry,
    carried,
    check_absent,
    cited,
    malformed,
    merge_options,
    object_of,
    paired,
    parse,
    passes,
    raw_of,
    safe_id,
    sendable_input,
    text_of,
    write_changes,
)
from hookgate.builtin_plugins.providers.wire.template import TextTemplate
from hookgate.kit.usage import StreamedUsage, openai_responses
from hookgate.wire import MEDIA, Raw, StrictJSONError, WirePart, came_as, left_out, loads

RESERVED = frozenset(
    (
        "model",
        "input",
        "instructions",
        "tools",
        "stream",
        "max_output_tokens",
        "previous_response_id",
        "conversation",
        "background",
        "store",
    )
)

PROTOCOL = "the Responses API"
NOT_HERE = ("top_k", "seed", "frequency_penalty", "presence_penalty", "logprobs")
"""What a request may be asked with that the protocol has no place for."""
CHOICES = ("none", "auto", "required")

CUT: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
"""Why an answer is incomplete, and what that is called here."""

ENDS = ("response.completed", "response.incomplete", "response.done")
"""The events that end an answer; the last is of servers that follow the realtime protocol."""

FORMS: Mapping[str, type] = {
    "item": dict,
    "response": dict,
    "part": dict,
    "item_id": str,
    "output_index": int,
    "content_index": int,
    "summary_index": int,
}
"""What the fields of events are that something is found by, or stands in."""

DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
"""The events that hold some text; thoughts are OpenAI's summaries, and what open models think."""

Piece = TypeVar("Piece", bound=WirePart)


class ResponsesWire(OpenAIWire):
    """The Responses API of one provider; its address, key and pictures are those of Chat.

    Args:
        provider: The provider's name; its encrypted reasoning carries it.
        base_url: Where it is; ``/responses`` is added.
        key: The API key, if there is one.
    """

    name = RESPONSES
    passed = frozenset[str]()

    def __init__(self, provider: str, base_url: str, key: str | None) -> None:
        super().__init__(provider, base_url, key)
        self.url = f"{base_url.rstrip('/')}/responses"
        self.kept_url = f"{self.url}/"

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the shape of the Responses API.

        Raises:
            ProviderError: It has something that the protocol has no place for.
        """
        if passes(request, self.name):
            return self._as_it_came(request)
        self._check(request)
        messages = carried(self._provider, request, PROTOCOL)
        forms = {name: CallForm("custom_tool_call", name) for name in free_names(request.tools)}
        items = [item for one in paired(messages) for item in self._items(one, forms)]
        body: dict[str, Any] = {
            "model": request.model.model,
            "input": _with_results(items),
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if system := "\n\n".join(piece.text for piece in request.system if piece.text.strip()):
            body["instructions"] = system
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        body |= {name: one for name, one in _fields(request).items() if one is not None}
        return merge_options(self._provider, body, request.options, RESERVED)

    def reader(self, complain: Callable[[str], None]) -> Reader:
        """Return a reader for one answer."""
        return ResponsesReader(self._provider, complain)

    def _check(self, request: ModelRequest) -> None:
        """Refuse what the protocol has no place for.

        Raises:
            ProviderError: There is such a thing.
        """
        asked = request.parameters
        if request.stop:
            cannot_carry(self._provider, PROTOCOL, '`stop` (`api = "chat"` has it)')
        check_absent(self._provider, PROTOCOL, asked, NOT_HERE)
        if isinstance(asked.reasoning, int):
            cannot_carry(self._provider, PROTOCOL, "a `reasoning` that is a budget of tokens")

    # -- requests that are sent as they came -----------------------------------------

    def _as_it_came(self, request: ModelRequest) -> dict[str, Any]:
        """Return the client's body, with what was changed here in the place of what came."""
        body, before = body_of(request)
        body["stream"] = True
        write_changes(body, _fields(before), _fields(request))
        if not (_same(request.messages, before.messages) and _same(request.system, before.system)):
            self._write_input(body, request)
        if not _same(request.tools, before.tools):
            offered = {id(raw_of(tool, self.name)): tool for tool in request.tools}
            own = {id(raw_of(tool, self.name)) for tool in before.tools}
            kept = [
                one for one in body.get("tools") or () if id(one) not in own or id(one) in offered
            ]
            made = [_tool(tool) for tool in request.tools if raw_of(tool, self.name) is None]
            body["tools"] = [*kept, *made]
        return merge_options(self._provider, body, request.options, RESERVED)

    def _write_input(self, body: dict[str, Any], request: ModelRequest) -> None:
        forms = _forms(body.get("tools") or ())
        items: list[dict[str, Any]] = []
        told: list[str] = []
        for piece in request.system:
            data = raw_of(piece, self.name)
            if isinstance(data, dict):
                items.append(data)
            else:
                told.append(piece.text)
        for message in request.messages:
            data = raw_of(message, self.name)
            if isinstance(data, str):
                items.append({"type": "message", "role": "user", "content": data})
            elif isinstance(data, dict):
                items.append(data)
            else:
                items.extend(self._items(message, forms))
        body["input"] = _with_results(items)
        if told:
            body["instructions"] = "\n\n".join(told)
        else:
            body.pop("instructions", None)

    # -- messages --------------------------------------------------------------------

    def _items(
        self, message: Message, forms: Mapping[str, CallForm] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield one message as items, in the order of its parts.

        Args:
            message: The message.
            forms: How tools are called that are no functions, by what they are called here.
        """
        role = "assistant" if message.role == "assistant" else "user"
        said: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolUse | ToolResultPart | Opaque):
                if said:
                    yield {"type": "message", "role": role, "content": said}
                    said = []
                if (item := self._item(part, forms or {})) is not None:
                    yield item
            elif block := raw_of(part, self.name) or _block(part, role):
                said.append(block)
        if said:
            yield {"type": "message", "role": role, "content": said}

    def _item(self, part: Part, forms: Mapping[str, CallForm]) -> dict[str, Any] | None:
        if isinstance(data := raw_of(part, self.name), dict):
            return data
        match part:
            case ToolUse():
                free = CallForm("custom_tool_call", part.name) if free_text(part) else None
                form = forms.get(part.name) or free or CallForm("function_call", part.name)
                return form.item(part)
            case ToolResultPart():
                return {
                    "type": "function_call_output",
                    "call_id": safe_id(part.tool_use_id),
                    "output": _output(part),
                }
            case Opaque():
                return dict(part.data) if part.provider == self._provider else None
        return None


@dataclass(frozen=True, slots=True)
class CallForm:
    """How a tool is called that the gateway knows by one name alone.

    Attributes:
        type: The type of its calls.
        name: Its own name; "" for one of the vendor's.
        namespace: The namespace that it stands in.
    """

    type: str
    name: str = ""
    namespace: str = ""

    def item(self, use: ToolUse) -> dict[str, Any]:
        """Return a call as an item."""
        given = use.input
        space = {"namespace": self.namespace} if self.namespace else {}
        if self.type == "function_call" or not isinstance(given, Mapping):
            return {
                "type": "function_call",
                "call_id": safe_id(use.id),
                "name": self.name or use.name,
                **space,
                "arguments": orjson.dumps(sendable_input(given)).decode(),
            }
        made = {"type": self.type, "call_id": use.id}
        if self.type == "custom_tool_call":
            return {**made, "name": self.name, **space, "input": str(given.get("input", ""))}
        own: dict[str, Any] = {
            "local_shell_call": {"id": use.id},
            "tool_search_call": {"execution": "client"},
            # What is pending would have to be acknowledged: it is not the gateway's to do so.
            "computer_call": {"id": f"cu_{safe_id(use.id)}", "pending_safety_checks": []},
        }
        names = [one for one in INPUTS.get(self.type, ("action",)) if one in given]
        told = {name: given[name] for name in names}
        return {**made, **told, **own.get(self.type, {}), "status": "completed"}


def _forms(tools: Iterable[Mapping[str, Any]]) -> Mapping[str, CallForm]:
    """Return how those of a body's tools are called that are no functions of a name alone."""
    forms: dict[str, CallForm] = {}
    for tool in tools:
        kind, name = str(tool.get("type")), str(tool.get("name"))
        if kind == "custom":
            forms[name] = CallForm("custom_tool_call", name)
        elif kind == "namespace":
            for one in tool.get("tools") or ():
                inner = "custom_tool_call" if one.get("type") == "custom" else "function_call"
                own = str(one.get("name"))
                forms[f"{name}__{own}"] = CallForm(inner, own, name)
        elif kind in SCREENS:
            forms[SCREENS[0]] = CallForm("computer_call")
        elif f"{kind}_call" in WRITTEN:
            forms[kind] = CallForm(f"{kind}_call")
    return forms


def _with_results(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return items in which a result has the type that the call before it asks for."""
    calls = {safe_id(item["call_id"]): item for item in items if item.get("type") in WRITTEN}
    made: list[dict[str, Any]] = []
    for item in items:
        is_result = item.get("type") == "function_call_output"
        call = calls.get(safe_id(item["call_id"])) if is_result else None
        if call is None:
            made.append(item)
        elif call["type"] == "computer_call":
            made += _screen_of(call, item)
        else:
            made.append(_result_of(call, item))
    return made


def _screen_of(call: dict[str, Any], item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a result as a screen, which is all that it can be, and what it says behind it."""
    output, shown = item["output"], {"type": "computer_screenshot", "image_url": EMPTY_SCREEN}
    told = _told(output)
    if isinstance(told, dict) and told.get("type") == shown["type"]:
        shown, output = told, ""
    elif isinstance(output, list):
        pictures = [one["image_url"] for one in output if one["type"] == "input_image"]
        shown["image_url"] = next(iter(pictures), EMPTY_SCREEN)
        output = "\n".join(one["text"] for one in output if one["type"] == "input_text")
    yield {"type": "computer_call_output", "call_id": call["call_id"], "output": shown}
    if output:
        text = f"{SCREENS[0]} ({call['call_id']}): {output}"
        said = {"type": "input_text", "text": text}
        yield {"type": "message", "role": "user", "content": [said]}


def _told(output: object) -> Any:
    """Return what the client has sent, which a plugin has changed: it was read as text."""
    try:
        return loads(output) if isinstance(output, str) else output
    except StrictJSONError:
        return None


def _result_of(call: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """Return a result in the form that the type of its call has for it."""
    kind, output = call["type"], item["output"]
    if kind == "custom_tool_call":
        return {**item, "type": f"{kind}_output", "call_id": call["call_id"]}
    made = {"type": RESULTS.get(kind, f"{kind}_output"), "call_id": call["call_id"]}
    told = _told(output)
    if isinstance(told, dict) and told.get("type") == made["type"]:
        return told
    text = output if isinstance(output, str) else orjson.dumps(output).decode()
    match kind:
        case "shell_call":
            ended = {"type": "exit", "exit_code": 1}
            said = [{"stdout": "", "stderr": text, "outcome": ended}]
            return {**made, "output": told if isinstance(told, list) else said}
        case "apply_patch_call":
            return {**made, "status": "failed", "output": text}
        case "tool_search_call":
            return {**made, "execution": "client", "status": "incomplete", "tools": []}
    return {**made, "id": call["call_id"], "output": text}


def _same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _tool(tool: Tool) -> dict[str, Any]:
    if (custom := free_text(tool)) is not None:
        form = custom.get("format")
        if isinstance(form, dict) and isinstance(grammar := form.get("grammar"), dict):
            custom = {**custom, "format": {"type": form.get("type"), **grammar}}
        return {"type": "custom", **custom}
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.schema),
        "strict": False,
    }


def _fields(request: ModelRequest) -> dict[str, Any]:
    """Return what else a request says, by the names of the protocol; None where it does not."""
    asked = request.parameters
    choice: Any = asked.tool_choice
    if choice is not None and choice not in CHOICES:
        kind = "custom" if choice in free_names(request.tools) else "function"
        choice = {"type": kind, "name": choice}
    form: Any = None
    if isinstance(asked.response_format, str):
        form = {"format": {"type": asked.response_format}}
    elif asked.response_format is not None:
        schema = dict(asked.response_format)
        form = {
            "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}
        }
    effort = None if asked.reasoning is None else {"effort": asked.reasoning}
    return {
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": asked.top_p,
        "top_logprobs": asked.top_logprobs,
        "tool_choice": choice,
        "parallel_tool_calls": asked.parallel_tool_calls,
        "text": form,
        "reasoning": effort,
        "service_tier": asked.service_tier,
        "prompt_cache_key": asked.cache_key,
        "user": asked.user,
    }


def _output(part: ToolResultPart) -> str | list[dict[str, Any]]:
    """Return a tool's result; the protocol takes pictures and files in it, and has no failures."""
    content: Content = part.content
    if isinstance(content, str) or not any(isinstance(one, MEDIA) for one in content):
        return f"{FAILED}{part.text}" if part.is_error else part.text
    blocks = [block for one in content if (block := _block(one, "user"))]
    return [{"type": "input_text", "text": FAILED.strip()}, *blocks] if part.is_error else blocks


def _block(part: ContentPart, role: str) -> dict[str, Any] | None:
    """Return a part of a message; what the protocol cannot take becomes a note."""
    part = as_it_is(part)
    if role == "user" and isinstance(part, Image | Document):
        url = f"data:{part.media_type};base64,{part.data}"
        if isinstance(part, Image):
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        return {"type": "input_file", "filename": part.name or "document", "file_data": url}
    if isinstance(part, MEDIA):
        part = left_out(part, "the provider does not take it")
    text = plain_text((part,))
    if not text:
        return None
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


HOLDERS: Mapping[str, str] = {
    "response.created": "response",
    "response.in_progress": "response",
    "response.queued": "response",
    "response.output_item.added": "item",
    "response.output_item.done": "item",
    "response.content_part.done": "part",
    "response.reasoning_summary_part.done": "part",
    **dict.fromkeys(DELTAS, "delta"),
}
"""The field of an event that holds what it tells, where events are passed on."""

RUN_BY_CLIENTS = (
    *("function_call", "custom_tool_call", "local_shell_call", "shell_call"),
    *("apply_patch_call", "computer_call", "tool_search_call"),
)
"""The types of calls that a client runs, if they do not say that they are the provider's."""

WRITTEN = frozenset(RUN_BY_CLIENTS) - {"function_call"}
"""Those that are written anew, with their results, where somebody has changed something."""

SCREENS = ("computer", "computer_use_preview")
"""The types of the tool that looks at a screen; its calls have the name of the first."""

EMPTY_SCREEN = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABAAQAAAACCEkxzAAAAEklEQVR42mP4DwUMo4xRB"
    "ukMAOPT/hAC2mzjAAAAAElFTkSuQmCC"
)
"""A white picture of 64 by 64 points: what a screen shows that nobody has looked at."""

RESULTS = {"tool_search_call": "tool_search_output"}
"""The types of results that do not follow from those of their calls."""

PIECES_OF_CALLS = tuple(f"response.{kind}" for kind in RUN_BY_CLIENTS if kind != "tool_search_call")
"""How the events begin that hold pieces of such calls."""

INPUTS: Mapping[str, Sequence[str]] = {
    "tool_search_call": ("arguments",),
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions", "pending_safety_checks"),
}
"""The fields of a call that say what is to be done; ``action`` of all others. One of several may
stand for others, so all of those are read that are there."""

NAMED = ("function_call", "custom_tool_call")
"""The types of calls that name their tool; all others are of the vendor's own."""

ITEM, COMMANDS = "response.output_item", "response.shell_call_command"
"""How the events begin that hold whole items, and pieces of a shell's commands."""

OWN_NAMES = {"computer_call": "computer"}
"""What the tool of a call is named that has no name, where that is not in its type."""

SAID_AGAIN = ("text", "refusal")
"""The fields in which events repeat, whole, what has come in pieces."""


class ResponsesReader(Reader):
    """Reads one streamed answer of the Responses API.

    Args:
        provider: The provider's name.
        complain: Takes what is wrong with the usage.
        as_it_came: Whether events carry what they came as. Of what they say twice, the second time
            is empty: whoever has changed the first would not know of it.

    Attributes:
        done: Whether the event that ends an answer has come.
        template: Knows no shape: each event of the protocol has a number of its own.
        frames: Nor is there one of events that are passed on.
    """

    def __init__(
        self, provider: str, complain: Callable[[str], None], *, as_it_came: bool = False
    ) -> None:
        super().__init__(
            provider, complain, TextTemplate(TEXT), StreamedUsage(openai_responses, "output_tokens")
        )
        self._raw = as_it_came
        self._called = self._refused = False
        self._told: set[str] = set()
        self._length = 0
        """Characters of the messages that are over."""
        self._open: dict[object, list[dict[str, Any]]] = {}
        """The events of calls that are not whole yet, by their place in the output."""

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what one event says."""
        if data == DONE:
            return ()  # Of a server that speaks Chat as well; the answer's own end counts.
        event = parse(self._provider, data)
        kind = event.get("type")
        if kind == "error" or (kind is None and event.get("error") is not None):
            self._fail(event.get("error") or event)
        if not isinstance(kind, str):
            return ()
        self._check(kind, event)
        if kind in ENDS:
            return self._end(object_of(self._provider, event, "response"), event)
        if kind == "response.failed":
            self._fail(object_of(self._provider, event, "response").get("error"))
        if kind in DELTAS:
            return self._delta(event, DELTAS[kind])
        if kind == "response.output_item.done":
            return self._item(object_of(self._provider, event, "item"), event)
        if not self._raw:
            # The beginnings of items, fragments of what comes whole, and types that are newer.
            return ()
        if kind == "response.output_item.added" and self._by_client(event.get("item")):
            self._open[event.get("output_index")] = [event]
            return ()
        if (pieces := self._open.get(event.get("output_index"))) is not None:
            pieces.append(event)
            return ()
        if kind.startswith(PIECES_OF_CALLS):
            return ()  # Of no call that is open: nobody would judge it.
        return (self._frame(event),)

    def whole(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what an answer in one piece says: its items are ended at once."""
        answer = parse(self._provider, data)
        if answer.get("error") is not None:
            self._fail(answer["error"])
        output = answer.get("output")
        if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
            malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
        self._raw = False
        said = [event for item in output for event in self._item(item, {})]
        return [*said, *self._end(answer, {})]

    def end(self) -> Sequence[ModelEvent]:
        """Refuse an end of the connection before the answer's own.

        Raises:
            ProviderError: Always: whether the answer is whole stands in its last event alone.
        """
        self._cut()

    # -- pieces ----------------------------------------------------------------------

    def _check(self, kind: str, event: dict[str, Any]) -> None:
        """Refuse an event that whoever passes it on could not read.

        Raises:
            ProviderError: A field of it is something else, or is not there; ``malformed``.
        """
        for name, form in FORMS.items():
            if (found := event.get(name)) is not None and not isinstance(found, form):
                told = f"a {type(found).__name__} under {name!r} of {kind!r}"
                malformed(self._provider, f"{told} in the place of a {form.__name__}")
        needed = HOLDERS.get(kind) if self._raw else None
        if needed is not None and event.get(needed) is None:
            malformed(self._provider, f"{kind!r} without its {needed!r}")

    def _came(self, made: Piece, *events: dict[str, Any]) -> Piece:
        """Return `made` with the events that it came in, where somebody wants to know."""
        if not self._raw:
            return made
        one = isinstance(made, TextDelta | ReasoningDelta)
        return came_as(made, Raw(wire=ResponsesWire.name, data=events[0] if one else list(events)))

    def _frame(self, event: dict[str, Any]) -> Frame:
        return Frame(Raw(wire=ResponsesWire.name, data=_said_once(event)))

    def _delta(self, event: dict[str, Any], said: str) -> Sequence[ModelEvent]:
        text = text_of(self._provider, event, "delta")
        self._refused |= said == "refusal"
        self._told.add(text_of(self._provider, event, "item_id"))
        if not text:
            return (self._frame(event),) if self._raw else ()
        made = ReasoningDelta(text) if said == "reasoning" else TextDelta(text)
        return (self._came(made, event),)

    def _by_client(self, item: object) -> bool:
        if not isinstance(item, dict) or item.get("type") not in RUN_BY_CLIENTS:
            return False
        # Of all others clients do not read where they are run: they run them.
        return item["type"] != "tool_search_call" or item.get("execution") in (None, "client")

    def _item(self, item: dict[str, Any], event: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return what an item says that is whole, as far as its deltas have not said it."""
        if self._by_client(item):
            return (self._call(item, event),)
        if item.get("type") == "message":
            told = text_of(self._provider, item, "id") in self._told
            said = () if told else self._texts(item, event)
            return (*said, self._frame(event)) if self._raw else (*said, *self._notes(item))
        # Reasoning, and the calls of tools that run at the provider.
        made = OpaqueDelta(Opaque(provider=self._provider, data=item), brought(item))
        known = text_of(self._provider, item, "id") in self._told
        return (
            *(() if known else self._thoughts(item, event)),
            self._came(made, _said_once(event)),
        )

    def _thoughts(self, item: dict[str, Any], event: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return the summary of thoughts of which no deltas have come."""
        summary = item.get("summary")
        said: list[ModelEvent] = []
        for place, one in enumerate(summary if isinstance(summary, list) else ()):
            if isinstance(one, dict) and (text := text_of(self._provider, one, "text")):
                at = {"item_id": item.get("id"), "output_index": event.get("output_index")}
                delta = {"type": "response.reasoning_summary_text.delta", **at}
                delta |= {"summary_index": place, "delta": text}
                said.append(self._came(ReasoningDelta(text), delta))
        return said

    def _texts(self, item: dict[str, Any], event: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return the text of a message of which no deltas have come."""
        content = item.get("content")
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            malformed(self._provider, "a message without a list of its parts")
        said: list[ModelEvent] = []
        for place, one in enumerate(content):
            refused = one.get("type") == "refusal"
            self._refused |= refused
            text = text_of(self._provider, one, "refusal" if refused else "text")
            if text:
                name = "refusal" if refused else "output_text"
                at = {"item_id": item.get("id"), "output_index": event.get("output_index")}
                delta = {"type": f"response.{name}.delta", **at, "content_index": place}
                said.append(self._came(TextDelta(text), {**delta, "delta": text}))
        return said

    def _notes(self, item: dict[str, Any]) -> Iterator[Citation]:
        """Yield what the parts of a message rest on; each counts in its own text."""
        content = item.get("content")
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, dict):
                continue
            notes, text = part.get("annotations"), part.get("text", part.get("refusal"))
            for note in notes if isinstance(notes, list) else ():
                if (found := cited(note, self._length)) is not None:
                    yield found
            self._length += len(text) if isinstance(text, str) else 0

    # -- calls -----------------------------------------------------------------------

    def _call(self, item: dict[str, Any], event: dict[str, Any]) -> ToolUseEvent:
        kind = item["type"]
        given: Mapping[str, Any] | str
        if kind in NAMED:
            name = text_of(self._provider, item, "name")
            if not name:
                malformed(self._provider, "a tool call without a name")
            space = text_of(self._provider, item, "namespace")
            name = f"{space}__{name}" if space else name
            given = {"input": text_of(self._provider, item, "input")}
            if kind == "function_call":
                given = arguments_of(text_of(self._provider, item, "arguments"))
        else:
            name = OWN_NAMES.get(kind, kind.removesuffix("_call"))
            names = INPUTS.get(kind, ("action",))
            given = {one: item[one] for one in names if item.get(one)}
        self._called = True
        call_id = text_of(self._provider, item, "call_id") or text_of(self._provider, item, "id")
        made = ToolUseEvent(id=call_id or new_id("call"), name=name, input=given)
        pieces = [*self._open.pop(event.get("output_index"), ()), event]
        if kind in NAMED:
            return self._came(made, *pieces) if _agree(pieces, item) else made
        if not _agree_on_own(pieces, item):
            # Its end holds all of it: what came before says nothing else that clients need.
            begun = {**item, "status": "in_progress"}
            pieces = [{**event, "type": "response.output_item.added", "item": begun}, event]
        return self._came(made, *pieces)

    # -- the end ---------------------------------------------------------------------

    def _end(self, response: dict[str, Any], event: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return the usage and the stop of an answer that has ended."""
        if response.get("status") == "failed":
            self._fail(response.get("error"))
        self.done = True
        found = response.get("usage")
        if found is not None:
            self._take(found)
            if self.usage.missing:
                self._complain(self.usage.missing)
        usage = self.usage.news(done=True)
        stop: StopReason = "refusal" if self._refused else "end"
        if response.get("status") == "incomplete":
            details = object_of(self._provider, response, "incomplete_details")
            stop = CUT.get(text_of(self._provider, details, "reason"), "other")
        elif self._called:
            stop = "tool_use"
        last = self._came(StopEvent(stop), {**event, "response": {**response, "output": []}})
        return (last,) if usage is None else (UsageEvent(usage), last)

    def _fail(self, error: Any) -> None:
        """Raise what an error in the stream says."""
        details = error if isinstance(error, dict) else {"message": str(error)}
        code, message = details.get("code"), details.get("message")
        names = " ".join(
            word for key in ("type", "code") if isinstance(word := details.get(key), str)
        )
        names = names.removeprefix("error ").strip().lower()
        message = message if isinstance(message, str) else ""
        raise ProviderError(
            kind_of_overflow(kind_of_names(names, code), f"{names} {message}"),
            f"{self._provider} reported {names[:80] or 'an error'} in its stream: {message}",
            provider=self._provider,
        )


def _said_once(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without the text that it repeats of others."""
    made = _emptied(event) if str(event.get("type")).endswith((".done", ".added")) else event
    if isinstance(answer := made.get("response"), dict) and answer.get("output"):
        # What stands in it already is said by nothing else, so nobody has looked at it.
        made = {**made, "response": {**answer, "output": []}}
    for name in ("part", "item"):
        if isinstance(part := made.get(name), dict):
            made = {**made, name: _emptied(part)}
    return made


def _emptied(holder: dict[str, Any]) -> dict[str, Any]:
    made = {**holder}
    for name in SAID_AGAIN:
        if isinstance(made.get(name), str):
            made[name] = ""
    if made.get("logprobs"):
        made["logprobs"] = []
    for name in ("content", "summary"):
        if isinstance(parts := made.get(name), list):
            made[name] = [_emptied(one) if isinstance(one, dict) else one for one in parts]
    return made


def _begins(begun: object, whole: object) -> bool:
    """Whether a call, or a value in it, says nothing that it does not say at its end."""
    if begun in (None, "", [], {}):
        return True
    if isinstance(begun, dict) and isinstance(whole, dict):
        names = begun.keys() - {"status"}
        return all(_begins(begun[name], whole.get(name)) for name in names)
    return begun == whole


def _agree_on_own(pieces: Sequence[dict[str, Any]], item: dict[str, Any]) -> bool:
    """Whether the pieces of a call of the vendor's own say what its end says.

    A shell's commands come in pieces as well; of all others there are none.
    """
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    told = dict(enumerate(commands)) if isinstance(commands, list) else {}
    came: dict[int, str] = {}
    for piece in pieces:
        base, _, what = piece["type"].rpartition(".")
        if base == ITEM and _begins(piece.get("item"), item):
            continue
        at, text = piece.get("command_index"), piece.get("delta" if what == "delta" else "command")
        if base != COMMANDS or type(at) is not int or not isinstance(text, str):
            return False
        if what != "done":
            came[at] = came.get(at, "") + text
        elif came.setdefault(at, text) != text:
            return False
    return all(told.get(at) == text for at, text in came.items())


def _agree(pieces: Sequence[dict[str, Any]], item: dict[str, Any]) -> bool:
    """Whether the pieces of a call say what its end says, which is what will be judged."""
    field = "arguments" if item["type"] == "function_call" else "input"
    whole, written = item.get(field), []
    for piece in pieces[:-1]:
        if piece["type"] == "response.output_item.added":
            begun = piece["item"]
            same = ("type", "call_id", "name", "namespace", "id")
            if any(begun.get(key) != item.get(key) for key in same):
                return False
            written.append(begun.get(field) or "")
        elif piece["type"].endswith(".delta"):
            written.append(piece.get("delta"))
        elif piece.get(field) != whole:
            return False
    if not all(isinstance(one, str) for one in written):
        return False
    return len(pieces) > 1 and "".join(written) == whole
