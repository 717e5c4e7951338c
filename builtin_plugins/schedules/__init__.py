"""Starts turns by the clock: schedules and heartbeats."""
