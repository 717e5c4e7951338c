"""What the sanitizer finds in one text, told to people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.sanitizer.detector import inspect_both, verdict
from hookgate.builtin_plugins.sanitizer.sanitizer import NestedError, clean, digest_of
from hookgate.builtin_plugins.sanitizer.settings import THRESHOLD
from hookgate.core.domain.errors import HookgateError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

__all__ = ["ExplainError", "explained", "rendered"]

SHOWN = 160
"""Characters of a passage that are shown."""


class ExplainError(HookgateError):
    """The file cannot be read as text."""


def explained(file: Path, threshold: float | None = None) -> dict[str, Any]:
    """Return what is found in the text of a file.

    Returns:
        ``verdict`` (clean, warn, reject, as a stranger's text), ``sha256`` of the text, and
        ``findings``: ``rule``, ``severity``, ``start``, ``end``, ``note``, ``line``, ``passage``.

    Raises:
        ExplainError: It is not there, or no UTF-8.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ExplainError(f"{file}: cannot read it ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ExplainError(f"{file}: found a byte that is not UTF-8 ({error.reason})") from None
    try:
        cleaned = clean(text)
    except NestedError as error:
        return {"verdict": "reject", "sha256": digest_of(text), "findings": [], "why": str(error)}
    found = inspect_both(text, cleaned, THRESHOLD if threshold is None else threshold)
    findings = [
        {
            **asdict(one),
            "line": text.count("\n", 0, one.start) + 1,
            "passage": text[one.start : min(one.end, one.start + SHOWN)],
        }
        for one in found
    ]
    judged = verdict(found, trusted=False)
    return {"verdict": judged, "sha256": digest_of(text), "findings": findings}


def rendered(console: Console, file: Path, told: dict[str, Any]) -> None:
    """Print what `explained` has returned."""
    from hookgate.kit.rendering import clean as printable

    for one in told["findings"]:
        head = f"{file}:{one['line']}: {one['severity']}: {one['rule']}: {one['note']}"
        console.print(printable(head), markup=False, soft_wrap=True)
        console.print(f"    {printable(' '.join(one['passage'].split()))}", markup=False)
    said = {"clean": "passes", "warn": "passes", "reject": "is rejected as a stranger's text"}
    why = f": {told['why']}" if "why" in told else ""
    console.print(f"{file} {said[told['verdict']]}{why}", markup=False, soft_wrap=True)
    if told["verdict"] == "reject":
        allow = f'allow = ["{told["sha256"]}"]'
        console.print("to let this very text through, after you have read it:", markup=False)
        console.print(f"    [plugin.sanitizer]\n    {allow}", markup=False, soft_wrap=True)
