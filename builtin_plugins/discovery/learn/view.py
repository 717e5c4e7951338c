"""Examples, and the bounded view of them in memory."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hookgate.builtin_plugins.discovery.learn.teaching import fold

Level: TypeAlias = "OrderedDict[str, Example]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many examples are kept at most.

    Attributes:
        per_capability: Of one capability, in one scope.
        total: Of one scope.
        overall: Of all scopes together.
    """

    per_capability: int = 30
    total: int = 10_000
    overall: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A query that a capability has answered well.

    Attributes:
        scope: Whose it is; it is never seen from another.
        capability: The capability's id.
        text: The query.
        folded: The query as it is compared.
        id: Names scope, capability and folded text: SHA-256, 64 hex digits.
        count: How often it was used.
        learned: When it was first used, in microseconds since 1970.
        used: When it was last used, likewise; no two examples of a gateway have the same.
    """

    scope: str
    capability: str
    text: str
    folded: str
    id: str
    count: int = 1
    learned: int
    used: int

    @classmethod
    def new(cls, scope: str, capability: str, text: str, *, at: int) -> Example:
        """Return an example that is used for the first time, `at` microseconds since 1970."""
        folded = fold(text)
        name = json.dumps([scope, capability, folded]).encode()
        return cls(
            scope=scope,
            capability=capability,
            text=text,
            folded=folded,
            id=hashlib.sha256(name).hexdigest(),
            learned=at,
            used=at,
        )


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """The examples of one scope at one time.

    Attributes:
        version: Another number for each other set of texts and owners of the scope.
        texts: The queries.
        owners: The ids of the capabilities that they belong to, in the same order.
    """

    version: int = 0
    texts: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()


NO_EXAMPLES = ExampleSet()


class ExampleView:
    """Examples in memory, bounded. The least recently used ones go first.

    It belongs to one thread at a time.

    Args:
        bounds: How many are kept.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # Each level in the order of use, the least recent first.
        self._all: Level = OrderedDict()
        self._scopes: dict[str, Level] = {}
        self._owners: dict[tuple[str, str], Level] = {}
        self._versions: dict[str, int] = {}
        self._sets: dict[str, ExampleSet] = {}
        self._version = 0

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Example]:
        """Yield all, the least recently used first."""
        return iter(self._all.values())

    def __contains__(self, example: Example) -> bool:
        return example.id in self._all

    def get(self, example_id: str) -> Example | None:
        """Return the example with this id."""
        return self._all.get(example_id)

    def keep(self, examples: Iterable[Example]) -> list[Example]:
        """Take in `examples` as used now, in this order; return what went for them.

        One that is there already is replaced. The bounds are kept once all are in: first
        those of each capability, then those of each scope, then that of all.
        """
        touched = []
        for example in examples:
            if example.id not in self._all:
                self._changed(example.scope)
            for level in self._levels(example):
                level[example.id] = example
                level.move_to_end(example.id)
            touched.append(example)
        bounds = self._bounds
        gone: list[Example] = []
        for owner in dict.fromkeys((one.scope, one.capability) for one in touched):
            self._trim(self._owners.get(owner), bounds.per_capability, gone)
        for scope in dict.fromkeys(one.scope for one in touched):
            self._trim(self._scopes.get(scope), bounds.total, gone)
        self._trim(self._all, bounds.overall, gone)
        return gone

    def drop(self, examples: Iterable[Example]) -> None:
        """Forget `examples`; those that are not there are passed over."""
        for example in examples:
            if example.id not in self._all:
                continue
            for level in self._levels(example):
                del level[example.id]
            owner = (example.scope, example.capability)
            if not self._owners[owner]:
                del self._owners[owner]
            if not self._scopes[example.scope]:
                del self._scopes[example.scope]
            self._changed(example.scope)

    def matching(
        self, *, scope: str | None, capability: str | None, folded: str | None
    ) -> Sequence[Example]:
        """Return the examples that fit everything that is not None."""
        nothing: Mapping[str, Example] = {}
        level: Mapping[str, Example] = self._all
        if scope is not None and capability is not None:
            level = self._owners.get((scope, capability), nothing)
        elif scope is not None:
            level = self._scopes.get(scope, nothing)
        return [
            one
            for one in level.values()
            if capability in (None, one.capability) and folded in (None, one.folded)
        ]

    def of_scope(self, scope: str) -> ExampleSet:
        """Return the examples of `scope`; the same object as long as nothing has changed."""
        known = self._sets.get(scope)
        if known is None:
            rows = self.matching(scope=scope, capability=None, folded=None)
            known = ExampleSet(
                self._versions.get(scope, 0),
                tuple(row.text for row in rows),
                tuple(row.capability for row in rows),
            )
            if scope in self._versions:
                self._sets[scope] = known
        return known

    def _levels(self, example: Example) -> tuple[Level, Level, Level]:
        owner = (example.scope, example.capability)
        return (
            self._all,
            self._scopes.setdefault(example.scope, OrderedDict()),
            self._owners.setdefault(owner, OrderedDict()),
        )

    def _trim(self, level: Level | None, limit: int, gone: list[Example]) -> None:
        while level is not None and len(level) > limit:
            oldest = next(iter(level.values()))
            gone.append(oldest)
            self.drop([oldest])

    def _changed(self, scope: str) -> None:
        self._version += 1
        self._versions[scope] = self._version
        self._sets.pop(scope, None)
