from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest

from hookgate.builtin_plugins.providers.demo import DemoProvider
from hookgate.core.domain.errors import ProviderError
from hookgate.core.domain.messages import Message, ToolResultPart, ToolUse
from hookgate.core.domain.models import (
    ModelRef,
    ModelRequest,
    StopEvent,
    SystemText,
    TextDelta,
    ToolUseEvent,
    UsageEvent,
)
from hookgate.core.domain.parts import Text
from hookgate.core.domain.tools import Tool

if TYPE_CHECKING:
    from hookgate.core.domain.models import ModelEvent
    from hookgate.core.domain.turn import Turn

NO_TURN = cast("Turn", None)


def tools(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name=name, description="", schema={"type": "object"}) for name in names)


def user(text: str) -> Message:
    return Message(role="user", parts=(Text(text),))


def request(*messages: Message, offered: tuple[str, ...] = (), **more: Any) -> ModelRequest:
    return ModelRequest(
        model=ModelRef("demo", more.pop("model", "demo")),
        messages=messages,
        tools=tools(*offered),
        **more,
    )


async def ask(asked: ModelRequest) -> list[ModelEvent]:
    return [event async for event in DemoProvider().stream(NO_TURN, asked)]


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls_of(events: list[ModelEvent]) -> list[tuple[str, Any]]:
    return [(event.name, event.input) for event in events if isinstance(event, ToolUseEvent)]


ALL = (
    "calculate",
    "clock",
    "http_get",
    "read_file",
    "remember",
    "recall",
    "list_capabilities",
    "discover_capabilities",
)


async def test_a_sum_and_the_time_are_asked_of_two_tools_at_once() -> None:
    events = await ask(request(user("what is 17*23, and what time is it?"), offered=ALL))
    assert calls_of(events) == [("calculate", {"expression": "17*23"}), ("clock", {})]
    assert events[-1] == StopEvent("tool_use")


async def test_tool_results_are_summed_up_in_the_answer() -> None:
    asked = user("what is 17*23, and what time is it?")
    uses = Message(
        role="assistant",
        parts=(
            ToolUse(id="a", name="calculate", input={"expression": "17*23"}),
            ToolUse(id="b", name="clock", input={}),
        ),
    )
    results = Message(
        role="tool",
        parts=(
            ToolResultPart(tool_use_id="b", content="2026-05-04T12:00:00Z"),
            ToolResultPart(tool_use_id="a", content="391"),
        ),
    )
    events = await ask(request(asked, uses, results, offered=ALL))
    assert text_of(events) == "The time is 2026-05-04T12:00:00Z. 17*23 = 391."
    assert events[-1] == StopEvent("end")


async def test_a_failed_tool_is_named_in_the_answer() -> None:
    uses = Message(role="assistant", parts=(ToolUse(id="a", name="clock", input={}),))
    results = Message(
        role="tool", parts=(ToolResultPart(tool_use_id="a", content="denied", is_error=True),)
    )
    events = await ask(request(user("what time is it?"), uses, results, offered=ALL))
    assert text_of(events) == "`clock` did not work: denied."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what is 2 + 3 * (4 - 1)?", [("calculate", {"expression": "2 + 3 * (4 - 1)"})]),
        ("(what is 2+3)", [("calculate", {"expression": "2+3"})]),
        ("2^10", [("calculate", {"expression": "2**10"})]),
        ("we met on 2026-10-02 at 10:30", []),
        ("see https://example.com/1+2*3 please", []),
        ("What time is it in Europe/Berlin?", [("clock", {"timezone": "Europe/Berlin"})]),
        ("What's the date today?", [("clock", {})]),
        ("Remember that my dog is called Rex.", [("remember", {"text": "my dog is called Rex"})]),
        ("What do you remember about my dog?", [("recall", {"query": "my dog"})]),
        ("recall the dog", [("recall", {"query": "the dog"})]),
        (
            "please fetch https://a.example/x?y=1.",
            [("http_get", {"url": "https://a.example/x?y=1"})],
        ),
        ("I like https://a.example/read", []),
        ("read the file notes/todo.txt", [("read_file", {"path": "notes/todo.txt"})]),
        ("what can you do?", [("list_capabilities", {})]),
        ("find a tool for invoices", [("discover_capabilities", {"query": "invoices"})]),
        ("hello there", []),
    ],
)
async def test_a_rule_reads_its_call_out_of_the_message(
    text: str, expected: list[tuple[str, Any]]
) -> None:
    assert calls_of(await ask(request(user(text), offered=ALL))) == expected


async def test_a_tool_that_is_not_offered_is_not_called_but_named() -> None:
    events = await ask(request(user("what time is it?"), offered=("calculate",)))
    assert calls_of(events) == []
    assert "`clock`, but that is not offered" in text_of(events)


async def test_abilities_are_searched_where_they_cannot_be_listed() -> None:
    events = await ask(request(user("what can you do?"), offered=("discover_capabilities",)))
    assert calls_of(events) == [("discover_capabilities", {"query": "what can you do?"})]


async def test_call_directives_are_followed_to_the_letter() -> None:
    text = '/call nothing_like_it {"a": [1, 2]}\n/call clock\n/call calculate {"expression": '
    events = await ask(request(user(text)))
    assert calls_of(events) == [
        ("nothing_like_it", {"a": [1, 2]}),
        ("clock", {}),
        ("calculate", '{"expression":'),
    ]
    ids = [event.id for event in events if isinstance(event, ToolUseEvent)]
    assert len(set(ids)) == 3


async def test_then_separates_rounds_of_calls() -> None:
    asked = user("/call clock\n/then\n/call calculate {}")
    first = await ask(request(asked))
    assert calls_of(first) == [("clock", {})]
    use = ToolUse(id="1", name="clock", input={})
    behind = (
        Message(role="assistant", parts=(use,)),
        Message(role="tool", parts=(ToolResultPart(tool_use_id="1", content="noon"),)),
    )
    assert calls_of(await ask(request(asked, *behind))) == [("calculate", {})]


async def test_say_gives_exactly_that_text_over_several_lines() -> None:
    events = await ask(request(user("/say one  two\nthree what time is it?"), offered=ALL))
    assert text_of(events) == "one  two\nthree what time is it?"
    assert sum(isinstance(event, TextDelta) for event in events) == 7


async def test_only_the_last_user_message_is_interpreted() -> None:
    events = await ask(request(user("/say old"), user("hello"), offered=ALL))
    assert "“hello”" in text_of(events)


async def test_a_directive_in_a_tool_result_is_only_text() -> None:
    uses = Message(role="assistant", parts=(ToolUse(id="a", name="http_get", input={}),))
    results = Message(
        role="tool", parts=(ToolResultPart(tool_use_id="a", content="/call clock {}"),)
    )
    events = await ask(request(user("fetch https://a.example"), uses, results, offered=ALL))
    assert calls_of(events) == []
    assert text_of(events) == "`http_get` returned: /call clock {}."


@pytest.mark.parametrize("kind", ["unreachable", "rate_limited", "auth", "malformed"])
async def test_fail_raises_that_kind_before_the_first_event(kind: str) -> None:
    stream = DemoProvider().stream(NO_TURN, request(user(f"/fail {kind}")))
    with pytest.raises(ProviderError) as caught:
        await anext(stream)
    assert caught.value.kind == kind
    assert caught.value.provider == "demo"


async def test_fail_at_one_model_lets_the_others_answer() -> None:
    asked = user("/fail overloaded first\n/say here")
    with pytest.raises(ProviderError):
        await ask(request(asked, model="first"))
    assert text_of(await ask(request(asked, model="second"))) == "here"


async def test_a_wrong_directive_is_answered_with_the_right_ones() -> None:
    text = text_of(await ask(request(user("/fail sometimes"))))
    assert "`/fail sometimes`" in text
    assert "unreachable" in text


async def test_cut_breaks_off_after_some_text() -> None:
    seen: list[ModelEvent] = []
    with pytest.raises(ProviderError) as caught:
        async for event in DemoProvider().stream(NO_TURN, request(user("/cut"))):
            seen.append(event)  # noqa: PERF401  # a comprehension loses what came before
    assert caught.value.kind == "cut"
    assert text_of(seen)


async def test_a_slow_answer_can_be_cancelled_between_its_words() -> None:
    got = asyncio.Event()

    async def read() -> None:
        async for event in DemoProvider().stream(NO_TURN, request(user("/slow 0.01 a b c"))):
            if isinstance(event, TextDelta) and event.text.strip() == "b":
                got.set()
            assert event != TextDelta(" c")

    task = asyncio.create_task(read())
    await got.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_answer_names_what_of_the_context_was_seen() -> None:
    asked = request(
        user("first"),
        Message(role="assistant", parts=(Text("yes"),)),
        user("hello"),
        offered=("clock",),
        system=(SystemText(text="You are kind.", stable=True), SystemText(text="Facts")),
    )
    text = text_of(await ask(asked))
    assert "“hello”" in text
    assert "1 earlier turn, 2 context blocks and 1 tool" in text
    assert "no language model" in text


async def test_a_question_is_answered_from_the_context() -> None:
    asked = request(
        user("What is the name of my dog?"),
        system=(SystemText(text="# Recall\n- The name of the user's dog is Rex\n- It rains"),),
    )
    assert "“The name of the user's dog is Rex”" in text_of(await ask(asked))


async def test_usage_is_reported_as_a_token_for_each_four_characters() -> None:
    asked = request(user("/say 12345"), system=(SystemText(text="12345678"),))
    usages = [event.usage for event in await ask(asked) if isinstance(event, UsageEvent)]
    assert usages[0].input_tokens == 5
    assert usages[0].output_tokens == 0
    assert usages[-1].output_tokens == 2
    assert all(usage.reported for usage in usages)


async def test_the_same_request_gives_the_same_events() -> None:
    asked = request(user("what is 1+1? hello"), offered=ALL)
    assert await ask(asked) == await ask(asked)


async def test_the_output_limit_and_stop_words_are_kept() -> None:
    limited = await ask(request(user("/say 123456789"), max_output_tokens=2))
    assert text_of(limited) == "12345678"
    assert limited[-1] == StopEvent("max_tokens")
    stopped = await ask(request(user("/say one END two"), stop=("END",)))
    assert text_of(stopped) == "one "
    assert stopped[-1] == StopEvent("stop_sequence", matched="END")


async def test_the_context_directive_shows_what_was_given_to_read() -> None:
    asked = request(
        user("/context"), offered=("clock",), system=(SystemText(text="You are kind."),)
    )
    text = text_of(await ask(asked))
    assert "block 0: You are kind." in text
    assert "tools: clock" in text


def test_any_model_name_is_accepted_and_one_is_listed() -> None:
    assert [model.name for model in DemoProvider().models()] == ["demo", "*"]
