"""What both wires' answers are made of: stop reasons, and pieces put together.

A writer turns a turn's events into the frames of its wire. Frames of an upstream that speaks the
same wire go out as they came, so that nothing is lost; where a guard has changed something, or the
upstream speaks another wire, the writer makes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aiohttp import web

from hookgate import ErrorAnswer, Event, Host, StopEvent, StopReason, Turn, WireError, new_id
from hookgate.builtin_plugins.compat.fields import Asked
from hookgate.clients import wire_error
from hookgate.wire import TextFrames, dumps

WireFrame: TypeAlias = dict[str, Any]
"""One event of a stream."""

Written: TypeAlias = WireFrame | TextFrames
"""One event, or several that say some text each and go out as they came."""

CHAT_STOPS: Mapping[StopReason, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "paused": "length",
    "refusal": "content_filter",
}
MESSAGES_STOPS: Mapping[StopReason, str] = {
    "end": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "paused": "pause_turn",
    "refusal": "refusal",
}


def stop_of(stop: StopEvent | None, turn: Turn) -> StopReason | None:
    """Return why the model has stopped: as its provider said, or as the turn has it."""
    return turn.stop if stop is None else stop.reason


def matched_of(stop: StopEvent | None, stops: Collection[str]) -> str:
    """Return which of a client's texts has ended an answer; "" where nobody knows it.

    Args:
        stop: How the answer has ended.
        stops: The texts.
    """
    if stop is None:
        return ""
    if stop.reason == "stop_sequence" and len(stops) == 1:
        return next(iter(stops))
    # Of several ones it is known where the upstream has said it.
    return stop.matched if stop.matched in stops else ""


class Writer(Protocol):
    """Writes one answer."""

    def take(self, event: Event) -> Iterable[Written]:
        """Return the frames that an event of the turn brings."""

    def end(self, turn: Turn, said: str = "") -> Iterable[WireFrame]:
        """Return the last frames of an answer that is whole.

        Args:
            turn: The turn, ended.
            said: What the gateway says in the place of calls that it has denied.
        """

    def fail(self, error: ErrorAnswer, request_id: str) -> Iterable[WireFrame]:
        """Return the last frames of an answer that has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWire:
    """One wire, as clients speak it.

    Attributes:
        provider: The setting that names the provider of models without one.
        read: Reads a request.
        writer: Makes the writer of an answer.
        fold: Makes one answer of frames.
        named: Whether each event has its type as its name.
        pings: Whether a client that waits is sent a `ping`.
        last: What ends a stream that is whole.
    """

    provider: str
    read: Callable[[dict[str, Any]], Asked]
    writer: Callable[[Asked], Writer]
    fold: Callable[[Iterable[WireFrame]], WireFrame]
    named: bool
    pings: bool = False
    last: str = ""

    def whole(self, frames: Iterable[WireFrame], headers: Mapping[str, str]) -> web.Response:
        """Return the answer in one piece that frames make."""
        body = dumps(self.fold(frames))
        return web.Response(body=body, content_type="application/json", headers=headers)

    def name_of(self, frame: Mapping[str, Any]) -> str:
        """Return the name of the event that a frame is sent as; "" for none."""
        return str(frame.get("type", "")) if self.named else ""


class TextPieces(list[str]):
    """A text while it comes: joined once, at its end."""


ATOMS = frozenset(("role", "type", "id", "name", "index", "signature"))
"""Texts that are whole where they stand, and no pieces of longer ones."""


def merge(into: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add what a delta brings: texts and lists grow, objects are merged, the rest is replaced."""
    for key, value in delta.items():
        known = into.get(key)
        if isinstance(value, str) and key not in ATOMS:
            if isinstance(known, TextPieces):
                known.append(value)
            elif isinstance(known, list):
                _go_on(known, value)
            else:
                into[key] = TextPieces((value,))
        elif isinstance(value, dict):
            if not isinstance(known, dict):
                known = into[key] = {}
            merge(known, value)
        elif isinstance(value, list):
            if isinstance(known, TextPieces):
                told, known = known, []
                _go_on(known, "".join(told))
                into[key] = known
            elif not isinstance(known, list):
                known = into[key] = []
            _extend(known, value)
        elif value is not None or key not in into:
            into[key] = value


def _go_on(parts: list[Any], text: str) -> None:
    """Add a plain piece of a text that comes in parts as well."""
    last = parts[-1] if parts else None
    if isinstance(last, dict) and isinstance(last.get("text"), TextPieces):
        last["text"].append(text)
    elif text:
        parts.append({"type": "text", "text": TextPieces((text,))})


def _extend(into: list[Any], items: Iterable[Any]) -> None:
    """Add the items of a list; those with an ``index`` find the one that they go on with."""
    for item in items:
        index = item.get("index") if isinstance(item, dict) else None
        if not isinstance(index, int):
            into.append(item)
            continue
        known = next((one for one in into if one.get("index") == index), None)
        if known is None:
            known = {}
            into.append(known)
        merge(known, item)


def joined(value: Any) -> Any:
    """Return what was merged, with its texts in one piece each."""
    if isinstance(value, TextPieces):
        return "".join(value)
    if isinstance(value, dict):
        return {key: joined(one) for key, one in value.items()}
    if isinstance(value, list):
        return [joined(one) for one in value]
    return value


def came_by(event: Event) -> list[WireFrame]:
    """Return the frames that an event came by, of an upstream that speaks the client's wire."""
    raw = getattr(event.value, "raw", None)
    if raw is None:
        return []
    return list(raw.data) if isinstance(raw.data, list) else [raw.data]


# -- a sign of life before an answer in one piece ------------------------------------------


async def behind_white_space(
    request: web.Request,
    headers: Mapping[str, str],
    answer: Coroutine[Any, Any, web.Response],
    seconds: float,
    host: Host,
) -> web.StreamResponse:
    """Return an answer, with white space before it while it is waited for.

    Args:
        request: The request.
        headers: What is known of the answer's headers before the answer is there.
        answer: Makes the answer.
        seconds: How long each wait is; 0 for no white space.
        host: Logs what fails behind white space.

    Raises:
        Exception: There is no answer, and nothing was sent. Where something was, the client could
            take it for a whole answer: the connection is broken instead.
    """
    if not seconds:
        return await answer
    task = asyncio.ensure_future(answer)
    begun: web.StreamResponse | None = None
    try:
        while not (await asyncio.wait((task,), timeout=seconds))[0]:
            if begun is None:
                kind = {"Content-Type": "application/json"}
                begun = web.StreamResponse(headers={**headers, **kind})
                await begun.prepare(request)
            await begun.write(b" ")
        if begun is None:
            return task.result()
        body = task.result().body
        assert isinstance(body, bytes), "an answer in one piece is made of bytes"
        await begun.write(body)
        await begun.write_eof()
        return begun
    except ConnectionResetError:
        if begun is None:
            raise
        return begun  # The client has gone, which whoever runs the turn sees as well.
    except Exception as error:
        if begun is None:
            raise
        host.log.warning(
            "an answer failed behind its white space", path=request.path, exc_info=error
        )
        if (transport := request.transport) is not None:
            transport.abort()
        return begun
    finally:
        task.cancel()


# -- errors ------------------------------------------------------------------------

PASSING = frozenset(("rate_limited", "overloaded", "timeout", "unreachable", "cut", "server"))
"""The kinds of a provider's failure that may be over when the same is asked again."""

OF_KINDS: Mapping[str, int] = {
    "rate_limited": 429,
    "overloaded": 503,
    "timeout": 504,
    "rejected": 400,
    "context_overflow": 400,
}
"""The statuses of a provider's failures; all others are 502. A key that the provider does not take
is the gateway's own: no client is to take that for a fault of the key that it has sent."""

OPENAI_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
OPENAI_CODES: Mapping[str, str] = {
    "unauthorized": "invalid_api_key",
    "unknown_model": "model_not_found",
    "unknown_provider": "model_not_found",
    "too_many_requests": "rate_limit_exceeded",
    "client_tool_taken": "invalid_value",
    "invalid_params": "invalid_value",
}
ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

REQUEST_ID: web.RequestKey[str] = web.RequestKey("hookgate compat request", str)


def request_id(request: web.Request) -> str:
    """Return the id of a request, which every answer to it carries."""
    if REQUEST_ID not in request:
        request[REQUEST_ID] = new_id("req")
    return request[REQUEST_ID]


def id_headers(request: web.Request) -> dict[str, str]:
    """Return the headers by which both vendors name a request."""
    named = request_id(request)
    return {"x-request-id": named, "request-id": named}


def status_of(error: ErrorAnswer) -> int:
    """Return the status of an error: what SDKs choose their class by."""
    kind = error.data.get("kind")
    if error.status in (404, 413) and (kind != "context_overflow" or error.code == "too_large"):
        return error.status
    if kind is not None:
        return OF_KINDS.get(str(kind), 502)
    return 400 if error.code == "client_tool_taken" else error.status


def told(error: ErrorAnswer) -> str:
    """Return what went wrong, and what to do about it."""
    action = str(error.data.get("action") or "")
    return f"{error.message.rstrip('.')}. {action}".strip() if action else error.message


def retried(error: ErrorAnswer) -> bool:
    """Whether the same request may succeed a little later."""
    if error.data.get("retried"):
        return False
    kind = error.data.get("kind")
    if kind is not None:
        return kind in PASSING
    status = status_of(error)
    if status in (408, 503):
        return True
    return status == 429 and error.data.get("retry_after") is not None and not _refused(error)


def _refused(error: ErrorAnswer) -> bool:
    return error.number == -32005


def _headers(request: web.Request, error: ErrorAnswer) -> dict[str, str]:
    headers = id_headers(request)
    if not retried(error):
        # Both vendors' SDKs ask twice more otherwise, and obey this.
        headers["x-should-retry"] = "false"
    elif (wait := error.data.get("retry_after")) is not None:
        headers["retry-after-ms"] = str(round(float(wait) * 1000))
    return headers


def openai_error(error: ErrorAnswer) -> dict[str, Any]:
    """Return an error in OpenAI's shape."""
    status = status_of(error)
    kind = "server_error" if status >= 500 else OPENAI_TYPES.get(status, "invalid_request_error")
    code = OPENAI_CODES.get(error.code, error.code or None)
    if error.data.get("kind") == "context_overflow":
        code = "context_length_exceeded"
    param = error.data.get("param") or None
    return {"error": {"message": told(error), "type": kind, "param": param, "code": code}}


def anthropic_error(error: ErrorAnswer, named: str) -> dict[str, Any]:
    """Return an error in Anthropic's shape.

    Args:
        error: The error.
        named: The id of the request.
    """
    kind = ANTHROPIC_TYPES.get(status_of(error), "api_error")
    details = {"type": kind, "message": told(error)}
    for key in ("param", "code"):
        if error.data.get(key):
            details[key] = str(error.data[key])
    return {"type": "error", "error": details, "request_id": named}


def is_anthropic(request: web.Request) -> bool:
    """Whether a request is of Anthropic's wire: by its path, or by the header of that SDK."""
    path = request.path
    if path.startswith(("/anthropic", "/v1/messages")):
        return True
    return path.startswith("/v1/models") and "anthropic-version" in request.headers


def shape(request: web.Request, error: ErrorAnswer) -> web.Response:
    """Answer with an error, in the shape of the vendor whose wire the request is of."""
    status = status_of(error)
    body = openai_error(error)
    if is_anthropic(request):
        status = 529 if status == 503 else status
        body = anthropic_error(error, request_id(request))
    return web.Response(
        status=status,
        body=dumps(body),
        content_type="application/json",
        headers=_headers(request, error),
    )


def interrupted() -> WireError:
    """Return what an answer ends with that the end of the gateway has cut off."""
    # Another gateway takes it, or this one once it is there again.
    return wire_error(
        "stopping",
        "the gateway stops, and the answer was not whole",
        action="send it again in a moment",
        retry_after=1,
    )
