"""Reading on where the details of a capability were cut."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from hookgate import Capability, TokenCounter
from hookgate.builtin_plugins.discovery.show.assembler import details
from hookgate.builtin_plugins.discovery.show.cutting import cut_text
from hookgate.builtin_plugins.discovery.show.results import Found

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.discovering import Discoverer
    from hookgate.builtin_plugins.discovery.settings import DiscoverySettings


async def is_cut(
    discoverer: Discoverer,
    found: Sequence[Found],
    settings: DiscoverySettings,
    counter: TokenCounter,
) -> bool:
    """Whether the full details of what was found are too long for their tier."""
    own = [one for one in found if not one.pulled_by][: settings.tier2_top_k]
    entries = await discoverer.entries.of(own, len(own), details=len(own))
    whole = "\n\n".join("".join(details(entry)) for entry in entries)
    return counter.count(whole) > settings.tier2_token_budget


async def read_on(
    discoverer: Discoverer,
    row: Capability,
    offset: int,
    *,
    budget: int,
    counter: TokenCounter,
    offered: Collection[str] = (),
) -> str | None:
    """Return the full details of a capability from a character on, as tier 2 shows them.

    Args:
        discoverer: Makes what is shown.
        row: The capability.
        offset: So many characters were read before.
        budget: The most tokens; what is longer is cut, with a note that reads on.
        counter: Counts tokens.
        offered: Names of tools whose schemas the model has anyway.

    Returns:
        The text, "" behind its end; None where a sanitizer rejects it.
    """
    entries = await discoverer.entries.of([Found(row=row, relevance=1.0)], 1, details=1)
    if not entries:
        return None
    text, foot = details(entries[0], offered)
    if offset >= len(text):
        return ""
    return cut_text(text[offset:], foot, budget, counter, id=row.id, offset=offset)
