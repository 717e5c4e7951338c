"""The pointer: two sentences that are always there, and name the tools that tell the rest."""

from __future__ import annotations

from collections.abc import Collection

LIST_TOOL = "list_capabilities"
REFERENCE_TOOL = "read_reference"

MAX_CHARS = 600
MAX_TOKENS = 150
"""What the pointer may take at most; it goes with every turn."""


def pointer(tools: Collection[str]) -> str:
    """Return the text, for the context and for an AGENTS.md; "" where neither tool is there.

    It describes nothing: what it said of a capability would be paid for on every turn.

    Args:
        tools: The names of the tools that are offered.
    """
    if LIST_TOOL not in tools:
        return ""
    text = (
        "This gateway can do more than is described here. Call "
        f"`{LIST_TOOL}` to see what there is and whether it is on."
    )
    if REFERENCE_TOOL in tools:
        text += f" Call `{REFERENCE_TOOL}` to read how a part of it works."
    return text
