"""Card files, Markdown with YAML frontmatter, and the folders that they lie in."""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hookgate import FLAG_NAMES, Card, CardOrigin, PluginInfo, Triggers
from hookgate.kit.content.documents import (
    NAME,
    Description,
    DisplayName,
    DocumentModel,
    DocumentReading,
    Id,
    Keyword,
    Labels,
    Snake,
    ToolGlob,
    many,
    read_text_as,
)
from hookgate.kit.content.files import Stamp, decoded, look_at, open_folder, read_at, why
from hookgate.kit.content.folders import left_out, real_path
from hookgate.kit.content.frontmatter import split
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.scaffold import filled, quoted, scaffold

CARD_BYTES = 51_200
"""The largest card file."""

FRONTMATTER_BYTES = 8 * 1024
"""The largest frontmatter. With `FRONTMATTER_VALUES` it bounds the time that a card takes:
8 KB of nothing but values take the YAML parser 0.3 s, 512 values in them 0.05 s."""

FRONTMATTER_VALUES = 512
"""The most values in a frontmatter. Every list as long as it may be comes to half of that."""

BODY_CHARS = (200, 800)
"""A body of this many characters says enough, and no more than a model needs."""

MAX_PRIORITY = 20
CHARS_PER_TOKEN = 4

# A surrogate is half of a character: UTF-8 has none, but a text from elsewhere may.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")


class TriggersText(DocumentModel):
    """``triggers``: when a card applies."""

    router_tags: Labels = ()
    keywords: Annotated[tuple[Keyword, ...], many] = ()
    session_types: Annotated[
        tuple[Annotated[Literal["main", "isolated"], Snake], ...], many, Field(min_length=1)
    ] = Triggers().session_types  # type: ignore[assignment]  # two of them
    confidence_threshold: float = Field(default=Triggers().confidence_threshold, ge=0, le=1)
    tools: Annotated[tuple[ToolGlob, ...], many] = ()
    flags: Annotated[tuple[Annotated[Literal[FLAG_NAMES], Snake], ...], many] = ()  # type: ignore[valid-type]
    inject_at: Annotated[
        tuple[Annotated[Literal["bootstrap", "mid", "post_tool"], Snake], ...],
        many,
        Field(min_length=1),
    ] = Triggers().inject_at  # type: ignore[assignment]  # two of them


class CardHead(DocumentModel):
    """The frontmatter of a card."""

    capability_id: Id
    name: DisplayName = ""
    description: Description = ""
    triggers: TriggersText = TriggersText()
    priority: int = Field(default=Card(id="", text="").priority, ge=0, le=MAX_PRIORITY)
    max_chars: int = Field(default=Card(id="", text="").max_chars, ge=1, le=CARD_BYTES)
    token_budget: int = Field(
        default=Card(id="", text="").token_budget, ge=1, le=CARD_BYTES // CHARS_PER_TOKEN
    )


def parse_card(
    text: str, file: str, *, origin: CardOrigin, trusted: bool, strict: bool = False
) -> DocumentReading[Card]:
    """Read one card. It never raises.

    Args:
        text: What the file holds, without a byte order mark.
        file: The file, for messages and as the card's `source_ref`.
        origin: Whose the card is.
        trusted: Whether medium findings in its body warn instead of rejecting it.
        strict: Whether unknown keys are errors.
    """
    try:
        _check_text(text, file)
        head, body = split(text, file, needed="capability_id")
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    reading = read_text_as(
        CardHead,
        head,
        file,
        lenient=not strict,
        first_line=2,
        max_bytes=FRONTMATTER_BYTES,
        max_values=FRONTMATTER_VALUES,
    )
    said, document, line = reading.one, reading.document, _line_of(body, text)
    if said is None or document is None:
        usual = Card(id="", text=body)
        none: DocumentReading[Card] = DocumentReading(problems=reading.problems)
        return none.and_problems(_problems_of_body(usual, file, line))
    triggers = Triggers(
        **{name: getattr(said.triggers, name) for name in TriggersText.model_fields}
    )
    card = Card(
        id=said.capability_id,
        name=said.name or said.capability_id,
        description=said.description,
        text=body,
        triggers=triggers,
        priority=said.priority,
        max_chars=said.max_chars,
        token_budget=said.token_budget,
        origin=origin,
        trusted=trusted,
        source_ref=file,
    )
    more = list(_problems_of_body(card, file, line))
    if not (triggers.router_tags or triggers.keywords or triggers.tools or triggers.flags):
        found = "no router_tags, keywords, tools or flags"
        expected = "one of them: without any, only force_include shows the card"
        more.append(document.problem(("triggers",), found, expected, severity="warning"))
    return DocumentReading(found=(card,), problems=reading.problems, line=line).and_problems(more)


def _check_text(text: str, file: str) -> None:
    """Refuse characters that are no text.

    Raises:
        ContentError: There is one.
    """
    odd = _NO_TEXT.search(text)
    if odd is not None:
        line = text.count("\n", 0, odd.start()) + 1
        found = f"the character {shortened(odd.group())[1:-1]}"
        raise ContentError(Problem(file=file, line=line, found=found, expected="text"))


def _line_of(body: str, text: str) -> int:
    """Return the line of `text` on which its stripped last part, `body`, begins."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rstrip()
    return lines.count("\n", 0, len(lines) - len(body)) + 1


def _problems_of_body(card: Card, file: str, line: int) -> Iterator[Problem]:
    """Yield what is wrong with the text of a card, and what could be better."""
    size = len(card.text)
    least, most = BODY_CHARS
    cap = min(card.max_chars, CHARS_PER_TOKEN * card.token_budget)
    found = f"a body of {size} characters"
    if not size:
        expected = "a text below the second ---, which tells a model of the capability"
        yield Problem(file=file, line=line, found="an empty body", expected=expected)
        return
    if not least <= size <= most:
        expected = f"{least} to {most} characters"
        yield Problem(file=file, line=line, found=found, expected=expected, severity="warning")
    if size > cap:
        expected = f"at most {cap}, by max_chars and {CHARS_PER_TOKEN} x token_budget: it is cut"
        yield Problem(file=file, line=line, found=found, expected=expected, severity="warning")


# -- Folders of cards: which there are, and which cards are in them --------------

MAX_CARDS = 2000
"""The most cards of one folder."""

MAX_ODD = 20
"""The most files of one folder that are named for looking like cards."""

SUFFIX = ".md"
MISSPELT = (".markdown", ".mdx")
NO_CARD = "readme.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFolder:
    """A folder that is read.

    Attributes:
        path: The folder.
        origin: Whose the cards in it are.
        trusted: Whether medium findings in them warn instead of rejecting.
        strict: Whether unknown keys in them are errors.
        expected: Whether somebody named it, so that its absence is worth a word.
        within: A folder above it, below which no link is followed on the way to it: where
            nobody named the folder, it may have been put there. None: it may be a link.
        linked: Whether files may have several hard links, as installers make them.
    """

    path: Path
    origin: CardOrigin
    trusted: bool = False
    strict: bool = False
    expected: bool = False
    within: Path | None = None
    linked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFile:
    """A file that was read.

    Attributes:
        folder: The folder.
        name: Its name in the folder.
        stamp: What it was when it was opened.
        read_ns: When that was, by the clock that stamps files.
        reading: What came of it.
    """

    folder: CardFolder
    name: str
    stamp: Stamp
    read_ns: int
    reading: DocumentReading[Card]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardScan:
    """What the folders hold. Two scans are equal where nothing has changed.

    Attributes:
        cards: The cards, each id once, in the order of folders and names.
        problems: What is wrong, and which cards were left out for an earlier one.
        files: All files that were read, those that are no card too.
    """

    cards: tuple[Card, ...] = ()
    problems: tuple[Problem, ...] = ()
    files: tuple[CardFile, ...] = field(default=(), compare=False, repr=False)


def shipped_cards() -> Path:
    """Return the folder of the cards that come with hookgate."""
    return Path(str(files("hookgate"))) / "capabilities" / "cards"


def folders_of(
    *,
    home: Path,
    workspace: Path,
    dirs: Sequence[Path] = (),
    allow_workspace_cards: bool = False,
    allow_user_capabilities: bool = False,
    accepted: Path | None = None,
    plugins: Sequence[PluginInfo] = (),
) -> tuple[CardFolder, ...]:
    """Return the folders to read; of two cards that have the same id, the earlier one counts.

    Args:
        home: The gateway's home folder.
        workspace: The folder in which the gateway was started.
        dirs: The folders of the settings, whole.
        allow_workspace_cards: Whether ``.hookgate/cards`` in the workspace is read.
        allow_user_capabilities: Whether ``user-capabilities`` in the home folder is read.
        accepted: Where what the workspace brings is read; None where nobody has accepted it.
        plugins: The plugins that run; the cards that come with their packages are read.
    """
    found = [
        CardFolder(path=shipped_cards(), origin="repo", trusted=True, expected=True, linked=True)
    ]
    brought = real_path(workspace / ".hookgate" / "cards")
    for path in dirs:
        # Named by the settings it counts; whose words stand in it does not change by that.
        ours = real_path(path) != brought
        found.append(CardFolder(path=path, origin="configured", trusted=ours, expected=True))
    if allow_workspace_cards and accepted is not None:
        path = accepted / ".hookgate" / "cards"
        found.append(CardFolder(path=path, origin="workspace", within=accepted))
    if allow_user_capabilities:
        path = home / "user-capabilities"
        found.append(CardFolder(path=path, origin="user", strict=True))
    for info in plugins:
        if info.content is not None:
            path, ours = info.content / "cards", info.origin == "program"
            found.append(CardFolder(path=path, origin="plugin", trusted=ours, linked=True))
    folders: dict[str, CardFolder] = {}
    for folder in found:
        folders.setdefault(_real(folder), folder)
    return tuple(folders.values())


def _real(folder: CardFolder) -> str:
    """Return what tells two folders apart, however they are reached."""
    if folder.within is None:
        return real_path(folder.path)
    # A link there is not followed, so it is no way to any other of the folders.
    return os.path.join(real_path(folder.within), folder.path.relative_to(folder.within))


def scan(
    folders: Sequence[CardFolder], before: CardScan | None = None, *, only: str | None = None
) -> CardScan:
    """Read every card in `folders`. It blocks, and never raises.

    Args:
        folders: The folders, the most important one first.
        before: An earlier scan: files that have not changed since are not read again.
        only: The name of the one file to look at.
    """
    known = {(file.folder, file.name): file for file in (before or CardScan()).files}
    first: dict[str, Card] = {}
    read: list[CardFile] = []
    problems: list[Problem] = []
    for folder in folders:
        look = _Look(folder, known)
        for file in look.files(only):
            read.append(file)
            problems += file.reading.problems
            card = file.reading.one
            if card is not None and first.setdefault(card.id, card) is not card:
                problems.append(card_left_out(card, first[card.id]))
        problems += look.problems
    return CardScan(cards=tuple(first.values()), problems=tuple(problems), files=tuple(read))


def card_left_out(loser: Card, winner: Card) -> Problem:
    """Return what to tell of a card whose id an earlier one has already."""
    file, first = loser.source_ref, winner.source_ref
    return left_out(loser.id, file=file, winner=first, what="card", key="capability_id")


class _Look:
    """One look into one folder."""

    def __init__(self, folder: CardFolder, known: dict[tuple[CardFolder, str], CardFile]) -> None:
        self.problems: list[Problem] = []
        self._folder = folder
        self._known = known

    def files(self, only: str | None) -> Iterator[CardFile]:
        """Yield the files that were read, in the order of names."""
        descriptor = self._opened()
        if descriptor is None:
            return
        try:
            for name in self._names(descriptor) if only is None else [only]:
                try:
                    yield self._file(descriptor, name)
                except ContentError as error:
                    self.problems.append(error.problem)
        finally:
            os.close(descriptor)

    # -- the folder --------------------------------------------------------

    def _opened(self) -> int | None:
        """Return a descriptor of the folder; None where it is not there, or is none."""
        folder = self._folder
        try:
            return open_folder(folder.path, folder.within)
        except FileNotFoundError:
            if folder.expected:
                self._warn(_shown(str(folder.path)), "no such folder", "a folder of cards")
        except (OSError, ValueError) as error:
            found = why(error)
            expected = "a folder of cards that can be read"
            if folder.within is not None:
                expected += f", without a link below {_shown(str(folder.within))}"
            file = _shown(str(folder.path))
            self.problems.append(Problem(file=file, found=found, expected=expected))
        return None

    def _names(self, descriptor: int) -> list[str]:
        """Return the names of the cards, sorted; name files that look like cards."""
        try:
            with os.scandir(descriptor) as entries:
                names = heapq.nsmallest(MAX_CARDS + 1, self._looked_like(entries))
        except OSError as error:
            expected = "a folder that can be read"
            file = _shown(str(self._folder.path))
            self.problems.append(Problem(file=file, found=why(error), expected=expected))
            return []
        if len(names) > MAX_CARDS:
            found = f"more than {MAX_CARDS} cards, of which those from {_shown(names[-1])} on"
            found += " are left out"
            expected = f"at most {MAX_CARDS} in a folder"
            file = _shown(str(self._folder.path))
            self.problems.append(Problem(file=file, found=found, expected=expected))
        return names[:MAX_CARDS]

    def _looked_like(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[str]:
        odd: list[str] = []
        for entry in entries:
            name = entry.name
            if name.startswith(".") or name.casefold() == NO_CARD:
                continue
            if name.endswith(SUFFIX):
                yield name
            elif name.lower().endswith((SUFFIX, *MISSPELT)) and len(odd) < MAX_ODD:
                odd.append(name)
        for name in sorted(odd):
            expected = f"a name that ends in {SUFFIX}, if it is a card"
            self._warn(self._path(name), f"the name {_shown(name)}", expected)

    # -- a file ------------------------------------------------------------

    def _file(self, descriptor: int, name: str) -> CardFile:
        """Return a file, read again or as it was.

        Raises:
            ContentError: It is none that may be read.
        """
        path = self._path(name)
        if not name.isprintable():
            found = "a name with characters that cannot be printed"
            raise ContentError(Problem(file=path, found=found, expected="a plain name"))
        linked = self._folder.linked
        stamp = look_at(name, at=descriptor, file=path, max_bytes=CARD_BYTES, linked=linked)
        same = self._known.get((self._folder, name))
        if same is not None and stamp == same.stamp and stamp.is_settled(same.read_ns):
            return same
        read_ns = time.time_ns()
        raw, stamp = read_at(name, at=descriptor, file=path, max_bytes=CARD_BYTES, linked=linked)
        return CardFile(
            folder=self._folder,
            name=name,
            stamp=stamp,
            read_ns=read_ns,
            reading=self._reading(raw, path),
        )

    def _reading(self, raw: bytes, path: str) -> DocumentReading[Card]:
        folder = self._folder
        try:
            text = decoded(raw, path, max_bytes=CARD_BYTES)
        except ContentError as error:
            return DocumentReading(problems=(error.problem,))
        return parse_card(
            text, path, origin=folder.origin, trusted=folder.trusted, strict=folder.strict
        )

    def _path(self, name: str) -> str:
        return _shown(str(self._folder.path / name))

    def _warn(self, file: str, found: str, expected: str) -> None:
        self.problems.append(Problem(file=file, found=found, expected=expected, severity="warning"))


def _shown(name: str) -> str:
    """Return the name of a file for messages; it may hold what is no text."""
    return name if name.isprintable() else ascii(name)[1:-1]


# -- New cards from a template, and checking card files without a gateway --------


def create(card_id: str, folder: Path) -> Path:
    """Write a new card into `folder`, which is made where it is missing.

    Returns:
        The file, ``folder / CARD_ID.md``.

    Raises:
        ContentError: The id cannot be used, there is such a file already, or the folder cannot
            be written to.
    """
    path = folder / f"{card_id}{SUFFIX}"
    if not NAME.fullmatch(card_id) or path.name.casefold() == NO_CARD:
        found = f"the id {shortened(card_id)}"
        expected = "letters, digits, `.`, `_` and `-`, at most 64, and not README"
        raise ContentError(Problem(file=str(folder), found=found, expected=expected))
    words = {"card_id": card_id, "quoted": quoted(card_id), "word": quoted(_words(card_id))}
    templates = files("hookgate.builtin_plugins.awareness") / "cards" / "templates"
    return scaffold(folder, filled(templates, words), fresh=False)[0]


def _words(card_id: str) -> str:
    """Return an id as somebody would write it in a message."""
    words = card_id.replace("_", " ").replace("-", " ").replace(".", " ").split()
    return " ".join(words)[:60].strip()


def check_path(path: Path, folders: Sequence[CardFolder] = ()) -> CardScan:
    """Return what a card or a folder of cards holds.

    It blocks, and never raises. A folder without any card is a problem.

    Args:
        path: The file or folder.
        folders: The folders that a gateway may read: a card in one of them is judged as the
            gateway would judge it, and any other as a stranger's.
    """
    place = path if path.is_dir() else path.parent
    usual = CardFolder(path=place, origin="workspace", expected=True)
    folder = next((one for one in folders if is_same(one.path, place)), usual)
    folder = replace(folder, path=place, within=None, expected=True)
    if not path.is_dir():
        if path.name.startswith(".") or path.suffix != SUFFIX or path.name.casefold() == NO_CARD:
            expected = f"a card, NAME{SUFFIX}, or a folder"
            called = f"a file called {shortened(path.name)[1:-1]}"
            return CardScan(problems=(Problem(file=str(path), found=called, expected=expected),))
        return scan([folder], only=path.name)
    found = scan([folder])
    if found.cards or found.problems:
        return found
    problem = Problem(file=str(path), found="no card", expected=f"a card, NAME{SUFFIX}, in it")
    return CardScan(problems=(problem,))


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one folder, which is there."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False
