"""Card files for tests."""

from __future__ import annotations

from pathlib import Path

BODY = "Invoices are sent by the tool send_invoice. It needs a customer and an amount. " * 3


def card_text(card_id: str, *, more: str = "", body: str = BODY) -> str:
    """Return a card with one trigger, and with `more` lines in its frontmatter."""
    head = f"capability_id: {card_id}\ntriggers: {{keywords: [invoice]}}\n{more}"
    return f"---\n{head}---\n\n{body}\n"


def write_card(path: Path, card_id: str = "", *, more: str = "", body: str = BODY) -> Path:
    """Write a card, called as its file is where nothing else is said."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(card_text(card_id or path.stem, more=more, body=body), encoding="utf-8")
    return path
