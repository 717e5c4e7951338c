"""Calls of tools: which are offered, judging one, and a round of them."""
