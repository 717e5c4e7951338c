"""Hooks, awaited under their contracts: order, limits, results, failures."""
