"""Errors as the vendors' SDKs read them: the class by the status, the words by the shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from hookgate import ErrorAnswer, WireError, new_id
from hookgate.clients import wire_error
from hookgate.wire import dumps

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
