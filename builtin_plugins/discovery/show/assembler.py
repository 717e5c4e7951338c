"""What a model gets to see of the capabilities: three tiers within budgets, and reading on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hookgate import Capability, TokenCounter
from hookgate.builtin_plugins.discovery.show.entries import (
    Details,
    EdgeType,
    FoundCapability,
    ShownEntry,
    Tier,
    category_map,
)
from hookgate.builtin_plugins.discovery.show.text import (
    clip,
    cut_line,
    cut_text,
    one_line,
    parameter_lines,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.discovery.discoverer import Discoverer
    from hookgate.builtin_plugins.discovery.settings import DiscoverySettings

T = TypeVar("T")

HEAD = "Relevant capabilities:"

OFFERED, APART = ", offered", ", see its details"
"""Where a capability's line says where it is said what it is for."""

RELATIONS: dict[EdgeType | None, str] = {
    "DEPENDS_ON": "needed by",
    "COMPOSED_WITH": "often used with",
}
"""How a pulled-in capability is introduced; any other relation is ``related to``."""

VERSIONS = 2
"""Maps are kept for so many versions: a running turn may still show the one before the newest."""

MAPS = 32
"""So many maps are kept for one version: what is withheld may differ from turn to turn."""

NAME_CHARS = 60
LIST_LENGTHS = (12, 8, 6, 4, 3, 2, 1)
"""Lengths to which lists of parameters and requirements are shortened, step by step."""

WRITTEN = 64
"""So many texts of one entry are kept: lines and details, as they were asked for."""

LIST_SHARE = 0.6
"""Lists are shortened while a line without its description takes more of an entry than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierBudgets:
    """How much the tiers may take.

    Attributes:
        tier0: Tokens of the map of categories.
        tier1: Tokens of all summaries.
        tier2: Tokens of all details.
        entry: Tokens of one summary.
        top_summaries: So many found capabilities are summarised; pulled-in ones come on top.
        top_details: So many found capabilities are shown in full.
    """

    tier0: int = 200
    tier1: int = 800
    tier2: int = 2000
    entry: int = 50
    top_summaries: int = 5
    top_details: int = 2


class Assembler:
    """Writes the tiers. No tier is ever larger than its budget, whatever the counter says."""

    def __init__(self, budgets: TierBudgets, counter: TokenCounter) -> None:
        self._budgets = budgets
        self._counter = counter
        self._maps: dict[int, dict[frozenset[str], Tier]] = {}

    def tier0(
        self,
        rows: Iterable[Capability],
        version: int,
        withheld: frozenset[str] = frozenset(),
    ) -> Tier:
        """Return the map of categories; without tokens where there are no capabilities.

        It is written once for each version and set of withheld ids: `rows` are not looked
        at again. With 100,000 rows the first time takes some tens of milliseconds and belongs
        on a thread.

        Args:
            rows: All capabilities; examples are named in this order.
            version: The version of `rows`.
            withheld: Ids that are neither named nor counted.
        """
        known = self._maps.get(version, {}).get(withheld)
        if known is not None:
            return known
        tier = category_map(rows, withheld, self._budgets.tier0, self._counter)
        maps = {**self._maps.get(version, {}), withheld: tier}
        if len(maps) > MAPS:
            maps.pop(next(iter(maps)))
        # Replaced as a whole: another thread sees the old maps or the new ones.
        kept = {**self._maps, version: maps}
        for old in sorted(kept)[:-VERSIONS]:
            del kept[old]
        self._maps = kept
        return tier

    def tier1(
        self,
        entries: Sequence[ShownEntry],
        *,
        offered: Mapping[str, str] | None = None,
        detailed: Collection[str] = (),
    ) -> Tier:
        """Return a line for each of the best found capabilities, then for pulled-in ones.

        Args:
            entries: Best first. Nobody's line is longer than the budget of an entry.
            offered: What the tools whose schemas go with the request anyway say there, by name.
                One of which somebody else says something else is told here as well.
            detailed: The ids of those whose details are shown, and say it: behind the lines, or
                already in front of an earlier message.
        """
        entries = _once(entries)
        if not entries:
            return Tier()
        names = {entry.found.row.id: entry.found.row.name for entry in entries}
        found = [entry for entry in entries if not entry.found.pulled_by]
        pulled = [entry for entry in entries if entry.found.pulled_by]
        said = offered or {}
        text = ""
        ids: list[str] = []
        left_out: list[str] = []
        for entry in (*found[: self._budgets.top_summaries], *pulled):
            parent = entry.found.pulled_by
            if parent:
                relation = RELATIONS.get(entry.found.edge, "related to")
                lead, tail = "- ", f", {relation} {_name(names.get(parent, parent))}"
            else:
                lead, tail = f"{len(ids) + 1}. ", ""
            elsewhere = ""
            row = entry.found.row
            if row.kind == "tool" and said.get(row.name) == row.description:
                elsewhere = OFFERED
            elif row.id in detailed:
                elsewhere = APART
            line = self._line(lead, tail, entry, elsewhere)
            longer = f"{text or HEAD}\n{line}"
            if line and self._counter.count(longer) <= self._budgets.tier1:
                text = longer
                ids.append(entry.found.row.id)
            else:
                left_out.append(entry.found.row.id)
        return self._tier(text, ids, left_out)

    def tier2(self, entries: Sequence[ShownEntry], *, offered: Collection[str] = ()) -> Details:
        """Return the full details of the best found capabilities.

        Where they do not all fit, each is cut to a fair share: what one does not need of its
        share, others may use.

        Args:
            entries: Best first; pulled-in ones are not shown.
            offered: Names of tools whose schemas go with the request anyway: what has no more to
                say than that is left out.
        """
        found = [entry for entry in _once(entries) if not entry.found.pulled_by]
        found = [
            entry
            for entry in found[: self._budgets.top_details]
            if entry.content.strip() or not _is_offered(entry.found.row, offered)
        ]
        if not found:
            return Details()
        texts = self._shared_out(found, offered)
        shown = [(entry.found.row.id, text) for entry, text in zip(found, texts, strict=True)]
        kept = tuple([text for text in texts if text])
        text = "\n\n".join(kept)
        return Details(
            text=text,
            tokens=self._counter.count(text) if text else 0,
            ids=tuple([id_ for id_, text in shown if text]),
            left_out=tuple([id_ for id_, text in shown if not text]),
            texts=kept,
        )

    def _tier(self, text: str, ids: Sequence[str], left_out: Sequence[str]) -> Tier:
        tokens = self._counter.count(text) if text else 0
        return Tier(text=text, tokens=tokens, ids=tuple(ids), left_out=tuple(left_out))

    # -- tier 1 ----------------------------------------------------------------------

    def _line(self, lead: str, tail: str, entry: ShownEntry, elsewhere: str) -> str:
        """Return an entry's line, written once; "" where not even a part of its name fits."""
        key = ("line", self._budgets.entry, lead, tail, elsewhere)
        return written(entry, key, lambda: self._summary(lead, tail, entry, elsewhere))

    def _summary(self, lead: str, tail: str, entry: ShownEntry, elsewhere: str) -> str:
        row = entry.found.row
        needs = row.required_secrets or row.required_tools
        mark = ""
        if not row.available:
            mark = f" (not available: needs {_listed(needs, 3)})" if needs else " (not available)"
        head = f"{lead}{_name(row.name)} ({row.kind}){mark}{tail}{elsewhere}"
        description = "" if elsewhere else one_line(entry.description)
        in_schema = elsewhere == OFFERED or (elsewhere and entry.schema)
        parameters = () if in_schema else row.parameters
        required = () if mark and needs == row.required_tools else row.required_tools
        lists = [("Params", parameters), ("Requires", required)]

        longest = max(len(parameters), len(required))
        for length in (longest, *(length for length in LIST_LENGTHS if length < longest)):
            listed = [f"{title}: {_listed(names, length)}" for title, names in lists if names]
            if self._fits(line := _sentences([head, description, *listed])):
                return line
            shortest = _sentences([head, *listed])
            if self._counter.count(shortest) <= self._budgets.entry * LIST_SHARE:
                break
        text = cut_line(description, lambda text: self._fits(_sentences([head, text, *listed])))
        if text:
            return _sentences([head, text, *listed])
        name = cut_line(shortest.removeprefix(lead), lambda text: self._fits(lead + text))
        return lead + name if name else ""

    def _fits(self, line: str) -> bool:
        return self._counter.count(line) <= self._budgets.entry

    # -- tier 2 ----------------------------------------------------------------------

    def _shared_out(self, found: Sequence[ShownEntry], offered: Collection[str]) -> list[str]:
        """Return each entry's details with their foot, cut so that all of them fit together."""
        parts = [details(entry, offered) for entry in found]
        texts = [text + foot for text, foot in parts]
        limit = self._budgets.tier2
        while self._total(texts) > self._budgets.tier2:
            if limit <= 0:
                return [""] * len(parts)
            gaps = self._counter.count("\n\n") * (len(parts) - 1)
            sizes = [self._counter.count(text + foot) for text, foot in parts]
            shares = _fair_shares(sizes, limit - gaps)
            texts = [
                self._cut(entry, offered, share) for entry, share in zip(found, shares, strict=True)
            ]
            # Parts that fit one by one may be too much together, as a counter sees it.
            limit = min(limit - 1, 2 * limit - self._total(texts), limit * 9 // 10)
        return texts

    def _cut(self, entry: ShownEntry, offered: Collection[str], share: int) -> str:
        """Return an entry's details within `share` tokens, cut once for each."""
        row = entry.found.row
        text, foot = details(entry, offered)
        key = ("cut", _is_offered(row, offered), share)
        return written(entry, key, lambda: cut_text(text, foot, share, self._counter, id=row.id))

    def _total(self, texts: Sequence[str]) -> int:
        text = "\n\n".join(filter(None, texts))
        return self._counter.count(text) if text else 0


def render(tiers: Iterable[Tier]) -> str:
    """Return the text of all tiers that have one, with a blank line between them."""
    return "\n\n".join(tier.text for tier in tiers if tier.text)


def _once(entries: Sequence[ShownEntry]) -> list[ShownEntry]:
    seen: dict[str, ShownEntry] = {}
    for entry in entries:
        seen.setdefault(entry.found.row.id, entry)
    return list(seen.values())


def _name(name: str) -> str:
    return clip(one_line(name), NAME_CHARS)


def _listed(names: Sequence[str], length: int) -> str:
    shown = [_name(name) for name in names[:length]]
    return ", ".join([*shown, "…"] if len(names) > length else shown)


def _sentences(parts: Sequence[str]) -> str:
    """Join the parts that say something, with a full stop behind each but the last."""
    said = [part for part in parts if part]
    ended = [part if part.endswith((".", "!", "?", "…")) else f"{part}." for part in said[:-1]]
    return " ".join([*ended, *said[-1:]])


def _is_offered(row: Capability, offered: Collection[str]) -> bool:
    return row.kind == "tool" and row.name in offered


def written(entry: ShownEntry, key: Hashable, write: Callable[[], T]) -> T:
    """Return what was written of an entry for `key`; it is written where it was not."""
    if key not in entry.written:
        if len(entry.written) >= WRITTEN:
            entry.written.clear()
        entry.written[key] = write()
    made: T = entry.written[key]
    return made


def details(entry: ShownEntry, offered: Collection[str] = ()) -> tuple[str, str]:
    """Return a capability's details, and what stands at their foot.

    Args:
        entry: The capability, with schema and content.
        offered: Names of tools whose schemas the model has anyway.
    """
    with_schema = not _is_offered(entry.found.row, offered)
    return written(entry, ("details", with_schema), lambda: _details(entry, with_schema))


def _details(entry: ShownEntry, with_schema: bool) -> tuple[str, str]:
    row = entry.found.row
    segments = row.name.replace("_", "-").split("-")
    title = row.display_name or " ".join(part[:1].upper() + part[1:] for part in segments)
    facts = [f"Kind: {row.kind}"]
    if row.category:
        facts.append(f"Category: {clip(one_line(row.category), NAME_CHARS)}")
    if not row.available:
        facts.append("Not available")
    description = one_line(entry.description)
    about = [f"# {_name(title)}", " | ".join(facts), *([description] if description else [])]
    sections = ["\n".join(about)]
    lines = parameter_lines(entry.schema) if with_schema and entry.schema else []
    if lines:
        sections.append("\n".join(["## Input Schema", *lines]))
    if entry.content.strip():
        sections.append(entry.content.strip())
    required = (("tools", row.required_tools), ("secrets", row.required_secrets))
    foot = "\n".join(
        f"Required {what}: {_listed(names, len(names))}" for what, names in required if names
    )
    return "\n\n".join(sections), f"\n\n{foot}" if foot else ""


def _fair_shares(needs: Sequence[int], total: int) -> list[int]:
    """Divide `total`: all get what they need, or as much as anybody who gets less."""
    shares = [0] * len(needs)
    left = max(0, total)
    by_need = sorted(range(len(needs)), key=lambda place: needs[place])
    for done, place in enumerate(by_need):
        shares[place] = min(needs[place], left // (len(needs) - done))
        left -= shares[place]
    return shares


# -- Reading on where the details of a capability were cut -----------------------


async def is_cut(
    discoverer: Discoverer,
    found: Sequence[FoundCapability],
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
    entries = await discoverer.entries.of([FoundCapability(row=row, relevance=1.0)], 1, details=1)
    if not entries:
        return None
    text, foot = details(entries[0], offered)
    if offset >= len(text):
        return ""
    return cut_text(text[offset:], foot, budget, counter, id=row.id, offset=offset)
