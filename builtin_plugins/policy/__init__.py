"""Judges tool calls by what tools declare and where turns come from, and asks people."""
