"""Turns that are kept for recall: learned from what was said, searched, forgotten."""
