"""Anthropic's Messages API: requests in its shape, and its stream read.

The shapes are those of https://docs.anthropic.com/en/api/messages and
https://docs.anthropic.com/en/docs/build-with-claude/streaming.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hookgate import (
    AS_CONFIGURED,
    Citation,
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
    ProviderErrorKind,
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
from hookgate.builtin_plugins.providers.failures import kind_of_overflow, message_of
from hookgate.builtin_plugins.providers.wire.protocol import (
    PICTURES,
    Reader,
    arguments_of,
    as_it_is,
    body_of,
    brought,
    cannot_carry,
    carried,
    check_absent,
    malformed,
    merge_options,
    object_of,
    page_of,
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
from hookgate.kit.tokens.bounds import patches, picture_size
from hookgate.kit.usage import StreamedUsage, anthropic_messages
from hookgate.wire import MEDIA, left_out

VERSION = "2023-06-01"

RESERVED = frozenset(
    ("model", "messages", "system", "tools", "stream", "max_tokens", "stop_sequences")
)

STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "pause_turn": "paused",
    "refusal": "refusal",
}

ERROR_KINDS: Mapping[str, ProviderErrorKind] = {
    "invalid_request_error": "rejected",
    "not_found_error": "rejected",
    "request_too_large": "rejected",
    "billing_error": "rejected",
    "authentication_error": "auth",
    "permission_error": "auth",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
    "overloaded_error": "overloaded",
    "api_error": "server",
}

TEXT = re.compile(rb'"text": ?"')
"""Where the text of a delta begins."""

DOCUMENT_TYPES = ("application/pdf",)
"""What the API takes, as base64."""

PICTURE_TOKENS = 4784
"""Most tokens of one picture, which is made smaller until it has no more; 3.75 megapixels."""

CACHED = ("text", "image", "document", "tool_use", "tool_result")
"""Blocks behind which the API lets a cache end."""

PROTOCOL = "the Messages API"

CHOICES = {"auto": "auto", "none": "none", "required": "any"}
"""Words of a `tool_choice`, and what the API calls them."""

PAGES = {"web_search_result_location": "url", "search_result_location": "source"}
"""The kinds of citations that name a page of the web, and the field that has its address."""

NO_FIELD = ("seed", "frequency_penalty", "presence_penalty", "logprobs", "top_logprobs")
"""Parameters that the API has no field for. `cache_key` is not among them: its cache needs none."""

CONTINUED = "(The conversation goes on.)"


class AnthropicWire:
    """The Messages API of one provider.

    Args:
        provider: The provider's name; its signed thinking carries it.
        base_url: Where it is, with or without a final ``/v1``.
        key: The API key, if there is one.
    """

    name = "anthropic-messages"
    passed = frozenset(("anthropic-beta",))
    embeddings_url = ""
    kept_url = ""

    def __init__(self, provider: str, base_url: str, key: str | None) -> None:
        self._provider = provider
        base = base_url.rstrip("/").removesuffix("/v1")
        self.url, self.models_url = f"{base}/v1/messages", f"{base}/v1/models"
        self.count_url = f"{self.url}/count_tokens"
        self.headers: Mapping[str, str] = {"anthropic-version": VERSION} | (
            {"x-api-key": key} if key else {}
        )

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the shape of the Messages API.

        Raises:
            ProviderError: It has what the API has not; the text names it.
        """
        if request.raw is not None and passes(request, self.name):
            return self._as_it_came(request)
        body: dict[str, Any] = {
            "model": request.model.model,
            "max_tokens": request.max_output_tokens,
            "stream": True,
            "messages": self._messages(carried(self._provider, request, PROTOCOL), request),
        }
        if system := _system(request):
            body["system"] = system
        if request.tools:
            body["tools"] = _tools(request.tools)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if request.parameters is not AS_CONFIGURED:
            self._check_parameters(request.parameters)
            body |= _fields(request.parameters)
        return merge_options(self._provider, body, request.options, RESERVED)

    def _as_it_came(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body as the client has sent it, but for what has changed since."""
        body, came = body_of(request)
        if request.messages is not came.messages:
            body["messages"] = self._conversation(request.messages)
        if request.system is not came.system:
            body["system"] = [
                raw_of(piece, self.name) or {"type": "text", "text": piece.text}
                for piece in request.system
            ]
        if request.tools is not came.tools:
            body["tools"] = [
                raw_of(tool, self.name) or _tools((tool,))[0] for tool in request.tools
            ]
        before, after = (
            {
                "max_tokens": item.max_output_tokens,
                "temperature": item.temperature,
                "stop_sequences": list(item.stop) or None,
                **_fields(item.parameters),
            }
            for item in (came, request)
        )
        write_changes(body, before, after)
        body["stream"] = True
        return merge_options(self._provider, body, request.options, RESERVED)

    def _conversation(self, messages: Iterable[Message]) -> list[dict[str, Any]]:
        """Return messages as they came, and those of the gateway between them.

        All results of one message's calls stand in one: those of tools that ran here are joined to
        those that the client brings.
        """
        found: list[dict[str, Any]] = []
        results = False
        for message in messages:
            came = raw_of(message, self.name)
            made = came or self._message(message)
            if results and came is None and made["role"] == "user":
                found[-1]["content"] += made["content"]
            else:
                found.append(made)
            results = came is None and message.role == "tool"
        return found

    def _message(self, message: Message) -> dict[str, Any]:
        """Return a message of a conversation that is sent as it came; no id is written anew."""
        blocks = [
            raw_of(part, self.name) or self._block(part, str, self.name) for part in message.parts
        ]
        role = "assistant" if message.role == "assistant" else "user"
        return {"role": role, "content": [block for block in blocks if block]}

    def _check_parameters(self, parameters: ModelParameters) -> None:
        check_absent(self._provider, PROTOCOL, parameters, NO_FIELD)
        if parameters.response_format == "json_object":
            what = "a `response_format` of `json_object`: it takes a JSON schema"
            cannot_carry(self._provider, PROTOCOL, what)

    def picture(self, image: Image, model: str) -> int:
        """Return the most tokens of a picture, by the larger of both documented formulas.

        They are a token for each 28 by 28 pixels, and width * height / 750.
        """
        del model  # Older ones make a picture smaller still.
        size = picture_size(image)
        if size is None:
            return PICTURE_TOKENS
        return min(max(patches(*size, 28), math.ceil(size[0] * size[1] / 750)), PICTURE_TOKENS)

    def reader(self, complain: Callable[[str], None]) -> AnthropicReader:
        """Return a reader for one answer."""
        return AnthropicReader(self._provider, complain)

    def _messages(self, messages: Iterable[Message], request: ModelRequest) -> list[dict[str, Any]]:
        """Return the messages, results on the user's side, roles taking turns.

        The cache's end is marked behind the history, for whatever changes behind it, and behind
        all of a request that goes on with a history or behind tools: the next one begins with it.
        """
        merged: list[dict[str, Any]] = []
        last = request.messages[-1].turn if request.messages else ""
        ends: list[dict[str, Any]] = []
        for message in paired(messages):
            role = "assistant" if message.role == "assistant" else "user"
            content = [block for part in message.parts if (block := self._block(part))]
            if not content:
                continue
            if message.turn != last:
                ends = content[-1:]
            if merged and merged[-1]["role"] == role:
                merged[-1]["content"].extend(content)
            else:
                merged.append({"role": role, "content": content})
        if merged and merged[0]["role"] == "assistant":
            merged.insert(0, {"role": "user", "content": [{"type": "text", "text": CONTINUED}]})
        # How one goes on that is read as it came is its client's.
        if merged and (request.iteration or (ends and request.baseline is None)):
            ends = [*ends, merged[-1]["content"][-1]]
        for block in ends:
            if block["type"] in CACHED:
                block["cache_control"] = {"type": "ephemeral"}
        return merged

    def _block(
        self, part: Part, write_id: Callable[[str], str] = safe_id, wire: str = ""
    ) -> dict[str, Any] | None:
        match part:
            case Text(text):
                # The API refuses empty text.
                return {"type": "text", "text": text} if text.strip() else None
            case ToolUse():
                return {
                    "type": "tool_use",
                    "id": write_id(part.id),
                    "name": part.name,
                    "input": sendable_input(part.input),
                }
            case ToolResultPart():
                return {
                    "type": "tool_result",
                    "tool_use_id": write_id(part.tool_use_id),
                    "content": _content(part.content, wire),
                    "is_error": part.is_error,
                }
            case Opaque():
                return dict(part.data) if part.provider == self._provider else None
            case _:
                return _media(part)


def _tools(tools: Iterable[Tool]) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.schema),
        }
        for tool in tools
    ]


def _fields(parameters: ModelParameters) -> dict[str, Any]:
    """Return those fields of the API that `parameters` ask for."""
    direct = {name: getattr(parameters, name) for name in ("top_p", "top_k", "service_tier")}
    fields = {name: value for name, value in direct.items() if value is not None}
    choice, parallel = parameters.tool_choice, parameters.parallel_tool_calls
    if choice is not None or parallel is not None:
        known = CHOICES.get(choice or "auto")
        fields["tool_choice"] = {"type": known} if known else {"type": "tool", "name": choice}
        if parallel is not None:
            fields["tool_choice"]["disable_parallel_tool_use"] = not parallel
    output: dict[str, Any] = {}
    reasoning, form = parameters.reasoning, parameters.response_format
    if isinstance(reasoning, int):
        fields["thinking"] = {"type": "enabled", "budget_tokens": reasoning}
    elif reasoning is not None:
        output["effort"] = reasoning
    if form is not None and not isinstance(form, str):
        output["format"] = {"type": "json_schema", "schema": dict(form)}
    if output:
        fields["output_config"] = output
    if parameters.user is not None:
        fields["metadata"] = {"user_id": parameters.user}
    return fields


def _content(content: Content, wire: str = "") -> str | list[dict[str, Any]]:
    """Return a tool's result: the API takes pictures and documents in it as they are."""
    if isinstance(content, str):
        return content
    # The API refuses empty text.
    return [
        (raw_of(part, wire) if wire else None) or _media(part)
        for part in content
        if plain_text((part,)).strip()
    ]


def _media(part: ContentPart) -> dict[str, Any]:
    """Return a part that is no call and no result; what the API cannot take becomes a note."""
    part = as_it_is(part)
    types = {Image: PICTURES, Document: DOCUMENT_TYPES}.get(type(part), ())
    if isinstance(part, Image | Document) and part.media_type in types:
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image" if isinstance(part, Image) else "document", "source": source}
    if isinstance(part, MEDIA):
        part = left_out(part, "the provider does not take it")
    return {"type": "text", "text": plain_text((part,))}


def _system(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the instructions; the cache's end is marked behind the last stable piece."""
    blocks: list[dict[str, Any]] = []
    last_stable: dict[str, Any] | None = None
    for piece in request.system:
        if not piece.text.strip():
            continue
        block: dict[str, Any] = {"type": "text", "text": piece.text}
        blocks.append(block)
        if piece.stable:
            last_stable = block
    if last_stable is not None:
        last_stable["cache_control"] = {"type": "ephemeral"}
    return blocks


@dataclass(slots=True)
class MessagesBlock:
    """A content block while it comes: how it began, and its fragments."""

    start: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)
    before: int = 0
    """Characters of the answer in front of it."""
    frames: list[Any] = field(default_factory=list)


class AnthropicReader(Reader):
    """Reads one streamed answer of the Messages API.

    Attributes:
        done: Whether ``message_stop`` has come.
    """

    def __init__(self, provider: str, complain: Callable[[str], None]) -> None:
        super().__init__(
            provider,
            complain,
            TextTemplate(TEXT),
            StreamedUsage(anthropic_messages, "output_tokens"),
        )
        self._blocks: dict[int, MessagesBlock] = {}
        self._counted = False
        self._length = 0
        """Characters of the answer that were parsed so far."""
        self._matched = ""
        self._stop: StopReason | None = None

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what one event says."""
        known = self.template.text_of_event(data)
        if known is not None:
            return (TextDelta(known),) if known else ()
        event = parse(self._provider, data)
        kind = event.get("type")
        if kind == "content_block_delta":
            said = self._delta(event)
            if said and type(said[0]) is TextDelta:
                self.template.learn(data)
            return said
        match kind:
            case "content_block_start":
                return self._start(event)
            case "content_block_stop":
                block = self._blocks.pop(self._index(event), None)
                return (*self._finish(block), *self._notes(block))
            case "message_start":
                message = object_of(self._provider, event, "message")
                return self._count(message.get("usage"), final=False)
            case "message_delta":
                return self._message_delta(event)
            case "message_stop":
                self.done = True
                return (self._ended(),)
            case "error":
                self._fail(event)
        # Pings, and types that are newer than this reader.
        return ()

    def whole(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what an answer in one piece says: its blocks are begun and ended at once."""
        message = parse(self._provider, data)
        if message.get("error") is not None:
            self._fail(message)
        blocks = message.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            malformed(self._provider, f"JSON that is no answer: {message_of(data)}")
        said: list[ModelEvent] = []
        for block in blocks:
            whole = MessagesBlock(block, before=self._said())
            said += [*self._begun(block), *self._finish(whole), *self._notes(whole)]
        said.extend(self._message_delta({"delta": message, "usage": message.get("usage")}))
        self.done = True
        return [*said, self._ended()]

    def end(self) -> Sequence[ModelEvent]:
        """Accept an end behind the stop reason, with which the usage comes."""
        if self._stop is None:
            self._cut()
        self.done = True
        return (replace(self._ended(), marked=self._counted),)

    def _delta(self, event: dict[str, Any]) -> Sequence[ModelEvent]:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            malformed(self._provider, "a content_block_delta without its delta")
        kind = delta.get("type")
        if kind == "text_delta":
            text = delta.get("text")
            if type(text) is not str:
                text = text_of(self._provider, delta, "text")
            self._length += len(text)
            return (TextDelta(text),) if text else ()
        block = self._blocks.get(self._index(event))
        if block is None:
            malformed(self._provider, "a delta of a content block that has not begun")
        if kind == "input_json_delta":
            block.pieces.append(text_of(self._provider, delta, "partial_json"))
        elif kind == "thinking_delta":
            text = text_of(self._provider, delta, "thinking")
            block.pieces.append(text)
            return (ReasoningDelta(text),) if text else ()
        elif kind == "signature_delta":
            block.signature.append(text_of(self._provider, delta, "signature"))
        elif kind == "citations_delta":
            block.notes.append(delta.get("citation"))
        return ()

    def _start(self, event: dict[str, Any]) -> Sequence[ModelEvent]:
        start = object_of(self._provider, event, "content_block")
        self._blocks[self._index(event)] = MessagesBlock(start, before=self._said())
        return self._begun(start)

    def _begun(self, start: dict[str, Any]) -> Sequence[ModelEvent]:
        """Return what a block says at its beginning; in a stream that is mostly nothing."""
        kind = start.get("type")
        if kind == "text":
            text = text_of(self._provider, start, "text")
            self._length += len(text)
            return (TextDelta(text),) if text else ()
        if kind == "thinking":
            thinking = text_of(self._provider, start, "thinking")
            return (ReasoningDelta(thinking),) if thinking else ()
        return ()

    def _index(self, event: dict[str, Any]) -> int:
        index = event.get("index")
        if not isinstance(index, int):
            malformed(self._provider, "a content block without an index")
        return index

    def _finish(self, block: MessagesBlock | None) -> Sequence[ModelEvent]:
        if block is None:
            return ()
        start, pieces = block.start, "".join(block.pieces)
        match start.get("type"):
            case "text":
                return ()
            case "tool_use":
                name = text_of(self._provider, start, "name")
                call_id = text_of(self._provider, start, "id")
                if not name:
                    malformed(self._provider, "a tool call without a name")
                given = object_of(self._provider, start, "input")
                return (
                    ToolUseEvent(
                        id=call_id or new_id("call"),
                        name=name,
                        input=arguments_of(pieces) if pieces else given,
                    ),
                )
            case "thinking":
                thinking = text_of(self._provider, start, "thinking") + pieces
                signature = text_of(self._provider, start, "signature") + "".join(block.signature)
                whole = {"type": "thinking", "thinking": thinking, "signature": signature}
                return (OpaqueDelta(Opaque(provider=self._provider, data=whole)),)
            case _:
                # Redacted thinking, and the blocks of tools that run at the provider.
                data = {**start, "input": sendable_input(arguments_of(pieces))} if pieces else start
                return (OpaqueDelta(Opaque(provider=self._provider, data=data), brought(start)),)

    def _notes(self, block: MessagesBlock | None) -> Iterator[Citation]:
        """Yield the pages of the web that a text rests on, which is all of its block."""
        if block is None:
            return
        given = block.start.get("citations")
        for note in (*(given if isinstance(given, list) else ()), *block.notes):
            if isinstance(note, dict) and (address := PAGES.get(str(note.get("type")))):
                page = page_of(note.get(address), note.get("title"), note.get("cited_text"))
                if page is not None:
                    yield replace(page, start=block.before, end=self._said())

    def _said(self) -> int:
        """Return how many characters of the answer have come."""
        return self._length + self.template.length

    def _ended(self) -> StopEvent:
        return StopEvent(self._stop or "other", matched=self._matched)

    def _message_delta(self, event: dict[str, Any]) -> Sequence[ModelEvent]:
        delta = object_of(self._provider, event, "delta")
        reason, matched = delta.get("stop_reason"), delta.get("stop_sequence")
        if isinstance(reason, str):
            self._stop = STOP_REASONS.get(reason, "other")
        if isinstance(matched, str):
            self._matched = matched
        return self._count(event.get("usage"), final=True)

    def _count(self, found: object, *, final: bool) -> Sequence[ModelEvent]:
        """Take reported figures in, and return those of the answer so far."""
        self._take(found)
        if final and isinstance(found, dict) and found.get("output_tokens") is not None:
            # At the start of a stream the output is a first figure only.
            self._counted = True
        usage = self.usage.news(done=self._counted)
        return () if usage is None else (UsageEvent(usage),)

    def _fail(self, event: dict[str, Any]) -> None:
        error = object_of(self._provider, event, "error")
        kind = text_of(self._provider, error, "type")
        message = text_of(self._provider, error, "message")
        raise ProviderError(
            kind_of_overflow(ERROR_KINDS.get(kind, "server"), message),
            f"{self._provider} reported {kind or 'an error'} in its stream: {message}",
            provider=self._provider,
            code="too_large" if kind == "request_too_large" else "provider_failed",
        )
