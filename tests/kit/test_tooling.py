from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.errors import ToolDefinitionError
from hookgate.core.domain.parts import Image, Text
from hookgate.core.domain.strict_json import MAX_PROBLEM_CHARS, MAX_PROBLEMS, compile_schema
from hookgate.core.domain.tools import ToolResult
from hookgate.kit.tooling import tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from decimal import Decimal

    from hookgate.core.domain.tools import Tool
    from hookgate.core.domain.turn import Turn

NO_TURN = cast("Turn", object())


async def run(made: Tool, arguments: Mapping[str, Any], turn: Turn = NO_TURN) -> ToolResult | str:
    assert made.run is not None
    return await made.run(turn, arguments)


def make(function: Callable[..., Any], **more: Any) -> Tool:
    return tool(function, flags=Flags.none(), **more)


class Place(BaseModel):
    city: str
    zip: str | None = None


async def weather(
    turn: Turn,
    city: str,
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Literal["C", "F"] = "C",
) -> str:
    """Say what the weather will be.

    It asks nobody.

    Args:
        turn: The turn.
        city (str): The city's name,
            with its country where it is not unique.
        days: How many days ahead.

    Returns:
        A sentence.
    """
    return f"{city} in {days} days: 20 {unit}"


def test_schema_comes_from_signature_and_docstring() -> None:
    made = make(weather)
    assert made.name == "weather"
    assert made.description == "Say what the weather will be.\n\nIt asks nobody."
    assert made.schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["city"],
        "properties": {
            "city": {
                "type": "string",
                "description": "The city's name, with its country where it is not unique.",
            },
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": 7,
                "default": 1,
                "description": "How many days ahead.",
            },
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        },
    }


async def test_defaults_are_the_functions_own() -> None:
    assert await run(make(weather), {"city": "Oslo"}) == "Oslo in 1 days: 20 C"


async def test_arguments_that_do_not_fit_become_an_error_result() -> None:
    result = await run(make(weather), {"city": "Oslo", "days": 9, "more": 1})
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert "`days`" in result.content
    assert "`more`" in result.content


async def test_turn_is_handed_over_only_where_it_is_asked_for() -> None:
    async def whose(turn: Turn) -> str:
        """Tell."""
        return "mine" if turn is NO_TURN else "other"

    async def nobody() -> str:
        """Tell."""
        return "nobody"

    assert await run(make(whose), {}) == "mine"
    assert await run(make(nobody), {}) == "nobody"
    assert make(whose).schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


async def test_plain_functions_run_on_a_thread_and_async_ones_on_the_loop() -> None:
    def plain() -> str:
        """Tell."""
        return threading.current_thread().name

    async def suspending() -> str:
        """Tell."""
        await asyncio.sleep(0)
        return threading.current_thread().name

    here = threading.current_thread().name
    assert await run(make(plain), {}) != here
    assert await run(make(suspending), {}) == here


async def test_methods_and_callable_objects_are_tools_too() -> None:
    class Counter:
        """A counter."""

        def __init__(self) -> None:
            self.total = 0

        async def add(self, amount: int) -> int:
            """Add."""
            self.total += amount
            return self.total

        async def __call__(self, place: Place) -> str:
            return place.city

    counter = Counter()
    added = make(counter.add)
    await run(added, {"amount": 2})
    result = await run(added, {"amount": 3})
    assert isinstance(result, ToolResult)
    assert (result.content, result.data) == ("5", 5)
    called = make(counter, name="counter")
    assert await run(called, {"place": {"city": "Bern"}}) == "Bern"
    assert called.schema["$defs"]["Place"]["required"] == ["city"]


async def test_names_that_pydantic_keeps_for_itself_are_usable() -> None:
    def odd(schema: str, json: int, copy: bool = False, model_config: str = "") -> list[Any]:
        """Say it back."""
        return [schema, json, copy, model_config]

    result = await run(make(odd), {"schema": "a", "json": 1, "model_config": "b"})
    assert isinstance(result, ToolResult)
    assert result.data == ["a", 1, False, "b"]


async def test_values_are_serialised_and_results_pass_unchanged() -> None:
    @dataclass
    class Found:
        when: date

    def found() -> Found:
        """Find."""
        return Found(date(2024, 2, 29))

    def mine() -> ToolResult:
        """Find."""
        return ToolResult(content="x", reveal=("other",))

    def strange() -> object:
        """Find."""
        return object()

    result = await run(make(found), {})
    assert isinstance(result, ToolResult)
    assert result.content == '{"when":"2024-02-29"}'
    assert result.data == {"when": "2024-02-29"}
    assert await run(make(mine), {}) == ToolResult(content="x", reveal=("other",))
    with pytest.raises(TypeError, match=r"'strange' returned a object.*expected text"):
        await run(make(strange), {})


async def test_dates_are_parsed_into_the_functions_types() -> None:
    def weekday(day: date) -> str:
        """Name the day."""
        return day.strftime("%a")

    assert await run(make(weekday), {"day": "2024-02-29"}) == "Thu"


def test_default_that_json_cannot_hold_is_left_out_of_the_schema() -> None:
    marker: Any = object()

    def guess(number: Any = marker) -> str:
        """Guess."""
        return str(number is marker)

    assert make(guess).schema["properties"] == {"number": {}}


def test_description_of_an_annotation_wins_over_the_docstring() -> None:
    def named(who: Annotated[str, Field(description="from the type")]) -> str:
        """Greet.

        Args:
            who: from the docstring
        """
        return who

    assert make(named).schema["properties"]["who"]["description"] == "from the type"


def _undocumented(a: int) -> None: ...


def _starred(*values: int) -> None:
    """Take."""


def _positional(value: int, /) -> None:
    """Take."""


def _untyped(value) -> None:  # type: ignore[no-untyped-def]
    """Take."""


def _type_checking_only(value: Decimal) -> None:
    """Take."""


def _no_json(value: threading.Lock) -> None:
    """Take."""


def _misnamed(value: int) -> None:
    """Take.

    Args:
        valeu: A value.
    """


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_undocumented, "found no docstring"),
        (_starred, r"found the parameter \*values"),
        (_positional, "found the parameter value"),
        (_untyped, "'value' has no type"),
        (_type_checking_only, "'Decimal' is not defined.*TYPE_CHECKING"),
        (_no_json, "cannot be read from JSON"),
        (_misnamed, "Args name valeu"),
        (lambda: "x", "expected a name"),
    ],
)
def test_functions_that_make_no_tool_are_refused_with_a_reason(
    function: Callable[..., Any], says: str
) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        make(function)


SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "items": {"type": "array", "items": {"enum": [1, 2]}},
    },
    "required": ["items"],
    "additionalProperties": False,
}


def test_problems_name_their_place_and_what_was_expected() -> None:
    problems = compile_schema(SCHEMA)({"to": "x", "items": [1, 3], "more": 0})
    assert problems == [
        '`to`: "x" is not of type "integer"; and "x" is not of type "null"',
        "`items[1]`: 3 is not one of 1 or 2",
        "Additional properties are not allowed ('more' was unexpected)",
    ]
    assert compile_schema(SCHEMA)({"items": [1]}) == []


def test_problems_are_bounded_in_number_and_length() -> None:
    check = compile_schema({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}})
    problems = check({"a": ["x" * 10_000] * 100})
    assert len(problems) == MAX_PROBLEMS
    assert max(map(len, problems)) < MAX_PROBLEM_CHARS + 40


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "$ref": "http://127.0.0.1:9/x"}, "nothing is fetched"),
        ({"type": "object", "$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}, "does not exist"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "properties.a.type"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "regex"),
        ({"type": "string"}, "expected `object`"),
        ({}, "expected `object`"),
        ({"type": "object", "default": object()}, "not valid"),
    ],
)
def test_schemas_that_cannot_be_used_are_refused(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolDefinitionError, match=says):
        compile_schema(schema, tool="t")


def test_schema_that_nests_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(50):
        schema = {"type": "object", "properties": {"a": schema}}
    assert compile_schema(schema)({"a": 1})
    for _ in range(2000):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(ToolDefinitionError):
        compile_schema(schema)


def test_pattern_that_backtracks_does_not_hang() -> None:
    check = compile_schema(
        {"type": "object", "properties": {"a": {"pattern": r"^(?=(a+)+b)(a|aa)+\1$"}}}
    )
    assert check({"a": "a" * 400})


def test_arguments_that_no_json_holds_are_a_problem_not_a_crash() -> None:
    assert "JSON" in compile_schema(SCHEMA)({"items": [object()]})[0]


LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"])


@given(
    st.dictionaries(
        st.sampled_from(["to", "items", "x"]),
        st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    )
)
def test_any_json_gets_an_answer(arguments: dict[str, Any]) -> None:
    right = (
        arguments.keys() <= {"to", "items"}
        and isinstance(arguments.get("items"), list)
        and all(item in (1, 2) and item is not True for item in arguments["items"])
        and (arguments.get("to") is None or type(arguments["to"]) is int)
    )
    assert (compile_schema(SCHEMA)(arguments) == []) is right


def test_whether_a_call_may_be_repeated_is_unknown_unless_it_is_said() -> None:
    async def look(text: str) -> str:
        """Look."""
        return text

    made = {said: tool(look, flags=Flags.none(), idempotent=said) for said in (None, True, False)}
    assert tool(look, flags=Flags.none()).idempotent is None
    assert [made[said].idempotent for said in made] == [None, True, False]
    assert len({one.digest for one in made.values()}) == 3
    assert "idempotent" not in made[None].identity


async def test_function_may_return_parts() -> None:
    picture = Image(media_type="image/png", data="aGk=")

    def one() -> Image:
        """Shows."""
        return picture

    def several() -> list[Image | Text]:
        """Shows more."""
        return [Text("Here:"), picture]

    assert await run(make(one), {}) == ToolResult(content=(picture,))
    assert await run(make(several), {}) == ToolResult(content=(Text("Here:"), picture))
