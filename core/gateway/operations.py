"""Operations: one declaration, three faces.

A plugin declares an operation once, on the function that does it
(`hookgate.kit.functions.operations`). The gateway serves it as a JSON-RPC method, at
``POST /v1/dice/roll``, and as the command ``hookgate dice roll``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from pydantic import BaseModel
from pydantic_core import to_json

from hookgate.core.settings.documented import Documented

if TYPE_CHECKING:
    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Principal, Scope
    from hookgate.core.host import Host

Face = Literal["rpc", "rest", "command"]


class OperationModel(Documented):
    """Base of an operation's parameters and results: unknown keys are refused.

    The docstring below a field is its description in the schema.
    """

    @classmethod
    def of_record(cls, record: object, **said: Any) -> Self:
        """Return what `record` has under the names of the fields; what is `said` stands instead."""
        own = {name: getattr(record, name) for name in cls.model_fields if name not in said}
        return cls(**own, **said)


class Empty(OperationModel):
    """No parameters."""


P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")


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
    respond: Callable[[Any], None] = field(default=lambda _: None)
    cancel: Callable[[str | int], bool] = field(default=lambda _: False)
    streaming: bool = True
    disconnected: Callable[[], bool] = field(default=lambda: False)
    path: str = "ws"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[P, R]):
    """Something that the gateway can be asked to do; made of a function by `operations_of`.

    Attributes:
        name: Dotted, for example ``chat.send``; unique in a gateway.
        summary: One sentence, shown as help.
        params: The pydantic model of the parameters.
        result: The type of the result: a pydantic model or a dataclass.
        scope: The scope that the caller needs; None for none (authenticated all the same).
        handler: Does it: ``await handler(invocation, params)``.
        also: Other names of it, which work as well: former ones.
        rest: A REST route of its own, such as ``("GET", "/v1/usage")``, beside ``POST`` of `path`.
        command: The words of its command, such as ``audit verify``; those of the name where it is
            None, "" for none. One that streams has none.
        streams: Whether it emits events.
        quick: Whether it answers from memory, without waiting for anything. It is then run
            where the frame is read, without a task; its invocation carries no request id,
            and what it emits goes nowhere.
        details: More for the help of the command: paragraphs, and examples.
        group: One sentence on the operations that begin with the same word.
        plugin: Who declared it; stamped by the gateway.
    """

    name: str
    summary: str
    params: type[P]
    result: type[R]
    handler: Callable[[Invocation, P], Awaitable[R]]
    scope: Scope | None = "read"
    also: tuple[str, ...] = ()
    rest: tuple[str, str] | None = None
    command: str | None = None
    streams: bool = False
    quick: bool = False
    details: str = ""
    group: str = ""
    plugin: str = ""

    def __post_init__(self) -> None:
        """Derive the words of the command."""
        if self.command is None:
            words = "" if self.streams else self.name.replace(".", " ")
            object.__setattr__(self, "command", words)

    def of(self, plugin: str) -> Self:
        """Return it as one that `plugin` has declared."""
        return replace(self, plugin=plugin)

    @property
    def path(self) -> str:
        """Its path, such as ``/v1/audit/verify``."""
        return f"/v1/{self.name.replace('.', '/')}"


def result_json(result: Any) -> bytes:
    """Return the result of an operation as JSON.

    Raises:
        TypeError: It is neither a pydantic model nor a dataclass.
    """
    if isinstance(result, BaseModel):
        # Half of what `to_json` takes, which looks for the class of each value.
        return result.__pydantic_serializer__.to_json(result, by_alias=False)
    if is_dataclass(result):
        return to_json(result, by_alias=False)
    raise TypeError(f"found a {type(result).__name__}, expected a pydantic model or dataclass")
