"""Anthropic's Messages: a client's request, read.

The shapes are those of https://docs.anthropic.com/en/api/messages. What the gateway has no word
for stays in the body as it came; `Asked.foreign` names it for other wires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from hookgate import (
    CLEAN,
    Content,
    ContentPart,
    Link,
    Message,
    Opaque,
    Part,
    SystemText,
    Text,
    Tool,
    ToolResultPart,
    ToolUse,
)
from hookgate.builtin_plugins.compat.fields import (
    BROUGHT_TAINT,
    MOST_MESSAGES,
    MOST_PARTS,
    MOST_TOOLS,
    Asked,
    Fields,
    bad,
    check_calls,
    check_tools,
    kept,
    media_of,
    parameters_of,
    taint_of,
    tool_of,
    url_of,
)
from hookgate.wire import Raw, came_as

WIRE = "anthropic-messages"

MAPPED = frozenset(
    (
        "model",
        "messages",
        "system",
        "tools",
        "stream",
        "max_tokens",
        "temperature",
        "stop_sequences",
        "top_p",
        "top_k",
        "tool_choice",
        "service_tier",
        "thinking",
        "output_config",
    )
)
"""The fields that the gateway has a word for."""

HARMLESS = frozenset(("metadata",))
"""The fields that change nothing of an answer."""

OF_BLOCKS: Mapping[str, frozenset[str]] = {
    "text": frozenset(("type", "text", "citations")),
    "image": frozenset(("type", "source")),
    "document": frozenset(("type", "source", "title")),
    "tool_use": frozenset(("type", "id", "name", "input")),
    "tool_result": frozenset(("type", "tool_use_id", "content", "is_error")),
    "thinking": frozenset(("type", "thinking", "signature")),
}

OF_TOOLS = frozenset(("type", "name", "description", "input_schema"))

RUN_BY_CLIENTS = ("bash_", "text_editor_", "computer_", "memory_")
"""How the types of tools begin that the vendor has defined and the client runs."""

UNSIGNED = "hookgate-unsigned"
"""The signature of thoughts that came by another wire, where none are signed."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def read(body: dict[str, Any], *, counts: bool = False) -> Asked:
    """Read a request.

    Args:
        body: What came.
        counts: Whether its tokens are to be counted: then no limit is needed.

    Raises:
        WireError: It is none, or asks for what cannot be guarded.
    """
    fields = Fields(body)
    model = fields.needed("model")
    _refuse(fields, counts=counts)
    foreign: list[str] = []
    system = _system(fields, foreign)
    messages = _conversation(fields, foreign)
    tools, hosted, special = _tools(fields)
    foreign += special
    if "mcp_servers" in fields:
        hosted = (*hosted, "mcp_servers")
    if "container" in fields and isinstance(body["container"], dict):
        hosted = (*hosted, "container")
    return Asked(
        wire=WIRE,
        model=model,
        stream=fields.flag("stream") or False,
        system=system,
        messages=messages,
        tools=tools,
        parameters=parameters_of(fields, _parameters(fields)),
        body=body,
        foreign=(
            *fields.beyond(MAPPED | HARMLESS),
            *fields.object("output_config").beyond(frozenset(("effort", "format"))),
            *foreign,
        ),
        hosted=hosted,
        substitutes=_substitutes(fields),
        session=_session(fields),
    )


def _refuse(fields: Fields, *, counts: bool) -> None:
    """Refuse what is another path's."""
    for name, path in (
        ("max_completion_tokens", "/v1/chat/completions"),
        ("response_format", "/v1/chat/completions"),
        ("input", "/v1/responses"),
    ):
        if name in fields:
            raise bad(
                name,
                "it is a field of OpenAI's, and this path takes Anthropic's Messages",
                action=f"send a request of that wire to {path}",
            )
    if "messages" not in fields:
        raise bad("messages", "expected a list of messages")
    if "thread" in fields:
        why = "what the model reads would be kept elsewhere, where nobody sees what taints it"
        raise bad("thread", why, action="send the whole conversation in `messages`")
    if not counts and fields.count("max_tokens") is None:
        raise bad("max_tokens", "expected a whole number, 1 or more")


def _substitutes(fields: Fields) -> tuple[str, ...]:
    """Return the models that may answer in the place of one that declines; ``*`` for any."""
    if fields.raw.get("fallbacks") == "default":
        return ("*",)
    return tuple(one.needed("model") for one in fields.objects("fallbacks", MOST_TOOLS))


def _session(fields: Fields) -> str:
    """Return the session that Claude Code names in its metadata, for want of its header."""
    written = fields.object("metadata").text("user_id")
    if not written:
        return ""
    try:
        told = json.loads(written)
    except ValueError:
        return ""
    session = told.get("session_id") if isinstance(told, dict) else None
    return session if isinstance(session, str) else ""


# -- the conversation ---------------------------------------------------------------


def _system(fields: Fields, foreign: list[str]) -> tuple[SystemText, ...]:
    value = fields.raw.get("system")
    if isinstance(value, str):
        return (came_as(SystemText(text=value, stable=True), Raw(wire=WIRE, data=value)),)
    if value is not None and not isinstance(value, list):
        fields.wrong("system", "text, or a list of blocks of text")
    pieces = []
    for item in fields.objects("system", MOST_PARTS):
        if item.needed("type") != "text":
            item.wrong("type", "text")
        foreign.extend(item.beyond(OF_BLOCKS["text"]))
        piece = SystemText(text=item.text("text"), stable=True)
        pieces.append(came_as(piece, Raw(wire=WIRE, data=item.raw)))
    return tuple(pieces)


def _conversation(fields: Fields, foreign: list[str]) -> tuple[Message, ...]:
    placed: list[tuple[str, Message]] = []
    for item in fields.objects("messages", MOST_MESSAGES):
        role = item.needed("role")
        if role not in ("user", "assistant", "system"):
            told = " (OpenAI's is told by /v1/chat/completions)" if role == "tool" else ""
            item.wrong("role", f"one of user, assistant and system{told}")
        if role == "system":
            foreign.append(f"{item.at} with the role 'system'")
        foreign.extend(item.beyond(frozenset(("role", "content"))))
        content = item.raw.get("content")
        cited: list[bool] = []
        if isinstance(content, str):
            parts: tuple[Part, ...] = (Text(content),)
        elif isinstance(content, list):
            item.raw["content"] = [one for one in content if not _is_unsigned(one)] or content
            blocks = [*item.objects("content", MOST_PARTS)]
            cited = [_has_own_citations(one) for one in blocks]
            parts = tuple(_block(one, role, foreign) for one in blocks)
        else:
            item.wrong("content", "text, or a list of blocks")
        taint = taint_of(parts) | (BROUGHT_TAINT if any(cited) else CLEAN)
        side: Literal["assistant", "user"] = "assistant" if role == "assistant" else "user"
        message = Message(role=side, parts=parts, taint=taint)
        placed.append((item.at, came_as(message, Raw(wire=WIRE, data=item.raw))))
    if not placed:
        raise bad("messages", "expected one message or more")
    check_calls(placed)
    return tuple(message for _, message in placed)


def _is_unsigned(block: object) -> bool:
    """Whether a block holds thoughts that came by another wire: no model takes them back."""
    return isinstance(block, dict) and block.get("signature") == UNSIGNED


def _has_own_citations(block: Fields) -> bool:
    """Whether a block brought citations that came by another wire; they are taken out of it.

    What it rests on taints, and no model takes them back.
    """
    given = block.raw.get("citations")
    if not isinstance(given, list):
        return False
    left = [
        one
        for one in given
        if not (isinstance(one, dict) and one.get("encrypted_index") == UNSIGNED)
    ]
    if len(left) == len(given):
        return False
    if left:
        block.raw["citations"] = left
    else:
        del block.raw["citations"]
    return True


def _block(item: Fields, role: str, foreign: list[str]) -> Part:
    kind = item.needed("type")
    foreign.extend(item.beyond(OF_BLOCKS.get(kind, frozenset(("type",)))))
    if role == "assistant" and kind == "tool_use":
        part: Part = ToolUse(
            id=item.needed("id"), name=item.needed("name"), input=item.object("input").raw
        )
    elif role == "user" and kind == "tool_result":
        part = ToolResultPart(
            tool_use_id=item.needed("tool_use_id"),
            content=_result(item, foreign),
            is_error=item.flag("is_error") or False,
        )
    elif kind in ("tool_use", "tool_result"):
        where = "assistant" if kind == "tool_use" else "user"
        item.wrong("type", f"a block that the role {role!r} may have: it is the {where}'s")
    elif kind in ("text", "image", "document"):
        part = _content(item, kind, foreign)
    else:
        foreign.append(f"{item.at} of the type {kind!r}")
        part = Opaque(provider=WIRE, data=item.raw)
    return came_as(part, Raw(wire=WIRE, data=item.raw))


def _result(item: Fields, foreign: list[str]) -> Content:
    content = item.raw.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        item.wrong("content", "text, or a list of blocks")
    parts = []
    for one in item.objects("content", MOST_PARTS):
        kind = one.needed("type")
        if kind in ("text", "image", "document"):
            foreign.extend(one.beyond(OF_BLOCKS[kind]))
            part = _content(one, kind, foreign)
        else:
            # Read as text, so that no guard misses what stands in it.
            foreign.append(f"{one.at} of the type {kind!r}")
            part = Text(json.dumps(one.raw, ensure_ascii=False))
        parts.append(came_as(part, Raw(wire=WIRE, data=one.raw)))
    return tuple(parts)


def _content(item: Fields, kind: str, foreign: list[str]) -> ContentPart:
    if kind == "text":
        return Text(item.text("text"))
    source, title = item.object("source"), item.text("title")
    match source.needed("type"):
        case "base64":
            data = source.needed("data")
            return media_of(source, source.needed("media_type"), data, name=title)
        case "url":
            foreign.append(source.place("url"))
            return url_of(source, source.needed("url"))
        case "text" if kind == "document":
            return Text(f"{title}:\n{source.text('data')}" if title else source.text("data"))
        case "content" if kind == "document":
            foreign.append(source.place("content"))
            return Text(json.dumps(source.raw.get("content"), ensure_ascii=False))
        case "file":
            foreign.append(source.place("file_id"))
            return Link(uri=f"file:{source.needed('file_id')}", name=title)
    raise source.problem("type", "base64, url, text or file")


# -- the tools ----------------------------------------------------------------------


@kept
def _tools(fields: Fields) -> tuple[tuple[Tool, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the tools that clients run, the types of the others, and what is foreign of them."""
    foreign: list[str] = []
    tools: list[tuple[Fields, Tool]] = []
    hosted: list[str] = []
    for item in fields.objects("tools", MOST_TOOLS):
        kind = item.text("type") or "custom"
        own = kind.startswith(RUN_BY_CLIENTS)
        if kind != "custom" and not own:
            hosted.append(kind)
            continue
        if own:
            foreign.append(f"{item.at} of the type {kind!r}")
        else:
            foreign.extend(item.beyond(OF_TOOLS))
        tool = tool_of(item, "" if own else "input_schema")
        tools.append((item, came_as(tool, Raw(wire=WIRE, data=item.raw))))
    return check_tools(tools), tuple(hosted), tuple(foreign)


# -- how it is asked ----------------------------------------------------------------


def _parameters(fields: Fields) -> dict[str, Any]:
    choice = fields.object("tool_choice")
    serial = choice.flag("disable_parallel_tool_use")
    return {
        "max_output_tokens": fields.count("max_tokens"),
        "temperature": fields.number("temperature", 0, 1),
        "stop": fields.texts("stop_sequences"),
        "top_p": fields.number("top_p", 0, 1),
        "top_k": fields.count("top_k"),
        "tool_choice": _choice(choice),
        "parallel_tool_calls": None if serial is None else not serial,
        "response_format": _format(fields.object("output_config")),
        "reasoning": _thinking(fields),
        "service_tier": fields.text("service_tier") or None,
    }


def _choice(choice: Fields) -> str | None:
    if not choice.raw:
        return None
    kind = choice.needed("type")
    if kind == "tool":
        return choice.needed("name")
    return CHOICES.get(kind) or choice.wrong("type", "auto, any, tool or none")


def _format(output: Fields) -> Mapping[str, Any] | None:
    if "format" not in output:
        return None
    wanted = output.object("format")
    if wanted.needed("type") != "json_schema":
        wanted.wrong("type", "json_schema")
    return wanted.object("schema").raw


def _thinking(fields: Fields) -> int | str | None:
    thinking = fields.object("thinking")
    if thinking.text("type") != "enabled" and (
        effort := fields.object("output_config").text("effort")
    ):
        return effort
    match thinking.text("type"):
        case "enabled":
            return thinking.count("budget_tokens", 1)
        case "adaptive":
            return "medium"
    return None
