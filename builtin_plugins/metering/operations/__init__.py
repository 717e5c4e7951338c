"""The operations of metering: usage, budgets and prices."""
