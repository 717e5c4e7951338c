from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from hookgate.core.domain.strict_json import MAX_INTEGER
from hookgate.core.settings.documents import Position, SourceDocument
from hookgate.kit.content import yaml_reader
from hookgate.kit.content.problems import ContentError
from hookgate.kit.content.yaml_reader import MAX_DEPTH, read_yaml


def value(text: str) -> Any:
    return read_yaml(text, "file.yaml").value


def refused(text: str) -> str:
    with pytest.raises(ContentError) as caught:
        read_yaml(text, "file.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    "plain", ["no", "yes", "on", "off", "y", "0123", "1_000", "2024-01-01", "12:30", "0o17", ".inf"]
)
def test_what_yaml_versions_read_differently_stays_text(plain: str) -> None:
    assert value(f"id: {plain}") == {"id": plain}


@pytest.mark.parametrize(
    ("plain", "meant"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("-17", -17),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1e999", "1e999"),
    ],
)
def test_plain_scalars_follow_the_core_schema(plain: str, meant: Any) -> None:
    assert value(f"a: {plain}") == {"a": meant}


@pytest.mark.parametrize("style", ['"{}"', "'{}'", "|-\n  {}", ">-\n  {}"])
def test_only_plain_scalars_are_more_than_text(style: str) -> None:
    assert value("a: " + style.format("true")) == {"a": "true"}


def test_flow_and_block_style_say_the_same() -> None:
    flow = value("{type: object, properties: {query: {type: string}}, tags: [a, 'b']}")
    block = value(
        "type: object\nproperties:\n  query:\n    type: string\ntags:\n- a\n- b # a comment\n"
    )
    assert (
        flow
        == block
        == {
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "tags": ["a", "b"],
        }
    )


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: 1\nb: &x 2", 2, "an anchor (&x)"),
        ("a: &x 1\n", 1, "an anchor"),
        ("a: *x", 1, "an alias (*x)"),
        ("a:\n  <<: {b: 1}", 2, "a merge key"),
        ("a: !!str 1", 1, "a tag"),
        ("a: !python/object:os.system {}", 1, "a tag"),
        ("a: ! 1", 1, "a tag"),
        ("%TAG ! tag:x,2000:\n---\na: 1", 1, "a directive"),
        ("%YAML 1.1\n---\na: 1", 1, "a directive"),
        ("a: 1\n---\nb: 2", 2, "a second document"),
        ("a: 1\nb: 2\na: 3", 3, "'a' a second time, expected each key once; it stands on line 1"),
        ("1: a", 1, "no string"),
        ("true: a", 1, "no string"),
        ("? [a]\n: b", 1, "a mapping or a list as a key"),
        ("a: [b\nc: d", 2, "no YAML"),
        ("a: b: c", 1, "no YAML"),
        ("a:\n\t- b", 2, "no YAML"),
        ('a: "\\uD800"', 1, "half of a surrogate pair"),
        ('a: "\\UFFFFFFFF"', 1, "no YAML"),
        ("a: 99999999999999999999", 1, "the integer"),
        ("a: 1\nb: \x07", 2, "no YAML"),
    ],
)
def test_what_surprises_is_refused_with_its_place(text: str, line: int, what: str) -> None:
    message = refused(text)
    assert message.startswith(f"file.yaml:{line}:")
    assert what in message
    assert "expected" in message


def test_nesting_has_an_end() -> None:
    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    assert value(nested(MAX_DEPTH))
    assert "deeper nesting" in refused(nested(MAX_DEPTH + 1))
    assert "deeper nesting" in refused("[" * 30_000)
    assert "deeper nesting" in refused("- " * 10_000)


def test_a_text_has_a_largest_size() -> None:
    assert "65537 bytes" in refused("a" * 65_537)
    assert "at most 65536" in refused("é" * 40_000)


def test_the_limits_of_size_and_of_values_can_be_lower() -> None:
    with pytest.raises(ContentError, match=r"f:2:1: found 9 bytes of YAML, expected at most 8"):
        read_yaml("a: 123456", "f", max_bytes=8, first_line=2)
    with pytest.raises(ContentError, match=r"f:1:8: found more than 3 values"):
        read_yaml("a: [1, 2]", "f", max_values=3)
    assert read_yaml("a: [1, 2]", "f", max_bytes=9, max_values=4).value == {"a": [1, 2]}


@pytest.mark.parametrize("text", ["[" * 60_000, "{" * 60_000, "a: " + "[{" * 30_000])
def test_brackets_are_refused_without_looking_at_all_of_them(text: str) -> None:
    began = time.process_time()
    refused(text)
    assert time.process_time() - began < 0.1


def test_places_and_texts_are_kept() -> None:
    document = read_yaml("a:\n  b: 1.10\nc: [x, y]\n", "f", first_line=5)
    assert document.places["a", "b"] == Position(6, 3)
    assert document.places["c", 1] == Position(7, 8)
    assert document.texts["a", "b"] == "1.10"
    problem = document.problem(("c", 1, "gone"), "this", "that")
    assert str(problem) == "f:7:8: `c[1].gone`: found this, expected that"


@pytest.mark.parametrize("text", ["", "\ufeff", "# only this\n", "---\n...\n"])
def test_an_empty_document_is_nothing(text: str) -> None:
    assert value(text) is None


def test_a_byte_order_mark_is_passed_over() -> None:
    assert value("\ufeffa: 1") == {"a": 1}


MARKS = st.sampled_from(
    [
        *"[]{}:,-?&*!|>'\"%@`#<~\n \t",
        "<<: ",
        "---\n",
        "...\n",
        "- ",
        ": ",
        "\\u",
        "\ufeff",
        "a",
        "1",
    ]
)


@given(st.lists(st.one_of(MARKS, st.characters()), max_size=60).map("".join))
def test_any_text_is_read_or_refused_by_the_readers_own_error(text: str) -> None:
    try:
        document = read_yaml(text, "f")
    except ContentError as error:
        assert error.problem.line is not None
    else:
        json.dumps(document.value, allow_nan=False).encode()


# Two separators are line breaks to YAML; 1E5 is text to YAML 1.1 and a number to JSON.
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp")),
    max_size=20,
).filter(lambda text: not re.fullmatch(r"[-+.]?[0-9][-+.0-9]*[eE][-+0-9]+", text))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-MAX_INTEGER, MAX_INTEGER), FLOATS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


FRAGMENTS = st.sampled_from(
    [*"ab:-[]{},\"'|>#&*!%@`?~0 ", "\n", "\n  ", ": ", "- ", "\t", "\r", "\x85", "\u2028", "\ufeff"]
)


@examples(300)
@given(st.lists(FRAGMENTS, max_size=14).map("".join))
def test_whichever_parser_reads_says_the_same(text: str) -> None:
    quick = outcome(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_reader, "_FAST", yaml_reader._Loader)
        assert outcome(text) == quick


def outcome(text: str) -> SourceDocument | str:
    try:
        return read_yaml(text, "file.yaml")
    except ContentError as error:
        return str(error)


def depth(found: Any) -> int:
    inner = found.values() if isinstance(found, dict) else found
    return 1 + max(map(depth, inner), default=0) if isinstance(found, dict | list) else 0


@given(PLAIN.filter(lambda found: depth(found) <= MAX_DEPTH))
def test_json_is_read_as_json_readers_read_it(found: Any) -> None:
    assert value(json.dumps(found)) == found
    assert value(json.dumps(found, ensure_ascii=False)) == found


class Plainly(yaml.SafeDumper):
    """Writes equal values twice instead of with an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@given(PLAIN.filter(lambda found: depth(found) <= MAX_DEPTH), st.sampled_from([None, True, False]))
def test_what_pyyaml_dumps_is_read_back(found: Any, flow: bool | None) -> None:
    text = yaml.dump(found, Dumper=Plainly, default_flow_style=flow, allow_unicode=True)
    assert value(text) == yaml.safe_load(text) == found
