"""What programs say, as rules about them look at it."""

from __future__ import annotations

import ast

WITHIN = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where a statement holds statements."""


def statements(module: ast.Module) -> list[ast.AST]:
    """Return all that are no expressions: a tenth of what `ast.walk` returns."""
    found: list[ast.AST] = [module]
    for node in found:
        for name in WITHIN:
            found += getattr(node, name, ())
    return found
