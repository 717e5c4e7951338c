from __future__ import annotations

from typing import Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from hookgate.cli.operation_commands import function_of
from hookgate.cli.state import State
from hookgate.core.gateway.operations import Operation, OperationModel
from hookgate.kit.functions.operations import describe_operation
from hookgate.kit.rendering import clean, one_line, print_result, short


class Inner(OperationModel):
    x: int = 0


class Params(OperationModel):
    name: str
    """The thing's name."""
    count: int
    kind: Literal["a", "b"] = "a"
    """Which kind."""
    ratio: float | None = None
    loud: bool = False
    tags: tuple[str, ...] = ()
    inner: Inner = Inner()
    """Nested."""
    either: int | str = 1
    some_list: tuple[int, ...] = Field(default=(), max_length=3)


class Result(OperationModel):
    given: dict[str, Any]


async def handler(_: object, params: Params) -> Result:
    return Result(given=params.model_dump())


class FakeState(State):
    def ask(self, method: str, params: Any = None) -> Any:
        assert method == "thing.make"
        return {"given": params}


def run(*words: str) -> Any:
    operation = Operation(
        name="thing.make",
        summary="Make a thing.",
        params=Params,
        result=Result,
        handler=handler,
        plugin="things",
        command="thing make",
    )
    made = typer.Typer()
    made.command()(function_of(describe_operation(operation)))
    state = FakeState(json=True)
    return CliRunner().invoke(made, list(words), obj=state, env={"COLUMNS": "120"})


def given(*words: str) -> Any:
    import json

    result = run(*words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["given"]


def test_what_is_required_is_an_argument_and_the_rest_are_options() -> None:
    assert given("x", "3") == {"name": "x", "count": 3}
    said = given("x", "3", "--kind", "b", "--ratio", "0.5", "--loud", "--tags", "p", "--tags", "q")
    assert said == {
        "name": "x", "count": 3, "kind": "b", "ratio": 0.5, "loud": True, "tags": ["p", "q"],
    }  # fmt: skip
    assert given("x", "3", "--no-loud")["loud"] is False


def test_what_is_not_simple_is_given_as_json() -> None:
    said = given("x", "3", "--inner", '{"x": 5}', "--some-list", "[1, 2]", "--either", "word")
    assert said["inner"] == {"x": 5}
    assert said["some_list"] == [1, 2]
    assert said["either"] == "word"
    assert run("x", "3", "--inner", "{").exit_code == 2


def test_help_says_what_each_parameter_is() -> None:
    text = " ".join(run("--help").output.split())
    for part in ("The thing's name.", "One of a, b.", 'Default: "a".', "Nested. As JSON."):
        assert part in text


@pytest.mark.parametrize("words", [["x"], ["x", "many"], ["x", "3", "--nonsense", "1"]])
def test_what_does_not_fit_is_an_error_of_the_command_line(words: list[str]) -> None:
    assert run(*words).exit_code == 2


# -- results -----------------------------------------------------------------------


def printed(data: Any, width: int = 100) -> str:
    from rich.console import Console

    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        print_result(console, data)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip()


def test_any_result_can_be_printed() -> None:
    rows = [{"name": "a", "ok": True, "at": "2024-05-01T10:20:30.123456+00:00"}, {"name": "b"}]
    text = printed({"total": 1234, "rows": rows, "none": None, "tags": ["p", "q"]})
    assert "total  1,234" in text
    assert "2024-05-01 10:20:30" in text
    assert "tags   p, q" in text
    assert printed({}) == "done"
    assert printed(["x"]) == "x"
    assert printed({"rows": []}) == "rows  -"


def test_rows_that_are_too_wide_for_a_table_are_printed_one_by_one() -> None:
    row = {f"column_{number}": "word " * 10 for number in range(6)}
    text = printed({"rows": [row, row]}, width=80)
    assert text.count("column 0  word") == 2


def test_text_from_outside_only_shows_itself() -> None:
    assert clean("a\x1b[2Jb\u202ec\td\n") == "a\\x1b[2Jb\\u202ec\td\n"
    assert short({"a": "x" * 200}, 20) == '{"a":"xxxxxxxxxxxxx…'
    assert "\x1b" not in printed({"rows": [{"\x1b[1m": "\x1b[2J"}], "x": "\x9b"})


HIDDEN = [
    *("\x00", "\x1b", "\r", "\x7f", "\x85", "\xad", "\u061c", "\u200b", "\u200e", "\u200f"),
    *("\u2028", "\u2029", "\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\u206f", "\u2800"),
    *("\u3164", "\ufeff", "\ud800", "\U000e0001", "\U000e0041"),
]


@pytest.mark.parametrize("sign", [*HIDDEN, "\n", "\t", "\u200c", "\u200d"], ids=ascii)
def test_of_a_strangers_line_every_character_shows(sign: str) -> None:
    assert one_line(f"a{sign}b") == f"a{ascii(sign)[1:-1]}b"
    assert (clean(f"a{sign}b") == one_line(f"a{sign}b")) is (sign in HIDDEN)
    assert one_line("ordinary: é 中 ب 😀 \\") == "ordinary: é 中 ب 😀 \\"
