"""The tables of the plugin ``metering``: the ledger, and what budgets are kept in."""

from __future__ import annotations

from pathlib import Path

from hookgate.builtin_plugins.metering.tables import budgets, ledger, sums
from hookgate.builtin_plugins.metering.tables.base import METADATA

__all__ = ["METADATA", "SCRIPTS", "budgets", "ledger", "sums"]

SCRIPTS = Path(__file__).parent.parent / "migrations"
