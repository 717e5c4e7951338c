"""What is switched off, and the skills that were installed: the gateway's own word on both."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hookgate.builtin_plugins.inventory.record import parse_id, record_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NATIVE = "native"
"""The id of the source that reads the gateway itself, and the name of its runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toggle:
    """Whether one capability is switched off.

    Attributes:
        id: The id of its record.
        disabled: Whether it is switched off; where it was once, and is not now, this says so.
        changed: When, ISO 8601 in UTC.
        changed_by: The principal.
    """

    id: str
    disabled: bool
    changed: str
    changed_by: str

    def to_row(self) -> dict[str, Any]:
        """Return the columns of its row."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill that was installed.

    Attributes:
        id: The id of its record.
        name: What it is called.
        agent: For which agent; None for everybody.
        runtime: The runtime of that agent.
        description: What it does.
        content: Its text.
        changed: When it was installed last, ISO 8601 in UTC.
        changed_by: The principal.
    """

    id: str
    name: str
    agent: str | None
    runtime: str
    description: str
    content: str
    changed: str
    changed_by: str

    def to_row(self) -> dict[str, Any]:
        """Return the columns of its row."""
        return asdict(self)


class Keeper(Protocol):
    """Where toggles and skills are kept."""

    async def load(self) -> tuple[Sequence[Toggle], Sequence[Skill]]:
        """Return all that is kept."""

    async def put(self, thing: Toggle | Skill) -> None:
        """Keep `thing` in place of that of the same id; return once it is durable."""


class ProcessKeeper:
    """Keeps them in the process, where there is no store."""

    def __init__(self) -> None:
        self._kept: dict[str, Toggle | Skill] = {}

    async def load(self) -> tuple[Sequence[Toggle], Sequence[Skill]]:
        """Return all that is kept."""
        things = list(self._kept.values())
        return (
            [one for one in things if isinstance(one, Toggle)],
            [one for one in things if isinstance(one, Skill)],
        )

    async def put(self, thing: Toggle | Skill) -> None:
        """Keep `thing`."""
        self._kept[f"{type(thing).__name__} {thing.id}"] = thing


class Keeping:
    """Switches and skills, at hand: each turn asks what is switched off for its agent.

    Attributes:
        toggles: Toggles by the id of the record.
        skills: Installed skills by the id of the record.
        version: Grows by one with each change.
    """

    def __init__(self, keeper: Keeper) -> None:
        """Know nothing until `load`.

        Args:
            keeper: Where they are kept.
        """
        self.toggles: Mapping[str, Toggle] = {}
        self.skills: Mapping[str, Skill] = {}
        self.version = 0
        self._keeper = keeper
        self._changing = asyncio.Lock()
        self._withheld: dict[str, frozenset[str]] = {}

    def keep_in(self, keeper: Keeper) -> None:
        """Keep them in `keeper` from now on; `load` reads what is there."""
        self._keeper = keeper

    async def load(self) -> None:
        """Read all of it anew: of earlier runs, and of other gateways on the same store.

        Raises:
            StoreError: It cannot be read, and what was known before counts on.
        """
        async with self._changing:
            toggles, skills = await self._keeper.load()
            self._take({one.id: one for one in toggles}, {one.id: one for one in skills})

    async def put(self, thing: Toggle | Skill) -> None:
        """Keep a toggle or a skill; nothing else that is kept is touched.

        Raises:
            StoreError: It cannot be kept, and nothing has changed.
        """
        async with self._changing:
            await self._keeper.put(thing)
            if isinstance(thing, Toggle):
                self._take({**self.toggles, thing.id: thing}, self.skills)
            else:
                self._take(self.toggles, {**self.skills, thing.id: thing})

    def _take(self, toggles: Mapping[str, Toggle], skills: Mapping[str, Skill]) -> None:
        if toggles == self.toggles and skills == self.skills:
            return
        self.toggles, self.skills = toggles, skills
        self.version += 1
        self._withheld = {}

    # -- asking ------------------------------------------------------------

    def is_off(self, record: str) -> bool:
        """Whether the record with this id is switched off by its own toggle."""
        toggle = self.toggles.get(record)
        return toggle is not None and toggle.disabled

    def withheld(self, agent: str) -> frozenset[str]:
        """Return the ids of the capabilities that turns of `agent` do not have.

        These are those that are switched off, for everybody or for this agent, and the skills
        that were installed for others.
        """
        found = self._withheld.get(agent)
        if found is None:
            off = [one.id for one in self.toggles.values() if one.disabled]
            others = [one.id for one in self.skills.values() if one.agent not in (None, agent)]
            found = self._withheld[agent] = frozenset((*_ids(off, agent), *others))
        return found


def _ids(records: Iterable[str], agent: str) -> set[str]:
    """Return the ids of the capabilities that these records of the gateway's stand for."""
    found: set[str] = set()
    for text in records:
        one = parse_id(text)
        if one.agent_id not in (None, agent):
            continue
        found |= {f"{one.kind}:{one.key}", text}
        if ":" in one.key:
            # A capability whose source gave it an id of its own.
            found.add(one.key)
        if one.agent_id is not None:
            found.add(record_id(one.source, runtime=one.runtime, kind=one.kind, key=one.key))
    return found
