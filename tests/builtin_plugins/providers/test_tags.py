"""Tags in the text of small local models: read where the settings say so, and only there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.raw import RawServer, Wire
from tests.builtin_plugins.providers.requests_made import CALCULATE, request, user
from tests.builtin_plugins.providers.transcripts import chunk, sse
from tests.support.script import Allow, Events, Tools, echo_tool, settings

from hookgate import Gateway
from hookgate.builtin_plugins.providers.wire.template import MAX_CALL, TagReader, ThinkTags
from hookgate.core.domain.models import ReasoningDelta, StopEvent, TextDelta, ToolUseEvent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hookgate.builtin_plugins.providers.remote import RemoteProvider
    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.turn import Turn

    Make = Callable[..., RemoteProvider]

NO_TURN = cast("Turn", None)
CALL = '<tool_call>\n{"name": "echo", "arguments": {"text": "h"}}\n</tool_call>'


def read(pieces: Iterable[str], think: ThinkTags = "on", *, calls: bool = True) -> list[Any]:
    """Return text, reasoning and calls; what is of one kind is joined."""
    reader, said = TagReader(think, calls=calls), list[Any]()
    events: list[ModelEvent] = [event for piece in pieces for event in reader.feed(piece)]
    events.extend(reader.end())
    for event in events:
        match event:
            case TextDelta(text) | ReasoningDelta(text):
                kind = "text" if isinstance(event, TextDelta) else "thought"
                if said and said[-1][0] == kind:
                    text = said.pop()[1] + text
                said.append((kind, text))
            case ToolUseEvent():
                said.append(("call", event.name, event.input))
    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", [("text", "hello")]),
        ("<think>hm</think>\n\nhello", [("thought", "hm"), ("text", "hello")]),
        ("\n<think>hm</think>hello", [("thought", "hm"), ("text", "hello")]),
        ("<think></think>hello", [("text", "hello")]),
        ("<think>never ends", [("thought", "never ends")]),
        ("<think>hm</thin", [("thought", "hm</thin")]),
        ("a < b <thi", [("text", "a < b <thi")]),
        ("no </think> here", [("text", "no </think> here")]),
        (CALL, [("call", "echo", {"text": "h"})]),
        (f"{CALL}\n{CALL}", [("call", "echo", {"text": "h"})] * 2),
        (f"I look.\n{CALL}", [("text", "I look.\n"), ("call", "echo", {"text": "h"})]),
        (f"<think>{CALL}</think>ok", [("thought", CALL), ("text", "ok")]),
        (CALL.removesuffix("</tool_call>"), [("call", "echo", {"text": "h"})]),
        ('<tool_call>{"name": "echo", "argu', [("text", '<tool_call>{"name": "echo", "argu')]),
        ("<tool_call>echo(h)</tool_call>!", [("text", "<tool_call>echo(h)</tool_call>!")]),
        ('<tool_call>{"name": 3}</tool_call>', [("text", '<tool_call>{"name": 3}</tool_call>')]),
        ('<tool_call>{"name": "echo"}</tool_call>', [("call", "echo", {})]),
        (
            '<tool_call>{"name": "echo", "arguments": "{\\"text\\": \\"h\\"}"}</tool_call>',
            [("call", "echo", {"text": "h"})],
        ),
        (
            '<tool_call>{"name": "echo", "arguments": "{bad"}</tool_call>',
            [("call", "echo", "{bad")],
        ),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_tags_are_read_however_the_text_is_cut(text: str, expected: Any, size: int) -> None:
    assert read([text[at : at + size] for at in range(0, len(text), size)]) == expected


def test_an_answer_may_begin_within_its_thoughts() -> None:
    assert read(["hm</thi", "nk>hello"], "open") == [("thought", "hm"), ("text", "hello")]


def test_each_kind_of_tag_is_read_by_itself() -> None:
    text = f"<think>hm</think>{CALL}"
    assert read([text], "off") == [
        ("text", "<think>hm</think>"),
        ("call", "echo", {"text": "h"}),
    ]
    assert read([text], calls=False) == [("thought", "hm"), ("text", CALL)]


def test_a_call_without_end_is_text_and_is_not_kept_for_ever() -> None:
    long = ["<tool_call>", *(["x" * 1000] * (MAX_CALL // 1000 + 2)), "</tool_call>", "<think>y"]
    said = read(long)
    assert said == [("text", "".join(long[:-1])), ("thought", "y")]


PIECES = st.lists(
    st.sampled_from(["<think>", "</think>", "<tool_call>", "</tool_call>", CALL, "a", "<", "\n"])
)


@given(PIECES, st.lists(st.integers(1, 12), min_size=1))
def test_no_cut_changes_what_is_read(pieces: list[str], sizes: list[int]) -> None:
    text, cut, at = "".join(pieces), [], 0
    for n in range(len(text)):
        size = sizes[n % len(sizes)]
        cut.append(text[at : at + size])
        at += size
    assert read(cut) == read([text])


# -- on the wire ---------------------------------------------------------------------------


def streams(server: RawServer, *answers: str) -> None:
    waiting = list(answers)

    async def script(wire: Wire) -> None:
        text = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
        events = [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), "[DONE]"]
        await wire.chunks(*(sse(event) for event in events))

    server.script = script


async def ask(provider: RemoteProvider) -> list[ModelEvent]:
    asked = request(user("hello"), tools=(CALCULATE,))
    return [event async for event in provider.stream(NO_TURN, asked)]


@pytest.mark.parametrize("models", [{}, {"big": {"tools": True}}, {"other": {"think_tags": "on"}}])
async def test_where_it_is_off_a_models_text_stays_as_it_is(
    models: dict[str, Any], server: RawServer, made: Make
) -> None:
    text = f"<think>hm</think>{CALL}"
    streams(server, text)
    said = await ask(made("openai", server.url, models=models))
    assert "".join(event.text for event in said if isinstance(event, TextDelta)) == text
    assert said[-1] == StopEvent("end")
    assert {type(event) for event in said[:-1]} == {TextDelta}


@pytest.mark.parametrize("name", ["big", "*"])
async def test_where_it_is_on_thoughts_and_calls_are_read(
    name: str, server: RawServer, made: Make
) -> None:
    streams(server, f"<think>hm</think>\n{CALL}")
    provider = made(
        "openai", server.url, models={name: {"think_tags": "on", "tool_call_tags": True}}
    )
    said = await ask(provider)
    assert "".join(event.text for event in said if isinstance(event, ReasoningDelta)) == "hm"
    assert not any(isinstance(event, TextDelta) for event in said)
    (call,) = [event for event in said if isinstance(event, ToolUseEvent)]
    assert (call.name, call.input) == ("echo", {"text": "h"})
    assert said[-1] == StopEvent("tool_use")


async def test_leaving_in_the_middle_closes_the_connection(server: RawServer, made: Make) -> None:
    streams(server, "<think>" + "x" * 10_000)
    provider = made("openai", server.url, models={"*": {"think_tags": "on"}})
    events = provider.stream(NO_TURN, request(user("hello")))
    assert isinstance(await anext(events), ReasoningDelta)
    await events.aclose()
    await server.left.wait()


async def test_a_turn_with_a_small_model_runs_its_tools(server: RawServer, tmp_path: Path) -> None:
    streams(server, f"<think>I need it.</think>{CALL}", "<think>Got it.</think>It is h.")
    models = {"small": {"think_tags": "on", "tool_call_tags": True}}
    made = settings(
        tmp_path,
        agents={"main": {"model": "local/small"}},
        plugin={
            "providers": {"local": {"kind": "openai", "base_url": server.url, "models": models}}
        },
    )
    events, plugins = Events(), (Tools(echo_tool()), Allow())
    async with Gateway(made, builtin=("egress", "providers"), plugins=plugins) as gate:
        turn = await gate.chat("what does it say?", sink=events)
    assert (turn.ending, turn.answer) == ("done", "It is h.")
    assert [one.result.content for one in turn.calls] == ["h"]
    assert events.of("tool_use")[0]["input"] == {"text": "h"}
    first, second = server.requests
    assert first["messages"][-1]["content"] == "what does it say?"
    call, result = second["messages"][-2:]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"]
