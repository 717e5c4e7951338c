"""What models find of the records: capabilities of other runtimes, and installed skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.builtin_plugins.inventory.kept.keeping import NATIVE
from hookgate.core.domain.descriptors import Capability, CapabilityDetail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hookgate.builtin_plugins.inventory.kept.keeping import Skill
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord

__all__ = ["fed"]


def fed(
    records: Iterable[CapabilityRecord], skills: Mapping[str, Skill], *, others: bool
) -> list[Capability]:
    """Return the capabilities that follow from records: what is disabled is none.

    Args:
        records: All records.
        skills: The installed skills by the id of their records.
        others: Whether what other runtimes have is among them.
    """
    found: list[Capability] = []
    for record in records:
        if record.status == "disabled":
            continue
        if record.runtime == NATIVE and record.id in skills:
            found.append(_of_skill(record, skills[record.id]))
        elif others and record.runtime != NATIVE and record.id not in skills:
            found.append(_of_record(record))
    return found


def _of_skill(record: CapabilityRecord, skill: Skill) -> Capability:
    return Capability(
        id=record.id,
        kind="skill",
        name=skill.name,
        display_name=record.name,
        description=skill.description,
        category="skill",
        source_ref=record.provenance,
        # Somebody has installed it; its words are whose wrote it.
        whose="foreign",
        load=_detail(skill.content),
    )


def _detail(content: str) -> Callable[[], CapabilityDetail]:
    return lambda: CapabilityDetail(content=content)


def _of_record(record: CapabilityRecord) -> Capability:
    # No tool of the gateway has a `/` in its name, so that none is taken for this.
    parts = (record.runtime, record.agent_id, record.source_key)
    return Capability(
        id=record.id,
        kind=record.kind,
        name="/".join(part for part in parts if part),
        display_name=f"{record.name} ({record.runtime})",
        # Its words alone: what was added to them would be judged with them by the sanitizers.
        description=record.description or record.name,
        tags=("other runtime",),
        category=record.runtime,
        available=record.available and record.status == "ready",
        has_side_effects=record.kind != "skill",
        source_ref=record.provenance or record.runtime,
        whose="foreign",
    )
