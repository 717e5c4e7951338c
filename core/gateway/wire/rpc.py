"""JSON-RPC 2.0: reading requests, finding methods, writing answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from hookgate.core.domain import strict_json
from hookgate.core.domain.errors import WireError
from hookgate.core.domain.events import Event
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.access.auth import AccessGate
from hookgate.core.gateway.codes import ErrorAnswer, wire_error
from hookgate.core.gateway.operations import Invocation, Operation, OperationModel
from hookgate.core.host import Host

CallId = str | int

MAX_ID = 256
"""Characters of the longest id; every event of a request repeats it."""

_MEMBERS = frozenset(("jsonrpc", "id", "method", "params"))
_MAX_SHOWN = 80

WHOLE = "params"
"""The path of a problem that is about no single parameter."""


class BadCall(WireError):
    """A frame is no request.

    Attributes:
        call_id: The request's id where one could be read; None otherwise.
    """

    def __init__(self, error: WireError, call_id: CallId | None) -> None:
        super().__init__(error.code, str(error), data=error.data)
        self.call_id = call_id


def read_call(frame: bytes | str) -> tuple[CallId | None, str, dict[str, Any]]:
    """Read one request.

    Args:
        frame: What came in: one JSON text.

    Returns:
        Its id (None for a notification), its method and its parameters.

    Raises:
        BadCall: It is no JSON, a batch, or has the wrong shape.
    """
    try:
        value = strict_json.loads(frame)
    except strict_json.StrictJSONError as error:
        problem = wire_error("parse_error", str(error), action="send one strict JSON text a frame")
        raise BadCall(problem, None) from None
    if type(value) is dict:
        call_id: Any = value.get("id")
        params = value.get("params", _NONE)
        kind = type(call_id)
        if (
            (kind is int or (kind is str and len(call_id) <= MAX_ID))
            and value.get("jsonrpc") == "2.0"
            and type(value.get("method")) is str
        ):
            # The members that a request has are there; with as many in all, no other one is.
            if params is _NONE and len(value) == 3:
                return call_id, value["method"], {}
            if type(params) is dict and len(value) == 4:
                return call_id, value["method"], params
    return _read_rare(value)


def _read_rare(value: Any) -> tuple[CallId | None, str, dict[str, Any]]:
    """Read a notification, or say what is wrong with a request."""
    if type(value) is not dict:
        raise BadCall(_no_object(value), None)
    call_id = value.get("id")
    if type(call_id) not in (int, str) and "id" in value:
        raise BadCall(_no_id(call_id), None)
    if type(call_id) is str and len(call_id) > MAX_ID:
        raise BadCall(
            _wrong("an id of more than 256 characters", "a shorter one", "use short ids"), None
        )
    if value.get("jsonrpc") != "2.0":
        found = "another `jsonrpc`" if "jsonrpc" in value else "no `jsonrpc`"
        raise BadCall(_wrong(found, '"2.0"', 'send `"jsonrpc": "2.0"`'), call_id)
    name = value.get("method")
    if type(name) is not str:
        raise BadCall(_wrong("no `method`", "a method's name", "name a method"), call_id)
    if not value.keys() <= _MEMBERS:
        odd = ", ".join(sorted(value.keys() - _MEMBERS))[:_MAX_SHOWN]
        raise BadCall(_wrong(odd, ", ".join(sorted(_MEMBERS)), "leave it out"), call_id)
    params = value.get("params", {})
    if type(params) is not dict:
        raise BadCall(
            wire_error(
                "invalid_params",
                f"found params of type {_type(params)}, expected an object",
                action="send the parameters by name",
            ),
            call_id,
        )
    return call_id, name, params


_NONE: Any = object()


def no_token() -> WireError:
    """Return the refusal of a first frame that should have brought a token."""
    return wire_error(
        "unauthorized",
        "this gateway needs a token, and the first frame brought none",
        action='send `auth` with `{"token": "..."}` first',
    )


def binary_frame() -> WireError:
    """Return the refusal of a binary frame."""
    return wire_error(
        "invalid_request", "found a binary frame, expected text", action="send JSON in text frames"
    )


def _type(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _wrong(found: str, expected: str, action: str) -> WireError:
    return wire_error("invalid_request", f"found {found}, expected {expected}", action=action)


def _no_object(value: Any) -> WireError:
    if type(value) is list:
        return _wrong("a batch", "one request", "send each request in a frame of its own")
    return _wrong(_type(value), "a request object", 'send `{"jsonrpc": "2.0", ...}`')


def _no_id(value: Any) -> WireError:
    return _wrong(
        f"an id of type {_type(value)}",
        "a string or an integer",
        "use a string or an integer, or leave `id` out for a notification",
    )


class Method:
    """An operation, made ready to be called.

    Attributes:
        operation: The operation.
        quick: See `Operation.quick`.
    """

    def __init__(self, operation: Operation[Any, Any]) -> None:
        self.operation = operation
        self.handler = _contained(operation.handler)
        self.quick = operation.quick
        self.scope = operation.scope
        self._validate: Callable[[Any], BaseModel] = operation.params.model_validate
        # A model without fields has one value only, and it cannot change.
        empty: BaseModel | None = None if operation.params.model_fields else operation.params()
        self._empty = empty

    def read(self, params: Mapping[str, Any]) -> BaseModel:
        """Check parameters and return them as the operation's model.

        Args:
            params: The parameters by name. Texts stand for numbers and the like as well, since
                a query string has nothing else.

        Raises:
            WireError: They do not fit.
        """
        if not params and self._empty is not None:
            return self._empty
        try:
            return self._validate(params)
        except ValidationError as error:
            raise self._misfit(error, params) from None

    @cached_property
    def arrays(self) -> frozenset[str]:
        """The names of the parameters that take several values."""
        properties = self.operation.params.model_json_schema().get("properties", {})
        return frozenset(
            name
            for name, schema in properties.items()
            if "array" in (schema.get("type"), *(kind.get("type") for kind in _kinds(schema)))
        )

    def _misfit(self, error: ValidationError, params: Mapping[str, Any]) -> WireError:
        fields = self.operation.params.model_fields
        known = [field.alias or name for name, field in fields.items()]
        problems = self._missing_beside_unknown(params, known)
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            where = ".".join(str(part) for part in item["loc"]) or WHOLE
            problem = {"path": where, "problem": _plain(item["msg"]), "type": item["type"]}
            if item["type"] == "extra_forbidden":
                near = get_close_matches(where[:_MAX_SHOWN], known, 1, cutoff=0.7)
                meant = f"did you mean `{near[0]}`?" if near else _takes(known)
                problem["problem"] = f"found a parameter that is not known; {meant}"
                problem |= {"nearest": near[0]} if near else {}
            problems.append(problem)
        told = "; ".join(
            one["problem"]
            if one["path"] == WHOLE
            else f"`{one['path'][:_MAX_SHOWN]}`: {one['problem']}"
            for one in problems[:2]
        )
        return wire_error(
            "invalid_params",
            f"{self.operation.name}: {told}",
            action="`operations.list` shows the schema of every method",
            problems=problems,
        )

    def _missing_beside_unknown(
        self, params: Mapping[str, Any], known: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return what is missing although something unknown came, which hides it otherwise."""
        if all(name in known for name in params):
            return []
        try:
            self._validate({name: value for name, value in params.items() if name in known})
        except ValidationError as error:
            return [
                {"path": WHOLE, "problem": _plain(item["msg"]), "type": item["type"]}
                for item in error.errors(include_url=False, include_input=False)
                if not item["loc"]
            ]
        return []


def _plain(message: str) -> str:
    """Return what a validator says, without pydantic's word for it."""
    return message.removeprefix("Value error, ")


def _takes(known: Sequence[str]) -> str:
    return f"it takes {', '.join(f'`{name}`' for name in known)}" if known else "it takes none"


def _contained(
    handler: Callable[[Invocation, Any], Awaitable[Any]],
) -> Callable[[Invocation, Any], Coroutine[Any, Any, Any]]:
    """Return a plugin's handler so that nothing it raises stops the loop of all others."""

    async def run(invocation: Invocation, arguments: Any) -> Any:
        # `contained`, without a coroutine of its own: this is on the way of every frame.
        try:
            return await handler(invocation, arguments)
        except (SystemExit, KeyboardInterrupt) as error:
            raise RuntimeError(f"it raised {type(error).__name__}") from error

    return run


def _kinds(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    kinds: Sequence[Mapping[str, Any]] = schema.get("anyOf", ())
    return kinds


class Methods:
    """The operations of a host by name, each made ready on its first call.

    They are fixed once the gateway has started, so what was found once stays as it is.
    """

    def __init__(self, host: Host) -> None:
        self._operations = host.operations
        self._ready: dict[str, Method] = {}

    def find(self, name: str, principal: Principal) -> Method:
        """Return the method called `name`.

        Raises:
            WireError: There is none, or `principal` may not call it.
        """
        method = self._ready.get(name)
        if method is None:
            method = self._prepare(name)
        scope = method.scope
        if scope is not None and scope not in principal.scopes:
            AccessGate.check_scope(principal, scope)
        return method

    def _prepare(self, name: str) -> Method:
        operation = self._operations.get(name)
        if operation is None:
            shown = name[:_MAX_SHOWN]
            if near := get_close_matches(shown, self._operations, 1):
                action = f"did you mean `{near[0]}`?"
            elif "operations.list" in self._operations:
                action = "`operations.list` names them all"
            else:
                action = "`hookgate plugins list` says which plugin is off that would bring it"
            raise wire_error("method_not_found", f"there is no method {shown!r}", action=action)
        method = self._ready[name] = Method(operation)
        return method


async def call_operation(
    host: Host, principal: Principal, name: str, params: Mapping[str, Any], *, path: str
) -> Any:
    """Do what an operation does, within the gateway; scope, schema and errors as over the wire.

    Args:
        host: The gateway.
        principal: Who asks.
        name: The operation.
        params: Its parameters.
        path: The entry path, for provenance: a channel's name, for example.

    Raises:
        WireError: There is no such operation, `principal` may not call it, or `params` do not fit.
        HookgateError: It failed.
    """
    method = Methods(host).find(name, principal)
    return await method.handler(
        Invocation(host=host, principal=principal, streaming=False, path=path), method.read(params)
    )


# -- writing ----------------------------------------------------------------------


def result_frame(call_id: CallId, body: bytes) -> bytes:
    """Return the answer to a request.

    Args:
        call_id: The request's id.
        body: The result, as JSON.
    """
    return b'{"jsonrpc":"2.0","id":' + orjson.dumps(call_id) + b',"result":' + body + b"}"


def error_frame(call_id: CallId | None, problem: ErrorAnswer) -> bytes:
    """Return the error answer to a request; `call_id` is None where it could not be read."""
    return orjson.dumps({"jsonrpc": "2.0", "id": call_id, "error": problem.to_json()})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """Return a notification that belongs to no request."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def event_parts(kind: str, data: bytes) -> tuple[bytes, bytes]:
    """Return the notification of an event as what stands before and behind the request's id.

    Args:
        kind: The event's type.
        data: The event's data, a JSON object.
    """
    before = b'{"jsonrpc":"2.0","method":%b,"params":{"request":' % orjson.dumps(kind)
    return before, (b"," + data[1:] if len(data) > 2 else b"}") + b"}"


def event_data(event: Event) -> bytes:
    """Return an event's data as a JSON object, whatever a plugin or a model put into it."""
    data = event.data
    if "request" in data:
        data = {key: value for key, value in data.items() if key != "request"}
    try:
        return orjson.dumps(data)
    except TypeError:
        return orjson.dumps(_clean(data))


def _clean(value: Any) -> Any:
    """Return `value` with what JSON does not know written as text.

    Halves of surrogate pairs, which a model's escapes can bring in, become U+FFFD.
    """
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case Mapping():
            return {_clean(str(key)): _clean(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(item) for item in value]
        case None | bool() | int() | float():
            return value if not isinstance(value, int) or abs(value) < 2**53 else str(value)
        case _:
            return _clean(str(value))


# -- What a socket says to be let in, and what it is told ------------------------

PROTOCOL = 1
"""The version of the wire protocol. It grows when an old client would no longer work."""


class AuthParams(OperationModel):
    """The token of a socket that has shown none yet."""

    token: str
    """The token."""


class AuthResult(OperationModel):
    """The socket is open."""

    principal: str
    """Who the gateway takes the client for."""
    scopes: tuple[str, ...]
    """What it may do."""
