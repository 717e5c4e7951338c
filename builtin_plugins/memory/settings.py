"""The settings of memory: ``[plugin.memory]``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hookgate.core.settings.schema import Section

__all__ = ["MemorySettings"]


class MemorySettings(Section):
    """``[plugin.memory]``: what is remembered, and for whom."""

    scope: Literal["session", "peer"] = "session"
    """Who shares notes. `session`: one agent with one peer of one account on one channel.
    `peer`: the same peer on every channel; only where all channels name people alike."""
    max_notes: int = Field(default=1000, ge=1, le=1_000_000)
    """Notes of one scope; beyond it nothing more is remembered until something is forgotten."""
    recall_notes: int = Field(default=5, ge=1, le=100)
    """Notes that one recall returns at most."""
