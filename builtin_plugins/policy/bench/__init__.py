"""The bench of policy authors: cases, replay, comparison."""
