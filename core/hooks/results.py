"""What a hook may return: its return annotation, compiled once to a cheap check.

Package-private, like `core.hooks.dispatch`. None is always a right result and never gets here.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import repeat
from typing import Any, TypeGuard

from hookgate.core.domain.errors import StartError

Check = Callable[[Any], bool]

_COLLECTIONS = {
    "AbstractAsyncContextManager": AbstractAsyncContextManager,
    "AsyncIterator": AsyncIterator,
    "Callable": Callable,
    "Collection": Collection,
    "Mapping": Mapping,
    "Sequence": Sequence,
}


class Expected:
    """The results that a hook's specification allows, besides None.

    Attributes:
        classes: A result that is an instance of one of these is right.
        check: Says of any other result whether it is right.
        text: The annotation, for error messages.
    """

    __slots__ = ("check", "classes", "item", "text")

    def __init__(
        self, classes: tuple[type, ...], check: Check, text: str, item: Expected | None = None
    ) -> None:
        self.classes = classes
        self.check = check
        self.text = text
        self.item = item

    def fits(self, value: Any) -> bool:
        """Return whether `value` is a right result."""
        return isinstance(value, self.classes) or self.check(value)

    def complaint(self, value: Any) -> str:
        """Say what was found in place of a right result."""
        if self.item is not None and _is_group(value):
            for number, item in enumerate(value):
                if not self.item.fits(item):
                    return (
                        f"returned a {type(value).__name__} whose item {number} is of type "
                        f"{type(item).__qualname__}, expected {self.item.text}"
                    )
        return f"returned a value of type {type(value).__qualname__}, expected {self.text} or None"


def _nothing(_value: Any) -> bool:
    return False


def _anything(_value: Any) -> bool:
    return True


def _is_group(value: Any) -> TypeGuard[Collection[Any]]:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray)


def annotation_of(function: Callable[..., Any], name: str) -> Any:
    """Return the resolved annotation of an argument of `function`, or of ``return``.

    The specifications import their types for the type checker only, so that names are
    looked up in the core's modules.

    Raises:
        StartError: It names something that is not there.
    """
    annotations = getattr(function, "__annotations__", {})
    if name not in annotations:
        return Any

    def holder() -> None: ...

    holder.__annotations__ = {name: annotations[name]}
    own = getattr(function, "__globals__", {})
    try:
        return typing.get_type_hints(holder, {**_known_to(annotations[name]), **own})[name]
    # An annotation is an expression of the plugin's: it raises whatever it likes.
    except Exception as error:
        raise StartError(
            f"hook {getattr(function, '__name__', function)}: the annotation of {name!r}, "
            f"{annotations[name]!r}, cannot be resolved ({error}): use a name of hookgate, "
            "or import it in the module of the specification"
        ) from error


def _known_to(annotation: object) -> dict[str, Any]:
    """Return the names in `annotation` that every specification may use: the face's, and these."""
    import hookgate

    words = set(re.findall(r"\w+", str(annotation))) & {*dir(hookgate)}
    return {**_COLLECTIONS, **{name: getattr(hookgate, name) for name in words}}


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, None left out; or the annotation alone."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(arg for arg in typing.get_args(annotation) if arg is not type(None))
    return () if annotation in (None, type(None)) else (annotation,)


def expected_of(annotation: Any) -> Expected:
    """Compile an annotation.

    Classes are checked with `isinstance`, items of collections one by one, protocols by
    the names of their members. A string is no collection of strings.
    """
    members = members_of(annotation)
    if not members:
        return Expected((), _nothing, "nothing")
    parts = [_compile(member) for member in members]
    text = " or ".join(part.text for part in parts)
    classes = tuple(cls for part in parts for cls in part.classes)
    checks = [part.check for part in parts if part.check is not _nothing]
    if not checks:
        return Expected(classes, _nothing, text)
    check = checks[0] if len(checks) == 1 else lambda value: any(one(value) for one in checks)
    item = next((part.item for part in parts if part.item is not None), None)
    return Expected(classes, check, text, item)


def _compile(annotation: Any) -> Expected:
    if annotation in (Any, object):
        return Expected((), _anything, "anything")
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    cls = origin if isinstance(origin, type) else annotation
    if not isinstance(cls, type):
        raise StartError(
            f"a hook's result cannot be checked against {annotation!r}: use classes, "
            "Sequence[...], Collection[...] or a union of these"
        )
    if issubclass(cls, Collection) and not issubclass(cls, str | bytes) and len(args) == 1:
        return _group(cls, expected_of(args[0]))
    if getattr(cls, "_is_protocol", False) and cls.__module__.partition(".")[0] != "collections":
        names = _protocol_members(cls)
        return Expected((), lambda value: all(hasattr(value, name) for name in names), cls.__name__)
    return Expected((cls,), _nothing, cls.__name__)


def _group(cls: type, item: Expected) -> Expected:
    known = [kind for kind in (list, tuple, set, frozenset) if issubclass(kind, cls)]

    def check(value: Any) -> bool:
        if type(value) not in known and not (isinstance(value, cls) and _is_group(value)):
            return False
        if item.check is _nothing:
            return all(map(isinstance, value, repeat(item.classes)))
        return all(map(item.fits, value))

    return Expected((), check, f"{cls.__name__} of {item.text}", item)


def _protocol_members(cls: type) -> frozenset[str]:
    names: set[str] = set()
    for base in cls.__mro__:
        if getattr(base, "_is_protocol", False):
            names |= {name for name in vars(base) if not name.startswith("_")}
            names |= {
                name for name in getattr(base, "__annotations__", {}) if not name.startswith("_")
            }
    return frozenset(names)
