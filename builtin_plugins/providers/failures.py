"""Failures of a provider: which kind they are, and one clear line about each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from hookgate import (
    EgressDeniedError,
    EgressError,
    EgressFailureKind,
    ProviderError,
    ProviderErrorKind,
)
from hookgate.kit.durations import retry_after

MAX_BODY = 65_536
"""Bytes of an error's body that are read."""

MAX_MESSAGE = 400

_STATUS_KINDS: dict[int, ProviderErrorKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}

_EGRESS_KINDS: dict[EgressFailureKind, ProviderErrorKind] = {
    "connect": "unreachable",
    "timeout": "timeout",
    "cut": "cut",
    "limit": "malformed",
    "protocol": "malformed",
}

_NAME_KINDS: tuple[tuple[str, ProviderErrorKind], ...] = (
    ("rate_limit", "rate_limited"),
    ("quota", "rate_limited"),
    ("overloaded", "overloaded"),
    ("unavailable", "overloaded"),
    ("timeout", "timeout"),
    ("auth", "auth"),
    ("permission", "auth"),
    ("api_key", "auth"),
    ("invalid", "rejected"),
    ("bad_request", "rejected"),
    ("not_found", "rejected"),
    ("context_length", "rejected"),
    ("exceed_context", "rejected"),
)
"""Part of an error's type or code -> its kind; the first that is found counts."""

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|string_above_max_length"
    r"|maximum context length|max(?:imum)? (?:model|sequence|prompt) len"
    r"|exceeds? (?:the |its )?(?:available |maximum |model'?s? )*(?:context|max context)"
    r"|exceed(?:s|ed|ing)? (?:the )?context (?:limit|length|size|window)"
    r"|context (?:size|length|window) (?:has been |was )?exceeded|context the overflows"
    r"|longer than the (?:maximum|model'?s?) (?:model |context )*len"
    r"|(?:prompt|input) is too long|prompt too long|input is too large to process"
    r"|token count .{0,40}exceeds the maximum number of (?:input )?tokens"
    r"|too large for model with \d+ maximum context|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
"""How providers say that a request is longer than the model's context: OpenAI, Azure, Groq and
Mistral; Anthropic; Ollama, llama.cpp, vLLM and LM Studio; Gemini."""

_NO_MODEL = re.compile(
    r"model_not_found|not_found_error[^{}]{0,200}\bmodel\b|no such model|unknown model"
    r"|\bmodels?\b[^{}]{0,200}(?:not found|not exist)",
    re.IGNORECASE,
)
"""How providers say that they have no model of that name: OpenAI and Azure; Anthropic; Ollama,
vLLM, Gemini and Mistral. A 404 alone says as much of a wrong `base_url`."""

_TAG = re.compile(rb"<[^<>]{0,1000}>")


def kind_of_overflow(kind: ProviderErrorKind, text: str) -> ProviderErrorKind:
    """Return `kind`, or ``context_overflow`` where `text` says that the request was too long.

    Args:
        kind: What the failure is taken for otherwise.
        text: The error's type, code and message.
    """
    meant = kind in ("rejected", "server") and _OVERFLOW.search(text) is not None
    return "context_overflow" if meant else kind


def kind_of_status(status: int) -> ProviderErrorKind:
    """Return the kind of failure that an HTTP status says."""
    known = _STATUS_KINDS.get(status)
    if known is not None:
        return known
    if status < 300:
        return "malformed"  # A success that holds no answer.
    return "server" if status >= 500 else "rejected"


def kind_of_names(names: str, code: Any) -> ProviderErrorKind:
    """Return the kind of failure that an error object says.

    Args:
        names: Its type and code, in lower case.
        code: Its code; some servers put the HTTP status of another server there.
    """
    for part, kind in _NAME_KINDS:
        if part in names:
            return kind
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code[:4])
    return kind_of_status(code) if isinstance(code, int) and code >= 400 else "server"


def shorten(text: str, limit: int = MAX_MESSAGE) -> str:
    """Return `text` on one line, cut to `limit` characters with a mark."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def message_of(body: bytes) -> str:
    """Return what an error's body says, in one short line."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        # Often the page of a proxy in between; its beginning names the trouble.
        return shorten(_TAG.sub(b" ", body[:4096]).decode("utf-8", "replace"))
    return shorten(_dig(value)) or shorten(body.decode("utf-8", "replace"))


def _dig(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and depth < 4:
        return _dig(value[0], depth + 1)
    if isinstance(value, dict) and depth < 4:
        for key in ("error", "message", "detail", "msg", "error_description"):
            if found := _dig(value.get(key), depth + 1):
                return found
    return ""


def from_status(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, now: datetime
) -> ProviderError:
    """Return the error that a response without an answer stands for."""
    said_whole = body.decode("utf-8", "replace")
    kind = kind_of_overflow(kind_of_status(status), said_whole)
    wait = retry_after(headers, now)
    said = message_of(body)
    text = f"{provider} answered with HTTP {status}"
    if 300 <= status < 400:
        text += ", a redirect, which is not followed"
    if said:
        text += f": {said}"
    if wait is not None:
        text += f" (asks to wait {wait:g} s)"
    if kind == "auth":
        text += "; check its API key"
    code = "too_large" if status == 413 else "provider_failed"
    if status in (400, 404) and _NO_MODEL.search(said_whole) is not None:
        code = "unknown_model"
    return ProviderError(
        kind,
        text,
        provider=provider,
        status=status,
        retry_after=wait,
        code=code,
    )


def from_egress(provider: str, error: EgressError) -> ProviderError:
    """Return the error that a request which did not happen stands for."""
    # The client is called after the provider; said once is enough.
    said = str(error).removeprefix(f"provider {provider}: ")
    if isinstance(error, EgressDeniedError):
        return ProviderError(
            "rejected", f"{provider} must not be reached: {said}", provider=provider
        )
    kind = _EGRESS_KINDS[getattr(error, "kind", "protocol")]
    what = {
        "unreachable": "cannot be reached",
        "timeout": "took too long",
        "cut": "broke off",
        "malformed": "sent what cannot be read",
    }[kind]
    return ProviderError(kind, f"{provider} {what}: {said}", provider=provider)
