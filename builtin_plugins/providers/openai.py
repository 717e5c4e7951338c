"""OpenAI's Chat Completions: requests in its shape, and its stream read.

The shapes are those of https://platform.openai.com/docs/api-reference/chat, as far as the
servers that speak the protocol (Ollama, vLLM, llama.cpp, LiteLLM) share them, and the
fields in which some of these send reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import orjson

from hookgate import (
    AS_CONFIGURED,
    Audio,
    ContentPart,
    Document,
    Image,
    Message,
    ModelEvent,
    ModelParameters,
    ModelRequest,
    Opaque,
    ProviderError,
    ReasoningDelta,
    StopEvent,
    StopReason,
    Text,
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
from hookgate.builtin_plugins.providers.wire.protocol import (
    Reader,
    arguments_of,
    as_it_is,
    body_of,
    cannot_carry,
    carried,
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
    turns_taken,
    write_changes,
)
from hookgate.builtin_plugins.providers.wire.template import TextTemplate
from hookgate.kit.tokens.bounds import picture_size, picture_tokens, tiles
from hookgate.kit.usage import StreamedUsage, openai_chat
from hookgate.wire import MEDIA, WirePart, left_out

RESERVED = frozenset(
    (
        "model",
        "messages",
        "tools",
        "functions",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "n",
    )
)

STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "end",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}

MATCHED = ("stop_reason", "matched_stop")
"""Where servers say which text has ended an answer: vLLM and SGLang. OpenAI does not say it."""

DONE = b"[DONE]"
FAILED = "Error: "
"""What stands before a failed tool's result: the protocol has no field for it."""

SHOWN = "What came with the result of the tool call"
"""What stands before pictures and the like of a result, in the message behind it."""
COSTLY, MOST_TILES = "4o-mini", 8
"""The model whose pictures take 2,833 tokens and 5,667 for each tile, and most tiles of one."""
AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
"""The formats of sound that the protocol has names for."""

TEXT = re.compile(rb'"content": ?"')
"""Where the text of a delta begins."""

LimitField = Literal["max_tokens", "max_completion_tokens"]


PROTOCOL = "Chat Completions"

RESPONSES = "openai-responses"
"""The wire of OpenAI's other protocol, whose tools in free text are the same, written flat."""
FREE = ("custom", "custom_tool_call")
"""The types of tools that are called in free text, and of such calls."""

FIELDS = {
    "top_p": "top_p",
    "seed": "seed",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "logprobs": "logprobs",
    "top_logprobs": "top_logprobs",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
    "cache_key": "prompt_cache_key",
    "user": "user",
    "answers": "n",
}
"""Parameters of a request by name, and the fields that they are sent in as they are."""


class OpenAIWire:
    """The Chat Completions API of one provider.

    Args:
        provider: The provider's name.
        base_url: Where it is; ``/chat/completions`` is added.
        key: The API key, if there is one.
        limit_field: The name of the output limit. OpenAI's newer models refuse
            ``max_tokens``; many other servers know only that.
    """

    name = "openai-chat"
    passed = frozenset(("openai-beta",))
    count_url = ""
    kept_url = ""

    def __init__(
        self,
        provider: str,
        base_url: str,
        key: str | None,
        limit_field: LimitField = "max_completion_tokens",
    ) -> None:
        self._provider = provider
        self._limit_field = limit_field
        base = base_url.rstrip("/")
        self.url, self.models_url = f"{base}/chat/completions", f"{base}/models"
        self.embeddings_url = f"{base}/embeddings"
        self.headers: Mapping[str, str] = {"authorization": f"Bearer {key}"} if key else {}

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the shape of Chat Completions.

        Raises:
            ProviderError: It has what the protocol has not; the text names it.
        """
        if request.raw is not None and passes(request, self.name):
            return self._as_it_came(request)
        system = "\n\n".join(piece.text for piece in request.system if piece.text.strip())
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        conversation: Iterable[Message] = request.messages
        free = free_names(request.tools) if request.raw is not None else ()
        if request.raw is not None:
            conversation = carried(self._provider, request, PROTOCOL)
        for message in turns_taken(paired(conversation)):
            if message.plain and message.role == "user":
                messages.append({"role": "user", "content": message.text})
            elif message.plain and message.role == "assistant":
                if text := message.text:
                    messages.append({"role": "assistant", "content": text})
            else:
                messages.extend(_messages(message, free=free))
        body: dict[str, Any] = {
            "model": request.model.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            self._limit_field: request.max_output_tokens,
        }
        if request.tools:
            body["tools"] = _tools(request.tools, free)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.stop:
            body["stop"] = list(request.stop)
        if request.parameters is not AS_CONFIGURED:
            self._check_parameters(request.parameters)
            body |= _fields(request.parameters, free)
        return merge_options(self._provider, body, request.options, RESERVED)

    def _as_it_came(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body as the client has sent it, but for what has changed since."""
        body, came = body_of(request)
        if (body.get("n") or 1) != answers_of(came):
            why = "`n`, several answers to one request that was read as one for a single answer"
            cannot_carry(self._provider, "Chat Completions through a gateway", why)
        if request.messages is not came.messages or request.system is not came.system:
            body["messages"] = self._messages_as_they_came(request)
        if request.tools is not came.tools:
            free = free_names(request.tools)
            body["tools"] = [
                raw_of(tool, self.name) or _tools((tool,), free)[0] for tool in request.tools
            ]
        limits = ("max_tokens", "max_completion_tokens")
        limit = next((name for name in limits if name in body), self._limit_field)
        before, after = (
            {
                # Of each answer here, of all of them there.
                limit: max(item.max_output_tokens // answers_of(item), 1),
                "temperature": item.temperature,
                "stop": list(item.stop) or None,
                **_fields(item.parameters, free_names(item.tools)),
            }
            for item in (came, request)
        )
        write_changes(body, before, after)
        options = body.get("stream_options")
        options = options if isinstance(options, dict) else {}
        body |= {"stream": True, "stream_options": {**options, "include_usage": True}}
        return merge_options(self._provider, body, request.options, RESERVED)

    def _messages_as_they_came(self, request: ModelRequest) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = [
            raw_of(piece, self.name) or {"role": "system", "content": piece.text}
            for piece in request.system
        ]
        for message in request.messages:
            came = raw_of(message, self.name)
            free = free_names(request.tools)
            messages.extend([came] if came else _messages(message, str, self.name, free))
        return messages

    def _check_parameters(self, parameters: ModelParameters) -> None:
        if parameters.top_k is not None:
            cannot_carry(self._provider, PROTOCOL, "`top_k`")
        if isinstance(parameters.reasoning, int):
            cannot_carry(self._provider, PROTOCOL, "a `reasoning` that is a budget of tokens")

    def picture(self, image: Image, model: str) -> int:
        """Return the most tokens of a picture; one model is billed far more than all others."""
        most = picture_tokens(image)
        if COSTLY not in model:
            return most
        size = picture_size(image)
        return max(most, 2833 + 5667 * (tiles(*size) if size else MOST_TILES))

    def reader(self, complain: Callable[[str], None]) -> Reader:
        """Return a reader for one answer."""
        return OpenAIReader(self._provider, complain)


def _tools(tools: Iterable[Tool], free: Collection[str]) -> list[dict[str, Any]]:
    """Return tools in the protocol's shape; those named in `free` are called in free text."""
    return [
        {"type": "custom", "custom": free_text(tool)}
        if tool.name in free
        else {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
            },
        }
        for tool in tools
    ]


def free_text(part: WirePart) -> Mapping[str, Any] | None:
    """Return what Chat says of a tool that is called in free text, or of such a call."""
    data = part.raw.data if part.raw is not None else None
    if not isinstance(data, dict) or data.get("type") not in FREE:
        return None
    if raw_of(part, RESPONSES) is None:
        custom = data.get("custom")
        return custom if isinstance(custom, dict) else None
    told = {name: data[name] for name in ("name", "description", "input") if name in data}
    form = data.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        grammar = {name: value for name, value in form.items() if name != "type"}
        form = {"type": "grammar", "grammar": grammar}
    return told if form is None else {**told, "format": form}


def free_names(tools: Iterable[Tool]) -> frozenset[str]:
    """Return the names of those tools that are called in free text."""
    return frozenset(tool.name for tool in tools if free_text(tool) is not None)


def answers_of(request: ModelRequest) -> int:
    """Return how many answers a request is to get."""
    return request.parameters.answers or 1


def _fields(parameters: ModelParameters, free: Collection[str] = ()) -> dict[str, Any]:
    """Return those fields of the protocol that `parameters` ask for.

    Args:
        parameters: What is asked for.
        free: The names of the tools that are called in free text.
    """
    asked = {field: getattr(parameters, name) for name, field in FIELDS.items()}
    fields = {field: value for field, value in asked.items() if value is not None}
    choice, form = parameters.tool_choice, parameters.response_format
    if choice is not None:
        kind = "custom" if choice in free else "function"
        named = {"type": kind, kind: {"name": choice}}
        fields["tool_choice"] = choice if choice in ("auto", "none", "required") else named
    if isinstance(form, str):
        fields["response_format"] = {"type": form}
    elif form is not None:
        schema = {"name": "answer", "schema": dict(form), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    if isinstance(parameters.reasoning, str):
        fields["reasoning_effort"] = parameters.reasoning
    return fields


def _messages(
    message: Message,
    write_id: Callable[[str], str] = safe_id,
    wire: str = "",
    free: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return one message in the protocol's shape; each tool result is one of its own.

    Args:
        message: The message.
        write_id: Returns the id of a call as it is sent.
        wire: The wire whose parts are sent as they came; "" for none.
        free: The names of the tools that are called in free text.
    """
    if message.role == "tool":
        parts = message.tool_results
        media = [part for part in parts if not isinstance(part.content, str)]
        shown = [item for part in media for item in _shown(part, write_id)]
        results = [_result(part, write_id, wire) for part in parts]
        return [*results, {"role": "user", "content": shown}] if shown else results
    if message.role == "assistant":
        answer: dict[str, Any] = {"role": "assistant", "content": message.text or None}
        if wire and any(raw_of(part, wire) for part in message.parts if isinstance(part, Text)):
            texts = [part for part in message.parts if isinstance(part, Text)]
            answer["content"] = [raw_of(part, wire) or _part(part) for part in texts]
        if uses := message.tool_uses:
            answer["tool_calls"] = [
                (raw_of(use, wire) if wire else None) or _use(use, write_id, free) for use in uses
            ]
        elif not message.text:
            return []  # Nothing of it is this protocol's.
        return [answer]
    came = [raw_of(part, wire) for part in message.parts] if wire else []
    if not any(came) and all(isinstance(part, Text) for part in message.parts):
        return [{"role": "user", "content": message.text}]
    # Calls and results do not stand in a user's message.
    content = [
        (raw_of(part, wire) if wire else None) or _part(part)
        for part in message.parts
        if not isinstance(part, ToolUse | ToolResultPart | Opaque) and part != Text("")
    ]
    return [{"role": "user", "content": content}]


def _use(use: ToolUse, write_id: Callable[[str], str], free: Collection[str]) -> dict[str, Any]:
    is_free = use.name in free or (use.raw is not None and free_text(use) is not None)
    if is_free and isinstance(use.input, Mapping):
        custom = {"name": use.name, "input": str(use.input.get("input", ""))}
        return {"id": write_id(use.id), "type": "custom", "custom": custom}
    arguments = orjson.dumps(sendable_input(use.input)).decode()
    function = {"name": use.name, "arguments": arguments}
    return {"id": write_id(use.id), "type": "function", "function": function}


def _part(part: ContentPart) -> dict[str, Any]:
    """Return a part of a user's message; what the protocol cannot take becomes a note."""
    part = as_it_is(part)
    match part:
        case Image():
            url = f"data:{part.media_type};base64,{part.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        case Audio() if part.media_type in AUDIO_FORMATS:
            audio = {"data": part.data, "format": AUDIO_FORMATS[part.media_type]}
            return {"type": "input_audio", "input_audio": audio}
        case Audio():
            part = left_out(part, "the provider does not take it")
        case Document():
            url = f"data:{part.media_type};base64,{part.data}"
            name = part.name or "document"
            return {"type": "file", "file": {"filename": name, "file_data": url}}
    return {"type": "text", "text": plain_text((part,))}


def _shown(part: ToolResultPart, write_id: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the pictures and the like of a result, for the message behind the results.

    The protocol takes nothing but text in a tool's result.
    """
    if isinstance(part.content, str):
        return []
    media = [item for item in part.content if isinstance(item, MEDIA)]
    if not media:
        return []
    head = Text(f"{SHOWN} {write_id(part.tool_use_id)}:")
    return [_part(head), *map(_part, media)]


def _result(part: ToolResultPart, write_id: Callable[[str], str], wire: str) -> dict[str, Any]:
    content = f"{FAILED}{part.text}" if part.is_error else part.text
    made = {"role": "tool", "tool_call_id": write_id(part.tool_use_id), "content": content}
    return (raw_of(part, wire) if wire else None) or made


@dataclass(slots=True)
class _Call:
    """A tool call while it comes; `free` where it is one in free text."""

    id: str = ""
    name: str = ""
    free: bool = False
    pieces: list[str] = field(default_factory=list)
    frames: list[Any] = field(default_factory=list)


class OpenAIReader(Reader):
    """Reads one streamed answer of Chat Completions.

    Attributes:
        done: Whether ``[DONE]`` has come.
    """

    def __init__(self, provider: str, complain: Callable[[str], None]) -> None:
        super().__init__(
            provider, complain, TextTemplate(TEXT), StreamedUsage(openai_chat, "completion_tokens")
        )
        self._calls: dict[object, _Call] = {}
        self._all_calls: list[_Call] = []
        self._last_call: object = None
        self._reports = False
        self._final = False
        self._stop: StopReason | None = None
        self._refused = False
        self._matched = ""

    def read(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what one event says."""
        known = self.template.text_of_event(data)
        if known is not None:
            return (TextDelta(known),) if known else ()
        if data == DONE:
            self.done = self._final = True
            return self._finish()
        chunk = parse(self._provider, data)
        if chunk.get("error") is not None:
            self._fail(chunk["error"])
        usage = chunk.get("usage")
        if usage is None:
            return self._choice(chunk, data)
        self._count(usage)
        said = self._choice(chunk, None)
        self._final = self._stop is not None
        # Told at once: a stream that is cut has no end at which it could be told.
        return (*said, *self._counted(done=self._final))

    def _choice(self, chunk: dict[str, Any], data: bytes | None) -> Sequence[ModelEvent]:
        """Return what the answer in a chunk says; its shape is learnt from `data`."""
        choices = chunk.get("choices")
        if not choices:
            return ()
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            malformed(self._provider, "`choices` that are no list of objects")
        choice = choices[0]
        if choice.get("index", 0) != 0:
            return ()  # Another answer to the same question; one was asked for.
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._over(reason, choice)
        delta = choice.get("delta")
        if not delta:
            return ()
        if not isinstance(delta, dict):
            malformed(self._provider, "a `delta` that is no object")
        content = delta.get("content")
        if type(content) is str and len(delta) == 1:
            if reason is None and data is not None:
                self.template.learn(data)
            return (TextDelta(content),) if content else ()
        return self._delta(delta)

    def _over(self, reason: str, choice: dict[str, Any]) -> None:
        """Note why an answer is over."""
        self._stop = STOP_REASONS.get(reason, "other")
        for name in MATCHED:
            if isinstance(matched := choice.get(name), str):
                self._matched = matched

    def whole(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what an answer in one piece says: its message is a delta with all in it."""
        answer = parse(self._provider, data)
        if answer.get("error") is not None:
            self._fail(answer["error"])
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            # Each of them is whole, whatever they say of their places.
            calls = [
                {**call, "index": place} if isinstance(call, dict) else call
                for place, call in enumerate(calls)
            ]
        reason = choice.get("finish_reason")
        self._over(reason if isinstance(reason, str) else "", choice)
        if answer.get("usage") is not None:
            self._count(answer["usage"])
        self.done = self._final = True
        return chain(self._delta({**message, "tool_calls": calls}), self._finish())

    def end(self) -> Iterable[ModelEvent]:
        """Accept an end behind a finish reason; some servers send no ``[DONE]``.

        Figures from before the finish reason are not the last ones then: those were cut off, and
        with neither they say nothing of the whole answer.
        """
        if self._stop is None:
            self._cut()
        self.done = True
        return self._finish()

    def _delta(self, delta: dict[str, Any]) -> Sequence[ModelEvent]:
        events: list[ModelEvent] = []
        for key in ("reasoning_content", "reasoning"):
            reasoning = delta.get(key)
            if isinstance(reasoning, str) and reasoning:
                events.append(ReasoningDelta(reasoning))
                break
        content = delta.get("content")
        if isinstance(content, list):
            events.extend(self._parts(content))
        elif text := text_of(self._provider, delta, "content"):
            events.append(TextDelta(text))
        if refusal := text_of(self._provider, delta, "refusal"):
            self._refused = True
            events.append(TextDelta(refusal))
        calls = delta.get("tool_calls")
        if calls:
            if not isinstance(calls, list):
                malformed(self._provider, "`tool_calls` that are no list")
            for number, fragment in enumerate(calls):
                self._call(number, fragment)
        notes = delta.get("annotations")
        if isinstance(notes, list):
            events += [found for note in notes if (found := cited(note)) is not None]
        return events

    def _parts(self, parts: list[Any]) -> list[ModelEvent]:
        """Read content that comes as a list of typed parts."""
        events: list[ModelEvent] = []
        for part in parts:
            if not isinstance(part, dict):
                malformed(self._provider, "a content part that is no object")
            if part.get("type") == "text" and (text := text_of(self._provider, part, "text")):
                events.append(TextDelta(text))
            elif part.get("type") == "thinking" and isinstance(part.get("thinking"), list):
                events.extend(
                    ReasoningDelta(piece["text"])
                    for piece in part["thinking"]
                    if isinstance(piece, dict) and isinstance(piece.get("text"), str)
                )
        return events

    def _call(self, number: int, fragment: Any) -> None:
        """Take a fragment of a tool call in.

        Fragments name their call by `index`. Servers that leave it out send a call's id
        with its first fragment, and the fragments of one call behind each other.
        """
        if not isinstance(fragment, dict):
            malformed(self._provider, "a tool call that is no object")
        call_id = text_of(self._provider, fragment, "id")
        key: object = fragment.get("index")
        if not isinstance(key, int):
            key = ("id", call_id) if call_id else self._last_call
            if key is None:
                key = ("at", number)
        self._last_call = key
        free = fragment.get("type") == "custom" or fragment.get("custom") is not None
        function = object_of(self._provider, fragment, "custom" if free else "function")
        name = text_of(self._provider, function, "name")
        call = self._calls.get(key)
        if call is None or (name and call_id and call.id and call_id != call.id):
            # Some servers give each call the index 0; a name and another id begin a new one.
            call = self._calls[key] = _Call()
            self._all_calls.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        call.free = call.free or free
        arguments = function.get("arguments")
        if free:
            call.pieces.append(text_of(self._provider, function, "input"))
        elif isinstance(arguments, dict):
            call.pieces.append(orjson.dumps(arguments).decode())
        else:
            call.pieces.append(text_of(self._provider, function, "arguments"))

    def _finish(self) -> Iterator[ModelEvent]:
        """Yield the calls, whole now, what is not told yet of the usage, and the stop.

        One by one: whoever reads many calls can let others have the event loop in between.
        """
        for call in self._all_calls:
            if not call.name:
                malformed(self._provider, "a tool call without a name")
            written = "".join(call.pieces)
            yield ToolUseEvent(
                id=call.id or new_id("call"),
                name=call.name,
                input={"input": written} if call.free else arguments_of(written),
            )
        if self._reports and self.usage.missing:
            self._complain(self.usage.missing)
        yield from self._counted(done=self._final)
        stop = self._stop or "other"
        if self._calls and stop in ("end", "other"):
            stop = "tool_use"  # Some servers call it a plain stop.
        elif self._refused and stop == "end":
            stop = "refusal"
        yield StopEvent(stop, marked=self._final, matched=self._matched)

    def _count(self, found: object) -> None:
        self._reports = True
        self._take(found)

    def _counted(self, *, done: bool) -> Sequence[ModelEvent]:
        """Return the usage so far, () where it has been told."""
        usage = self.usage.news(done=done)
        return () if usage is None else (UsageEvent(usage),)

    def _fail(self, error: Any) -> None:
        """Raise what an error in the stream says."""
        details = error if isinstance(error, dict) else {"message": str(error)}
        names = " ".join(str(details.get(key) or "") for key in ("type", "code")).strip().lower()
        message = details.get("message")
        message = message if isinstance(message, str) else ""
        kind = kind_of_names(names, details.get("code"))
        raise ProviderError(
            kind_of_overflow(kind, f"{names} {message}"),
            f"{self._provider} reported {names[:80] or 'an error'} in its stream: {message}",
            provider=self._provider,
        )
