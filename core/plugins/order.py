"""The order in which plugins open, from the keys that they require and provide."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hookgate.core.domain.errors import MissingKeyError, StartError
from hookgate.core.domain.ports import Key


@dataclass(frozen=True, slots=True)
class Node:
    """A plugin as far as the order is concerned."""

    name: str
    requires: tuple[Key[Any], ...] = ()
    provides: tuple[Key[Any], ...] = ()
    uses: tuple[Key[Any], ...] = ()


def opening_order(
    nodes: Sequence[Node],
    *,
    core_keys: Collection[Key[Any]],
    idle: Callable[[], Mapping[str, tuple[Key[Any], ...]]] = dict,
) -> list[str]:
    """Return the names so that whoever provides a key comes before whoever requires or uses it.

    Plugins that do not depend on one another keep the order of `nodes`. A plugin that
    both requires and provides a key builds on the other providers of that key.

    Args:
        nodes: The plugins, in load order.
        core_keys: Keys that are there without any plugin.
        idle: Returns what plugins that do not run would provide; asked for errors only.

    Raises:
        MissingKeyError: A plugin requires a key that nobody provides.
        StartError: Plugins require each other in a circle.
    """
    providers: dict[Key[Any], list[str]] = {}
    for node in nodes:
        for key in node.provides:
            providers.setdefault(key, []).append(node.name)
    needs: dict[str, dict[str, Key[Any]]] = {}
    for node in nodes:
        needs[node.name] = {}
        for key in node.requires:
            others = [name for name in providers.get(key, ()) if name != node.name]
            if not others and key not in core_keys:
                raise MissingKeyError(_missing(node.name, key, idle()))
            needs[node.name] |= dict.fromkeys(others, key)
        for key in node.uses:
            others = [name for name in providers.get(key, ()) if name != node.name]
            needs[node.name] |= dict.fromkeys(others, key)
    return _sorted([node.name for node in nodes], needs)


def _sorted(names: list[str], needs: Mapping[str, Mapping[str, Key[Any]]]) -> list[str]:
    order: list[str] = []
    waiting = list(names)
    while waiting:
        done = set(order)
        ready = next((name for name in waiting if needs[name].keys() <= done), None)
        if ready is None:
            raise StartError(_circle(waiting, needs))
        order.append(ready)
        waiting.remove(ready)
    return order


def _missing(plugin: str, key: Key[Any], idle: Mapping[str, tuple[Key[Any], ...]]) -> str:
    could = sorted(name for name, keys in idle.items() if key in keys)
    if could:
        advice = f"it would be provided by {', '.join(map(repr, could))}, which does not run"
    else:
        advice = "no plugin that is known here provides it"
    return (
        f"plugin {plugin!r} requires the key {key.name!r}, which nobody provides: {advice}; "
        f"enable a plugin that provides it, or disable {plugin!r}"
    )


def _circle(waiting: Sequence[str], needs: Mapping[str, Mapping[str, Key[Any]]]) -> str:
    # Everybody who waits needs somebody who waits, so that walking on must meet a name twice.
    path = [waiting[0]]
    while path.count(path[-1]) == 1:
        path.append(next(name for name in needs[path[-1]] if name in waiting))
    circle = path[path.index(path[-1]) :]
    steps = [
        f"{one!r} requires {needs[one][other].name!r} of {other!r}"
        for one, other in pairwise(circle)
    ]
    return f"plugins require each other in a circle: {', '.join(steps)}; disable one of them"
