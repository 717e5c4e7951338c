"""What there is, by kind, for a model that asks, and the pages that it reads on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from hookgate import Capability, CapabilityKind, PluginInfo, Turn
from hookgate.builtin_plugins.awareness.selection.injector import STATE
from hookgate.catalogue import kind_order, may_use
from hookgate.kit.content.files import CONTENT_BYTES, inside, read_text
from hookgate.kit.content.frontmatter import body_of
from hookgate.kit.content.problems import ContentError, Problem

SHORT_CHARS = 80
"""So much of a description is left where a list is too long."""

MAX_ROWS = 200
"""Rows of one kind that are listed; the rest is counted."""

MAX_DIFFERENCES = 20
"""Names of each kind that differ from the stock product; the rest is counted."""


def visible(turn: Turn) -> dict[CapabilityKind, list[Capability]]:
    """Return what the turn may know of, by kind and sorted by name.

    What is withheld is left out, and so are tools that the turn's agent may not call.
    """
    found: dict[CapabilityKind, list[Capability]] = {}
    for row in turn.snapshot.capabilities:
        made = turn.snapshot.tools.get(row.name) if row.kind == "tool" else None
        if row.id not in turn.withheld and (made is None or may_use(turn, made)):
            found.setdefault(row.kind, []).append(row)
    return {
        kind: sorted(found[kind], key=lambda row: row.name)
        for kind in sorted(found, key=kind_order)
    }


def listing(
    turn: Turn,
    detail: Literal["summary", "full"],
    plugins: Sequence[PluginInfo],
    *,
    kind: CapabilityKind | None = None,
    why_off: str = "",
) -> dict[str, Any]:
    """Return what there is, JSON-ready.

    ``summary`` gives for each kind the names that are on and those that are off. ``full``
    gives a row for each, with what it does and where it comes from, the plugins, and what
    differs from the stock product. Both say which cards this turn shows; ``full`` says of
    each card why it does, or does not. Descriptions are not in it: they have to pass the
    sanitizers first.

    Args:
        turn: The turn.
        detail: How much is said.
        plugins: The plugins; looked at for ``full`` alone.
        kind: One kind alone.
        why_off: Why cards are off; "" where they are on.
    """
    kinds: dict[str, Any] = {}
    for name, rows in visible(turn).items():
        if kind not in (None, name):
            continue
        shown = rows[:MAX_ROWS]
        entry: dict[str, Any] = {"total": len(rows)}
        if detail == "summary":
            entry["on"] = [row.name for row in shown if row.available]
            entry["off"] = [row.name for row in shown if not row.available]
        else:
            entry["rows"] = [_row(turn, row) for row in shown]
        if len(rows) > len(shown):
            entry["more"] = len(rows) - len(shown)
        kinds[name] = entry
    data: dict[str, Any] = {"kinds": kinds, "cards": _cards(turn, why_off)}
    if detail == "full":
        data["plugins"] = [
            {"name": info.name, "origin": info.origin, "state": info.state, "why": info.reason}
            for info in plugins
        ]
        data["differsFromStock"] = differences(turn, plugins)
    return data


def differences(turn: Turn, plugins: Sequence[PluginInfo]) -> dict[str, list[str]]:
    """Return what differs from a gateway as it is installed; empty where nothing does."""
    stock = {info.name for info in plugins if info.origin == "builtin"}
    known = {row.name for rows in visible(turn).values() for row in rows}
    found = {
        "pluginsAdded": [
            info.name for info in plugins if info.name not in stock and info.state == "running"
        ],
        "pluginsOff": [
            info.name for info in plugins if info.name in stock and info.state != "running"
        ],
        "toolsAdded": [
            made.name
            for made in turn.snapshot.tools.values()
            if made.plugin not in stock and made.name in known
        ],
        "cardsAdded": [
            card.id
            for card in turn.snapshot.cards.values()
            if card.origin != "repo" and card.id in known
        ],
    }
    return {what: _some(sorted(names)) for what, names in found.items() if names}


def _some(names: list[str]) -> list[str]:
    more = len(names) - MAX_DIFFERENCES
    return [*names[:MAX_DIFFERENCES], f"and {more} more"] if more > 0 else names


def _cards(turn: Turn, why_off: str) -> dict[str, Any]:
    if why_off:
        return {"on": False, "why": why_off}
    shown = [card.id for card in turn[STATE].injected] if STATE in turn else []
    return {"on": True, "shown": shown, "routerTags": sorted(turn.tags)}


def _row(turn: Turn, row: Capability) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": row.id, "name": row.name, "on": row.available}
    card = turn.snapshot.cards.get(row.name) if row.kind == "card" else None
    if card is not None:
        entry |= {"whose": card.origin, "trusted": card.trusted}
        judged = turn[STATE].decision(card.id) if STATE in turn else None
        if judged is not None:
            entry |= {"chosen": judged.chosen, "score": round(judged.score, 4)}
            entry["why"] = judged.reason
        return entry
    flags = row.flags.to_json().items()
    entry |= {
        "category": row.category,
        "origin": row.source_ref,
        "flags": {name: value for name, value in flags if value is not False},
    }
    if row.kind == "tool":
        entry["offered"] = row.name in turn.offered
    return entry


def fitted(data: dict[str, Any], fits: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Return a full list made so short that it `fits`: a list that is cut says nothing whole.

    First descriptions get shorter, then they go, then the plugins that run as they should,
    and at last rows, half of them at a time; ``more`` counts those.
    """
    shorter: list[Callable[[], object]] = [
        lambda: _describe(data, SHORT_CHARS),
        lambda: _describe(data, 0),
        lambda: data.update(plugins=[one for one in data["plugins"] if one["why"]]),
    ]
    while not fits(data):
        if shorter:
            shorter.pop(0)()
            continue
        longest = max(data["kinds"].values(), key=lambda kind: len(kind["rows"]), default=None)
        if longest is None or not longest["rows"]:
            return data
        longest["rows"] = longest["rows"][: len(longest["rows"]) // 2]
        longest["more"] = longest["total"] - len(longest["rows"])
    return data


def _describe(data: Mapping[str, Any], chars: int) -> None:
    for kind in data["kinds"].values():
        for row in kind["rows"]:
            text = row.pop("description", "")
            if chars and text:
                row["description"] = text if len(text) <= chars else f"{text[: chars - 3]}..."


# -- pointer ---------------------------------------------------------------------

# The pointer: two sentences that are always there, and name the tools that tell the rest.

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


# -- reference -------------------------------------------------------------------

# The deep reference: pages that a model reads by a tool, and never gets otherwise.

SUFFIX = ".md"


def shipped_reference() -> Path:
    """Return the folder of the pages that come with hookgate."""
    return Path(str(files("hookgate"))) / "capabilities" / "reference"


@dataclass(frozen=True, slots=True)
class Reference:
    """Folders of pages; of two with the same name, the earlier folder's counts.

    Every method blocks.
    """

    folders: Sequence[Path]

    def pages(self) -> Mapping[str, Path]:
        """Return the pages by name, sorted."""
        found: dict[str, Path] = {}
        for folder in self.folders:
            try:
                names = sorted(path.name for path in folder.iterdir())
            except OSError:
                continue
            for name in names:
                page = name.removesuffix(SUFFIX)
                hidden = name.startswith(".") or page.casefold() == "readme"
                if page != name and page.isprintable() and not hidden:
                    found.setdefault(page, folder)
        return dict(sorted(found.items()))

    def read(self, name: str) -> str:
        """Return the page called `name`, without frontmatter.

        Raises:
            ContentError: There is none, or it cannot be read.
        """
        pages = self.pages()
        folder = pages.get(name)
        if folder is None:
            near = next(iter(get_close_matches(name, pages, n=1)), None)
            raise ContentError(
                Problem(
                    file="reference",
                    found=f"no page called {name[:80]!r}",
                    expected=f"one of {', '.join(pages)}" if pages else "a page",
                    nearest=near,
                )
            )
        file = folder / f"{name}{SUFFIX}"
        text, _ = read_text(inside(folder, file.name, file=file), max_bytes=CONTENT_BYTES)
        return body_of(text)
