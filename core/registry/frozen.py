"""Values that stay as they are: what was admitted must not change under those who rely on it.

A dataclass that is frozen may still hold a dict that is not. So what a plugin hands over is
copied when it is admitted, into values that refuse to be changed. They are dicts and lists to
everybody who reads them, `json` included; ``copy.deepcopy`` makes ones that can be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

T = TypeVar("T")


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(
        "this was admitted as it is and does not change any more: change a copy of it, such as "
        "copy.deepcopy makes, and bring that"
    )


class FrozenDict(dict[str, Any]):
    """A dict that refuses to be changed."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        return {key: _thawed(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen_json, (self.__deepcopy__(None),)


class FrozenList(list[Any]):
    """A list that refuses to be changed."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: object) -> list[Any]:
        return [_thawed(value) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen_json, (self.__deepcopy__(None),)


def _thawed(value: Any) -> Any:
    return value.__deepcopy__(None) if isinstance(value, FrozenDict | FrozenList) else value


def frozen_json(value: Any) -> Any:
    """Return a copy of a value of JSON that nobody can change.

    Raises:
        TypeError: It holds something that JSON does not know.
        RecursionError: It holds itself.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen_json(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([frozen_json(inner) for inner in value])
    raise TypeError(f"it holds a {type(value).__name__}, which JSON does not know")


def settled(thing: T) -> T:
    """Return a frozen dataclass whose fields hold nothing that can change, `thing` if it is one.

    Lists become tuples, sets frozensets, and dicts refuse to be changed.
    """
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    before = {item.name: getattr(thing, item.name) for item in fields(thing) if item.init}
    after = {name: _settled(value) for name, value in before.items()}
    if all(after[name] is value for name, value in before.items()):
        return thing
    made: T = type(thing)(**after)
    return made


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is bool or kind is int or value is None:
        return value
    if kind is tuple:
        made = tuple(map(_settled, value))
        return value if all(new is old for new, old in zip(made, value, strict=True)) else made
    if isinstance(value, list | tuple):
        return tuple(map(_settled, value))
    if kind is FrozenDict or kind is frozenset:
        return value
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if isinstance(value, Mapping):
        return FrozenDict({key: _settled(inner) for key, inner in value.items()})
    return settled(value)
