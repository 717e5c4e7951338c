"""What is switched off, and the skills that were installed: the gateway's own word on both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.inventory.record import parse_id, record_id

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.tables import Skill, Toggle
    from hookgate.kit.records import Records

NATIVE = "native"
"""The id of the source that reads the gateway itself, and the name of its runtime."""


class Keeping:
    """Switches and skills, at hand: each turn asks what is switched off for its agent.

    Attributes:
        toggles: Toggles by the id of the record.
        skills: Installed skills by the id of the record.
        version: Grows by one with each change.
    """

    def __init__(self) -> None:
        """Know nothing until `open`."""
        self.toggles: Mapping[str, Toggle] = {}
        self.skills: Mapping[str, Skill] = {}
        self.version = 0
        self._changing = asyncio.Lock()
        self._withheld: dict[str, frozenset[str]] = {}

    async def open(self, toggles: Records[Toggle], skills: Records[Skill]) -> None:
        """Keep them there, and `load`."""
        self._toggles, self._skills = toggles, skills
        await self.load()

    async def load(self) -> None:
        """Read all of it anew: of earlier runs, and of other gateways on the same store.

        Raises:
            StoreError: It cannot be read, and what was known before counts on.
        """
        async with self._changing:
            toggles, skills = await self._toggles.all(), await self._skills.all()
            self._take({one.id: one for one in toggles}, {one.id: one for one in skills})

    async def switch(self, **values: Any) -> None:
        """Keep a `Toggle` of these values; nothing else that is kept is touched.

        Raises:
            StoreError: It cannot be kept, and nothing has changed.
        """
        toggle = self._toggles.row(**values)
        async with self._changing:
            await self._toggles.save([toggle])
            self._take({**self.toggles, toggle.id: toggle}, self.skills)

    async def install(self, **values: Any) -> None:
        """Keep a `Skill` of these values; nothing else that is kept is touched.

        Raises:
            StoreError: It cannot be kept, and nothing has changed.
        """
        skill = self._skills.row(**values)
        async with self._changing:
            await self._skills.save([skill])
            self._take(self.toggles, {**self.skills, skill.id: skill})

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

    def tools_off(self) -> dict[str, str]:
        """Return the tools that are switched off, by name, and for whom."""
        whose: dict[str, list[str]] = {}
        for toggle in self.toggles.values():
            one = parse_id(toggle.id)
            if toggle.disabled and one.kind == "tool":
                whose.setdefault(one.key, []).append(one.agent_id or "")
        return {
            name: "everybody" if "" in agents else ", ".join(sorted(agents))
            for name, agents in whose.items()
        }

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
