from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builtin_plugins.discovery.folders import problems, skill, write

from hookgate.builtin_plugins.discovery.sources.manifests import DeclaredCapability, read_skill
from hookgate.kit.content.files import CONTENT_BYTES
from hookgate.kit.content.problems import ContentError


def read(path: Path) -> DeclaredCapability:
    reading = read_skill(path)
    assert problems(reading) == []
    (declared,) = reading.found
    return declared


def wrong(path: Path) -> str:
    reading = read_skill(path)
    assert reading.found == ()
    (problem,) = problems(reading)
    return problem


def content(path: Path) -> str:
    load = read(path).row.load
    assert load is not None
    return load().content


def test_a_whole_skill_is_read(tmp_path: Path) -> None:
    path = skill(
        tmp_path / "pdf-forms",
        """\
        license: Apache-2.0
        compatibility: Needs Python 3.11
        metadata:
          author: somebody
          version: 1.10
          category: documents
          tags: pdf, fill in forms
          requires-tools: read_file, calculate
          requires: clock
          requires-secrets: PDF_KEY
        allowed-tools: Bash(git:*) Read
        """,
        body="# Forms\n\n---\n\nFill them.\n",
    )
    row = read(path).row
    assert (row.id, row.kind, row.name) == ("skill:pdf-forms", "skill", "pdf-forms")
    assert row.display_name == "Pdf Forms"
    assert row.category == "documents"
    assert row.tags == ("pdf", "fill in forms")
    assert row.required_tools == ("read_file", "calculate", "clock")
    assert row.required_secrets == ("PDF_KEY",)
    assert row.source_ref == str(path)
    assert content(path) == "# Forms\n\n---\n\nFill them."


def test_name_and_description_are_enough(tmp_path: Path) -> None:
    row = read(skill(tmp_path / "a1")).row
    assert (row.id, row.category, row.tags, row.required_tools) == ("skill:a1", "", (), ())


def test_what_a_skill_allows_itself_requires_nothing(tmp_path: Path) -> None:
    row = read(skill(tmp_path / "a", "allowed-tools: [Bash, Read]\n")).row
    assert (row.required_tools, row.tags) == ((), ())


def test_keys_of_others_are_left_alone(tmp_path: Path) -> None:
    assert read(skill(tmp_path / "a", "version: 2\nhooks: {a: [b]}\n")).row.id == "skill:a"


def test_crlf_a_byte_order_mark_and_a_folded_description_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "SKILL.md"
    path.parent.mkdir()
    path.write_bytes(
        b"\xef\xbb\xbf---\r\nname: a\r\ndescription: >\r\n  one\r\n  two\r\n---\r\nx\r\ny\r\n"
    )
    assert read(path).row.description == "one two"
    assert content(path) == "x\ny"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "an empty file"),
        ("# No head\n", 1, "no frontmatter"),
        ("---\nname: a\n", 1, "without an end"),
        ("---\n---\nbody", 1, "found nothing, expected keys and values"),
        ("---\n- a\n---\n", 2, "found a list of 1, expected keys and values"),
        ("---\nname: a\n---\n", 2, "`description`: found nothing"),
        ("---\ndescription: a\n---\n", 2, "`name`: found nothing"),
        ("---\nname: a\ndescription: b: c\n---\n", 3, "no YAML"),
        ("---\nname: a\ndescription: [x]\n---\n", 3, "expected text"),
        ("---\nname: a\ndescription: ''\n---\n", 3, "an empty text"),
        (f"---\nname: a\ndescription: {'x' * 1025}\n---\n", 3, "1,025 characters"),
        ('---\nname: a\ndescription: "x\\e[2Jy"\n---\n', 3, "the character \\x1b"),
        ("---\nname: A\ndescription: b\n---\n", 2, "lowercase letters"),
        ("---\nname: a--b\ndescription: b\n---\n", 2, "single hyphens"),
        ("---\nname: -a\ndescription: b\n---\n", 2, "single hyphens"),
        (f"---\nname: {'a' * 65}\ndescription: b\n---\n", 2, "at most 64"),
        ("---\nname: 12\ndescription: b\n---\n", 2, "lowercase letters"),
        ("---\nname: a\ndescription: b\nmetadata: [x]\n---\n", 4, "a mapping of strings"),
        ("---\nname: a\ndescription: b\nmetadata:\n  x: [y]\n---\n", 5, "metadata.x"),
        ("---\nname: a\ndescription: b\nmetadata: {tags: 'a, <b>'}\n---\n", 4, "metadata.tags"),
        ("---\nname: a\ndescription: b\nallowed-tools: 3\n---\n", 4, "names of tools"),
        ("---\nname: a\ndescription: b\nlicense: [x]\n---\n", 4, "expected text"),
        (f"---\nname: a\ndescription: b\ncompatibility: {'x' * 501}\n---\n", 4, "1 to 500"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str, line: int | None, what: str
) -> None:
    path = write(tmp_path / "a" / "SKILL.md", "")
    path.write_text(text)
    message = wrong(path)
    assert what in message
    assert line is None or message.startswith(f"{path}:{line}:")


def test_a_name_that_is_not_the_folders_is_worth_a_word(tmp_path: Path) -> None:
    path = skill(tmp_path / "here")
    moved = path.parent.rename(tmp_path / "there") / "SKILL.md"
    reading = read_skill(moved)
    assert [declared.row.id for declared in reading.found] == ["skill:here"]
    assert [problem.severity for problem in reading.problems] == ["warning"]


def test_a_skill_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path) -> None:
    real = skill(tmp_path / "real")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "SKILL.md").symlink_to(real)
    assert "leads out of" in wrong(tmp_path / "other" / "SKILL.md")


def test_a_pipe_or_a_huge_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "SKILL.md")
    assert "expected a regular file" in wrong(tmp_path / "SKILL.md")
    huge = skill(tmp_path / "huge", body="x" * CONTENT_BYTES)
    assert f"at most {CONTENT_BYTES}" in wrong(huge)


def test_a_skill_that_went_away_says_so_when_it_is_loaded(tmp_path: Path) -> None:
    path = skill(tmp_path / "a")
    load = read(path).row.load
    path.unlink()
    assert load is not None
    with pytest.raises(ContentError, match="no such file"):
        load()
