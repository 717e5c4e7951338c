"""Tier 0: the map of categories, which says to a model what there is at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from hookgate import Capability, TokenCounter
from hookgate.builtin_plugins.discovery.show.results import Tier
from hookgate.builtin_plugins.discovery.show.text import clip, largest, one_line
from hookgate.catalogue import kind_label, least_own

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
