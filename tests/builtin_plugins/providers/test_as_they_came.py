"""Requests that are sent as they came, and answers that are told so: both ways, both wires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.raw import RawServer
from tests.builtin_plugins.providers.raw import Wire as Connection
from tests.support.examples import examples

from hookgate import (
    Frame,
    Message,
    ModelEvent,
    ModelParameters,
    ModelRef,
    ModelRequest,
    Opaque,
    OpaqueDelta,
    ProviderError,
    StopEvent,
    SystemText,
    Text,
    TextDelta,
    Tool,
    ToolResultPart,
    ToolUse,
    ToolUseEvent,
    UsageEvent,
)
from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.frames import FRAMES
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.builtin_plugins.providers.remote import RemoteProvider
from hookgate.builtin_plugins.providers.responses import ResponsesWire
from hookgate.wire import Raw, came_as

CHAT, MESSAGES = "openai-chat", "anthropic-messages"
WIRES: Mapping[str, Any] = {
    CHAT: OpenAIWire("acme", "http://acme.test/v1", None),
    MESSAGES: AnthropicWire("acme", "http://acme.test/v1", None),
}
SOME = examples(40)

# -- a reader of requests, as small as another plugin's could be ------------------------


def part_of(wire: str, block: Any) -> Any:
    kind = block.get("type")
    if kind == "text":
        part: Any = Text(str(block.get("text", "")))
    elif kind == "tool_use":
        part = ToolUse(id=block["id"], name=block["name"], input=block["input"])
    elif kind == "tool_result":
        part = ToolResultPart(tool_use_id=block["tool_use_id"], content=block["content"])
    else:
        part = Opaque(provider=wire, data=block)
    return came_as(part, Raw(wire=wire, data=block))


def message_of(wire: str, item: dict[str, Any]) -> Message:
    content, role = item.get("content"), item["role"]
    parts = [Text(content)] if isinstance(content, str) else []
    if isinstance(content, list):
        parts = [part_of(wire, block) for block in content]
    if role == "tool":
        parts = [ToolResultPart(tool_use_id=item["tool_call_id"], content=str(content))]
    for call in item.get("tool_calls") or ():
        function = call["function"]
        use = ToolUse(
            id=call["id"], name=function["name"], input=orjson.loads(function["arguments"])
        )
        parts.append(came_as(use, Raw(wire=wire, data=call)))  # type: ignore[arg-type]
    known: Any = role if role in ("assistant", "tool") else "user"
    return came_as(Message(role=known, parts=tuple(parts)), Raw(wire=wire, data=item))


def request_of(wire: str, body: dict[str, Any], **more: Any) -> ModelRequest:
    """Return `body` as the core asks for it when nobody changes anything."""
    first = ModelRequest(
        model=ModelRef("acme", "real-model"),
        messages=tuple(message_of(wire, item) for item in body["messages"]),
        system=tuple(
            came_as(SystemText(text=block["text"]), Raw(wire=wire, data=block))
            for block in body.get("system") or ()
        ),
        tools=tuple(
            came_as(
                Tool(name=tool.get("function", tool).get("name", "x"), description="", schema={}),
                Raw(wire=wire, data=tool),
            )
            for tool in body.get("tools") or ()
        ),
        max_output_tokens=body.get("max_tokens") or 32_000,
        temperature=body.get("temperature"),
        raw=Raw(wire=wire, data=body),
        **more,
    )
    return replace(first, baseline=first)


BASH_USE = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}
BASH_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}

# -- what clients send, with fields that nobody here knows --------------------------------

WORDS = st.text(max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS
THINGS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
)
EXTRA = st.dictionaries(WORDS.map(lambda name: f"later_{name}"), THINGS, max_size=3)


@st.composite
def mixed(draw: Any, known: dict[str, Any]) -> dict[str, Any]:
    """Return `known` with other fields among its own, in whatever order."""
    items = draw(st.permutations([*known.items(), *draw(EXTRA).items()]))
    return dict(items)


def blocks(role: str) -> Any:
    kinds = [
        WORDS.flatmap(lambda text: mixed({"type": "text", "text": text})),
        EXTRA.flatmap(lambda more: mixed({"type": "later_block", **more})),
        mixed({"type": "image", "source": {"type": "url", "url": "https://a.test/x.png"}}),
    ]
    if role == "assistant":
        kinds.append(mixed({"type": "tool_use", "id": "a.b:1", "name": "Bash", "input": {"q": 1}}))
        kinds.append(mixed({"type": "thinking", "thinking": "", "signature": "s"}))
    else:
        kinds.append(mixed({"type": "tool_result", "tool_use_id": "a.b:1", "content": "done"}))
    return st.lists(st.one_of(kinds), min_size=1, max_size=4)


@st.composite
def messages_bodies(draw: Any) -> dict[str, Any]:
    rows = []
    for role in draw(st.lists(st.sampled_from(["user", "assistant"]), min_size=1, max_size=5)):
        content = draw(WORDS | blocks(role))
        rows.append(draw(mixed({"role": role, "content": content})))
    tool = draw(mixed({"name": "Bash", "input_schema": {"type": "object"}}))
    known: dict[str, Any] = {"model": "alias", "messages": rows, "max_tokens": 100}
    if draw(st.booleans()):
        known |= {"tools": [tool, {"type": "web_search_20250305", "name": "web_search"}]}
        known |= {"system": [draw(mixed({"type": "text", "text": "You are."}))]}
        known |= {"thinking": {"type": "adaptive"}, "context_management": {"edits": []}}
    return dict(draw(mixed(known)))


@st.composite
def chat_bodies(draw: Any) -> dict[str, Any]:
    rows = []
    roles = ["system", "developer", "user", "assistant", "tool"]
    for role in draw(st.lists(st.sampled_from(roles), min_size=1, max_size=6)):
        known: dict[str, Any] = {"role": role, "content": draw(WORDS | blocks("none"))}
        if role == "tool":
            known["tool_call_id"] = "a.b:1"
        if role == "assistant" and draw(st.booleans()):
            function = {"name": "Bash", "arguments": '{"q": 1}'}
            call = draw(mixed({"id": "a.b:1", "type": "function", "function": function}))
            known |= {"content": None, "tool_calls": [call]}
        rows.append(draw(mixed(known)))
    body: dict[str, Any] = {"model": "alias", "messages": rows}
    if draw(st.booleans()):
        body |= {"stream": draw(st.booleans()), "stream_options": {"later": 1}}
        body |= {"temperature": 0.5, "seed": 3, "max_completion_tokens": 9, "n": 1}
    return dict(draw(mixed(body)))


BODIES = {CHAT: chat_bodies(), MESSAGES: messages_bodies()}


def pairs(value: Any) -> Any:
    """Return JSON with the order of its fields, which `==` of dicts passes over."""
    if isinstance(value, dict):
        return [(key, pairs(item)) for key, item in value.items()]
    return [pairs(item) for item in value] if isinstance(value, list) else value


def expected(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return `body` with what is forced, and nothing else, in its own order."""
    sent = {**body, "model": "real-model", "stream": True}
    if wire == CHAT:
        sent["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return sent


@pytest.mark.parametrize("wire", WIRES)
@SOME
@given(st.data())
def test_a_body_is_sent_as_it_came_but_for_model_and_stream(wire: str, data: Any) -> None:
    body = data.draw(BODIES[wire])
    before = orjson.dumps(body)

    sent = WIRES[wire].body(request_of(wire, body))

    assert pairs(sent) == pairs(expected(wire, body))
    assert orjson.dumps(body) == before


@pytest.mark.parametrize("wire", WIRES)
@SOME
@given(st.data())
def test_whoever_changes_a_message_changes_that_one_alone(wire: str, data: Any) -> None:
    body = data.draw(BODIES[wire])
    request = request_of(wire, body)
    place = data.draw(st.integers(0, len(request.messages) - 1))
    changed = list(request.messages)
    changed[place] = Message(role="user", parts=(Text("changed"),))

    sent = WIRES[wire].body(replace(request, messages=tuple(changed)))

    wanted = list(body["messages"])
    plain = "changed" if wire == CHAT else [{"type": "text", "text": "changed"}]
    wanted[place] = {"role": "user", "content": plain}
    assert pairs(sent) == pairs(expected(wire, {**body, "messages": wanted}))


def test_of_a_message_with_one_changed_part_the_others_are_sent_as_they_came() -> None:
    kept = {"type": "text", "text": "kept", "cache_control": {"type": "ephemeral"}}
    row = {"role": "user", "content": [{"type": "text", "text": "secret"}, kept]}
    request = request_of(MESSAGES, {"model": "m", "messages": [row]})
    (message,) = request.messages
    masked = replace(message, parts=(Text("***"), message.parts[1]))

    sent = WIRES[MESSAGES].body(replace(request, messages=(masked,)))

    (told,) = sent["messages"]
    assert told == {"role": "user", "content": [{"type": "text", "text": "***"}, kept]}


@pytest.mark.parametrize(
    ("wire", "limit"),
    [(CHAT, "max_tokens"), (CHAT, "max_completion_tokens"), (MESSAGES, "max_tokens")],
)
def test_what_a_plugin_changes_of_the_parameters_is_written_and_nothing_else(
    wire: str, limit: str
) -> None:
    body = {
        "later": 1,
        limit: 100,
        "temperature": 0.5,
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
    }
    request = request_of(wire, body)

    sent = WIRES[wire].body(replace(request, max_output_tokens=7, temperature=None))

    wanted = {key: 7 if key == limit else value for key, value in body.items()}
    del wanted["temperature"]
    assert pairs(sent) == pairs(expected(wire, wanted))


def test_a_choice_of_tools_that_is_forced_keeps_what_stands_beside_it() -> None:
    choice = {"type": "auto", "later": 1}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tool_choice": choice}
    request = request_of(MESSAGES, body, parameters=ModelParameters(tool_choice="auto"))

    forced = replace(request, parameters=ModelParameters(tool_choice="Bash"))
    sent = WIRES[MESSAGES].body(forced)

    assert sent["tool_choice"] == {"later": 1, "type": "tool", "name": "Bash"}


@pytest.mark.parametrize("wire", WIRES)
def test_what_a_denied_call_adds_stands_behind_what_came(wire: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi", "later": 1}]}
    request = request_of(wire, body)
    use = ToolUse(id="a.b:1", name="Bash", input={"q": 1})
    denied = ToolResultPart(tool_use_id="a.b:1", content="denied", is_error=True)
    more = (Message(role="assistant", parts=(use,)), Message(role="tool", parts=(denied,)))

    sent = WIRES[wire].body(replace(request, messages=(*request.messages, *more)))

    first, called, answered = sent["messages"]
    assert first == body["messages"][0]
    assert "a.b:1" in orjson.dumps(called).decode()
    assert "a.b:1" in orjson.dumps(answered).decode()


@pytest.mark.parametrize("wire", WIRES)
def test_options_that_a_plugin_adds_are_sent_or_refused(wire: str) -> None:
    request = request_of(wire, {"model": "m", "messages": [{"role": "user", "content": "hi"}]})

    assert WIRES[wire].body(replace(request, options={"later": 1}))["later"] == 1
    with pytest.raises(ProviderError, match="the options name messages"):
        WIRES[wire].body(replace(request, options={"messages": []}))


def test_several_answers_to_one_request_are_refused_by_name() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "n": 2}
    with pytest.raises(ProviderError, match="`n`, several answers"):
        WIRES[CHAT].body(request_of(CHAT, body))


# -- parameters and parts of other wires -------------------------------------------------

ASKED = ModelParameters(
    top_p=0.5,
    tool_choice="Bash",
    parallel_tool_calls=False,
    response_format={"type": "object"},
    reasoning="low",
    service_tier="auto",
    user="u1",
)
PLAIN = ModelRequest(
    model=ModelRef("acme", "m"), messages=(Message(role="user", parts=(Text("hi"),)),)
)


def test_parameters_are_written_as_each_protocol_has_them() -> None:
    asked = replace(PLAIN, parameters=ASKED)
    common = {"top_p": 0.5, "service_tier": "auto"}

    chat = WIRES[CHAT].body(asked)
    messages = WIRES[MESSAGES].body(asked)
    responses = ResponsesWire("acme", "http://acme.test/v1", None).body(asked)

    named = {"type": "function", "function": {"name": "Bash"}}
    schema = {"name": "answer", "schema": {"type": "object"}, "strict": True}
    assert chat.items() >= (common | {"user": "u1", "reasoning_effort": "low"}).items()
    assert (chat["tool_choice"], chat["parallel_tool_calls"]) == (named, False)
    assert chat["response_format"] == {"type": "json_schema", "json_schema": schema}
    assert messages.items() >= common.items()
    assert messages["metadata"] == {"user_id": "u1"}
    assert messages["tool_choice"] == {
        "type": "tool",
        "name": "Bash",
        "disable_parallel_tool_use": True,
    }
    assert messages["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": {"type": "object"}},
    }
    assert responses["tool_choice"] == {"type": "function", "name": "Bash"}
    assert responses["reasoning"] == {"effort": "low"}
    assert responses["text"] == {"format": {"type": "json_schema", **schema}}


@pytest.mark.parametrize(
    ("wire", "asked", "told"),
    [
        (CHAT, {"top_k": 5}, "Chat Completions, which cannot carry `top_k`"),
        (CHAT, {"reasoning": 1024}, "`reasoning` that is a budget"),
        (MESSAGES, {"seed": 1}, "the Messages API, which cannot carry `seed`"),
        (MESSAGES, {"logprobs": True}, "`logprobs`"),
        (MESSAGES, {"seed": 0}, "`seed`"),
        (MESSAGES, {"frequency_penalty": 0.5}, "`frequency_penalty`"),
        (MESSAGES, {"response_format": "json_object"}, "`json_object`"),
    ],
)
def test_a_parameter_that_a_protocol_has_not_is_refused_by_name(
    wire: str, asked: dict[str, Any], told: str
) -> None:
    with pytest.raises(ProviderError, match=told) as refused:
        WIRES[wire].body(replace(PLAIN, parameters=ModelParameters(**asked)))
    assert refused.value.kind == "rejected"


def test_a_role_and_a_part_that_another_wire_has_not_are_refused_by_name() -> None:
    rows = [{"role": "user", "content": "hi"}, {"role": "developer", "content": "be brief"}]
    with pytest.raises(ProviderError, match="the role `developer` of message 1"):
        WIRES[MESSAGES].body(request_of(CHAT, {"model": "m", "messages": rows}))
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
    with pytest.raises(ProviderError, match="the part `thinking` of message 0"):
        WIRES[CHAT].body(request_of(MESSAGES, {"model": "m", "messages": [thought]}))


def test_results_that_came_one_by_one_are_together_on_another_wire() -> None:
    calls = [
        {"id": name, "type": "function", "function": {"name": "Bash", "arguments": "{}"}}
        for name in ("a", "b")
    ]
    rows = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]
    sent = WIRES[MESSAGES].body(request_of(CHAT, {"model": "m", "messages": rows}))
    told = [(block["tool_use_id"], block["content"]) for block in sent["messages"][-1]["content"]]
    assert told == [("a", "one"), ("b", "two")]


@pytest.mark.parametrize("wire", WIRES)
def test_calls_that_came_one_by_one_are_together_with_their_results(wire: str) -> None:
    raw = Raw(wire="openai-responses", data={"model": "m", "input": []})
    rows: list[Message] = [Message(role="user", parts=(Text("hi"),))]
    for name in ("a", "b"):
        use = ToolUse(id=name, name="Bash", input={})
        rows.append(Message(role="assistant", parts=(use,)))
    for name in ("a", "b"):
        result = ToolResultPart(tool_use_id=name, content=f"came of {name}")
        rows.append(Message(role="tool", parts=(result,)))
    request = replace(PLAIN, messages=tuple(rows), raw=raw)

    sent = orjson.dumps(WIRES[wire].body(replace(request, baseline=request))).decode()

    assert sent.count("came of a") == sent.count("came of b") == 1
    assert "no result" not in sent


def test_results_of_both_sides_stand_in_one_message_of_anthropics() -> None:
    wire = "anthropic-messages"
    body: dict[str, Any] = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [BASH_USE]},
            {"role": "user", "content": [BASH_RESULT, {"type": "text", "text": "go on", "x": 1}]},
        ],
    }
    request = request_of(wire, body)
    go, calls, brought = request.messages
    clock = ToolUse(id="h1", name="clock", input={})
    hidden = Message(role="assistant", parts=(clock, *calls.parts), turn="turn_1")
    own = (ToolResultPart(tool_use_id="h1", content="noon"),)
    found = Message(role="tool", parts=own, turn="turn_1")
    result, text = brought.parts
    rest = [replace(brought, role="tool", parts=(result,)), replace(brought, parts=(text,))]
    changed = replace(request, messages=(go, hidden, found, *rest))

    sent = WIRES[wire].body(changed)["messages"]

    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert [block["id"] for block in sent[1]["content"]] == ["h1", "c1"]
    assert [block.get("tool_use_id") for block in sent[2]["content"]] == ["h1", "c1", None]
    assert sent[2]["content"][1:] == body["messages"][2]["content"]


# -- answers -------------------------------------------------------------------------------


def told(wire: str, frames: Sequence[Any], *, done: bool = True) -> list[ModelEvent]:
    """Return what a reader of `wire` makes of an answer."""
    reader = FRAMES[wire]("acme", pytest.fail)
    events = [event for frame in frames for event in reader.read(orjson.dumps(frame))]
    if wire == CHAT and done:
        events.extend(reader.read(b"[DONE]"))
    return events


def passed_on(events: Sequence[ModelEvent]) -> list[Any]:
    """Return the pieces of the wire that the events carry, in their order."""
    pieces: list[Any] = []
    for event in events:
        if event.raw is not None:
            data = event.raw.data
            pieces.extend(data if isinstance(data, list) else [data])
    return pieces


@st.composite
def messages_answers(draw: Any) -> list[dict[str, Any]]:
    usage = {"input_tokens": 5, "output_tokens": 1}
    start = {"type": "message_start", "message": draw(mixed({"id": "m", "usage": usage}))}
    frames = [draw(mixed(start))]
    kinds = ["text", "thinking", "tool_use", "redacted_thinking", "later_block"]
    for index, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=5))):
        begun: dict[str, Any] = {"type": kind}
        deltas: list[dict[str, Any]] = [{"type": "later_delta", "x": 1}]
        if kind == "text":
            begun["text"] = ""
            deltas += [{"type": "text_delta", "text": text} for text in draw(st.lists(WORDS))]
            deltas += [{"type": "citations_delta", "citation": {"a": 1}}]
        elif kind == "thinking":
            begun |= {"thinking": "", "signature": ""}
            deltas += [{"type": "thinking_delta", "thinking": draw(WORDS)}]
            deltas += [{"type": "signature_delta", "signature": "sig"}]
        elif kind == "tool_use":
            begun |= {"id": f"id{index}", "name": "Bash", "input": {}}
            pieces = ['{"a"', ": 1}"]
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        block = draw(mixed(begun))
        frames.append({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            frame = {"type": "content_block_delta", "index": index, "delta": draw(mixed(delta))}
            frames.append(draw(mixed(frame)))
        frames.append({"type": "content_block_stop", "index": index})
        if draw(st.booleans()):
            frames.append(draw(mixed({"type": draw(st.sampled_from(["ping", "later"]))})))
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    return [*frames, draw(mixed(end)), {"type": "message_stop"}]


@st.composite
def chat_answers(draw: Any) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    kinds = ["content", "reasoning_content", "refusal", "later"]
    said = draw(st.lists(st.sampled_from(kinds), max_size=6))
    deltas.extend({kind: draw(WORDS)} for kind in said)
    for index in range(draw(st.integers(0, 2))):
        call: dict[str, Any] = {"index": index, "id": f"id{index}", "type": "function"}
        call["function"] = {"name": "Bash", "arguments": ""}
        deltas.append({"tool_calls": [draw(mixed(call))]})
        for piece in ('{"a"', ": 1}"):
            fragment = {"index": index, "function": {"arguments": piece}}
            deltas.append({"tool_calls": [fragment]})
    frames = [
        draw(mixed({"id": "c", "choices": [draw(mixed({"index": 0, "delta": draw(mixed(one))}))]}))
        for one in deltas
    ]
    finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    return [*frames, {"id": "c", "choices": [finish]}, {"choices": [], "usage": usage}]


ANSWERS = {CHAT: chat_answers(), MESSAGES: messages_answers()}


@pytest.mark.parametrize("wire", WIRES)
@SOME
@given(st.data())
def test_an_answer_carries_all_that_came_once_and_in_its_order(wire: str, data: Any) -> None:
    frames = data.draw(ANSWERS[wire])

    events = told(wire, frames)

    assert pairs(passed_on(events)) == pairs(frames)
    assert isinstance(events[-1], StopEvent)
    # The same as without: nothing is heard otherwise because it is passed on.
    plain = WIRES[wire].reader(pytest.fail)
    heard = [event for frame in frames for event in plain.read(orjson.dumps(frame))]
    heard += plain.read(b"[DONE]") if wire == CHAT else []
    assert [event for event in events if not isinstance(event, Frame)] == heard


@pytest.mark.parametrize("wire", WIRES)
@SOME
@given(st.data())
def test_a_call_is_in_nothing_that_is_told_before_it_was_judged(wire: str, data: Any) -> None:
    events = told(wire, data.draw(ANSWERS[wire]))
    others = [event for event in events if not isinstance(event, ToolUseEvent)]
    assert not [frame for frame in passed_on(others) if is_of_call(frame)]


def is_of_call(frame: dict[str, Any]) -> bool:
    """Whether a piece of either wire holds something of a call."""
    deltas = [choice["delta"] for choice in frame.get("choices") or ()]
    begun, delta = frame.get("content_block") or {}, frame.get("delta") or {}
    return (
        any("tool_calls" in one for one in deltas)
        or begun.get("type") == "tool_use"
        or delta.get("type") == "input_json_delta"
    )


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def test_a_chunk_that_says_several_things_is_divided() -> None:
    calls = [
        {"index": place, "id": name, "function": {"name": "Bash", "arguments": '{"q": 1}'}}
        for place, name in enumerate(("a", "b"))
    ]
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    whole = chunk(
        {"role": "assistant", "reasoning": "hm", "content": "hi", "tool_calls": calls},
        "tool_calls",
        usage=usage,
    )

    events = told(CHAT, [whole])

    carried = {type(event).__name__ + getattr(event, "id", ""): event.raw for event in events}
    assert [name for name, raw in carried.items() if raw is not None] == [
        *("ReasoningDelta", "TextDelta", "ToolUseEventa", "ToolUseEventb", "StopEvent")
    ]
    deltas = [piece["choices"][0]["delta"] for piece in passed_on(events)]
    assert deltas == [
        {"role": "assistant", "reasoning": "hm"},
        {"content": "hi"},
        {"tool_calls": [calls[0]]},
        {"tool_calls": [calls[1]]},
        {},
    ]
    reasons = [piece["choices"][0]["finish_reason"] for piece in passed_on(events)]
    assert reasons == [None, None, None, None, "tool_calls"]
    assert [piece["usage"] for piece in passed_on(events)] == [None, None, None, None, usage]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (chunk({"function_call": {"name": "Bash", "arguments": "{}"}}), "function_call"),
        ({"choices": [{"index": 1, "delta": {"content": "other"}}]}, "several answers"),
        ({"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {}}]}, "several answers"),
        ({"choices": [{"index": 0, "delta": ["x"]}]}, "a `delta` that is no object"),
        ({"choices": {"0": {}}}, "no list of objects"),
    ],
)
def test_what_nobody_here_would_judge_is_not_passed_on(wrong: Any, why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        told(CHAT, [wrong])


def test_no_frame_says_anything_of_the_answer_that_no_filter_has_seen() -> None:
    text = {"type": "text", "text": "secret"}
    start = {"type": "message_start", "message": {"id": "m", "content": [text]}}
    begun = {"type": "content_block_start", "index": 0, "content_block": text}
    thought = {"type": "thinking", "thinking": "secret", "signature": ""}
    thinking = {"type": "content_block_start", "index": 1, "content_block": thought}
    stops = [{"type": "content_block_stop", "index": index} for index in (0, 1)]
    chat = chunk({"content": "secret"}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 1})
    chat["choices"][0]["logprobs"] = {"content": [{"token": "secret"}]}

    events = [*told(MESSAGES, [start, begun, thinking, *stops]), *told(CHAT, [chat])]

    for event in events:
        if event.raw is not None and isinstance(event, Frame | StopEvent | OpaqueDelta):
            assert "secret" not in repr(event.raw.data)
    assert {
        type(event).__name__ for event in events if "secret" in repr(event.raw and event.raw.data)
    } == {
        "TextDelta",
        "ReasoningDelta",
    }


def test_a_call_without_an_id_is_told_by_another_and_carries_nothing() -> None:
    fragment = {"index": 0, "function": {"name": "Bash", "arguments": "{}"}}
    events = told(CHAT, [chunk({"tool_calls": [fragment]}), chunk({}, "tool_calls")])
    (use,) = [event for event in events if isinstance(event, ToolUseEvent)]
    assert use.raw is None


@pytest.mark.parametrize(
    "fragment",
    [
        {"index": 0, "function": {"name": "Write", "arguments": ""}},
        {"index": 0, "id": "other", "function": {"arguments": ""}},
        {"index": 0, "type": "custom", "custom": {"name": "Write", "input": "x"}},
        {"index": 0, "function": {"arguments": {}}},
    ],
)
def test_a_call_that_later_pieces_change_for_clients_is_not_passed_on(fragment: Any) -> None:
    first = {"index": 0, "id": "a", "type": "function", "function": {"name": "Bash"}}
    (use,) = [
        event
        for event in told(CHAT, [chunk({"tool_calls": [one]}) for one in (first, fragment)])
        if isinstance(event, ToolUseEvent)
    ]
    assert (use.name, use.raw) == ("Bash", None)


@pytest.mark.parametrize(
    "delta",
    [
        {"type": "input_json_delta", "partial_json": '{"q": 1}'},
        {"type": "thinking_delta", "thinking": '{"q": 1}'},
    ],
)
def test_an_input_that_is_said_twice_is_not_passed_on(delta: Any) -> None:
    block = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"evil": 1}}
    frames = [
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
    ]
    (use,) = [event for event in told(MESSAGES, frames) if isinstance(event, ToolUseEvent)]
    assert (use.input, use.raw) == ({"q": 1}, None)


def test_an_answer_that_its_server_never_ends_carries_its_end() -> None:
    reader = FRAMES[MESSAGES]("acme", pytest.fail)
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert reader.read(orjson.dumps(end)) == ()
    (stop,) = reader.end()
    assert passed_on([stop]) == [end]


# -- over HTTP -----------------------------------------------------------------------------


async def test_a_request_goes_out_and_its_answer_comes_as_they_are(
    made: Callable[..., RemoteProvider], server: RawServer
) -> None:
    frames = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "later": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "b"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]

    async def script(connection: Connection) -> None:
        await connection.chunks(*(b"data: " + orjson.dumps(one) + b"\n\n" for one in frames))

    server.script = script
    provider = made("anthropic", server.url)
    body = {"later": 1, "messages": [{"role": "user", "content": "hi"}], "model": "alias"}
    headers = (("anthropic-beta", "later-1"), ("x-api-key", "stolen"), ("cookie", "a=b"))
    request = request_of(MESSAGES, body)
    request = replace(request, raw=Raw(wire=MESSAGES, data=body, headers=headers))

    events = [event async for event in provider.stream(None, request)]  # type: ignore[arg-type]

    assert provider.wire == MESSAGES
    (sent,) = server.requests
    assert pairs(sent) == pairs(expected(MESSAGES, body))
    head = server.heads[0].lower()
    assert "anthropic-beta: later-1" in head
    assert "stolen" not in head
    assert "cookie" not in head
    assert passed_on(events) == frames
    said = [type(event) for event in events if not isinstance(event, Frame | UsageEvent)]
    assert said == [TextDelta, TextDelta, StopEvent]
    assert not [event for event in events if isinstance(event, OpaqueDelta)]


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        ({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, ["a"]),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "a"}]}, ["a"]),
        ({"reasoning": "a", "reasoning_details": [{"text": "a"}]}, ["a"]),
        ({"reasoning": "a", "reasoning_details": [{"text": "b"}]}, ["a", "b"]),
        ({"reasoning": "a", "reasoning_content": "b"}, ["b", "a"]),
        ({"audio": {"id": "x", "transcript": "a"}}, ["a"]),
        ({"audio": {"id": "x", "data": "AAAA"}}, []),
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AAAA"}]}, []),
    ],
)
def test_no_text_passes_a_filter_in_another_form(delta: dict[str, Any], said: list[str]) -> None:
    """What is said is one event that carries it all, or several that carry nothing."""
    chunk = {"id": "c", "choices": [{"index": 0, "delta": delta}]}
    reader = FRAMES[CHAT]("acme", lambda _: None)
    events = list(reader.read(orjson.dumps(chunk)))
    assert [getattr(event, "text", None) for event in events] == (said or [None])
    if len(events) == 1:
        assert events[0].raw is not None
        assert events[0].raw.data == chunk
    else:
        assert [event.raw for event in events] == [None] * len(events)


def test_what_a_model_is_asked_with_by_its_settings_is_in_a_body_of_responses_too() -> None:
    body = {"model": "m", "input": "go"}
    wire = ResponsesWire("acme", "http://acme.test/v1", None)
    message = Message(role="user", parts=(Text("go"),))
    came = ModelRequest(model=ModelRef("acme", "m"), messages=(message,))
    raw = Raw(wire=wire.name, data=body)
    made = replace(came, options={"top_k": 3}, raw=raw, baseline=came)
    assert wire.body(made)["top_k"] == 3
