"""What may still be used: counters with limits, leased in the store and reserved in memory."""

from hookgate.builtin_plugins.metering.budgets.engine import Budgets
from hookgate.builtin_plugins.metering.budgets.values import (
    MOST,
    Hold,
    Record,
    Short,
    Standing,
    Want,
)

__all__ = ["MOST", "Budgets", "Hold", "Record", "Short", "Standing", "Want"]
