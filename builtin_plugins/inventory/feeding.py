"""What models find of the records: capabilities of other runtimes, and installed skills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hookgate import Capability, CapabilityDetail
from hookgate.builtin_plugins.inventory.kept.keeping import NATIVE

if TYPE_CHECKING:
    from hookgate.builtin_plugins.inventory.kept.tables import Skill
    from hookgate.builtin_plugins.inventory.record import CapabilityRecord


@dataclass(frozen=True, slots=True)
class Fed:
    """What discovery knows of the records of one source.

    Attributes:
        records: Those records; None before there were any.
        skills: The installed skills then.
        rows: The capability that follows from a record, with that record, by id.
    """

    records: Sequence[CapabilityRecord] | None = None
    skills: Mapping[str, Skill] = field(default_factory=dict)
    rows: Mapping[str, tuple[CapabilityRecord, Capability]] = field(default_factory=dict)


def fed(
    records: Sequence[CapabilityRecord],
    skills: Mapping[str, Skill],
    before: Fed,
    *,
    others: bool,
) -> Fed:
    """Return the capabilities that follow from records: what is disabled is none.

    Args:
        records: All records of a source.
        skills: The installed skills by the id of their records.
        before: What followed last: of a record that is still the same object, nothing is made.
        others: Whether what other runtimes have is among them.
    """
    rows: dict[str, tuple[CapabilityRecord, Capability]] = {}
    for record in records:
        known = before.rows.get(record.id)
        if record.status == "disabled":
            continue
        if record.runtime == NATIVE and record.id in skills:
            rows[record.id] = record, _of_skill(record, skills[record.id])
        elif others and record.runtime != NATIVE and record.id not in skills:
            same = known is not None and known[0] is record
            rows[record.id] = known if known and same else (record, _of_record(record))
    return Fed(records, skills, rows)


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
