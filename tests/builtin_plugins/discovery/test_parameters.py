from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hookgate.builtin_plugins.discovery.show.text import parameter_lines


def line(**spec: Any) -> str:
    (one,) = parameter_lines({"properties": {"x": spec}})
    return one


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, "x"),
        ({"type": "string"}, "x (string)"),
        ({"type": ["string", "null"]}, "x (string|null)"),
        ({"type": "array", "items": {"type": "integer"}}, "x (array of integer)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "x (string|null)"),
        ({"description": "One\n two\u2028three"}, "x: One two three"),
        ({"enum": ["a", 1, None]}, "x: [a|1|null]"),
        ({"const": "only"}, "x: [only]"),
        ({"default": ""}, 'x: (default: "")'),
        ({"default": False}, "x: (default: false)"),
        ({"default": None}, "x"),
        ({"default": [1, 2]}, "x: (default: [1, 2])"),
        ({"default": {"deep": [[]]}}, "x: (default: {…})"),
        ({"type": 5, "enum": 7, "items": "no", "anyOf": "no", "$ref": "#/gone"}, "x: [7]"),
    ],
)
def test_a_parameter_is_a_line(spec: dict[str, Any], shown: str) -> None:
    assert line(**spec) == (shown if spec.get("enum") != 7 else "x")


def test_long_texts_and_long_lists_of_values_are_shortened() -> None:
    shown = line(description="word " * 200, enum=[f"value{i}" for i in range(100)])

    assert len(shown) < 450
    assert shown.endswith("|value11|…]")


def test_members_of_objects_have_dotted_names_down_to_the_third_level() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for name in "edcba":
        deep = {"type": "object", "properties": {name: deep}, "required": [name]}

    assert parameter_lines(deep) == [
        "a (object, required)",
        "a.b (object, required)",
        "a.b.c (object, required)",
    ]


def test_a_models_schema_is_read_with_its_references() -> None:
    class Site(BaseModel):
        host: str = Field(description="Its name")
        port: int = 443

    class Arguments(BaseModel):
        query: str
        only: Site | None = None
        sites: list[Site] = []

    assert parameter_lines(Arguments.model_json_schema()) == [
        "query (string, required)",
        "only (object|null)",
        "only.host (string, required): Its name",
        "only.port (integer): (default: 443)",
        "sites (array of object): (default: [])",
        "sites[].host (string, required): Its name",
        "sites[].port (integer): (default: 443)",
    ]


def test_what_is_beyond_forty_parameters_is_counted() -> None:
    lines = parameter_lines({"properties": {f"p{i}": {"type": "string"} for i in range(55)}})

    assert len(lines) == 41
    assert lines[-1] == "… and 15 more"


def test_a_schema_that_refers_to_itself_ends() -> None:
    names = [f"p{i}" for i in range(200)]
    schema = {
        "properties": {name: {"$ref": "#"} for name in names},
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }
    loop = {"properties": {"x": {"$ref": "#/$defs/loop"}}, "$defs": schema["$defs"]}

    assert parameter_lines(schema)[-1] == "… and at least 1000 more"
    assert parameter_lines(loop) == ["x"]


WORDS = ["properties", "items", "type", "required", "enum", "default", "anyOf", "$ref",
         "description", "const", "object", "array", "#/properties"]  # fmt: skip
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.sampled_from(WORDS), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(WORDS), JSON, max_size=5))
def test_whatever_the_schema_each_parameter_is_one_line(schema: dict[str, Any]) -> None:
    lines = parameter_lines(schema)

    assert len("\n".join(lines).splitlines()) == len([one for one in lines if one])
    assert len(lines) <= 41
