"""The reading of command lines, held against a shell, and against anything at all."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from tests.builtin_plugins.packs.looking import looked_at
from tests.support.examples import examples

from hookgate.builtin_plugins.packs.shell import (
    MAX_CHARS,
    Command,
    CommandList,
    ShellGroup,
    UnreadableError,
    read,
)

BASH = shutil.which("bash")
QUOTED = """a b ' " \\ { } , .. # = ~ $ 1 - ! 'x,y' "x,y" {a,b} "$" @ % ^ + : / é "é" '' "" """
PIECES = st.sampled_from([*QUOTED.split(), " ", "  ", "\\\n", "\t", "'x y'", '"x y"'])
SPOKEN = r"""ls cat rm git sh find xargs for in do done if cd x -c -exec ; && || | & ( ) { } $( ` $x
${x} $(( <<E E > < ' " \ * ? [ ] ~ # = / .. .env ~/.ssh /etc - é"""
SHELL = st.sampled_from([*SPOKEN.split(), " ", "\n", "\0", "\u202e"])
SAID = """p q p q ; && || | & ( ) { } $( ` ' " \\ # <<E <<'E' E for x in a b ; do done $x "$x" if
then fi ! > < y= {p,q} p(){ [ ] case esac"""
LINES = st.sampled_from(
    [*SAID.split(), " ", " ", " ", "\n", "\n", "\\\n", "\nE\n", "for x in a b; do "]
)
SLOW = ("a ", "'", '"', "\\", "$(", "{", "(", "<<E\n", "a|", "~", "* ", "b;", "\n")


def commands(script: CommandList) -> list[Command | ShellGroup]:
    return [member for step in script.steps for member in step.commands]


def words(line: str) -> list[str]:
    (command,) = commands(read(line))
    assert isinstance(command, Command)
    return [word.text for word in command.words]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("echo 'a  b' \"c 'd'\" e\\ f", ["echo", "a  b", "c 'd'", "e f"]),
        ("echo a \\\n  b", ["echo", "a", "b"]),
        ('echo "a \\\nb"', ["echo", "a b"]),
        ('echo "a\\$b\\n"', ["echo", "a$b\\n"]),
        ("echo a#b # c", ["echo", "a#b"]),
        ("echo a{b,c}d{e,f}", ["echo", "abde", "abdf", "acde", "acdf"]),
        ("echo '' \"\"", ["echo", "", ""]),
        ("echo x'y'\"z\"", ["echo", "xyz"]),
        ("find . -exec ls {} \\;", ["find", ".", "-exec", "ls", "{}", ";"]),
        ("echo stash@{0}", ["echo", "stash@{0}"]),
    ],
)
def test_words_are_those_that_a_shell_reads(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_a_line_falls_into_pipelines_with_what_joins_them() -> None:
    script = read("a | b && c || (d; e) & f\n\ng # h")
    assert [(len(step.commands), step.joined, step.background) for step in script.steps] == [
        (2, "", False),
        (1, "&&", False),
        (1, "||", True),
        (1, "", False),
        (1, "", False),
    ]
    assert isinstance(script.steps[2].commands[0], ShellGroup)


def test_a_here_document_is_no_command() -> None:
    script = read("cat <<'E' > x && ls\nrm -rf /\n$(id)\nE\necho done")
    assert [one.words[0].text for one in commands(script)] == ["cat", "ls", "echo"]


def test_a_loop_is_its_turns() -> None:
    (group,) = commands(read('for f in a "b c"; do cat "$f"; done'))
    assert isinstance(group, ShellGroup)
    turns = [one.words[1].text for one in commands(group.script) if isinstance(one, Command)]
    assert turns == ["a", "b c"]


@pytest.mark.parametrize(
    "line",
    [
        "for f in a 'b c'; do cat $f; done",
        "for f in a; do f=/etc/x; cat $f; done",
        "for f in a; do for f in b; do ls; done; done",
        "for f; do ls; done",
        "for f in $(ls); do",
        "cat <<E $(\nls\nE\n)",
        "cat <<E 'a\nb'\nE",
        "cat <<A\n`ls`\nA",
        "echo {fd}>x {fd}>x {a}>x",
        "a() { b; }",
        "echo !(a)",
        "x=(1 2)",
        "echo $[1]",
        "echo ${a[0]}",
        "echo $1 $@",
        "cat $\\\nHOME/x",
        'cat "$\\\nHOME/x"',
        "echo $\\\n(ls)",
        "ls |\\\n| ls",
        "ls &\\\n& ls",
        "cat <\\\n<E\nE",
        "ls 2\\\n>x",
        "echo a\\\nb",
        'echo "`ls`"',
    ],
)
def test_what_is_not_known_for_sure_cannot_be_read(line: str) -> None:
    with pytest.raises(UnreadableError):
        read(line)


def test_a_line_is_bounded_before_it_is_read() -> None:
    with pytest.raises(UnreadableError, match="characters"):
        read("a" * (MAX_CHARS + 1))
    with pytest.raises(UnreadableError, match="words"):
        read("a " * 5000)
    with pytest.raises(UnreadableError, match="deep"):
        read("( " * 50 + "a" + ")" * 50)
    with pytest.raises(UnreadableError, match="deep"):
        read("echo " + "$(" * 5000)
    with pytest.raises(UnreadableError, match="many"):
        read("echo " + "{a,b}" * 20)
    few = " ".join(f"w{number}" for number in range(30))
    loops = "".join(f"for v{number} in {few}; do " for number in range(5))
    with pytest.raises(UnreadableError, match="words"):
        read(loops + "a=" + "; done" * 5)


@pytest.mark.parametrize("piece", SLOW)
def test_no_line_takes_long(piece: str) -> None:
    began = time.process_time()
    looked_at(piece * (MAX_CHARS // len(piece)))
    assert time.process_time() - began < 5


@examples(300, suppress_health_check=list(HealthCheck))
@given(st.lists(SHELL, max_size=25).map("".join) | st.lists(SHELL, max_size=25).map(" ".join))
@example("cat <<E | xargs\nE\n")
def test_nothing_makes_it_raise_and_what_it_finds_can_be_told(line: str) -> None:
    flags = looked_at(line).flags()
    assert isinstance(flags.flags.executes_privileged, bool)


@examples(200)
@given(st.text(max_size=60))
def test_no_text_at_all_makes_it_raise_and_what_cannot_be_read_is_privileged(line: str) -> None:
    flags = looked_at(line).flags()
    assert flags.why.isprintable()
    try:
        read(line)
    except UnreadableError:
        assert flags.flags.executes_privileged is True
        assert not flags.confined


@pytest.mark.skipif(BASH is None, reason="there is no bash to hold it against")
@examples(120, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(st.lists(PIECES, max_size=12).map("".join), min_size=20, max_size=20))
def test_bash_reads_the_same_words(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """What is read is what bash reads: it prints the words of each line that can be read."""
    script, expected = [], []
    for line in lines:
        try:
            found = commands(read(f"p {line}"))
        except UnreadableError:
            continue
        if len(found) != 1 or not isinstance(found[0], Command):
            continue
        plain = found[0]
        if any(word.glob or word.home or not word.known for word in plain.words):
            continue
        script.append(f"p {line}\n")
        expected.append([word.text for word in plain.words[1:]])
    folder = tmp_path_factory.getbasetemp()
    ran = _ran(script, folder)
    assert ran == expected


def _ran(script: list[str], folder: Path) -> list[list[str]]:
    assert BASH is not None
    # A function prints its words; there are no programs, no redirections and no folders to go to.
    told = 'p() { printf \'%s\\0\' "$#" "$@"; }\n' + "".join(script)
    done = subprocess.run(
        [BASH, "--norc", "--noprofile", "-r", "-c", told],
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=240,
    )
    pieces = done.stdout.decode().split("\0")
    found = []
    at = 0
    while at < len(pieces) - 1:
        count = int(pieces[at])
        found.append(pieces[at + 1 : at + 1 + count])
        at += 1 + count
    return found


def every(script: CommandList) -> Iterator[list[str]]:
    """Yield the words of all commands, those within words and groups as well."""
    for member in commands(script):
        within = [one for word in member.words for one in word.inner]
        within += [one for redirect in member.redirects for one in redirect.target.inner]
        if isinstance(member, ShellGroup):
            within.append(member.script)
        else:
            within += [one for _, value in member.assigned for one in value.inner]
            yield [word.text for word in member.words]
        for one in within:
            yield from every(one)


@pytest.mark.skipif(BASH is None, reason="there is no bash to hold it against")
@examples(60, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(st.lists(LINES, min_size=2, max_size=14), min_size=20, max_size=20))
def test_bash_runs_nothing_that_was_not_seen(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]]
) -> None:
    """Whatever bash runs of a line that can be read was seen in it, with these words."""
    seen: list[str] = []
    expected: list[list[list[str]]] = []
    for pieces in lines:
        for line in ("".join(pieces), " ".join(pieces)):
            try:
                expected.append(list(every(read(line))))
            except UnreadableError:
                continue
            seen.append(line)
    for line, known, ran in zip(
        seen, expected, _run(seen, tmp_path_factory.mktemp("ran")), strict=True
    ):
        for call in ran:
            assert any(_may_be(call, words) for words in known), (line, call, known)


def _may_be(call: list[str], words: list[str]) -> bool:
    if words and "\0" in words[0]:
        return True  # whichever it is, it is asked about
    sure = [word for word in words if "\0" not in word]
    return call == words or (len(sure) < len(words) and call[:1] == words[:1])


DRIVER = r"""
p() { local told; printf -v told '%s\1' p "$@"; printf '%s\0' "$told" >&3; }
q() { local told; printf -v told '%s\1' q "$@"; printf '%s\0' "$told" >&3; }
exec 3>ran
while IFS= read -r -d '' line; do
  ( eval "$line"; wait ) </dev/null >/dev/null 2>&1
  printf '\2\0' >&3
done < lines
"""


def _run(lines: list[str], folder: Path) -> list[list[list[str]]]:
    assert BASH is not None
    (folder / "lines").write_text("".join(f"{line}\0" for line in lines), encoding="utf-8")
    subprocess.run(
        [BASH, "--norc", "--noprofile", "-c", DRIVER],
        env={"PATH": "/nonexistent", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=240,
    )
    found: list[list[list[str]]] = [[]]
    for piece in (folder / "ran").read_text(encoding="utf-8").split("\0")[:-1]:
        if piece == "\2":
            found.append([])
        else:
            found[-1].append(piece.split("\1")[:-1])
    return found[:-1]
