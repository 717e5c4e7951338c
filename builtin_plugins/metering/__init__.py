"""Counts every model call, what it cost, and holds calls to budgets and limits."""
