"""The tables of the plugin ``metering``: the ledger, and what budgets are kept in."""

from pathlib import Path

from hookgate.builtin_plugins.metering.tables import budgets, ledger, sums  # noqa: F401
from hookgate.builtin_plugins.metering.tables.budgets import METADATA as METADATA

SCRIPTS = Path(__file__).parent.parent / "migrations"
