"""The tools of a request: a list that comes again is not read again, and nobody can change it."""

from __future__ import annotations

from typing import Any

import pytest

from hookgate import Principal, WireError
from hookgate.builtin_plugins.compat.wires import chat_reader, messages_reader, responses_reader
from hookgate.core.turn.tools.held import admitted

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
USER = {"role": "user", "content": "go"}
BODIES: list[tuple[Any, Any]] = [
    (
        messages_reader,
        lambda name: {
            "model": "m",
            "max_tokens": 9,
            "messages": [USER],
            "tools": [{"name": name, "input_schema": {**SCHEMA}}, {"type": "web_search_1", "x": 1}],
        },
    ),
    (
        chat_reader,
        lambda name: {
            "model": "m",
            "messages": [USER],
            "tools": [{"type": "function", "function": {"name": name, "parameters": {**SCHEMA}}}],
        },
    ),
    (
        responses_reader,
        lambda name: {
            "model": "m",
            "input": [USER],
            "tools": [{"type": "function", "name": name, "parameters": {**SCHEMA}}],
        },
    ),
]
EACH = pytest.mark.parametrize(("reader", "body"), BODIES, ids=["messages", "chat", "responses"])


@EACH
def test_a_list_that_comes_again_is_read_once(reader: Any, body: Any) -> None:
    first, again, other = (reader.read(body(name)) for name in ("one", "one", "two"))
    assert first.tools is again.tools
    assert (first.hosted, first.foreign) == (again.hosted, again.foreign)
    assert [tool.name for tool in other.tools] == ["two"]


@EACH
def test_a_list_that_is_wrong_is_refused_each_time(reader: Any, body: Any) -> None:
    for _ in range(2):
        with pytest.raises(WireError, match="letters, digits"):
            reader.read(body("no name!"))


@EACH
def test_what_it_is_offered_as_is_kept_and_does_not_change(reader: Any, body: Any) -> None:
    given, anybody = body("kept"), Principal(id="p")
    (tool,) = admitted(reader.read(given).tools, {}, anybody, ())
    (same,) = admitted(reader.read(body("kept")).tools, {}, anybody, ())
    assert tool is same
    assert tool.raw is not None
    with pytest.raises(TypeError, match="does not change"):
        tool.schema["properties"]["x"]["type"] = "integer"
    # Whose flags are believed gets one of its own.
    (believed,) = admitted(reader.read(given).tools, {}, anybody, ("p",))
    assert believed is not tool
