"""OpenAI's Responses: requests in its shape, and its stream read.

The shapes are those of https://platform.openai.com/docs/api-reference/responses, as far as the
servers that speak the protocol (vLLM, LM Studio, Ollama, llama.cpp) share them. Nothing is kept at
the provider: the conversation is sent whole each time, and reasoning comes and goes back encrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from hookgate import (
    AS_CONFIGURED,
    Content,
    ContentPart,
    Document,
    Image,
    Message,
    ModelEvent,
    ModelParameters,
    ModelRequest,
    Opaque,
    OpaqueDelta,
    Part,
    ProviderError,
    ReasoningDelta,
    StopEvent,
    StopReason,
    TextDelta,
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
from hookgate.builtin_plugins.providers.openai import DONE, FAILED, TEXT, OpenAIWire
from hookgate.builtin_plugins.providers.wire.protocol import (
    Reader,
    arguments_of,
    cannot_carry,
    carried,
    malformed,
    merge_options,
    object_of,
    paired,
    parse,
    safe_id,
    sendable_input,
    text_of,
)
from hookgate.builtin_plugins.providers.wire.template import TextTemplate
from hookgate.kit.usage import StreamedUsage, UsageError, openai_responses
from hookgate.wire import MEDIA, left_out

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

CUT: Mapping[str, StopReason] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
"""Why an answer is incomplete, and what that is called here."""

ENDS = ("response.completed", "response.incomplete", "response.done")
"""The events that end an answer; the last is of servers that follow the realtime protocol."""

REASONING = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
"""The events of thoughts that are shown: OpenAI's summaries, and what open models think."""


PROTOCOL = "the Responses API"

FIELDS = {
    "top_p": "top_p",
    "top_logprobs": "top_logprobs",
    "parallel_tool_calls": "parallel_tool_calls",
    "service_tier": "service_tier",
    "cache_key": "prompt_cache_key",
    "user": "user",
}
"""Parameters of a request by name, and the fields that they are sent in as they are."""

NO_FIELD = ("top_k", "seed", "frequency_penalty", "presence_penalty", "logprobs")
"""Parameters that the protocol has no field for."""


class ResponsesWire(OpenAIWire):
    """The Responses API of one provider; its address, key and pictures are those of Chat.

    Args:
        provider: The provider's name; its encrypted reasoning carries it.
        base_url: Where it is; ``/responses`` is added.
        key: The API key, if there is one.
    """

    name = "openai-responses"
    passed = frozenset[str]()

    def __init__(self, provider: str, base_url: str, key: str | None) -> None:
        super().__init__(provider, base_url, key)
        self.url = f"{base_url.rstrip('/')}/responses"

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the shape of the Responses API.

        Raises:
            ProviderError: It asks for stop texts, which the protocol has not.
        """
        if request.stop:
            raise ProviderError(
                "rejected",
                f"{self._provider}: the request has `stop` texts, and the Responses API knows "
                'none: leave them out, or set `api = "chat"` for this provider',
                provider=self._provider,
            )
        conversation = paired(carried(self._provider, request, PROTOCOL))
        items = [item for one in conversation for item in self._items(one)]
        body: dict[str, Any] = {
            "model": request.model.model,
            "input": items,
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "max_output_tokens": request.max_output_tokens,
        }
        if system := "\n\n".join(piece.text for piece in request.system if piece.text.strip()):
            body["instructions"] = system
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.schema),
                    "strict": False,
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.parameters is not AS_CONFIGURED:
            body |= self._fields(request.parameters)
        return merge_options(self._provider, body, request.options, RESERVED)

    def reader(self, complain: Callable[[str], None]) -> Reader:
        """Return a reader for one answer."""
        return ResponsesReader(self._provider, complain)

    def _fields(self, parameters: ModelParameters) -> dict[str, Any]:
        """Return those fields of the protocol that `parameters` ask for."""
        for name in NO_FIELD:
            if getattr(parameters, name) is not None:
                cannot_carry(self._provider, PROTOCOL, f"`{name}`")
        if isinstance(parameters.reasoning, int):
            cannot_carry(self._provider, PROTOCOL, "a `reasoning` that is a budget of tokens")
        asked = {field: getattr(parameters, name) for name, field in FIELDS.items()}
        fields = {field: value for field, value in asked.items() if value is not None}
        choice, form = parameters.tool_choice, parameters.response_format
        if choice is not None:
            is_word = choice in ("auto", "none", "required")
            fields["tool_choice"] = choice if is_word else {"type": "function", "name": choice}
        if isinstance(form, str):
            fields["text"] = {"format": {"type": form}}
        elif form is not None:
            schema = {"type": "json_schema", "name": "answer", "schema": dict(form)}
            fields["text"] = {"format": {**schema, "strict": True}}
        if parameters.reasoning is not None:
            fields["reasoning"] = {"effort": parameters.reasoning}
        return fields

    def _items(self, message: Message) -> Iterator[dict[str, Any]]:
        """Yield one message as items, in the order of its parts."""
        role = "assistant" if message.role == "assistant" else "user"
        said: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolUse | ToolResultPart | Opaque):
                if said:
                    yield {"type": "message", "role": role, "content": said}
                    said = []
                if (item := self._item(part)) is not None:
                    yield item
            elif block := _block(part, role):
                said.append(block)
        if said:
            yield {"type": "message", "role": role, "content": said}

    def _item(self, part: Part) -> dict[str, Any] | None:
        match part:
            case ToolUse():
                return {
                    "type": "function_call",
                    "call_id": safe_id(part.id),
                    "name": part.name,
                    "arguments": orjson.dumps(sendable_input(part.input)).decode(),
                }
            case ToolResultPart():
                return {
                    "type": "function_call_output",
                    "call_id": safe_id(part.tool_use_id),
                    "output": _output(part),
                }
            case Opaque():
                return dict(part.data) if part.provider == self._provider else None
        return None


def _output(part: ToolResultPart) -> str | list[dict[str, Any]]:
    """Return a tool's result; the protocol takes pictures and files in it, and has no failures."""
    content: Content = part.content
    if isinstance(content, str) or not any(isinstance(one, MEDIA) for one in content):
        return f"{FAILED}{part.text}" if part.is_error else part.text
    blocks = [block for one in content if (block := _block(one, "user"))]
    return [{"type": "input_text", "text": FAILED.strip()}, *blocks] if part.is_error else blocks


def _block(part: ContentPart, role: str) -> dict[str, Any] | None:
    """Return a part of a message; what the protocol cannot take becomes a note."""
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


class ResponsesReader:
    """Reads one streamed answer of the Responses API.

    Attributes:
        done: Whether the event that ends an answer has come.
        template: Knows no shape: each event of the protocol has a number of its own.
    """

    def __init__(self, provider: str, complain: Callable[[str], None]) -> None:
        self.done = False
        self.template = TextTemplate(TEXT)
        self._provider = provider
        self._complain = complain
        self._usage = StreamedUsage(openai_responses, "output_tokens")
        self._called = self._refused = False
        self._told: set[object] = set()

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what one event says."""
        if data == DONE:
            return ()  # Of a server that speaks Chat as well; the answer's own end counts.
        event = parse(self._provider, data)
        kind = event.get("type")
        if kind == "response.output_text.delta":
            text = text_of(self._provider, event, "delta")
            self._told.add(event.get("item_id"))
            return (TextDelta(text),) if text else ()
        if kind in REASONING:
            text = text_of(self._provider, event, "delta")
            return (ReasoningDelta(text),) if text else ()
        if kind == "response.refusal.delta":
            self._refused = True
            self._told.add(event.get("item_id"))
            text = text_of(self._provider, event, "delta")
            return (TextDelta(text),) if text else ()
        if kind == "response.output_item.done":
            return self._item(object_of(self._provider, event, "item"))
        if kind in ENDS:
            return self._end(object_of(self._provider, event, "response"))
        if kind == "response.failed":
            self._fail(object_of(self._provider, event, "response").get("error"))
        if kind == "error" or (kind is None and event.get("error") is not None):
            self._fail(event.get("error") or event)
        # The beginnings of items, fragments of what comes whole, and types that are newer.
        return ()

    def whole(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what an answer in one piece says: its items are ended at once."""
        answer = parse(self._provider, data)
        if answer.get("error") is not None:
            self._fail(answer["error"])
        output = answer.get("output")
        if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
            malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
        said = [event for item in output for event in self._item(item)]
        return [*said, *self._end(answer)]

    def end(self) -> Sequence[ModelEvent]:
        """Refuse an end of the connection before the answer's own.

        Raises:
            ProviderError: Always: whether the answer is whole stands in its last event alone.
        """
        raise ProviderError(
            "cut",
            f"{self._provider} ended the stream in the middle of the answer",
            provider=self._provider,
        )

    def _item(self, item: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return what an item says that is whole, as far as its deltas have not said it."""
        match item.get("type"):
            case "message":
                return () if item.get("id") in self._told else self._texts(item)
            case "function_call":
                arguments = arguments_of(text_of(self._provider, item, "arguments"))
                return (self._call(item, arguments),)
            case "custom_tool_call":
                # A call in free text: its one argument is that text.
                return (self._call(item, {"input": text_of(self._provider, item, "input")}),)
            case _:
                # Reasoning, and the calls of tools that run at the provider.
                return (OpaqueDelta(Opaque(provider=self._provider, data=item)),)

    def _texts(self, item: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return the text of a message of which no deltas have come."""
        content = item.get("content")
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            malformed(self._provider, "a message without a list of its parts")
        said: list[ModelEvent] = []
        for one in content:
            self._refused |= one.get("type") == "refusal"
            text = text_of(self._provider, one, "text") or text_of(self._provider, one, "refusal")
            if text:
                said.append(TextDelta(text))
        return said

    def _call(self, item: dict[str, Any], arguments: Mapping[str, Any] | str) -> ToolUseEvent:
        name = text_of(self._provider, item, "name")
        if not name:
            malformed(self._provider, "a tool call without a name")
        self._called = True
        call_id = text_of(self._provider, item, "call_id") or text_of(self._provider, item, "id")
        return ToolUseEvent(id=call_id or new_id("call"), name=name, input=arguments)

    def _end(self, response: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return the usage and the stop of an answer that has ended."""
        if response.get("status") == "failed":
            self._fail(response.get("error"))
        self.done = True
        found = response.get("usage")
        if found is not None:
            try:
                self._usage.take(found)
            except UsageError as error:
                self._complain(str(error))
            if self._usage.missing:
                self._complain(self._usage.missing)
        usage = self._usage.news(done=True)
        stop: StopReason = "refusal" if self._refused else "end"
        if response.get("status") == "incomplete":
            details = object_of(self._provider, response, "incomplete_details")
            stop = CUT.get(text_of(self._provider, details, "reason"), "other")
        elif self._called:
            stop = "tool_use"
        return (StopEvent(stop),) if usage is None else (UsageEvent(usage), StopEvent(stop))

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
