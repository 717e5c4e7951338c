"""Write the generated lines of the hook pages: ``python -m docs.hook_pages``.

`hookspecs.py` is the one place where a hook is declared. Its signature and its contract
stand at the top of the hook's page between two markers, and docs/hooks/index.md lists all
hooks; both are written here. The rest of a page is written by hand.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hookgate import hookspecs

PAGES = Path(__file__).parent / "hooks"
SPECS = Path(__file__).parent.parent / "hookspecs.py"
BEGIN = "<!-- from hookspecs.py: `make docs` writes these lines -->"
END = "<!-- end -->"

COMBINE = {
    "each": "Every implementation is called, and the results that are not None are collected.",
    "first": "Implementations are called until one returns something other than None.",
    "fold": "Each implementation gets what the one before it made of the last argument.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One hook as hookspecs.py declares it.

    Attributes:
        name: Its name.
        section: The banner that it stands under.
        signature: The declaration, as it stands in the file, without decorator and body.
        contract: How results combine, and what a failure costs.
        docstring: The whole docstring, dedented.
    """

    name: str
    section: str
    signature: str
    contract: hookspecs.Contract
    docstring: str

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        return self.docstring.splitlines()[0]

    @property
    def example(self) -> str:
        """The code of the docstring's example."""
        lines = self.docstring.partition("::\n")[2].splitlines()
        return "\n".join(line.removeprefix("        ") for line in lines).strip("\n")


def hooks() -> list[Hook]:
    """Return all hooks in the order of hookspecs.py."""
    source = SPECS.read_text(encoding="utf-8")
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.FunctionDef) or not _is_spec(node):
            continue
        first_statement = node.body[0]
        found.append(
            Hook(
                name=node.name,
                section=_section(lines, node.lineno),
                signature="\n".join(lines[node.lineno - 1 : first_statement.lineno - 1]),
                contract=getattr(hookspecs, node.name).__contract__,
                docstring=ast.get_docstring(node) or "",
            )
        )
    return found


def _is_spec(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(mark, ast.Call)
        and isinstance(mark.func, ast.Name)
        and mark.func.id == "hookspec"
        for mark in node.decorator_list
    )


def _section(lines: Sequence[str], line: int) -> str:
    for number in range(line - 1, 0, -1):
        if lines[number - 1].startswith("# ----") and lines[number - 2].startswith("# "):
            return lines[number - 2].removeprefix("# ").partition(":")[0]
    raise ValueError(f"hookspecs.py:{line}: found no banner above this hook")


def contract_line(contract: hookspecs.Contract) -> str:
    """Return a contract in one line, such as ``each! | limit 5 s``."""
    parts = [
        f"`{contract.combine}{'!' if contract.required else ''}`",
        f"limit {contract.limit:g} s",
    ]
    if contract.settle:
        parts.append("`settle`")
    return " · ".join(parts)


def contract_sentences(contract: hookspecs.Contract) -> str:
    """Return what a contract means."""
    sentences = [COMBINE[contract.combine]]
    if contract.settle:
        sentences.append("All of them run, even after one has failed; then the failure is raised.")
    elif contract.required:
        sentences.append("The first failure is raised.")
    else:
        sentences.append(
            "One that fails is skipped and reported to [`hook_failed`](hook_failed.md)."
        )
    return " ".join(sentences)


def header(hook: Hook) -> str:
    """Return the generated lines of a hook's page, markers included."""
    return "\n".join(
        (
            BEGIN,
            "",
            "```python",
            hook.signature,
            "```",
            "",
            f"Contract: {contract_line(hook.contract)}. {contract_sentences(hook.contract)}",
            "",
            END,
        )
    )


def index_table() -> str:
    """Return the generated lines of docs/hooks/index.md, markers included."""
    rows = [BEGIN]
    section = ""
    for hook in hooks():
        if hook.section != section:
            section = hook.section
            rows += ["", f"### {section}", "", "| hook | contract | what for |", "|---|---|---|"]
        rows.append(
            f"| [`{hook.name}`]({hook.name}.md) | {contract_line(hook.contract)} | {hook.summary} |"
        )
    return "\n".join((*rows, "", END))


def with_generated(page: str, generated: str) -> str:
    """Return `page` with the lines between its markers replaced.

    Raises:
        ValueError: The page has no markers.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"expected the markers {BEGIN!r} and {END!r}, found none")
    return head + generated + tail


def main() -> None:
    """Write the generated lines of every page that exists."""
    pages = {PAGES / "index.md": index_table()}
    pages |= {PAGES / f"{hook.name}.md": header(hook) for hook in hooks()}
    for path, generated in pages.items():
        text = path.read_text(encoding="utf-8")
        path.write_text(with_generated(text, generated), encoding="utf-8")


if __name__ == "__main__":
    main()
