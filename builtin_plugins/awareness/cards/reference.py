"""The deep reference: pages that a model reads by a tool, and never gets otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

from hookgate.kit.content.files import CONTENT_BYTES, inside, read_text
from hookgate.kit.content.frontmatter import body_of
from hookgate.kit.content.problems import ContentError, Problem

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
