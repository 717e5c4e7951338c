"""Text that fits: one line out of many, and cuts that keep to a budget of tokens.

Nothing here takes a counter for additive or monotonic: what is returned has been counted.
"""

from __future__ import annotations

from collections.abc import Callable

from hookgate import TokenCounter

CUT_NOTE = '[cut: {tokens:,} more tokens; {tool} {{"id": "{id}", "offset": {offset}}}]'


READ_TOOL = "read_capability"
"""The tool that reads on where a text was cut."""


def one_line(text: str) -> str:
    """Return `text` on one line: each run of white space, of any script, is one space."""
    # str.split knows every character that str.splitlines breaks at, U+2028 among them.
    return " ".join(text.split())


def clip(text: str, length: int) -> str:
    """Return `text` with at most `length` characters, the last one an ellipsis if cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to `most` that fits, or -1.

    Found by halving. Should `fits` go up and down, the answer may be smaller than it could
    be, but it fits.
    """
    if most >= 0 and fits(most):
        return most
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def cut_line(text: str, fits: Callable[[str], bool]) -> str:
    """Return the most of `text`, a line, that fits, cut at a word with an ellipsis; or ""."""
    if fits(text):
        return text

    def shortened(length: int) -> str:
        return _at_word(text[:length]) + "…"

    length = largest(len(text) - 1, lambda length: fits(shortened(length)))
    cut = shortened(length) if length > 0 else ""
    return cut if cut != "…" else ""


def _at_word(text: str) -> str:
    head, space, _ = text.rpartition(" ")
    # One word that is longer than what it is cut to: cut within the word.
    return (head if space and len(head) * 2 >= len(text) else text).rstrip(" .,;:")


def cut_text(
    text: str, foot: str, budget: int, counter: TokenCounter, *, id: str, offset: int = 0
) -> str:
    """Return `text` and `foot`, within a budget: whole, or cut with a note that reads on.

    The note says how much is gone, and with which arguments `READ_TOOL` goes on: the id of
    the capability, and the characters of `text` that were shown before and here.

    The cut is at a paragraph where that keeps half of what would fit; else at a line, else
    at a word. The foot stays whole where it takes at most a quarter of the budget.

    Returns:
        The text; "" where not even its first line and the note fit.
    """
    whole = text + foot
    if counter.count(whole) <= budget:
        return whole
    if counter.count(foot) * 4 > budget:
        text, foot = whole, ""
    size = counter.count(whole)

    def noted(kept: str) -> str:
        more = max(1, size - counter.count(kept + foot))
        note = CUT_NOTE.format(tokens=more, tool=READ_TOOL, id=id, offset=offset + len(kept))
        return f"{kept}\n\n{note}{foot}"

    def fits(length: int) -> bool:
        return counter.count(noted(_at_break(text[:length]))) <= budget

    length = largest(len(text) - 1, fits)
    kept = _at_break(text[:length]) if length > 0 else ""
    first = text.split("\n", 1)[0]
    return noted(kept) if kept.startswith(first) else ""


def _at_break(text: str) -> str:
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark)
        if at * 2 >= len(text):
            return text[:at].rstrip()
    return text.rstrip()
