"""A hookgate plugin: clients of Ollama's chat API, their tool calls judged.

The shapes are those of https://github.com/ollama/ollama/blob/main/docs/api.md, `POST /api/chat`.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from hookgate import (
    Access,
    Event,
    HookgateError,
    Message,
    ModelParameters,
    ModelRef,
    Opaque,
    Origin,
    Provenance,
    SystemText,
    Text,
    Tool,
    ToolResultPart,
    ToolUse,
    TurnRequest,
    hookimpl,
    principal_of,
)
from hookgate.wire import Raw, StrictJSONError, came_as, loads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hookgate import Host, Part, Routes, TurnHandle

WIRE = "ollama-chat"
KNOWN = frozenset(("model", "messages", "tools", "stream", "options", "keep_alive"))
SAMPLING = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "seed": "seed"}
MAX_BODY = 4 * 1024 * 1024


class Plugin:
    """Takes requests of clients of Ollama, whichever provider answers them."""

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the one route, to whoever may chat."""

        async def chat(request: web.Request) -> web.StreamResponse:
            try:
                body: Any = loads((await request.read()).decode())
                asked = asked_of(body, passes=wire_of(host, body) == WIRE)
            except (StrictJSONError, ValueError, KeyError, TypeError, AttributeError) as error:
                return web.json_response({"error": f"found no chat request: {error}"}, status=400)
            origin = Origin(provenance=Provenance.EXTERNAL_USER, path="ollama")
            waiting: asyncio.Queue[Event | None] = asyncio.Queue()
            try:
                # A sink, not the reader of the handle: that joins pieces for a slow client.
                handle = host.start_turn(
                    principal_of(request), origin, asked, sink=waiting.put_nowait
                )
            except HookgateError as error:
                return web.json_response({"error": str(error)}, status=400)
            handle.task.add_done_callback(lambda _: waiting.put_nowait(None))
            lines = lines_of(handle, waiting, body["model"])
            if body.get("stream") is False:
                return web.json_response(whole([line async for line in lines]))
            response = web.StreamResponse(headers={"content-type": "application/x-ndjson"})
            await response.prepare(request)
            try:
                async for line in lines:
                    await response.write(json.dumps(line).encode() + b"\n")
            finally:
                handle.cancel("the client has gone")  # nothing, where it is over
            return response

        access = Access.scoped("chat")
        routes.add("POST", "/api/chat", chat, access=access, max_body=MAX_BODY)


def wire_of(host: Host, body: Any) -> str:
    """Return the wire that the provider of the model speaks; "" where nobody knows."""
    provider = host.providers.get(ModelRef.parse(body["model"]).provider)
    return getattr(provider, "wire", "")


def asked_of(body: Any, *, passes: bool) -> TurnRequest:
    """Return what a body asks; what it came as stands beside each part of it.

    Raises:
        ValueError: It holds what no other wire can carry, and the provider speaks another one.
    """
    options = body.get("options") or {}
    unknown = sorted((body.keys() - KNOWN) | (options.keys() - SAMPLING.keys() - {"stop"}))
    if unknown and not passes:
        raise ValueError(f"the model's provider cannot be told {', '.join(unknown)}")
    every = [message_of(item) for item in body["messages"]]
    front = next((i for i, one in enumerate(body["messages"]) if one["role"] != "system"), None)
    return TurnRequest(
        content="",
        client_history=tuple(every[front:] if front is not None else ()),
        system=tuple(
            came_as(SystemText(text=item["content"]), Raw(wire=WIRE, data=item))
            for item in body["messages"][:front]
        ),
        client_tools=tuple(tool_of(item) for item in body.get("tools") or ()),
        model=body["model"],
        parameters=ModelParameters(
            stop=tuple(options.get("stop") or ()),
            **{name: options.get(field) for field, name in SAMPLING.items()},
        ),
        raw=Raw(wire=WIRE, data=body),
        verbatim=True,
        ephemeral=True,
    )


def message_of(item: dict[str, Any]) -> Message:
    """Return one message; one of the wire is one here, in its place."""
    role, text = item["role"], item.get("content") or ""
    parts: list[Part] = [Text(text)] if text else []
    if role == "tool":
        parts = [ToolResultPart(tool_use_id=item.get("tool_call_id", ""), content=text)]
    for call in item.get("tool_calls") or ():
        told = call["function"]
        parts.append(ToolUse(id=call.get("id", ""), name=told["name"], input=told["arguments"]))
    parts.extend(
        Opaque(provider=WIRE, data={"type": name})
        for name in ("images", "thinking")
        if item.get(name)
    )
    known: Any = role if role in ("assistant", "tool") else "user"
    return came_as(Message(role=known, parts=tuple(parts)), Raw(wire=WIRE, data=item))


def tool_of(item: dict[str, Any]) -> Tool:
    """Return a tool that the client runs; what it does to the world is not known."""
    told = item["function"]
    tool = Tool(
        name=told["name"],
        description=told.get("description", ""),
        schema=told.get("parameters") or {"type": "object"},
        owner="client",
    )
    return came_as(tool, Raw(wire=WIRE, data=item))


async def lines_of(
    handle: TurnHandle, waiting: asyncio.Queue[Event | None], model: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of an answer: as they came where they came so, else made of what was said."""
    end: list[dict[str, Any]] = []
    while (event := await waiting.get()) is not None:
        raw = getattr(event.value, "raw", None)
        came = raw.data if raw is not None and raw.wire == WIRE else None
        if event.type == "stop":
            end = came or []  # of a round whose calls were denied, the client sees nothing
        elif event.type in ("text", "frame", "tool_use") and came is not None:
            for line in came if isinstance(came, list) else [came]:
                yield line
        elif event.type == "text" and event.data["text"]:
            yield line_of(model, {"role": "assistant", "content": event.data["text"]})
        elif event.type == "tool_use" and event.data.get("owner") == "client":
            told = {"name": event.data["name"], "arguments": event.data["input"]}
            calls = [{"id": event.data["id"], "function": told}]
            yield line_of(model, {"role": "assistant", "content": "", "tool_calls": calls})
    turn = handle.turn
    if turn.ending not in ("done", "awaiting_client"):
        failure = handle.task.exception() if turn.error is None else turn.error
        yield {"error": str(failure)}
        return
    counts = {"prompt_eval_count": turn.usage.total_input, "eval_count": turn.usage.total_output}
    last = {**line_of(model, {"role": "assistant", "content": ""}), "done": True, **counts}
    for line in end or [{**last, "done_reason": "stop"}]:
        yield line


def line_of(model: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return one line of an answer."""
    return {"model": model, "message": message, "done": False}


def whole(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer in one piece: its last line, with all that was said."""
    messages = [line["message"] for line in lines if "message" in line]
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = "".join(one.get("content") or "" for one in messages)
    if calls := [call for one in messages for call in one.get("tool_calls") or ()]:
        message["tool_calls"] = calls
    return lines[-1] if "error" in lines[-1] else {**lines[-1], "message": message}
