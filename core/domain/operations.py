"""Operations: one declaration, three faces.

A plugin declares an operation once, on the function that does it::

    class Dice:
        '''Dice: roll them.'''

        @operation("dice.roll", scope="chat")
        async def roll(self, invocation: Invocation, sides: int = 6) -> Rolled:
            '''Roll a die.

Args:
                sides: So many sides it has.
            '''

The parameters are the function's arguments, the result is what it returns, and its docstring is
the help. The gateway serves it as a JSON-RPC method, at ``POST /v1/dice/roll``, and as the command
``hookgate dice roll``.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, TypeAdapter
from pydantic_core import to_json

from hookgate.core.domain.errors import StartError, TurnError
from hookgate.core.domain.schemas import (
    Documented,
    DocumentedSchema,
    SignatureError,
    arguments_model,
    given_arguments,
    read_docstring,
    read_signature,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from hookgate.core.domain.events import Event
    from hookgate.core.domain.turn import Principal, Scope
    from hookgate.core.host import Host

Face = Literal["rpc", "rest", "command"]

POSITIONAL = Field(json_schema_extra={"positional": True})
"""``Annotated[str, POSITIONAL]``: on the command line it is a word, although it may be left out.

What must be given is one without this.
"""


class OperationModel(Documented):
    """Base of an operation's parameters and results: unknown keys are refused.

    The docstring below a field is its description in the schema.
    """


class Empty(OperationModel):
    """No parameters."""


P = TypeVar("P", bound=BaseModel)
R = TypeVar("R")
F = TypeVar("F", bound="Callable[..., Awaitable[Any]]")


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

    @property
    def path(self) -> str:
        """Its path, such as ``/v1/audit/verify``."""
        return f"/v1/{self.name.replace('.', '/')}"


def operation(name: str, *, also: str | tuple[str, ...] = (), **more: Any) -> Callable[[F], F]:
    """Declare that a function is an operation; `operations_of` finds it.

    Its first argument is the `Invocation`; the others are the parameters, described by ``Args:`` in
    the docstring. Where they are many, or several operations share them, one argument is a pydantic
    model of all. What it is annotated to return, a pydantic model or a dataclass, is the result.
    The first paragraph of the docstring is the summary, and the rest is told by the command's help.

    Args:
        name: Method, command and route: ``audit.verify`` is `hookgate audit verify` and
            ``POST /v1/audit/verify``.
        also: Other names, which work as well: former ones.
        more: ``scope``, ``rest``, ``command``, ``streams`` and ``quick`` of `Operation`.
    """
    names = (also,) if isinstance(also, str) else also

    def marked(handler: F) -> F:
        vars(handler)["operation"] = _Declared({"name": name, "also": names, **more})
        return handler

    return marked


def operations_of(*owners: Any) -> list[Operation[Any, Any]]:
    """Return the operations of objects or modules, in the order in which they stand there.

    The first paragraph of the docstring of the class, or of the module, is the help of the group of
    commands that begin with the same word as the names of its operations.

    Raises:
        StartError: A signature or a docstring does not say what an operation takes and returns.
    """
    return [
        _made(getattr(owner, attribute), group)
        for owner in owners
        for home in [owner if inspect.ismodule(owner) else type(owner)]
        for group in [read_docstring(home.__doc__).summary]
        for attribute, value in vars(home).items()
        if isinstance(getattr(value, "operation", None), _Declared)
        and (home is not owner or value.__module__ == owner.__name__)
    ]


@dataclass(slots=True)
class _Declared:
    """What a function is marked with: what was said of it, and what was made of it once."""

    said: Mapping[str, Any]
    made: Mapping[str, Any] | None = None
    arguments: Callable[[BaseModel], Mapping[str, Any]] | None = None


def _made(handler: Any, group: str) -> Operation[Any, Any]:
    declared: _Declared = handler.operation
    if declared.made is None:
        try:
            declared.made, declared.arguments = _read(handler)
        except SignatureError as error:
            raise StartError(f"operation {declared.said['name']}: {error}") from error
    return Operation(
        handler=_bound(handler, declared.arguments), group=group, **declared.made, **declared.said
    )


def _bound(handler: Any, arguments: Any) -> Callable[[Invocation, Any], Awaitable[Any]]:
    def run(invocation: Invocation, params: BaseModel) -> Any:
        return handler(invocation, **arguments(params))

    return run


def _read(handler: Any) -> tuple[Mapping[str, Any], Callable[[BaseModel], Mapping[str, Any]]]:
    """Return what a handler says of itself, and what makes its arguments of its parameters."""
    signature, docstring = read_signature(handler, result=True), read_docstring(handler.__doc__)
    name, result = handler.operation.said["name"], signature.hints["return"]
    if not docstring.text:
        raise SignatureError("found no docstring: its first paragraph is what callers are told")
    if not (is_dataclass(result) or (isinstance(result, type) and issubclass(result, BaseModel))):
        raise SignatureError(
            f"found the result {result!r}, expected it to return a pydantic model or a dataclass"
        )
    notes = {key: text for key, text in docstring.args.items() if key != "invocation"}
    details = docstring.text.partition("\n\n")[2]
    if docstring.examples:
        details = f"{details}\n\n{docstring.examples}".strip()
    made = {"summary": docstring.summary, "details": details, "result": result}
    hints = [signature.hints[key] for key in signature.parameters]
    if len(hints) == 1 and isinstance(hints[0], type) and issubclass(hints[0], BaseModel):
        (only,) = signature.parameters
        return {**made, "params": hints[0]}, lambda params: {only: params}
    if not hints and not notes:
        return {**made, "params": Empty}, lambda _: {}
    params = arguments_model(name, signature, notes, frozen=True, defer_build=True)
    return {**made, "params": params}, partial(given_arguments, signature)


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of parameters or of a result, each member described."""
    schema: dict[str, Any] = TypeAdapter(kind).json_schema(schema_generator=DocumentedSchema)
    return schema


def result_json(result: Any) -> bytes:
    """Return the result of an operation as JSON."""
    return to_json(result, by_alias=False)


def not_found(kind: str, name: str, hint: str = "", *, known: Iterable[str] = ()) -> TurnError:
    """Return the error for something that is named and not there.

    Args:
        kind: What was looked for, such as ``schedule``.
        name: What it was called.
        hint: What the caller can do, such as which command lists them.
        known: What there is: the nearest name is told.
    """
    near = get_close_matches(name, list(known), n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return TurnError(f"found no {kind} {name[:400]!r}{meant}", code="not_found", action=hint)
