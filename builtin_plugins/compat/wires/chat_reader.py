"""Chat Completions: a client's request, read.

The shapes are those of https://platform.openai.com/docs/api-reference/chat/create. What the
gateway has no word for stays in the body as it came; `Asked.foreign` names it for other wires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hookgate import Link, Message, Opaque, Part, SystemText, Text, Tool, ToolResultPart, ToolUse
from hookgate.builtin_plugins.compat.fields import (
    BROUGHT_TAINT,
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
    media_of,
    parameters_of,
    taint_of,
    tool_of,
    url_of,
)
from hookgate.wire import Raw, came_as

WIRE = "openai-chat"

MAPPED = frozenset(
    (
        "model",
        "messages",
        "tools",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "stop",
        "top_p",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "top_logprobs",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "reasoning_effort",
        "service_tier",
        "prompt_cache_key",
        "user",
        "n",
    )
)
"""The fields that the gateway has a word for."""

HARMLESS = frozenset(("store", "metadata", "safety_identifier", "prompt_cache_retention"))
"""The fields that change nothing of an answer."""

NEUTRAL: Mapping[str, object] = {"logit_bias": {}, "modalities": ["text"]}
"""What fields without a word here ask for nothing with."""

HOSTED = ("web_search_options", "search_parameters", "plugins")
"""The fields that have a provider run tools: OpenAI's, xAI's and OpenRouter's."""

OF_MESSAGES = frozenset(
    ("role", "content", "tool_calls", "tool_call_id", "refusal", "reasoning_content", "reasoning")
) | frozenset(("annotations",))
OF_PARTS: Mapping[str, frozenset[str]] = {
    "text": frozenset(("type", "text")),
    "refusal": frozenset(("type", "refusal")),
    "image_url": frozenset(("type", "image_url")),
    "input_audio": frozenset(("type", "input_audio")),
    "file": frozenset(("type", "file")),
}

AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}
SYSTEM = ("system", "developer")
MOST_ANSWERS = 128
CHOICES = ("none", "auto", "required")
CALLED = ("function", "custom")
"""The types of tools that clients run: called with arguments, and in free text."""


def read(body: dict[str, Any]) -> Asked:
    """Read a request.

    Raises:
        WireError: It is none, or asks for what cannot be guarded.
    """
    fields = Fields(body)
    model = fields.needed("model")
    _refuse(fields)
    system, messages, foreign, called = _conversation(fields)
    tools, hosted, free = _tools(fields)
    hosted = (*hosted, *(name for name in HOSTED if name in fields))
    known = MAPPED | HARMLESS
    if "n" in fields and fields.raw["n"] != 1:
        known -= {"n"}  # Of several answers no other wire knows.
    parameters = parameters_of(fields, _parameters(fields))
    if fields.raw.get("tool_choice") is not None and parameters.tool_choice is None:
        known -= {"tool_choice"}  # No other wire has such a choice.
    if model.endswith(":online"):  # OpenRouter's other way to ask for `plugins`
        hosted = (*hosted, "plugins")
    return Asked(
        wire=WIRE,
        model=model,
        stream=fields.flag("stream") or False,
        usage=fields.object("stream_options").flag("include_usage") or False,
        system=system,
        messages=messages,
        tools=tools,
        parameters=parameters,
        body=body,
        foreign=(*fields.beyond(known, NEUTRAL), *foreign),
        free_text=(*free, *called),
        hosted=hosted,
        substitutes=fields.texts("models"),
        session=fields.text("prompt_cache_key"),
    )


def _refuse(fields: Fields) -> None:
    """Refuse what is another path's, or what nobody could judge."""
    if "messages" not in fields:
        other = "/v1/responses" if "input" in fields else ""
        action = f"send it to {other}" if other else "send `messages`"
        raise bad("messages", "expected a list of messages", action=action)
    if "system" in fields:
        raise bad(
            "system",
            "it is a field of Anthropic's Messages, expected a message with the role `system`",
            action="send a request of that wire to /v1/messages",
        )
    for name in ("functions", "function_call"):
        if name in fields:
            raise bad(name, "it is the old form, expected `tools` and `tool_choice`")
    answers = fields.count("n") or 1
    if answers > MOST_ANSWERS:
        fields.wrong("n", f"1 to {MOST_ANSWERS}")
    calling = next((name for name in ("tools", *HOSTED) if fields.raw.get(name)), "")
    if answers > 1 and calling:
        raise bad(
            "n",
            f"found {answers} beside `{calling}`: of several answers nobody could say whose calls "
            "are judged",
            action=f"leave out `n`, or `{calling}`",
        )


# -- the conversation ---------------------------------------------------------------


def _conversation(
    fields: Fields,
) -> tuple[tuple[SystemText, ...], tuple[Message, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the instructions, the messages, what is foreign in them, and calls in free text."""
    system: list[SystemText] = []
    placed: list[tuple[str, Message]] = []
    foreign: list[str] = []
    free: list[str] = []
    for item in fields.objects("messages", MOST_MESSAGES):
        raw = Raw(wire=WIRE, data=item.raw)
        role = item.needed("role")
        # A result's name says again what its call has said.
        known = OF_MESSAGES | {"name"} if role == "tool" else OF_MESSAGES
        foreign.extend(item.beyond(known))
        if role in SYSTEM and not placed:
            text = "".join(part.text for part in _parts(item, foreign) if isinstance(part, Text))
            system.append(came_as(SystemText(text=text, stable=True), raw))
            continue
        if role in SYSTEM:
            foreign.append(f"{item.at} with the role {role!r}")
        placed.append((item.at, came_as(_message(item, role, foreign, free), raw)))
    if not placed:
        raise bad("messages", "expected a message that is none of the system's")
    check_calls(placed)
    messages = tuple(message for _, message in placed)
    return tuple(system), messages, tuple(foreign), tuple(free)


def _message(item: Fields, role: str, foreign: list[str], free: list[str]) -> Message:
    match role:
        case "user" | "system" | "developer":
            parts = _parts(item, foreign)
            if not parts:
                item.wrong("content", "text, or parts")
            return Message(role="user", parts=parts, taint=taint_of(parts))
        case "assistant":
            said = _parts(item, foreign)
            refusal = item.text("refusal")
            calls = tuple(_call(one, free) for one in item.objects("tool_calls", MOST_PARTS))
            parts = (*said, *((Text(refusal),) if refusal else ()), *calls)
            taint = BROUGHT_TAINT if "annotations" in item else taint_of(parts)
            return Message(role="assistant", parts=parts, taint=taint)
        case "tool":
            parts = _parts(item, foreign)
            content = "".join(part.text for part in parts if isinstance(part, Text))
            result = ToolResultPart(tool_use_id=item.needed("tool_call_id"), content=content)
            return Message(role="tool", parts=(result,))
    raise item.problem("role", "one of system, developer, user, assistant and tool")


def _parts(item: Fields, foreign: list[str]) -> tuple[Part, ...]:
    content = item.raw.get("content")
    if isinstance(content, str):
        return (Text(content),)
    if content is not None and not isinstance(content, list):
        item.wrong("content", "text, or a list of parts")
    return tuple(_part(one, foreign) for one in item.objects("content", MOST_PARTS))


def _part(item: Fields, foreign: list[str]) -> Part:
    kind = item.needed("type")
    foreign.extend(item.beyond(OF_PARTS.get(kind, frozenset(("type",)))))
    part: Part
    match kind:
        case "text" | "refusal":
            part = Text(item.text(kind))
        case "image_url":
            image = item.object("image_url")
            part = url_of(image, image.needed("url"))
        case "input_audio":
            audio = item.object("input_audio")
            media = AUDIO.get(audio.needed("format")) or audio.wrong("format", "wav or mp3")
            part = media_of(audio, media, audio.needed("data"))
        case "file":
            part = _file(item.object("file"), foreign)
        case _:
            foreign.append(f"{item.at} of the type {kind!r}")
            part = Opaque(provider=WIRE, data=item.raw)
    return came_as(part, Raw(wire=WIRE, data=item.raw))


def _file(item: Fields, foreign: list[str]) -> Part:
    if "file_data" not in item:
        foreign.append(item.place("file_id"))
        return Link(uri=f"file:{item.needed('file_id')}", name=item.text("filename"))
    return file_of(item, item.text("filename"))


def _call(item: Fields, free: list[str]) -> Part:
    kind = item.text("type") or "function"
    if kind not in CALLED:
        item.wrong("type", "`function` or `custom`: other calls cannot be judged")
    called = item.object(kind)
    written: Mapping[str, Any] | str = {"input": called.text("input")}
    if kind == "function":
        written = arguments_of(called.text("arguments"))
    else:
        free.append(f"{item.at} of the type {kind!r}")
    use = ToolUse(id=item.needed("id"), name=called.needed("name"), input=written)
    return came_as(use, Raw(wire=WIRE, data=item.raw))


# -- the tools ----------------------------------------------------------------------


@kept
def _tools(fields: Fields) -> tuple[tuple[Tool, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the tools that clients run, the types of the others, and those in free text."""
    tools: list[tuple[Fields, Tool]] = []
    hosted: list[str] = []
    free: list[str] = []
    for item in fields.objects("tools", MOST_TOOLS):
        kind = item.text("type") or "function"
        if kind not in CALLED:
            hosted.append(kind)
            continue
        told = item.object(kind)
        tool = tool_of(told, "parameters" if kind == "function" else "")
        if kind == "custom":
            told.object("format")
            tool = replace(tool, schema=ONE_TEXT)
            free.append(f"{item.at} of the type {kind!r}")
        tools.append((told, came_as(tool, Raw(wire=WIRE, data=item.raw))))
    return check_tools(tools), tuple(hosted), tuple(free)


# -- how it is asked ----------------------------------------------------------------


def _parameters(fields: Fields) -> dict[str, Any]:
    return {
        "max_output_tokens": fields.count("max_completion_tokens") or fields.count("max_tokens"),
        "temperature": fields.number("temperature", 0, 2),
        "stop": fields.texts("stop"),
        "top_p": fields.number("top_p", 0, 1),
        "seed": fields.count("seed", -(2**53)),
        "frequency_penalty": fields.number("frequency_penalty", -2, 2),
        "presence_penalty": fields.number("presence_penalty", -2, 2),
        "logprobs": fields.flag("logprobs"),
        "top_logprobs": fields.count("top_logprobs", 0),
        "tool_choice": _choice(fields),
        "parallel_tool_calls": fields.flag("parallel_tool_calls"),
        "response_format": _format(fields),
        "reasoning": fields.text("reasoning_effort") or None,
        "service_tier": fields.text("service_tier") or None,
        "cache_key": fields.text("prompt_cache_key") or None,
        "user": fields.text("user") or None,
        "answers": fields.count("n") if fields.raw.get("n") != 1 else None,
    }


def _choice(fields: Fields) -> str | None:
    value = fields.raw.get("tool_choice")
    if value is None or value in CHOICES:
        return value
    if not isinstance(value, dict):
        fields.wrong("tool_choice", "none, auto, required, or an object that names a tool")
    choice = fields.object("tool_choice")
    if choice.text("type") == "allowed_tools":
        return None
    kind = "custom" if choice.text("type") == "custom" else "function"
    return choice.object(kind).needed("name")


def _format(fields: Fields) -> Any:
    if "response_format" not in fields:
        return None
    wanted = fields.object("response_format")
    match wanted.needed("type"):
        case "text" | "json_object" as kind:
            return kind
        case "json_schema":
            return wanted.object("json_schema").object("schema").raw
    raise wanted.problem("type", "text, json_object or json_schema")
