"""Operations: one declaration, three faces.

A plugin declares an operation once. The gateway serves it as a JSON-RPC method, as a
REST route (``POST /v1/operations/NAME``, and `rest` where one is given), and the command
line offers it as a command that calls the running gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from hookgate.core.domain.schemas import Documented

if TYPE_CHECKING:
    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Principal, Scope
    from hookgate.core.host import Host

Face = Literal["rpc", "rest", "command"]


class OperationModel(Documented):
    """Base of an operation's parameters and results: unknown keys are refused.

    The docstring below a field is its description in the schema.
    """


class Empty(OperationModel):
    """No parameters."""


P = TypeVar("P", bound=BaseModel)
R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The circumstances of one call of an operation.

    Attributes:
        host: The gateway.
        principal: Who calls; its scope has been checked.
        face: By which face the call came.
        request_id: The JSON-RPC id of the request, or a generated one.
        emit: Sends an event to the caller, tied to this request; never waits.
        respond: Sends the result now, ahead of the handler's return; events that follow come
            behind it. Passed over by a face that answers once, at the end.
        cancel: Cancels another running request of the same client, by its id; returns
            whether there is one.
        streaming: Whether the caller gets to see what is emitted.
        disconnected: Returns whether the caller is gone.
        path: The entry path, for provenance: ``ws``, ``http`` or ``cli``.
    """

    host: Host
    principal: Principal
    face: Face = "rpc"
    request_id: str | int = ""
    emit: Callable[[Event], None] = field(default=lambda _: None)
    respond: Callable[[BaseModel], None] = field(default=lambda _: None)
    cancel: Callable[[str | int], bool] = field(default=lambda _: False)
    streaming: bool = True
    disconnected: Callable[[], bool] = field(default=lambda: False)
    path: str = "ws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[P, R]):
    """Something that the gateway can be asked to do.

    Attributes:
        name: Dotted, for example ``chat.send``; unique in a gateway.
        summary: One sentence, shown as help.
        params: The pydantic model of the parameters.
        result: The pydantic model of the result.
        scope: The scope that the caller needs; None for none (authenticated all the same).
        handler: Does it: ``await handler(invocation, params)``.
        rest: A REST route of its own, such as ``("GET", "/v1/usage")``.
        command: The words of its command, such as ``usage`` or ``audit verify``; "" for none.
        streams: Whether it emits events.
        quick: Whether it answers from memory, without waiting for anything. It is then run
            where the frame is read, without a task; its invocation carries no request id,
            and what it emits goes nowhere.
        plugin: Who declared it; stamped by the gateway.
    """

    name: str
    summary: str
    params: type[P]
    result: type[R]
    handler: Callable[[Invocation, P], Awaitable[R]]
    scope: Scope | None = "read"
    rest: tuple[str, str] | None = None
    command: str = ""
    streams: bool = False
    quick: bool = False
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a route. A route that declares none is refused at start.

    Build it with `public`, `scoped` or `self_checked`.
    """

    kind: Literal["public", "scoped", "self_checked"]
    scope: Scope | None = None
    why: str = ""

    @classmethod
    def public(cls, why: str) -> Access:
        """Anybody may use it; `why` is shown by `plugins why` and in the route listing."""
        return cls("public", None, why)

    @classmethod
    def scoped(cls, scope: Scope) -> Access:
        """A principal with `scope` may use it."""
        return cls("scoped", scope)

    @classmethod
    def self_checked(cls, why: str) -> Access:
        """The handler checks a signature or a secret of its own, as a webhook does."""
        return cls("self_checked", None, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """The foreign web pages that may use one route.

    Attributes:
        origins: Their origins, ``https://app.example``. There is no ``*``: on loopback it would
            hand the gateway to every page that its owner opens.
        methods: The methods that a browser is told; none stands for the route's own.
        headers: The request headers that it is told.
    """

    origins: tuple[str, ...]
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = ("Authorization", "Content-Type", "X-Api-Key")


def describe_operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return an operation's schemas and access, for the documentation and the page."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "scope": operation.scope,
        "plugin": operation.plugin,
        "command": operation.command,
        "streams": operation.streams,
        "params": operation.params.model_json_schema(),
        "result": operation.result.model_json_schema(),
    }
