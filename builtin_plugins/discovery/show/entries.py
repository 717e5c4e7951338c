"""What may be shown of capabilities, sanitized: their texts, and the map of their categories."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import CLEAN, Capability, CapabilityDetail, Card, Rejected, Taint, TokenCounter
from hookgate.builtin_plugins.discovery.show.text import clip, largest, one_line
from hookgate.catalogue import Whose, kind_label, least_own

if TYPE_CHECKING:
    Sanitize = Callable[[Card], Awaitable[Card | Rejected]]

SANITIZED_CHARS = 65_536
"""The longest content that is handed to the sanitizers; the budget of tier 2 is far below."""

ROWS, CONTENT_CHARS = 4096, 2_000_000
"""So many rows, and so many characters of their contents, are remembered as they may be shown,
once as a line and once in full. The ones that were shown last stay."""

MAPS = 32
"""Maps of categories that are remembered as they may be shown."""


class Entries:
    """Makes entries of what was found; of a row that is known, without asking anybody.

    A row is known as the object that it is: one that was brought anew is looked at anew. What
    was rejected, and what could not be read, is asked for again the next time.

    Args:
        sanitize: What third-party text passes before it is shown; see `Host.sanitize`.
        version: Returns another number once the sanitizers may judge otherwise than before.
    """

    def __init__(self, sanitize: Sanitize | None, version: Callable[[], int] = lambda: 0) -> None:
        self._sanitize = sanitize
        self._version = version
        self._known_by = version()
        self._summaries, self._details = _Known(), _Known()
        self._maps: OrderedDict[str, Tier] = OrderedDict()

    async def of(
        self, found: Sequence[FoundCapability], summaries: int, *, details: int
    ) -> list[ShownEntry]:
        """Return found ones as they may be shown; what a sanitizer rejects is left out.

        Args:
            found: What was found and pulled in.
            summaries: So many found ones; pulled-in ones come besides.
            details: So many of them with schema and content.
        """
        self._current()
        shown: list[ShownEntry] = []
        own = 0
        for one in found:
            if not one.pulled_by and own >= summaries:
                continue
            full = not one.pulled_by and own < details
            known = self._details if full else self._summaries
            entry = known.of(one) or await self._entry(one, full=full)
            if entry is None:
                continue
            own += not one.pulled_by
            shown.append(entry)
        kept = {entry.found.row.id for entry in shown}
        return [one for one in shown if not one.found.pulled_by or one.found.pulled_by in kept]

    async def map(self, tier: Tier, counter: TokenCounter) -> Tier:
        """Return the map of categories as it may be shown: names in it are third-party text, too.

        Args:
            tier: The map.
            counter: Counts tokens.
        """
        if not tier.text:
            return tier
        version = self._current()
        known = self._maps.get(tier.text)
        if known is not None and known.whose == tier.whose and known.ids == tier.ids:
            return known
        text = await self._passed("discovery:map", tier.text, "", tier.whose)
        if text is None:
            return replace(tier, text="", tokens=counter.count(""))
        shown = tier
        if text != tier.text:
            shown = replace(tier, text=text, tokens=counter.count(text))
        if version == self._version():
            self._maps[tier.text] = shown
            if len(self._maps) > MAPS:
                self._maps.popitem(last=False)
        return shown

    # -- what is remembered --------------------------------------------------

    def _current(self) -> int:
        """Forget what sanitizers of another version let through; return the version."""
        version = self._version()
        if version != self._known_by:
            self._known_by = version
            self._summaries.clear()
            self._details.clear()
            self._maps.clear()
        return version

    async def _entry(self, found: FoundCapability, *, full: bool) -> ShownEntry | None:
        version = self._current()
        reading = _Reading(found.row, self._passed)
        entry = await reading.entry(found, full=full)
        if entry is not None and reading.whole and version == self._version():
            (self._details if full else self._summaries).keep(found.row, entry)
        return entry

    async def _passed(self, id_: str, text: str, source_ref: str, whose: Whose) -> str | None:
        """Return a text as a model may see it; None where it was rejected."""
        if not text or self._sanitize is None:
            return text
        trusted = whose == "own"
        verdict = await self._sanitize(
            Card(id=id_, text=text, max_chars=len(text), source_ref=source_ref, trusted=trusted)
        )
        return None if isinstance(verdict, Rejected) else verdict.text


class _Reading:
    """One look at what may be shown of a row.

    Attributes:
        whole: Whether nothing was rejected and everything could be read.
    """

    def __init__(
        self, row: Capability, passed: Callable[[str, str, str, Whose], Awaitable[str | None]]
    ) -> None:
        self._row = row
        self._passed = passed
        self.whole = True

    async def entry(self, found: FoundCapability, *, full: bool) -> ShownEntry | None:
        """Return the row as it may be shown; None where a sanitizer rejects it."""
        row = self._row
        # What else is shown of it is looked at along with its description: mostly all is well.
        facts = "\n".join(_facts(row))
        whole = "\n".join(filter(None, (facts, row.description)))
        if await self._clean(whole) == whole:
            entry = ShownEntry(found=found, description=row.description)
        else:
            name = await self._clean(row.name)
            description = await self._clean(row.description)
            if description is None or name is None:
                return None
            if await self._clean(facts) != facts:
                found = replace(found, row=await self._cleaned())
            entry = ShownEntry(found=found, description=description)
        if not full or row.load is None:
            return entry
        try:
            detail = await asyncio.to_thread(row.load)
        except Exception as error:  # noqa: BLE001 - it may be anybody's; the others are shown
            self.whole = False
            return replace(entry, content=f"(its details cannot be read: {type(error).__name__})")
        content = await self._clean(detail.content[:SANITIZED_CHARS])
        if content is None:
            return None
        return replace(entry, content=content, schema=await self._schema(detail))

    async def _cleaned(self) -> Capability:
        """Return the row with what the sanitizers let through beside its name."""
        row = self._row

        async def each(texts: Sequence[str]) -> tuple[str, ...]:
            return tuple([text for one in texts if (text := await self._clean(one))])

        return replace(
            row,
            display_name=await self._clean(row.display_name) or "",
            category=await self._clean(row.category) or "",
            parameters=await each(row.parameters),
            parameter_texts=(),
            required_tools=await each(row.required_tools),
            required_secrets=await each(row.required_secrets),
        )

    async def _schema(self, detail: CapabilityDetail) -> Mapping[str, object] | None:
        """Return a schema whose texts a sanitizer has let through as they are."""
        if detail.schema is None:
            return None
        texts = list(dict.fromkeys(_texts(detail.schema)))
        joined = "\n".join(texts)
        cleaned = await self._clean(joined)
        if cleaned == joined:
            return detail.schema
        return _bare(detail.schema)

    async def _clean(self, text: str) -> str | None:
        row = self._row
        passed = await self._passed(row.id, text, row.source_ref, row.whose)
        # A sanitizer that failed rejects, too, and may do better the next time.
        self.whole = self.whole and passed is not None
        return passed


class _Known:
    """Entries by row, as many as there is room for."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, tuple[Capability, ShownEntry]] = OrderedDict()
        self._chars = 0

    def of(self, found: FoundCapability) -> ShownEntry | None:
        """Return the entry of this very row, for what was found now."""
        row = found.row
        known = self._entries.get(id(row))
        if known is None or known[0] is not row:
            return None
        self._entries.move_to_end(id(row))
        entry = known[1]
        shown = entry.found.row
        return ShownEntry(
            found=found if shown is row else replace(found, row=shown),
            description=entry.description,
            content=entry.content,
            schema=entry.schema,
            written=entry.written,
        )

    def keep(self, row: Capability, entry: ShownEntry) -> None:
        """Remember an entry, and forget those that were asked for least recently."""
        # Who holds the row holds its number: nobody else has it meanwhile.
        before = self._entries.pop(id(row), None)
        self._chars += len(entry.content) - (len(before[1].content) if before else 0)
        self._entries[id(row)] = (row, entry)
        while len(self._entries) > ROWS or (self._chars > CONTENT_CHARS and len(self._entries) > 1):
            _, (_, oldest) = self._entries.popitem(last=False)
            self._chars -= len(oldest.content)

    def clear(self) -> None:
        """Forget all of them."""
        self._entries.clear()
        self._chars = 0


def _facts(row: Capability) -> list[str]:
    """Return what a model sees of a capability beside its description."""
    named = (row.name, row.display_name, row.category, *row.parameters)
    return [text for text in (*named, *row.required_tools, *row.required_secrets) if text]


def _texts(schema: object) -> list[str]:
    """Return what a schema says in words: descriptions, titles, names, choices."""
    if isinstance(schema, str):
        return [schema]
    if isinstance(schema, dict):
        return [text for key, value in schema.items() for text in (key, *_texts(value))]
    if isinstance(schema, list | tuple):
        return [text for value in schema for text in _texts(value)]
    return []


def _bare(schema: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the parameters of a schema by name and type, without a word about them."""
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    return {
        "type": "object",
        "properties": {
            str(name): {"type": value["type"]}
            for name, value in properties.items()
            if str(name).isidentifier() and isinstance(value, dict) and value.get("type")
        },
    }


# -- category map ----------------------------------------------------------------

# Tier 0: the map of categories, which says to a model what there is at all.

HEAD = "Available capability categories:"
FOOT = "Use discover_capabilities tool to get details on any capability."

EXAMPLES = 4
"""So many members of a category are named where there is room."""

NAME_CHARS = 40
CATEGORIES = 200
"""So many categories are tried at most: no budget of a map has room for more."""


@dataclass(slots=True)
class _Category:
    spelling: str
    size: int = 0
    available: list[Capability] = field(default_factory=list)
    others: list[Capability] = field(default_factory=list)


def category_map(
    rows: Iterable[Capability], withheld: Collection[str], budget: int, counter: TokenCounter
) -> Tier:
    """Return the categories, the largest first, with examples in the order of `rows`.

    What can be used is rather named than what cannot. Where the budget is too small,
    examples go first, then the smallest categories become one line together. Cards, what is
    withheld and what is foreign are neither named nor counted: the map goes with every turn,
    and must not taint all of them. `ids` are those of the examples;
    `left_out` stays empty, since a map leaves out nearly all.
    """
    rows = [row for row in rows if row.whose != "foreign"]
    whose = least_own(*{row.whose for row in rows})
    categories = _collected(rows, withheld)
    categories.sort(key=lambda one: (-one.size, one.spelling.casefold()))
    if not categories:
        return Tier()

    members = sum(category.size for category in categories)

    def tier(shown: int, examples: int) -> Tier:
        text, ids = _rendered(categories[:shown], len(categories) - shown, members, examples)
        return Tier(text=text, tokens=counter.count(text), ids=ids, whose=whose)

    if len(categories) <= CATEGORIES:
        for examples in range(EXAMPLES, -1, -1):
            whole = tier(len(categories), examples)
            if whole.tokens <= budget:
                return whole
    shown = largest(
        min(len(categories) - 1, CATEGORIES), lambda count: tier(count, 0).tokens <= budget
    )
    return tier(shown, 0) if shown >= 0 else Tier()


def _collected(rows: Iterable[Capability], withheld: Collection[str]) -> list[_Category]:
    categories: dict[str, _Category] = {}
    # Cleaning a name costs more than counting a row: each spelling is cleaned once.
    by_spelling: dict[str, _Category] = {}
    for row in rows:
        if row.kind == "card" or row.id in withheld:
            continue
        raw = row.category
        if not raw or raw.isspace():
            raw = kind_label(row.kind)
        category = by_spelling.get(raw)
        if category is None:
            spelling = one_line(raw)
            category = categories.setdefault(spelling.casefold(), _Category(spelling))
            category.spelling = min(category.spelling, spelling)
            by_spelling[raw] = category
        category.size += 1
        examples = category.available if row.available else category.others
        if len(examples) < EXAMPLES and all(row.name != one.name for one in examples):
            examples.append(row)
    return list(categories.values())


def _rendered(
    shown: Sequence[_Category], folded: int, members: int, examples: int
) -> tuple[str, tuple[str, ...]]:
    """Return the text, and the ids of its examples.

    Args:
        shown: The categories with lines of their own.
        folded: So many have one line together.
        members: Capabilities of both.
        examples: So many are named of each category.
    """
    lines = [HEAD]
    ids: list[str] = []
    for category in shown:
        named = _examples(category)[:examples]
        ids += [row.id for row in named]
        lines.append(_line(category, [clip(one_line(row.name), NAME_CHARS) for row in named]))
        members -= category.size
    if folded:
        word = "category" if folded == 1 else "categories"
        lines.append(f"- Other: {folded} more {word} ({members})")
    lines.append(FOOT)
    return "\n".join(lines), tuple(ids)


def _examples(category: _Category) -> list[Capability]:
    # A tool and a skill may have one name: a line says it once.
    named: dict[str, Capability] = {}
    for row in (*category.available, *category.others):
        named.setdefault(row.name, row)
    return list(named.values())


def _line(category: _Category, names: Sequence[str]) -> str:
    title = clip(category.spelling[:1].upper() + category.spelling[1:], NAME_CHARS)
    if not names:
        return f"- {title} ({category.size})"
    more = f" (+{category.size - len(names)} more)" if category.size > len(names) else ""
    return f"- {title}: {', '.join(names)}{more} ({category.size})"


# -- results ---------------------------------------------------------------------

# What a search finds and what a model gets to see of it: the values between the parts.

EdgeType: TypeAlias = Literal["DEPENDS_ON", "COMPOSED_WITH", "TAGGED_WITH", "SAME_CATEGORY"]

EDGES: tuple[EdgeType, ...] = ("DEPENDS_ON", "COMPOSED_WITH", "TAGGED_WITH", "SAME_CATEGORY")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCapability:
    """A capability that a search found, or that a found one pulled in.

    Attributes:
        row: The capability.
        relevance: 0 to 1, calibrated: comparable from query to query and corpus to corpus.
        dense: Cosine of query and capability; 0 where there are no vectors.
        lexical: The share of the reachable BM25 score, 0 to 1.
        graph: What related capabilities added to `relevance`.
        words: The words of the query that it holds, as they were compared.
        tag: The tag of its own that the query holds, where that is why it was found although
            it is below the floor.
        pulled_by: The id of the capability that pulled it in; "" where it was found itself.
        edge: The edge over which it was pulled in.
    """

    row: Capability
    relevance: float
    dense: float = 0.0
    lexical: float = 0.0
    graph: float = 0.0
    words: tuple[str, ...] = ()
    tag: str = ""
    pulled_by: str = ""
    edge: EdgeType | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEntry:
    """A found capability as it may be shown: its texts have passed the sanitizers.

    Attributes:
        found: What was found.
        description: Its description, sanitized.
        content: Its full text, sanitized; "" where there is none or it was not loaded.
        schema: The JSON Schema of its input, its texts sanitized; None where there is none or
            it was not loaded.
        written: What was written of it, by what for: it is written once for each. It hangs on
            the texts above, and on nothing of `found` but the row.
    """

    found: FoundCapability
    description: str
    content: str = ""
    schema: Mapping[str, object] | None = None
    written: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One tier's text.

    Attributes:
        text: What the model sees; "" where there is nothing to show.
        tokens: How many tokens `text` takes.
        ids: The capabilities that it shows, in order.
        left_out: The ids of those for which the budget had no room.
        whose: Who wrote its words; see `Capability.whose`.
        taint: What taints whoever reads it.
    """

    text: str = ""
    tokens: int = 0
    ids: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    whose: Whose = "own"
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Details(Tier):
    """The tier of full details.

    Attributes:
        texts: Those of each of `ids`.
    """

    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """All that one search came to.

    Attributes:
        query: What was looked for.
        found: What fits, best first, pulled-in ones behind those that pulled them.
        tiers: Tier 0 (the map of categories), tier 1 (summaries), tier 2 (full details).
        index_version: The version of the index that was searched.
        dense: Whether vectors took part.
        problem: Why vectors took no part, or "".
        milliseconds: Time by step.
    """

    query: str
    found: tuple[FoundCapability, ...] = ()
    tiers: tuple[Tier, Tier, Tier] = field(default_factory=lambda: (Tier(), Tier(), Tier()))
    index_version: int = 0
    dense: bool = False
    problem: str = ""
    milliseconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def token_estimate(self) -> int:
        """Tokens of all three tiers together."""
        return sum(tier.tokens for tier in self.tiers)
