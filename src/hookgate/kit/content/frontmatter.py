"""The YAML between two lines of ``---`` at the head of a Markdown file."""

from __future__ import annotations

from hookgate.kit.content.problems import ContentError, Problem

__all__ = ["body_of", "split"]

FENCE = "---"


def split(text: str, file: str, *, needed: str = "name and description") -> tuple[str, str]:
    """Return frontmatter and body; line 1 of the frontmatter is line 2 of the file.

    Lines may end in CRLF; in what is returned they end in LF.

    Args:
        text: What the file holds.
        file: The file, for messages.
        needed: The keys that the frontmatter must have, for messages.

    Raises:
        ContentError: There is no frontmatter, or it has no end.
    """
    lines = _lines(text)
    if not lines or lines[0].rstrip() != FENCE:
        found = "no frontmatter" if text.strip() else "an empty file"
        expected = f"a first line of --- with {needed} below it"
        raise ContentError(Problem(file=file, line=1, found=found, expected=expected))
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]).strip()
    raise ContentError(
        Problem(file=file, line=1, found="frontmatter without an end", expected="a second ---")
    )


def body_of(text: str) -> str:
    """Return a Markdown text without its frontmatter, if it has any."""
    try:
        return split(text, "")[1]
    except ContentError:
        return "\n".join(_lines(text)).strip()


def _lines(text: str) -> list[str]:
    # Not `splitlines`: in prose, a form feed or U+2028 ends no line.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
