"""The commands of metering that are more than an operation."""

from __future__ import annotations

from hookgate.builtin_plugins.metering.commands import budgets

__all__ = ["COMMANDS"]

COMMANDS = {"budgets": budgets.app}
"""What the command line finds here, by its words."""
