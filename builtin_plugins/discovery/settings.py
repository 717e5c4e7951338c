"""The settings of discovery: ``[plugin.discovery]``."""

from __future__ import annotations

from pydantic import Field

from hookgate.core.settings import Section

__all__ = ["DiscoverySettings"]


class DiscoverySettings(Section):
    """``[plugin.discovery]``: how capabilities are found."""

    results: int = Field(default=8, ge=1, le=100)
    """Capabilities that `discover_capabilities` returns at most."""
    selected: int = Field(default=12, ge=0, le=1000)
    """Capabilities that are chosen for a turn at most."""
    floor: float = Field(default=0.1, ge=0, le=1)
    """The least relevance, 0 to 1, of what is chosen for a turn."""
