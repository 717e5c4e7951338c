"""Arguments that are not recorded, by the operator's rule."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import Any

MASK = "***"


class Redaction:
    """Globs of names, compiled once.

    Args:
        globs: Globs of argument names, without regard to case; ``TOOL.NAME`` is about the
            arguments of the tools that ``TOOL`` fits alone.
    """

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = []
        for glob in globs:
            tool, dot, name = glob.partition(".")
            both = (tool, name) if dot else ("*", glob)
            self._globs.append(tuple(re.compile(translate(one.casefold())) for one in both))

    def apply(
        self, tool: str, arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return arguments with masks, and the paths of what was masked, as ``a.b[0].c``."""
        folded = tool.casefold()
        names = [name for only, name in self._globs if only.match(folded)]
        paths: list[str] = []

        def clean(value: Any, path: str) -> Any:
            if isinstance(value, dict):
                return {key: masked(key, item, f"{path}.{key}") for key, item in value.items()}
            if isinstance(value, list | tuple):
                return [clean(item, f"{path}[{number}]") for number, item in enumerate(value)]
            return value

        def masked(key: str, value: Any, path: str) -> Any:
            if any(name.match(key.casefold()) for name in names):
                paths.append(path.removeprefix("."))
                return MASK
            return clean(value, path)

        return clean(dict(arguments), ""), tuple(paths)
