"""The commands of metering that are more than an operation."""

from __future__ import annotations

from hookgate.builtin_plugins.metering.commands import budgets, usage
from hookgate.builtin_plugins.metering.prices.commands import prices_app

COMMANDS = {"budgets": budgets.app, "prices": prices_app, "usage": usage.usage}
"""What the command line finds here, by its words."""
