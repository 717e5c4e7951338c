"""The pages of the documentation are all in its site, and no link in them leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

import pytest
from docs.site_pages import LINK, NAV, ROOT

PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)


def links(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return LINK.findall(re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE))


def test_there_are_links_to_look_at() -> None:
    assert "docs/quickstart.md" in links("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_somewhere(page: str) -> None:
    folder = PurePosixPath(page).parent
    lost = [link for link in links(page) if not (ROOT / normpath(folder / link)).exists()]

    assert not lost


def test_every_page_of_the_documentation_stands_in_the_navigation() -> None:
    named = {name for names in NAV.values() for entry in names for name in expanded(entry)}
    pages = {page for page in PAGES if page.startswith("docs/")}

    assert not pages - named, "give it a place in NAV of docs/site_pages.py"
    assert all((ROOT / name).exists() for name in named - {"docs/plugins/README.md"})


def expanded(entry: str) -> list[str]:
    found = [path.relative_to(ROOT).as_posix() for path in Path(ROOT).glob(entry)]
    return found if "*" in entry else [entry]
