from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builtin_plugins.awareness.card_files import BODY, card_text, write_card

from hookgate.builtin_plugins.awareness.cards import folders
from hookgate.builtin_plugins.awareness.cards.folders import (
    MAX_CARDS,
    MAX_ODD,
    CardFolder,
    CardScan,
    folders_of,
    scan,
    shipped_cards,
)
from hookgate.kit.content.files import SETTLED_NS

HOUR_NS = 3_600_000_000_000


def folder(path: Path, **more: object) -> CardFolder:
    return CardFolder(path=path, origin="configured", **more)  # type: ignore[arg-type]  # one type each


def ids(found: CardScan) -> list[str]:
    return [card.id for card in found.cards]


def problems(found: CardScan) -> list[str]:
    return [str(problem) for problem in found.problems]


def age(path: Path) -> None:
    """Make a file an hour old."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns - HOUR_NS, status.st_mtime_ns - HOUR_NS))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened, in order."""
    names: list[str] = []
    real = os.open

    def opened(path: str, flags: int, *args: int, **more: int) -> int:
        if str(path).endswith(".md"):
            names.append(str(path))
        return real(path, flags, *args, **more)

    monkeypatch.setattr(folders.os, "open", opened)
    return names


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes files seem to have been read long after they had changed."""
    real = folders.time.time_ns
    return lambda: monkeypatch.setattr(
        folders.time, "time_ns", lambda: real() + SETTLED_NS + HOUR_NS
    )


# -- which folders -------------------------------------------------------------------


def test_the_folders_stand_in_the_order_of_precedence(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    found = folders_of(
        home=home,
        workspace=work,
        dirs=[Path("/etc/cards"), tmp_path / "mine"],
        allow_workspace_cards=True,
        accepted=work,
        allow_user_capabilities=True,
    )
    assert found == (
        CardFolder(path=shipped_cards(), origin="repo", trusted=True, expected=True, linked=True),
        folder(Path("/etc/cards"), trusted=True, expected=True),
        folder(tmp_path / "mine", trusted=True, expected=True),
        CardFolder(path=work / ".hookgate" / "cards", origin="workspace", within=work),
        CardFolder(path=home / "user-capabilities", origin="user", strict=True),
    )


def test_what_is_not_allowed_is_not_read(tmp_path: Path) -> None:
    write_card(tmp_path / ".hookgate" / "cards" / "a.md")
    write_card(tmp_path / "home" / "user-capabilities" / "b.md")
    (shipped,) = folders_of(home=tmp_path / "home", workspace=tmp_path)
    assert (shipped,) == folders_of(
        home=tmp_path / "home", workspace=tmp_path, allow_workspace_cards=True
    )
    assert shipped.origin == "repo"
    assert shipped.path.parts[-2:] == ("capabilities", "cards")


def test_a_folder_that_is_named_twice_is_read_once_by_the_name_that_comes_first(
    tmp_path: Path,
) -> None:
    (tmp_path / ".hookgate" / "cards").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / ".hookgate" / "cards")
    found = folders_of(
        home=tmp_path,
        workspace=tmp_path,
        dirs=[tmp_path / "link", tmp_path / ".hookgate" / "cards"],
        allow_workspace_cards=True,
        accepted=tmp_path,
    )
    assert [(one.path.name, one.origin) for one in found[1:]] == [("link", "configured")]
    # It is the workspace's all the same.
    assert not found[1].trusted


def test_a_link_in_the_workspace_takes_no_folder_from_the_user(tmp_path: Path) -> None:
    own = write_card(tmp_path / "home" / "user-capabilities" / "a.md").parent
    (tmp_path / "work" / ".hookgate").mkdir(parents=True)
    (tmp_path / "work" / ".hookgate" / "cards").symlink_to(own)
    found = folders_of(
        home=tmp_path / "home",
        workspace=tmp_path / "work",
        allow_workspace_cards=True,
        allow_user_capabilities=True,
        accepted=tmp_path / "work",
    )
    (card,) = scan(found[1:]).cards
    assert card.origin == "user"


def test_a_path_that_no_file_can_have_is_a_problem(tmp_path: Path) -> None:
    found = folders_of(home=tmp_path, workspace=tmp_path, dirs=[Path("a\0b"), Path("\ud800")])
    assert len(problems(scan(found[1:]))) == 2


# -- what a folder holds -------------------------------------------------------------


def test_cards_are_read_in_the_order_of_names_with_what_the_folder_gives_them(
    tmp_path: Path,
) -> None:
    for name in ("b", "a", "c"):
        write_card(tmp_path / f"{name}.md")
    found = scan([CardFolder(path=tmp_path, origin="user", trusted=True)])
    assert ids(found) == ["a", "b", "c"]
    assert problems(found) == []
    first = found.cards[0]
    assert (first.origin, first.trusted) == ("user", True)
    assert first.source_ref == str(tmp_path / "a.md")


def test_a_strict_folder_refuses_unknown_keys(tmp_path: Path) -> None:
    write_card(tmp_path / "a.md", more="notes: x\n")
    assert ids(scan([folder(tmp_path)])) == ["a"]
    assert ids(scan([folder(tmp_path, strict=True)])) == []


@pytest.mark.parametrize("name", ["README.md", "readme.md", "ReadMe.MD", ".hidden.md", "a.txt"])
def test_some_files_are_no_cards_and_no_problem(tmp_path: Path, name: str) -> None:
    write_card(tmp_path / name)
    assert scan([folder(tmp_path)]) == CardScan()


@pytest.mark.parametrize("name", ["a.MD", "a.markdown", "a.mdx", "a.Markdown"])
def test_a_file_that_looks_like_a_card_is_named(tmp_path: Path, name: str) -> None:
    write_card(tmp_path / name)
    found = scan([folder(tmp_path)])
    assert ids(found) == []
    assert problems(found) == [
        f"{tmp_path / name}: found the name {name}, expected a name that ends in .md, "
        "if it is a card"
    ]
    assert found.problems[0].severity == "warning"


def test_folders_below_are_not_looked_into(tmp_path: Path) -> None:
    write_card(tmp_path / "below" / "a.md")
    assert scan([folder(tmp_path)]) == CardScan()


def test_the_earlier_card_has_an_id_and_the_loser_is_named(tmp_path: Path) -> None:
    first = write_card(tmp_path / "1" / "z.md", "same")
    second = write_card(tmp_path / "2" / "a.md", "same")
    third = write_card(tmp_path / "2" / "b.md", "same")
    found = scan([folder(tmp_path / "1"), folder(tmp_path / "2")])
    assert [card.source_ref for card in found.cards] == [str(first)]
    assert [problem.file for problem in found.problems] == [str(second), str(third)]
    assert all(str(first) in problem.found for problem in found.problems)
    assert {problem.severity for problem in found.problems} == {"warning"}
    turned = scan([folder(tmp_path / "2"), folder(tmp_path / "1")])
    assert [card.source_ref for card in turned.cards] == [str(second)]


def test_a_bad_card_leaves_its_id_to_the_next(tmp_path: Path) -> None:
    write_card(tmp_path / "1" / "a.md", "same", more="priority: 99\n")
    second = write_card(tmp_path / "2" / "a.md", "same")
    found = scan([folder(tmp_path / "1"), folder(tmp_path / "2")])
    assert [card.source_ref for card in found.cards] == [str(second)]


def test_a_missing_folder_is_named_where_somebody_named_it(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert scan([folder(gone)]) == CardScan()
    (told,) = problems(scan([folder(gone, expected=True)]))
    assert told == f"{gone}: found no such folder, expected a folder of cards"
    file = write_card(tmp_path / "file.md")
    assert "found not a directory" in problems(scan([folder(file)]))[0]


def test_a_folder_may_be_reached_through_a_link(tmp_path: Path) -> None:
    write_card(tmp_path / "real" / "a.md")
    (tmp_path / "link").symlink_to("real")
    found = scan([folder(tmp_path / "link")])
    assert found.cards[0].source_ref == str(tmp_path / "link" / "a.md")


@pytest.mark.parametrize("linked", [".hookgate", ".hookgate/cards"])
def test_no_link_on_the_way_to_the_cards_of_a_workspace_is_followed(
    tmp_path: Path, linked: str
) -> None:
    real = tmp_path / "elsewhere"
    write_card(real / "a.md")
    write_card(real / "cards" / "b.md")
    place = tmp_path / "work" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(real)
    work = tmp_path / "work"
    found = scan([CardFolder(path=work / ".hookgate" / "cards", origin="workspace", within=work)])
    assert ids(found) == []
    assert f"without a link below {work}" in problems(found)[0]


def test_the_cards_of_a_workspace_are_read_where_the_workspace_is_a_link(tmp_path: Path) -> None:
    write_card(tmp_path / "real" / ".hookgate" / "cards" / "a.md")
    (tmp_path / "work").symlink_to("real")
    found = folders_of(
        home=tmp_path,
        workspace=tmp_path / "work",
        allow_workspace_cards=True,
        accepted=tmp_path / "work",
    )
    assert ids(scan(found[1:])) == ["a"]


def test_a_folder_has_a_most_of_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CARDS == 2000
    monkeypatch.setattr(folders, "MAX_CARDS", 3)
    for name in ("e", "d", "c", "b", "a"):
        write_card(tmp_path / f"{name}.md")
    found = scan([folder(tmp_path)])
    assert ids(found) == ["a", "b", "c"]
    assert problems(found) == [
        f"{tmp_path}: found more than 3 cards, of which those from d.md on are left out, "
        "expected at most 3 in a folder"
    ]


def test_not_every_file_that_looks_like_a_card_is_named(tmp_path: Path) -> None:
    for number in range(MAX_ODD + 5):
        (tmp_path / f"{number}.mdx").touch()
    assert len(scan([folder(tmp_path)]).problems) == MAX_ODD


def test_an_unreadable_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_card(tmp_path / "a.md")

    def scandir(path: int) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folders.os, "scandir", scandir)
    assert problems(scan([folder(tmp_path)])) == [
        f"{tmp_path}: found permission denied, expected a folder that can be read"
    ]


def test_an_installer_may_have_linked_the_cards_that_are_shipped(tmp_path: Path) -> None:
    path = write_card(tmp_path / "cards" / "a.md")
    os.link(path, tmp_path / "cache")
    assert ids(scan([folder(path.parent)])) == []
    assert ids(scan([folder(path.parent, linked=True)])) == ["a"]


def test_one_file_alone_can_be_looked_at(tmp_path: Path) -> None:
    write_card(tmp_path / "a.md")
    write_card(tmp_path / "b.md")
    assert ids(scan([folder(tmp_path)], only="b.md")) == ["b"]


def test_descriptors_are_closed(tmp_path: Path) -> None:
    write_card(tmp_path / "a.md")
    write_card(tmp_path / "b.md", body="\0")
    (tmp_path / "c.md").symlink_to("a.md")
    before = len(os.listdir("/dev/fd"))
    scan([folder(tmp_path), folder(tmp_path / "gone"), folder(tmp_path / "a.md")])
    assert len(os.listdir("/dev/fd")) == before


# -- what has changed ----------------------------------------------------------------


def test_a_file_that_has_not_changed_is_not_read_again(
    tmp_path: Path, reads: list[str], later: Callable[[], None]
) -> None:
    write_card(tmp_path / "a.md")
    write_card(tmp_path / "b.md", more="priority: 99\n")
    later()
    first = scan([folder(tmp_path)])
    second = scan([folder(tmp_path)], first)
    assert reads == ["a.md", "b.md"]
    assert second == first
    assert second.cards[0] is first.cards[0]
    assert len(second.problems) == 1


def test_a_file_that_had_just_changed_when_it_was_read_is_read_again(
    tmp_path: Path, reads: list[str]
) -> None:
    path = write_card(tmp_path / "a.md")
    first = scan([folder(tmp_path)])
    age(path)  # sets its time of change of now, which is what counts
    second = scan([folder(tmp_path)], first)
    assert reads == ["a.md", "a.md"]
    assert second == first


def test_a_file_that_has_changed_is_read_again_even_with_its_old_size_and_time(
    tmp_path: Path, reads: list[str], later: Callable[[], None]
) -> None:
    path = write_card(tmp_path / "a.md", body=BODY)
    status = path.stat()
    later()
    first = scan([folder(tmp_path)])
    path.write_text(card_text("a", body=BODY.swapcase()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = scan([folder(tmp_path)], first)
    assert reads == ["a.md", "a.md"]
    assert second.cards[0].text == BODY.swapcase().strip()


def test_a_file_that_another_was_put_in_the_place_of_is_read_again(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    path = write_card(tmp_path / "a.md")
    later()
    first = scan([folder(tmp_path)])
    write_card(tmp_path / "new", "other").replace(path)
    assert ids(scan([folder(tmp_path)], first)) == ["other"]


def test_a_card_that_has_gone_goes_and_its_id_is_free(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    first_file = write_card(tmp_path / "a.md", "same")
    second_file = write_card(tmp_path / "b.md", "same")
    later()
    before = scan([folder(tmp_path)])
    first_file.unlink()
    after = scan([folder(tmp_path)], before)
    assert [card.source_ref for card in after.cards] == [str(second_file)]
    assert after.problems == ()
    second_file.unlink()
    assert scan([folder(tmp_path)], after) == CardScan()


def test_a_file_that_became_a_link_is_no_card_any_more(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    path = write_card(tmp_path / "a.md")
    later()
    before = scan([folder(tmp_path)])
    path.rename(tmp_path / "away")
    path.symlink_to("away")
    assert ids(scan([folder(tmp_path)], before)) == []


def test_a_folder_that_is_trusted_no_more_is_read_again(
    tmp_path: Path, later: Callable[[], None]
) -> None:
    write_card(tmp_path / "a.md")
    later()
    before = scan([folder(tmp_path, trusted=True)])
    (card,) = scan([folder(tmp_path)], before).cards
    assert not card.trusted


# -- nothing but reading -------------------------------------------------------------

WATCHED = """
import sys
from pathlib import Path
from hookgate.builtin_plugins.awareness.cards.folders import parse_card
from hookgate.builtin_plugins.awareness.cards.folders import CardFolder, scan

# Python loads a codec, and pydantic makes a model, when it is first asked for.
"".encode("utf-16-le").decode("utf-16-le")
for head in ("capability_id: a", "capability_id: a b"):
    parse_card(f"---\\n{head}\\n---\\n", "a.md", origin="user", trusted=False)
seen = []
asleep = True

def hook(event, args):
    if asleep:
        return
    if event == "open" and not (args[2] or 0) & 3:
        return
    if event not in ("os.scandir", "builtins.id", "object.__getattr__", "object.__setattr__"):
        seen.append((event, repr(args)[:200]))

sys.addaudithook(hook)
folder = CardFolder(path=Path(sys.argv[1]), origin="workspace")
asleep = False
found = scan([folder])
asleep = True
print([card.id for card in found.cards], len(found.problems))
print(seen)
"""


@pytest.mark.slow
def test_reading_cards_opens_no_socket_runs_no_code_and_imports_nothing(tmp_path: Path) -> None:
    write_card(tmp_path / "good.md")
    write_card(tmp_path / "tag.md", more="name: !!python/object/apply:os.system [id]\n")
    write_card(tmp_path / "url.md", body=f"{BODY}\n![x](http://127.0.0.1/x) {{{{ 1 + 1 }}}}\n")
    write_card(tmp_path / "import.md", more="name: !!python/module:antigravity\n")
    write_card(tmp_path / "typo.md", more="priorty: 1\nmaxChars: x\n")
    (tmp_path / "binary.md").write_bytes(b"---\n\xff\xfe\n---\n")
    (tmp_path / "link.md").symlink_to("/etc/hostname")
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WATCHED), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert ran.stdout.splitlines() == ["['good', 'url'] 6", "[]"]
