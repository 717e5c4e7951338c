"""Packs: what the tools of coding agents do, told by the arguments of each call."""
