"""Draw docs/turn.svg, a turn on its way through the hooks: ``python -m docs.turn_picture``.

The hooks, their order and their contracts are those of `hookspecs.py`, so a new hook is drawn
without a word here. What the core does between them stands below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

from docs.hook_pages import Hook, hooks

PICTURE = Path(__file__).parent / "turn.svg"

STEPS = {
    "authenticate": "In",
    "receive_message": "Start",
    "withhold_capabilities": "Choice",
    "sanitize_card": "Context",
    "prepare_model_call": "Model",
    "before_tool_call": "Tools",
    "turn_ended": "Out",
    "judge_turn": "After it",
    "log_metrics": "At any time",
}
"""The step that begins with a hook, as docs/architecture.md names it."""

CORE = {
    "authenticate": "a message comes in",
    "receive_message": "agent, session, lane",
    "before_turn": "message committed",
    "filter_stream": "a provider answers",
    "after_tool_call": "the tool runs",
    "turn_ended": "answer committed",
    "judge_turn": "done; the lane is free",
}
"""What the core does before a hook."""

AGAIN = ("Context", "Model", "Tools")
"""The steps that follow each other until the model calls no tool."""

STOPS = ("Refusal", "Verdict", "Decision", "Rejected")
"""What a hook returns that may stop what would come next."""

ACROSS = 4
BOX, HEIGHT, GAP = 178, 42, 20
LEFT, TOP, MARGIN = 118, 64, 22
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .step { font-weight: 600; font-size: 15px; }
  .name { font: 12.5px ui-monospace, monospace; }
  .small { font-size: 11px; fill: #52606d; }
  .hook { fill: #ffffff; stroke: #829ab1; }
  .required { fill: #dceefb; stroke: #2186c4; }
  .stops { stroke: #ba2525; stroke-width: 2; }
  .core { fill: #e4e7eb; stroke: none; }
  .again { fill: #f5f7fa; stroke: #829ab1; stroke-dasharray: 5 4; }
  .way { fill: none; stroke: #52606d; stroke-width: 1.4; marker-end: url(#end); }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """One box: a hook, or what the core does."""

    text: str
    hook: Hook | None = None

    def drawn(self, x: int, y: int) -> str:
        """Return the box as SVG, its upper left corner at `x` and `y`."""
        middle = x + BOX // 2
        if self.hook is None:
            return _rect("core", x, y, BOX, HEIGHT, HEIGHT // 2) + _text(
                "", middle, y + 26, self.text
            )
        contract = self.hook.contract
        looks = "hook required" if contract.required else "hook"
        if any(word in self.hook.signature.rpartition("->")[2] for word in STOPS):
            looks += " stops"
        words = f"{contract.combine}{'!' if contract.required else ''} · {contract.limit:g} s"
        if contract.settle:
            words += " · settle"
        return (
            _rect(looks, x, y, BOX, HEIGHT, 5)
            + _text("name", middle, y + 18, self.text)
            + _text("small", middle, y + 34, words)
        )


def steps() -> dict[str, list[Box]]:
    """Return the boxes of each step, in the order in which a turn meets them.

    Raises:
        ValueError: A hook that a table above names is not there.
    """
    found: dict[str, list[Box]] = {}
    step = ""
    turn = [hook for hook in hooks() if hook.section != "Wiring"]
    gone = (STEPS.keys() | CORE.keys()) - {hook.name for hook in turn}
    if gone:
        raise ValueError(f"docs/turn_picture.py: {sorted(gone)} are no hooks that a turn meets")
    for hook in turn:
        step = STEPS.get(hook.name, step)
        boxes = found.setdefault(step, [])
        if hook.name in CORE:
            boxes.append(Box(CORE[hook.name]))
        boxes.append(Box(hook.name, hook))
    return found


def drawing() -> str:
    """Return the picture."""
    parts: list[str] = []
    edges: dict[str, tuple[int, int]] = {}
    y = TOP
    found = steps()
    for step, boxes in found.items():
        if step == AGAIN[0]:
            y += 30
        rows = [boxes[start : start + ACROSS] for start in range(0, len(boxes), ACROSS)]
        bottom = y + len(rows) * (HEIGHT + GAP) - GAP
        edges[step] = (y, bottom)
        parts.append(_text("step", MARGIN, y + 26, step, "start"))
        parts += _rows(rows, y, joined=step != list(found)[-1])
        y = bottom + (GAP + 14 if step == AGAIN[-1] else GAP)
    width = MARGIN + LEFT + ACROSS * (BOX + GAP) + 2 * MARGIN
    return "".join(
        (_head(width, y), *_loop(found, edges, width), *_down(edges), *parts, "</svg>\n")
    )


def _rows(rows: Sequence[Sequence[Box]], y: int, *, joined: bool) -> Iterator[str]:
    left = MARGIN + LEFT
    for number, row in enumerate(rows):
        top = y + number * (HEIGHT + GAP)
        for place, box in enumerate(row):
            x = left + place * (BOX + GAP)
            yield box.drawn(x, top)
            if joined and place:
                yield _way(f"M{x - GAP} {top + HEIGHT // 2}h{GAP - 3}")
        if joined and number:
            from_x = left + (ACROSS - 1) * (BOX + GAP) + BOX // 2
            turning = top - GAP // 2
            yield _way(f"M{from_x} {top - GAP}V{turning}H{left + BOX // 2}V{top - 3}")


def _down(edges: dict[str, tuple[int, int]]) -> Iterator[str]:
    """The way from each step to the next one, and from the last one that is done again."""
    order = list(edges)[:-1]
    x = MARGIN + 30
    for above, below in pairwise(order):
        begin = edges[above][1] + 12 if above == AGAIN[-1] else edges[above][0] + 34
        yield _way(f"M{x} {begin}V{edges[below][0] + 9}")


def _loop(
    found: dict[str, list[Box]], edges: dict[str, tuple[int, int]], width: int
) -> Iterator[str]:
    """The frame of the steps that are done again, and the way back in it."""
    top, bottom = edges[AGAIN[0]][0], edges[AGAIN[-1]][1]
    yield _rect("again", MARGIN - 12, top - 28, width - 2 * MARGIN + 24, bottom - top + 40, 8)
    words = "for each request to a model: again with what tools came to, until none is called"
    yield _text("small", MARGIN + LEFT, top - 11, words, "start")
    left = MARGIN + LEFT
    last_row = (len(found[AGAIN[-1]]) - 1) % ACROSS + 1
    begin = left + last_row * (BOX + GAP) - GAP
    end = left + min(len(found[AGAIN[0]]), ACROSS) * (BOX + GAP) - GAP
    turning = width - 2 * MARGIN + 14
    yield _way(f"M{begin} {bottom - HEIGHT // 2}H{turning}V{top + HEIGHT // 2}H{end + 3}")


def _head(width: int, height: int) -> str:
    legend = (
        ("core", "what the core does"),
        ("hook required", "a hook whose failure raises (!)"),
        ("hook", "one whose failure is skipped"),
        ("hook stops", "its result may stop what follows"),
    )
    x = MARGIN
    drawn = []
    for looks, words in legend:
        drawn.append(_rect(looks, x, 20, 22, 16, 4) + _text("small", x + 29, 32, words, "start"))
        x += 60 + 6 * len(words)
    title = "A turn on its way through the hooks"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}">\n'
        "<!-- from hookspecs.py: `make docs` draws this -->\n"
        f"<title>{title}</title>\n<style>{STYLE}</style>\n"
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#52606d"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n' + "".join(drawn)
    )


def _rect(looks: str, x: int, y: int, width: int, height: int, corner: int) -> str:
    return (
        f'<rect class="{looks}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{corner}"/>\n'
    )


def _text(looks: str, x: int, y: int, words: str, anchor: str = "middle") -> str:
    return f'<text class="{looks}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>\n'


def _way(path: str) -> str:
    return f'<path class="way" d="{path}"/>\n'


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(drawing(), encoding="utf-8")


if __name__ == "__main__":
    main()
