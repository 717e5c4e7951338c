from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.core.settings.toml_lines import KeyPath, locate


def paths(value: Any, here: KeyPath = ()) -> set[KeyPath]:
    """All paths of a value, as tomllib gives it."""
    if isinstance(value, dict):
        inner = [paths(item, (*here, key)) for key, item in value.items()]
    elif isinstance(value, list):
        inner = [paths(item, (*here, number)) for number, item in enumerate(value)]
    else:
        inner = []
    return {here}.union(*inner) if here else set().union(*inner)


EXAMPLES: dict[str, tuple[str, dict[KeyPath, int]]] = {
    "tables and keys": (
        "# first\nhome = 'x'\n\n[gateway]  # c\nport = 1\n[gateway.limits]\nframe_bytes=5",
        {
            ("home",): 2,
            ("gateway",): 4,
            ("gateway", "port"): 5,
            ("gateway", "limits"): 6,
            ("gateway", "limits", "frame_bytes"): 7,
        },
    ),
    "a table that is named before its header": (
        "[a.b]\nx = 1\n[a]\ny = 2\n",
        {("a",): 3, ("a", "b"): 1, ("a", "b", "x"): 2, ("a", "y"): 4},
    ),
    "dotted and quoted keys": (
        'a . "b.c" . \'d e\' = 1\na."b.c".f = 2\n"q\\"\\u00e9=" = 3\n',
        {
            ("a",): 1,
            ("a", "b.c"): 1,
            ("a", "b.c", "d e"): 1,
            ("a", "b.c", "f"): 2,
            ('q"é=',): 3,
        },
    ),
    "arrays of tables, nested": (
        "[[b]]\nagent = 'x'\n[[b.c]]\nk = 1\n[[b.c]]\nk = 2\n[[b]]\n[[b.c]]\nk = 3\n[b.d]\nz = 1\n",
        {
            ("b",): 1,
            ("b", 0): 1,
            ("b", 0, "agent"): 2,
            ("b", 0, "c"): 3,
            ("b", 0, "c", 0): 3,
            ("b", 0, "c", 0, "k"): 4,
            ("b", 0, "c", 1): 5,
            ("b", 0, "c", 1, "k"): 6,
            ("b", 1): 7,
            ("b", 1, "c"): 8,
            ("b", 1, "c", 0): 8,
            ("b", 1, "c", 0, "k"): 9,
            ("b", 1, "d"): 10,
            ("b", 1, "d", "z"): 11,
        },
    ),
    "inline tables and arrays over several lines": (
        "t = { a = 1, b.c = [\n  1, # one ] }\n  { d = 'x' },\n], e = {} }\nu = []\n",
        {
            ("t",): 1,
            ("t", "a"): 1,
            ("t", "b"): 1,
            ("t", "b", "c"): 1,
            ("t", "b", "c", 0): 2,
            ("t", "b", "c", 1): 3,
            ("t", "b", "c", 1, "d"): 3,
            ("t", "e"): 4,
            ("u",): 5,
        },
    ),
    "multi-line strings that look like TOML": (
        'a = """\n[x]\ny = "1"\n\\""" """\nb = \'\'\'\n[[z]]\n#\'\'\'\'\'\n'
        'c = """""quoted"""""\nd = 1',
        {("a",): 1, ("b",): 5, ("c",): 8, ("d",): 9},
    ),
    "Windows line ends": ("a = 1\r\n\r\n[b]\r\nc = '''\r\nx'''\r\nd = 2\r\n", {}),
    "values with spaces and signs": (
        "a = 1979-05-27 07:32:00Z # at\nb = -inf\nc = +1_000.5e-3\n'' = ''\n",
        {("a",): 1, ("b",): 2, ("c",): 3, ("",): 4},
    ),
    "nothing": ("# only a comment", {}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_key_is_found_at_its_line(name: str) -> None:
    text, expected = EXAMPLES[name]
    found = locate(text)
    assert set(found) == paths(tomllib.loads(text))
    if expected:
        assert found == expected


def test_windows_line_ends_count_once() -> None:
    found = locate(EXAMPLES["Windows line ends"][0])
    assert found == {("a",): 1, ("b",): 3, ("b", "c"): 4, ("b", "d"): 6}


# -- against tomllib -------------------------------------------------------
# Every scalar that is generated is the number of the line on which it begins, or a string
# that starts with it: what tomllib reads then says itself where it stood.

bare = st.sampled_from(["a", "b", "c-d", "1", "_"])
quoted = st.sampled_from(['"x y"', "'p.q'", '"=\\"["', "'#'", '"\\u00e9"', '""'])
noise = st.sampled_from(["", "\n", "# [x]\n", "\n\n", "\t# a = 1\n"])
MARK = "@@"


def scalar(kind: str) -> str:
    return {
        "number": MARK,
        "basic": f'"{MARK} [ # \\" {{"',
        "literal": f'\'{MARK} """ ]\'',
        "multi": f'"""{MARK}\n[t]\n"x" = \\"""\n"" """',
        "multi-end": f'"""{MARK}\n"""""',
        "multi-literal": f"'''{MARK}\n[t]\nk = ''\n#'''",
        "multi-literal-end": f"'''{MARK} '''''",
    }[kind]


scalars = st.sampled_from(
    ["number", "basic", "literal", "multi", "multi-end", "multi-literal", "multi-literal-end"]
).map(scalar)


def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(st.tuples(noise, inner, noise), max_size=3)
    return st.tuples(items, noise).map(
        lambda pair: "[" + ",".join(a + b + c for a, b, c in pair[0]) + pair[1] + "]"
    )


def inline_tables(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.dictionaries(bare | quoted, inner, max_size=3)
    return pairs.map(lambda pair: "{" + ", ".join(f"{k} = {v}" for k, v in pair.items()) + "}")


values = st.recursive(scalars, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)
keys = st.lists(bare | quoted, min_size=1, max_size=3).map(" . ".join)
statements = (
    st.tuples(keys, values, noise).map(lambda row: f"{row[0]} = {row[1]}\n{row[2]}")
    | st.tuples(keys, noise).map(lambda row: f"[{row[0]}]\n{row[1]}")
    | st.tuples(keys, noise).map(lambda row: f" [[ {row[0]} ]] # x\n{row[1]}")
)


def numbered(text: str) -> str:
    """Write into each mark the number of its line."""
    parts = text.split(MARK)
    result = parts[0]
    for part in parts[1:]:
        result += str(result.count("\n") + 1) + part
    return result


def stated_lines(value: Any, here: KeyPath = ()) -> dict[KeyPath, int]:
    if isinstance(value, dict):
        return {p: n for k, v in value.items() for p, n in stated_lines(v, (*here, k)).items()}
    if isinstance(value, list):
        return {p: n for k, v in enumerate(value) for p, n in stated_lines(v, (*here, k)).items()}
    return {here: int(str(value).split()[0].rstrip('"'))}


@given(st.lists(statements, max_size=8))
def test_every_key_that_tomllib_yields_is_found_at_the_line_where_it_stands(
    lines: list[str],
) -> None:
    # Statements that clash with those before them are left out, so that most texts are valid.
    text, data = "", tomllib.loads("")
    for line in lines:
        try:
            data = tomllib.loads(numbered(text + line))
        except tomllib.TOMLDecodeError:
            continue
        text += line
    found = locate(numbered(text))
    assert set(found) == paths(data)
    for path, line in stated_lines(data).items():
        assert found[path] == line
    assert locate(numbered(text).replace("\n", "\r\n")) == found
