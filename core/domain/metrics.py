"""Figures on their way to `log_metrics`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MetricRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """One record of figures.

    Attributes:
        name: What was measured, dotted, for example ``turn`` or ``tool.call``.
        timestamp: Milliseconds since 1970-01-01 UTC.
        fields: The figures and what they belong to, JSON-ready.
    """

    name: str
    timestamp: int
    fields: Mapping[str, Any] = field(default_factory=dict)
