"""The error codes of the wire, and what an exception becomes there.

One table serves JSON-RPC and HTTP: the number stands in ``error.code``, the name in
``error.data.code``, and over HTTP the status goes with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hookgate.core.domain import strict_json
from hookgate.core.domain.errors import (
    MOST_OF_REFUSALS,
    HookError,
    HookgateError,
    ProviderError,
    RefusedError,
    StoreError,
    TurnError,
    WireError,
    wait_of,
)
from hookgate.core.domain.messages import new_id
from hookgate.core.domain.ports import Key
from hookgate.core.hooks.tasks import told
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.end import HOOK_ACTION, INTERNAL_ACTION, STORE_ACTION

if TYPE_CHECKING:
    from hookgate.core.host import Host

MEND_ACTION = "mend what it names, and try again"
"""What to do where a plugin has refused on purpose, such as rules that cannot be read."""

FAILED = -32000
"""The JSON-RPC code of everything that has no number of its own: ``data.code`` tells."""


@dataclass(frozen=True, slots=True)
class Code:
    """One error code.

    Attributes:
        number: The JSON-RPC code. -32099 to -32000 are the application's own.
        name: The stable word for programs.
        status: The HTTP status that goes with it.
        meaning: When it is sent.
    """

    number: int
    name: str
    status: int
    meaning: str


CODES = (
    Code(-32700, "parse_error", 400, "The frame or body is not JSON, or not strict JSON."),
    Code(-32600, "invalid_request", 400, "It is JSON, but not a request: shape, id, batch."),
    Code(-32601, "method_not_found", 404, "There is no such method."),
    Code(-32602, "invalid_params", 400, "The parameters do not fit the method's schema."),
    Code(-32603, "internal", 500, "A fault of the gateway; the log has it under `data.id`."),
    Code(FAILED, "failed", 500, "What was asked did not work; `data.code` says how."),
    Code(-32001, "unauthorized", 401, "A token is needed, or the one that came is not known."),
    Code(-32002, "forbidden", 403, "The principal lacks the scope, or claims another's address."),
    Code(-32003, "no_agent", 422, "No agent answers this address."),
    Code(-32004, "lane_full", 429, "Too many messages wait for this session."),
    Code(-32005, "refused", 403, "A plugin refused; 429 where `data.retry_after` is given."),
    Code(-32006, "not_found", 404, "What the parameters name is not there."),
    Code(-32007, "too_many_turns", 429, "This client has too many turns running."),
    Code(-32008, "lane_held", 409, "A turn holds the session's lane, or nests too deep."),
    Code(-32009, "cancelled", 409, "It was cancelled before anything was committed."),
    Code(-32010, "too_many_attempts", 429, "Too many failed authentications from this address."),
    Code(-32011, "stopping", 503, "The gateway stops, or has not started yet."),
    Code(-32012, "store_failed", 503, "The store cannot be read or written; nothing was done."),
    Code(-32013, "provider_failed", 502, "The model's provider failed."),
    Code(-32014, "too_many_requests", 429, "Too many requests or clients at once."),
    Code(-32015, "wrong_host", 421, "The Host header names a host that this gateway is not."),
    Code(-32016, "wrong_origin", 403, "A web page of another origin asks."),
    Code(-32017, "forwarded", 400, "A proxy is in front of a listener that has no tokens."),
    Code(-32018, "bad_target", 400, "The request's target or Host header is malformed."),
    Code(
        -32019,
        "too_large",
        413,
        "The body is longer than `limits.frame_bytes`, or the provider takes.",
    ),
    Code(-32020, "unsupported_media_type", 415, "The body is not `application/json`."),
    Code(-32021, "method_not_allowed", 405, "The path is there, but not for this method."),
    Code(-32022, "not_acceptable", 406, "It only streams: ask with `Accept: text/event-stream`."),
    Code(-32023, "upgrade_required", 426, "This path speaks WebSocket only."),
    Code(-32024, "timeout", 408, "The rest of the request did not come in time."),
    Code(-32025, "not_checked", 503, "The credential cannot be checked now; nobody is let in."),
    Code(-32026, "message_too_long", 413, "The message does not fit into `context.budget_tokens`."),
    Code(-32027, "unknown_provider", 404, "No provider has the name that the model begins with."),
    Code(-32028, "lane_lost", 503, "Somebody else took the session meanwhile; no answer was kept."),
    Code(-32029, "unknown_model", 404, "The provider has no model of the name that was asked for."),
)

_BY_NAME = {code.name: code for code in CODES}
_BY_NUMBER = {code.number: code for code in CODES}
_ALIASES = {"not_allowed": "forbidden", "turn_failed": "failed", "hook_failed": "failed"}

ERROR_CODES: Key[Mapping[str, Code]] = Key("error codes of plugins")
"""Where the codes are that plugins have registered, by name."""


def is_own_code(name: str) -> bool:
    """Whether the gateway itself uses a code called `name`."""
    return name in _BY_NAME or name in _ALIASES


def wire_error(name: str, message: str, *, action: str = "", **data: Any) -> WireError:
    """Return the exception for the code called `name`.

    Args:
        name: A name of the table.
        message: What was found and what was expected.
        action: What the caller can do.
        data: More for programs, JSON-ready.
    """
    return WireError(_BY_NAME[name].number, message, data={**data, "code": name, "action": action})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorAnswer:
    """An error as it goes out: secrets are masked.

    Attributes:
        number: The JSON-RPC code.
        message: For people.
        data: For programs; ``code`` and ``action`` are always there.
        status: The HTTP status.
    """

    number: int
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
    status: int = 500

    @property
    def code(self) -> str:
        """The stable word for programs."""
        return str(self.data.get("code", ""))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON-RPC error object; HTTP answers carry the same."""
        return {"code": self.number, "message": self.message, "data": dict(self.data)}


def describe_error(host: Host, error: Exception) -> ErrorAnswer:
    """Return what a client gets to see of `error`.

    What hookgate raises on purpose is meant for people and goes out, redacted. Anything
    else is a fault: the client gets an id, and the log has the rest under it.
    """
    code, data = _classify(error)
    message = _text(error)
    if code.name == "internal" and not isinstance(error, HookgateError):
        fault = new_id("fault")
        host.log.error("internal error", id=fault, exc_info=error)
        message = f"internal error; the log of the gateway has it as {fault}"
        data = {"id": fault, "action": INTERNAL_ACTION}
    status = code.status
    if code.name in ("failed", "refused"):
        named = str(data.get("code"))
        known = host.get(ERROR_CODES, {}).get(named) or _BY_NAME.get(named)
        if known is not None and known is not code:
            status = known.status
        elif code.name == "refused" and data.get("retry_after") is not None:
            status = 429
    elif data.get("kind") == "context_overflow":
        status = 413  # What was asked is too long, and is as long when it is sent again.
    return ErrorAnswer(
        number=code.number,
        message=host.secrets.redact(message),
        data=_sendable(host, {"code": code.name, "action": "", **data}),
        status=status,
    )


def wait_header(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the header that says when to come back, for an error whose data say it."""
    wait = wait_of(data.get("retry_after"), most=MOST_OF_REFUSALS)
    # Rounded up: who comes back a moment too early is refused again.
    return {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}


def _text(error: Exception) -> str:
    """Return what an error says, which code of plugins may have made, as text that can be sent."""
    try:
        return str(error).encode("utf-8", "replace").decode()
    except Exception as unreadable:  # noqa: BLE001 - whatever it raises, the client is answered
        return f"{type(error).__name__}, whose message cannot be read ({type(unreadable).__name__})"


def _sendable(host: Host, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of an error, redacted; without what a plugin put there that is no JSON."""
    kept: dict[str, Any] = {"code": "failed", "action": ""}
    for name, value in data.items():
        try:
            clean = redact_json(host.secrets, {name: value})
            strict_json.dumps(clean)
            if name == "retry_after" and not 0 <= float(value) < math.inf:
                raise ValueError("expected seconds, 0 or more")
        except Exception as wrong:  # noqa: BLE001 - whatever it is, the client is answered
            host.log.error("the data of an error cannot be sent", name=name, found=told(wrong))
        else:
            kept.update(clean)
    return kept


def _classify(error: Exception) -> tuple[Code, dict[str, Any]]:
    match error:
        case WireError():
            return _BY_NUMBER.get(error.code, _BY_NAME["failed"]), error.data
        case RefusedError():
            return _BY_NAME["refused"], {**error.data, "code": error.code, "action": error.action}
        case TurnError():
            name = error.code if error.code in _BY_NAME else type(error).code
            code = _BY_NAME.get(_ALIASES.get(name, name), _BY_NAME["failed"])
            return code, {**error.data, "code": error.code, "action": error.action}
        case StoreError():
            return _BY_NAME["store_failed"], {"action": STORE_ACTION}
        case ProviderError():
            failed: dict[str, Any] = {"kind": error.kind, "action": error.action}
            if error.retry_after is not None:
                failed["retry_after"] = error.retry_after
            return _BY_NAME.get(error.code, _BY_NAME["provider_failed"]), failed
        case HookError():
            # Who has refused on purpose has said what is wrong, and works.
            meant = isinstance(error.__cause__, HookgateError)
            return _BY_NAME["failed"], {
                "code": "hook_failed",
                "action": MEND_ACTION if meant else HOOK_ACTION,
                "hook": error.hook,
                "plugin": error.plugin,
            }
        case HookgateError():
            return _BY_NAME["failed"], {}
        case _:
            return _BY_NAME["internal"], {}
