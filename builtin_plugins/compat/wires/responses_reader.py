"""OpenAI's Responses: a client's request, read.

The shapes are those of https://platform.openai.com/docs/api-reference/responses/create. One item is
one message. What would let the provider go on from something that stands with it is refused: nobody
here could see what was read and called there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hookgate import (
    Content,
    ContentPart,
    Link,
    Message,
    Opaque,
    SystemText,
    Text,
    Tool,
    ToolResultPart,
    ToolUse,
)
from hookgate.builtin_plugins.compat.fields import (
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_TOOLS,
    ONE_TEXT,
    Asked,
    Fields,
    arguments_of,
    bad,
    check_calls,
    check_tools,
    file_of,
    kept,
    parameters_of,
    taint_of,
    tool_of,
    url_of,
)
from hookgate.wire import Raw, came_as

WIRE = "openai-responses"

MAPPED = frozenset(
    (
        "model",
        "input",
        "instructions",
        "tools",
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "top_logprobs",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "reasoning",
        "service_tier",
        "prompt_cache_key",
        "user",
        "conversation",
        "previous_response_id",
    )
)
"""The fields that the gateway has a word for."""

HARMLESS = frozenset(
    (
        "store",
        "background",
        "include",
        "metadata",
        "client_metadata",
        "stream_options",
        "safety_identifier",
        "prompt_cache_retention",
        "truncation",
    )
)
"""The fields that change nothing of an answer, or nothing that another wire would do."""


REFERENCE = frozenset(("client:reference",))
"""The taint of an item that is named alone, and stands with the provider."""

SYSTEM = ("system", "developer")
CHOICES = ("none", "auto", "required")

TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""The parts of a message that are text, and the field it stands in."""


OF_FREE_TEXT = frozenset(("type", "name", "description", "format"))
"""The fields of a tool in free text that Chat has as well."""


@dataclass(frozen=True, slots=True)
class Own:
    """A type of tool that the vendor has defined and the client runs.

    Attributes:
        call: The type of its calls.
        output: The type of their results.
        inputs: The fields of a call that say what is to be done; all of several that are there.
    """

    call: str
    output: str
    inputs: Sequence[str] = ("action",)


SCREEN = ("action", "actions", "pending_safety_checks")
OWN: Mapping[str, Own] = {
    "local_shell": Own("local_shell_call", "local_shell_call_output"),
    "shell": Own("shell_call", "shell_call_output"),
    "apply_patch": Own("apply_patch_call", "apply_patch_call_output", ("operation",)),
    "computer_use_preview": Own("computer_call", "computer_call_output", SCREEN),
    "computer": Own("computer_call", "computer_call_output", SCREEN),
    "tool_search": Own("tool_search_call", "tool_search_output", ("arguments",)),
}
"""Tools that a client runs itself, by their types."""

CALLS = {own.call: (name, own.inputs) for name, own in OWN.items()}
IN_PARTS = {"function_call_output", "custom_tool_call_output"}
"""Results that may have parts like those of a message."""

RESULTS = {own.output for own in OWN.values()} | IN_PARTS


def read(body: dict[str, Any]) -> Asked:
    """Read a request.

    Raises:
        WireError: It is none, or asks for what cannot be guarded.
    """
    fields = Fields(body)
    model = fields.needed("model")
    _refuse(fields)
    foreign: list[str] = []
    system = _instructions(fields)
    free: list[str] = []
    front, messages = _conversation(fields, foreign, free)
    tools, hosted, special, called = _tools(fields)
    foreign += special
    known = MAPPED | HARMLESS
    parameters = parameters_of(fields, _parameters(fields))
    if fields.raw.get("tool_choice") is not None and parameters.tool_choice is None:
        known -= {"tool_choice"}  # No other wire has such a choice.
    return Asked(
        wire=WIRE,
        model=model,
        stream=fields.flag("stream") or False,
        system=(*system, *front),
        messages=messages,
        tools=tools,
        parameters=parameters,
        body=body,
        foreign=(*fields.beyond(known), *foreign),
        free_text=(*called, *free),
        hosted=hosted,
        session=fields.text("prompt_cache_key"),
        conversation=_named_conversation(fields),
        previous=fields.text("previous_response_id"),
    )


def _refuse(fields: Fields) -> None:
    """Refuse what is another path's, or what nobody could judge."""
    if "input" not in fields:
        other = "/v1/chat/completions" if "messages" in fields else ""
        action = f"send it to {other}" if other else "send `input`"
        raise bad("input", "expected text, or a list of items", action=action)
    if "prompt" in fields:
        raise bad(
            "prompt",
            "the prompt would stand with the provider, where nobody can see to it",
            action="send the whole conversation in `input`",
        )
    if "conversation" in fields and "previous_response_id" in fields:
        raise bad("conversation", "found `previous_response_id` beside it, expected one of them")
    if fields.flag("background"):
        fields.wrong("background", "false: an answer is judged while it comes")


def _named_conversation(fields: Fields) -> str:
    if isinstance(fields.raw.get("conversation"), dict):
        return fields.object("conversation").needed("id")
    return fields.text("conversation")


def check_kept(asked: Asked) -> None:
    """Refuse to go on with what stands with the provider.

    Raises:
        WireError: The request asks for that.
    """
    if asked.is_kept_here:
        raise bad(
            "conversation" if asked.conversation else "previous_response_id",
            "the conversation so far would stand with the provider, where nobody can see to it",
            action="send the whole conversation in `input`, or ask an agent: `agent/NAME`",
        )


def _instructions(fields: Fields) -> tuple[SystemText, ...]:
    text = fields.text("instructions")
    if not text:
        return ()
    return (came_as(SystemText(text=text, stable=True), Raw(wire=WIRE, data=text)),)


# -- the conversation ---------------------------------------------------------------


def _conversation(
    fields: Fields, foreign: list[str], free: list[str]
) -> tuple[Sequence[SystemText], tuple[Message, ...]]:
    given = fields.raw["input"]
    if isinstance(given, str):
        if not given:
            fields.wrong("input", "text that is not empty, or a list of items")
        return (), (
            came_as(Message(role="user", parts=(Text(given),)), Raw(wire=WIRE, data=given)),
        )
    front: list[SystemText] = []
    placed: list[tuple[str, Message]] = []
    for item in fields.objects("input", MOST_MESSAGES):
        raw = Raw(wire=WIRE, data=item.raw)
        kind = item.text("type") or "message"
        if kind == "message" and item.needed("role") in SYSTEM:
            if not placed:
                text = "".join(one.text for one in _parts(item, foreign) if isinstance(one, Text))
                front.append(came_as(SystemText(text=text, stable=True), raw))
                continue
            foreign.append(f"{item.at} with the role {item.text('role')!r}")
        placed.append((item.at, came_as(_message(item, kind, foreign, free), raw)))
    if not placed:
        raise bad("input", "expected an item that is none of the system's")
    goes_on = "conversation" in fields or "previous_response_id" in fields
    check_calls(placed, is_all=not goes_on)
    return front, tuple(message for _, message in placed)


def _message(item: Fields, kind: str, foreign: list[str], free: list[str]) -> Message:
    if kind == "message":
        parts = _parts(item, foreign)
        match item.needed("role"):
            case "assistant":
                return Message(role="assistant", parts=parts, taint=taint_of(parts))
            case "user" | "system" | "developer":
                parts = parts or item.wrong("content", "text, or parts")
                return Message(role="user", parts=parts, taint=taint_of(parts))
        item.wrong("role", "one of system, developer, user and assistant")
    if kind == "item_reference":
        # Of what stands with the provider nobody here knows what is in it.
        foreign.append(f"{item.at} of the type {kind!r}")
        named_there = came_as(Opaque(provider=WIRE, data=item.raw), Raw(wire=WIRE, data=item.raw))
        return Message(role="assistant", parts=(named_there,), taint=REFERENCE)
    if kind in RESULTS and _by_client(item):
        return Message(role="tool", parts=(_result(item, foreign),))
    if (use := _call(item, kind)) is not None:
        if kind == "custom_tool_call" and "namespace" not in item:
            free.append(f"{item.at} of the type {kind!r}")
        elif kind != "function_call" or "namespace" in item:
            foreign.append(f"{item.at} of the type {kind!r}")
        return Message(role="assistant", parts=(came_as(use, Raw(wire=WIRE, data=item.raw)),))
    if kind != "reasoning":
        foreign.append(f"{item.at} of the type {kind!r}")
    own = came_as(Opaque(provider=WIRE, data=item.raw), Raw(wire=WIRE, data=item.raw))
    return Message(role="assistant", parts=(own,), taint=taint_of((own,)))


def _by_client(item: Fields) -> bool:
    """Whether an item is of a tool that the client runs; a search may be the provider's."""
    return item.text("execution") in ("", "client")


def _call(item: Fields, kind: str) -> ToolUse | None:
    """Return the call that an item is; None where it is none of the client's."""
    if kind == "function_call":
        given = arguments_of(item.text("arguments"))
        name = named(item.needed("name"), item.text("namespace"))
    elif kind == "custom_tool_call":
        given = {"input": item.text("input")}
        name = named(item.needed("name"), item.text("namespace"))
    elif kind in CALLS and _by_client(item):
        name, names = CALLS[kind]
        given = {one: item.raw.get(one) for one in names if item.raw.get(one)}
    else:
        return None
    return ToolUse(id=item.text("call_id") or item.needed("id"), name=name, input=given)


def named(name: str, namespace: str) -> str:
    """Return what a tool of a namespace is called where there are no namespaces."""
    return f"{namespace}__{name}" if namespace else name


def _result(item: Fields, foreign: list[str]) -> ToolResultPart:
    content: Content
    output = item.raw.get("output")
    if isinstance(output, str):
        content = output
    elif item.text("type") == "computer_call_output" and _is_shown(output):
        screen = item.object("output")
        content = (url_of(screen, screen.needed("image_url")),)
    elif isinstance(output, list) and item.text("type") in IN_PARTS:
        content = tuple(_part(one, foreign) for one in item.objects("output", MOST_PARTS))
    else:
        # Read as text, so that no guard misses what stands in it.
        content = json.dumps(output if output is not None else item.raw, ensure_ascii=False)
    # That of the vendor's own shell has no other name.
    named_by = "call_id" if "call_id" in item else "id"
    return ToolResultPart(tool_use_id=item.needed(named_by), content=content)


def _is_shown(output: object) -> bool:
    """Whether a result is a picture of a screen, which would be a very long text otherwise."""
    return isinstance(output, dict) and isinstance(output.get("image_url"), str)


def _parts(item: Fields, foreign: list[str]) -> tuple[ContentPart, ...]:
    content = item.raw.get("content")
    if isinstance(content, str):
        return (Text(content),)
    if content is not None and not isinstance(content, list):
        item.wrong("content", "text, or a list of parts")
    return tuple(_part(one, foreign) for one in item.objects("content", MOST_PARTS))


def _part(item: Fields, foreign: list[str]) -> ContentPart:
    kind = item.needed("type")
    part: ContentPart
    if kind in TEXTS:
        part = Text(item.text(TEXTS[kind]))
    elif kind in ("input_image", "input_file"):
        part = _media(item, kind.removeprefix("input_"), foreign)
    else:
        foreign.append(f"{item.at} of the type {kind!r}")
        part = Text(json.dumps(item.raw, ensure_ascii=False))
    return came_as(part, Raw(wire=WIRE, data=item.raw))


def _media(item: Fields, kind: str, foreign: list[str]) -> ContentPart:
    if kind == "image" and "image_url" in item:
        return url_of(item, item.needed("image_url"))
    if "file_data" in item:
        return file_of(item, item.text("filename"))
    foreign.append(item.place("file_id" if "file_id" in item else "file_url"))
    where = item.text("file_url") or f"file:{item.needed('file_id')}"
    return Link(uri=where, name=item.text("filename"))


# -- the tools ----------------------------------------------------------------------


@kept
def _tools(
    fields: Fields,
) -> tuple[tuple[Tool, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the tools that clients run, the types of others, what is foreign, and free text."""
    foreign: list[str] = []
    free: list[str] = []
    tools: list[tuple[Fields, Tool]] = []
    hosted: list[str] = []
    for item in fields.objects("tools", MOST_TOOLS):
        kind = item.needed("type")
        if kind == "namespace":
            foreign.append(f"{item.at} of the type {kind!r}")
            inside = item.objects("tools", MOST_TOOLS)
            space = item.needed("name")
            tools.extend((one, _tool(one, one.needed("type"), space)) for one in inside)
        elif kind == "function":
            tools.append((item, came_as(_tool(item, kind), Raw(wire=WIRE, data=item.raw))))
        elif kind == "custom" or (kind in OWN and _by_client(item)):
            (free if kind == "custom" else foreign).append(f"{item.at} of the type {kind!r}")
            if kind == "custom":
                foreign.extend(item.beyond(OF_FREE_TEXT))
            tools.append((item, came_as(_tool(item, kind), Raw(wire=WIRE, data=item.raw))))
        else:
            hosted.append(kind)
    return check_tools(tools), tuple(hosted), tuple(foreign), tuple(free)


def _tool(item: Fields, kind: str, namespace: str = "") -> Tool:
    """Return a tool; of a namespace's, the namespace has what it came as."""
    if kind in OWN:
        return tool_of(Fields({**item.raw, "name": kind}, item.at), "")
    if kind not in ("function", "custom"):
        item.wrong("type", "a function, or a custom tool")
    tool = tool_of(item, "parameters" if kind == "function" else "")
    schema = tool.schema if kind == "function" else ONE_TEXT
    return replace(tool, name=named(tool.name, namespace), schema=schema)


# -- how it is asked ----------------------------------------------------------------


def _parameters(fields: Fields) -> dict[str, Any]:
    return {
        "max_output_tokens": fields.count("max_output_tokens"),
        "temperature": fields.number("temperature", 0, 2),
        "top_p": fields.number("top_p", 0, 1),
        "top_logprobs": fields.count("top_logprobs", 0),
        "tool_choice": _choice(fields),
        "parallel_tool_calls": fields.flag("parallel_tool_calls"),
        "response_format": _format(fields.object("text")),
        "reasoning": fields.object("reasoning").text("effort") or None,
        "service_tier": fields.text("service_tier") or None,
        "cache_key": fields.text("prompt_cache_key") or None,
        "user": fields.text("user") or None,
    }


def _choice(fields: Fields) -> str | None:
    value = fields.raw.get("tool_choice")
    if value is None or value in CHOICES:
        return value
    if not isinstance(value, dict):
        fields.wrong("tool_choice", "none, auto, required, or an object that names a tool")
    choice = fields.object("tool_choice")
    kind = choice.needed("type")
    if kind in ("function", "custom"):
        return choice.needed("name")
    return kind if kind in OWN else None


def _format(text: Fields) -> Any:
    if "format" not in text:
        return None
    wanted = text.object("format")
    match wanted.needed("type"):
        case "text" | "json_object" as kind:
            return kind
        case "json_schema":
            return wanted.object("schema").raw
    raise wanted.problem("type", "text, json_object or json_schema")
