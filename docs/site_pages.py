"""What MkDocs makes the site of: the pages of the repository, where they stand and as they link.

The root of the site is the root of the repository, so a link that works in the repository works
on the site. A page links to a folder where it means all that is in it: such a folder without a
page of its own gets one. mkdocs.yml names this file as its hook; `make docs-site` builds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
WORKER = "docs/vendor/iframe-worker.js"
SHIM = "https://unpkg.com/iframe-worker/shim"
"""What the theme searches with where a page is read from the disk; `WORKER` is the same one."""

ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>"""
)
LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=[)#])")
MANIFEST = "hookgate-plugin.toml"
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".c": "c",
    ".rs": "rust",
    ".ts": "ts",
}

NAV: dict[str, list[str]] = {
    "Use": [
        "docs/quickstart.md",
        "docs/configuration.md",
        "docs/runbooks.md",
        "docs/deploying.md",
        "docs/capabilities.md",
        "docs/cards.md",
        "docs/policy-rules.md",
        "docs/learning-from-use.md",
        "docs/memory-facts.md",
        "docs/wire.md",
        "docs/clients.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ],
    "Extend": [
        "docs/writing-plugins.md",
        "docs/turns.md",
        "docs/channel-authors.md",
        "docs/wasm-guests.md",
        "docs/embedding.md",
        "docs/replacing-a-builtin.md",
        "examples/README.md",
    ],
    "Plugins": ["docs/plugins/README.md", "docs/plugins/*.md"],
    "Hooks": ["docs/hooks/index.md", "docs/hooks/*.md"],
    "Inside": [
        "docs/architecture.md",
        "docs/where-to-put.md",
        "docs/wasm-sandbox.md",
        "docs/dependencies.md",
        "benchmarks/RESULTS.md",
        "CONTRIBUTING.md",
    ],
}


def on_config(config: MkDocsConfig) -> None:
    """Write the navigation: a pattern stands for the pages that are not named beside it."""
    nav: list[Any] = ["README.md"]
    for title, entries in NAV.items():
        pages: list[str] = []
        for entry in entries:
            found = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(entry))
            pages += [page for page in (found if "*" in entry else [entry]) if page not in pages]
        nav.append({title: pages})
    config.nav = nav


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the pages, and what they link to, in the place of the folder docs/."""
    from mkdocs.structure.files import File, Files

    made = [file for file in files if file.src_dir != config.docs_dir]
    for name in sorted(_reached()):
        if (ROOT / name).is_file():
            made.append(
                File(name, str(ROOT), config.site_dir, use_directory_urls=config.use_directory_urls)
            )
        else:
            made.append(File.generated(config, name, content=_listing(PurePosixPath(name).parent)))
    return Files(made)


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Let a link to a folder lead to its page, and show the code of an example under what it is."""
    folder = PurePosixPath(page.file.src_uri).parent

    def to_page(link: re.Match[str]) -> str:
        target = normpath(folder / link[1])
        return f"{link[1].rstrip('/')}/{_index(target)}" if (ROOT / target).is_dir() else link[1]

    markdown = LINK.sub(to_page, markdown)
    begins = any((ROOT / folder / name).is_file() for name in ("pyproject.toml", MANIFEST))
    if folder.parts[:1] == ("examples",) and begins:
        markdown += "\n\n" + "\n\n".join(_code(folder))
    return markdown


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Fetch nothing from elsewhere."""
    from mkdocs.utils import get_relative_url

    return _fetching_nothing(output, page.file.src_uri, get_relative_url(WORKER, page.file.url))


def on_post_template(output_content: str, *, template_name: str, **_: Any) -> str:
    """Fetch nothing from elsewhere, on the theme's own pages neither."""
    return _fetching_nothing(output_content, template_name, f"/{WORKER}")


def _fetching_nothing(output: str, name: str, worker: str) -> str:
    from mkdocs.exceptions import PluginError

    output = output.replace(SHIM, worker)
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{name} fetches from elsewhere: {found[0]}")
    return output


@cache
def _reached() -> frozenset[str]:
    """All files of the site: the pages of docs/ and of the root, and what is linked from them."""
    begin = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / WORKER]
    todo = [path.relative_to(ROOT).as_posix() for path in begin]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _linked(name)
    return frozenset(found)


def _linked(name: str) -> Iterator[str]:
    if not name.endswith(".md") or not (ROOT / name).is_file():
        return
    for link in LINK.findall((ROOT / name).read_text(encoding="utf-8")):
        target = normpath(PurePosixPath(name).parent / link)
        if target.startswith(".."):
            continue
        if (ROOT / target).is_dir():
            yield f"{target}/{_index(target)}"
        elif (ROOT / target).is_file():
            yield target


def _index(folder: str) -> str:
    return "index.md" if (ROOT / folder / "index.md").is_file() else "README.md"


def _listing(folder: PurePosixPath) -> str:
    """Return a page for a folder that has none: links to its pages, and its code."""
    pages = sorted(path.name for path in (ROOT / folder).glob("*.md"))
    links = [f"- [{name.removesuffix('.md')}]({name})" for name in pages]
    return "\n\n".join([f"# {folder.name}", *links, *_code(folder)]) + "\n"


def _code(folder: PurePosixPath) -> Iterator[str]:
    for path in sorted((ROOT / folder).rglob("*")):
        if language := LANGUAGES.get(path.suffix):
            name = path.relative_to(ROOT / folder).as_posix()
            text = path.read_text(encoding="utf-8").rstrip()
            yield f"## {name}\n\n~~~~{language}\n{text}\n~~~~"
