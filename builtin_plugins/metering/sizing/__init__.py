"""How large a call may be: what is reserved of its input, and how much it may write."""

from __future__ import annotations

from hookgate.builtin_plugins.metering.sizing.outputs import Outputs
from hookgate.builtin_plugins.metering.sizing.ratios import Ratios
from hookgate.builtin_plugins.metering.sizing.sizing import Size, Sizing

__all__ = ["Outputs", "Ratios", "Size", "Sizing"]
