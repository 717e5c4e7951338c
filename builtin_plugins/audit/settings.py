"""The settings of the audit: ``[plugin.audit]``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hookgate import Section


class MetricsFileSettings(Section):
    """``[plugin.audit.metrics]``: the file of figures, ``metrics.jsonl`` in `home`."""

    enabled: bool = True
    """Whether figures are written at all."""
    max_bytes: int = Field(default=10_000_000, ge=1000)
    """The file is put aside, and a new one begun, before it grows past this."""
    keep: int = Field(default=3, ge=0, le=100)
    """So many files that were put aside are kept: ``metrics.jsonl.1`` is the newest."""


class AuditSettings(Section):
    """``[plugin.audit]``: what is recorded, and where."""

    key_file: Path | None = None
    """The file with the key of the seals; ``audit.key`` in `home` where this is not set. It is
    made at the first start. Who can read it can rebuild the record: keep it on another disk."""
    key_secret: str = Field(default="", max_length=128)
    """The name of a secret that holds the key instead, at least 32 bytes."""
    former_keys: tuple[Path, ...] = ()
    """Files with keys of before: rows that were sealed with them are verified, and none is sealed
    with them any more. Who has one can add chains that look as old as it is."""
    redact: tuple[str, ...] = ("*password*", "*passwd*", "*secret*", "*token*", "*api_key*")
    """Globs of the names of arguments whose values are not recorded, at any depth; `TOOL.NAME`
    is about one tool's alone."""
    ring: int = Field(default=1000, ge=1, le=1_000_000)
    """Rows that are kept in memory where there is no store."""
    metrics: MetricsFileSettings = MetricsFileSettings.by_default()
