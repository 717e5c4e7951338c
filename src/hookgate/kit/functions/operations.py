"""Operations, declared on the functions that do them.

As in ::

    class Dice:
        '''Dice: roll them.'''

        @operation("dice.roll", scope="chat")
        async def roll(self, invocation: Invocation, sides: int = 6) -> Rolled:
            '''Roll a die.'''

The parameters are the function's arguments, described by ``Args:`` in its docstring, which is the
help; the result is what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, Self, TypeVar

from pydantic import BaseModel, Field

from hookgate.core.domain.errors import StartError, TurnError
from hookgate.core.gateway.operations import Empty, Invocation, Operation
from hookgate.kit.functions.signatures import (
    SignatureError,
    arguments_model,
    given_arguments,
    read_docstring,
    read_signature,
    schema_of,
)

__all__ = ["POSITIONAL", "describe_operation", "not_found", "operation", "operations_of"]

POSITIONAL = Field(json_schema_extra={"positional": True})
"""``Annotated[str, POSITIONAL]``: on the command line it is a word, although it may be left out.

What must be given is one without this.
"""

F = TypeVar("F", bound="Callable[..., Awaitable[Any]]")


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

    A signature and a docstring are read when somebody asks for ``params``, ``result``, ``summary``
    or ``details``, or calls it: a gateway does that for all once it has started, and `status` names
    each that does not say what it takes and returns.

    Raises:
        StartError: One of `owners` declares none.
    """
    return [made for owner in owners for made in _operations_of(owner)]


def _operations_of(owner: Any) -> list[Operation[Any, Any]]:
    home = owner if inspect.ismodule(owner) else type(owner)
    group = read_docstring(home.__doc__).summary
    found: list[Operation[Any, Any]] = [
        _unread(_Made, getattr(owner, attribute), group)
        for attribute, value in vars(home).items()
        if isinstance(getattr(value, "operation", None), _Declared)
        and (home is not owner or value.__module__ == owner.__name__)
    ]
    if not found:
        raise StartError(
            f"{home.__name__} declares no operation: mark a function of it with @operation"
        )
    return found


@dataclass(slots=True)
class _Declared:
    """What a function is marked with: what was said of it, and what was read of it once."""

    said: Mapping[str, Any]
    known: tuple[Mapping[str, Any], Callable[[BaseModel], Mapping[str, Any]]] | None = None

    def read(self, handler: Any) -> tuple[Mapping[str, Any], Callable[..., Mapping[str, Any]]]:
        if self.known is None:
            try:
                self.known = _read(handler)
            except Exception as error:
                # A module that it names may be loaded now, and that may raise anything.
                raise StartError(f"operation {self.said['name']}: {error}") from error
        return self.known


class _Made(Operation[Any, Any]):
    """An operation whose function is read when somebody asks what it takes, returns or does.

    Most of a gateway's operations are not called in its first seconds, and never by most people.
    """

    __slots__ = ("_function",)

    def __getattr__(self, name: str) -> Any:
        # Only what is not set is looked for here.
        if name not in _READ:
            raise AttributeError(name)
        found, _ = self._function.operation.read(self._function)
        for key, value in found.items():
            object.__setattr__(self, key, value)
        return getattr(self, name)

    def of(self, plugin: str) -> Self:
        if not hasattr(self, "_function"):
            return super().of(plugin)  # `replace` has read it.
        made = _unread(type(self), self._function, self.group)
        object.__setattr__(made, "plugin", plugin)
        return made


M = TypeVar("M", bound=_Made)

_READ = ("summary", "details", "params", "result")
"""What is read of the function of an operation."""


def _unread(kind: type[M], function: Any, group: str) -> M:
    unknown: dict[str, Any] = {"summary": "", "params": Empty, "result": Empty}
    made = kind(handler=_bound(function), group=group, **unknown, **function.operation.said)
    object.__setattr__(made, "_function", function)
    for name in _READ:
        object.__delattr__(made, name)
    return made


def _bound(handler: Any) -> Callable[[Invocation, Any], Awaitable[Any]]:
    declared: _Declared = handler.operation

    def run(invocation: Invocation, params: BaseModel) -> Any:
        _, arguments = declared.known or declared.read(handler)
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


def describe_operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return an operation's schemas and access, for the documentation and the page."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "scope": operation.scope,
        "plugin": operation.plugin,
        "command": operation.command,
        "streams": operation.streams,
        "details": operation.details,
        "group": operation.group,
        "params": schema_of(operation.params),
        "result": schema_of(operation.result),
    }
