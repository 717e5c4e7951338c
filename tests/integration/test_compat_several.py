"""Several answers to one question (`n` of Chat): each is filtered, metered and told as one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_compat_as_it_came import CHAT, frames_of, relayed, streamed

from hookgate import Frame, ModelEvent, ModelRequest, TextDelta, Turn, hookimpl

USAGE = {"prompt_tokens": 9, "completion_tokens": 40, "total_tokens": 49}


def piece(at: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": at, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}


def told(*texts: tuple[int, str]) -> list[Any]:
    """An answer whose texts come side by side, as they stand here."""
    places = sorted({at for at, _ in texts})
    return [
        *(piece(at, {"role": "assistant", "content": ""}) for at in places),
        *(piece(at, {"content": text}) for at, text in texts),
        *(piece(at, {}, "stop" if at else "length") for at in places),
        {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
        "[DONE]",
    ]


MIXED = told((0, "one "), (1, "eins "), (2, "un "), (1, "zwei"), (0, "two"), (2, "deux"))
TEXTS = ["one two", "eins zwei", "un deux"]


def asked(n: int = 3, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "go"}], "n": n, **more}


def texts_of(frames: list[Any]) -> list[str]:
    found: dict[int, list[str]] = {}
    for frame in frames:
        for choice in frame["choices"] if frame != "[DONE]" else ():
            found.setdefault(choice["index"], []).append(choice["delta"].get("content") or "")
    return ["".join(texts) for _, texts in sorted(found.items())]


class Looks:
    """A plugin that reads each answer from its beginning to its end, and changes one word."""

    name = "looks"

    def __init__(self) -> None:
        self.read: list[str] = [""]

    @hookimpl
    def filter_stream(
        self, turn: Turn, events: AsyncIterator[ModelEvent]
    ) -> AsyncIterator[ModelEvent]:
        async def looked() -> AsyncIterator[ModelEvent]:
            async for event in events:
                if isinstance(event, Frame) and event.ends:
                    self.read.append("")
                if isinstance(event, TextDelta):
                    self.read[-1] += event.text
                    if "zwei" in event.text:
                        yield TextDelta(event.text.replace("zwei", "[masked]"))
                        continue
                yield event

        return looked()


async def test_each_is_told_as_it_came_whole_before_the_next(tmp_path: Path) -> None:
    async with relayed(tmp_path, MIXED) as (one, upstream):
        body = asked(stream=True, max_tokens=50)
        frames = frames_of(
            await streamed(one, CHAT, {**body, "stream_options": {"include_usage": True}})
        )
        assert texts_of(frames) == TEXTS
        assert frames[-1] == "[DONE]"
        assert frames[-2]["usage"] == USAGE
        ends = [
            (choice["index"], choice["finish_reason"])
            for frame in frames[:-1]
            for choice in frame["choices"]
            if choice["finish_reason"]
        ]
        assert ends == [(0, "length"), (1, "stop"), (2, "stop")]
        shown = [json.dumps({**frame, "model": None}) for frame in frames[:-1]]
        assert sorted(shown) == sorted(json.dumps({**frame, "model": None}) for frame in MIXED[:-1])
        assert (upstream.requests[0]["n"], upstream.requests[0]["max_tokens"]) == (3, 50)


async def test_a_whole_answer_has_all_of_them(tmp_path: Path) -> None:
    async with relayed(tmp_path, MIXED) as (one, _):
        status, answer = await one.post(CHAT, asked())
        assert status == 200
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
        assert [choice["message"]["content"] for choice in answer["choices"]] == TEXTS
        assert [choice["finish_reason"] for choice in answer["choices"]] == [
            "length",
            "stop",
            "stop",
        ]
        assert {choice["message"]["role"] for choice in answer["choices"]} == {"assistant"}
        # All of them are in the ledger.
        _, used = await one.get("/v1/usage")
        assert "40" in json.dumps(used)


async def test_an_upstream_that_does_not_stream_gives_all_of_them(tmp_path: Path) -> None:
    choices = [
        {
            "index": at,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "finish_reason": "stop",
        }
        for at, text in enumerate(TEXTS)
    ]
    whole = {"id": "c1", "object": "chat.completion", "choices": choices, "usage": USAGE}
    async with relayed(tmp_path) as (one, upstream):

        async def script(wire: Any) -> None:
            await wire.answer(200, json.dumps(whole).encode(), content_type="application/json")

        upstream.script = script
        _, answer = await one.post(CHAT, asked())
    assert [choice["message"]["content"] for choice in answer["choices"]] == TEXTS
    assert USAGE.items() <= answer["usage"].items()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_filter_reads_each_by_itself_and_changes_it_in_its_place(
    stream: bool, tmp_path: Path
) -> None:
    looks = Looks()
    async with relayed(tmp_path, MIXED, plugins=[looks]) as (one, _):
        if stream:
            shown = texts_of(frames_of(await streamed(one, CHAT, asked(stream=True))))
        else:
            _, answer = await one.post(CHAT, asked())
            shown = [choice["message"]["content"] for choice in answer["choices"]]
    assert looks.read == TEXTS
    assert shown == ["one two", "eins [masked]", "un deux"]


class Limits:
    """A plugin that sees what a call may write, and may let it write less."""

    name = "limits"

    def __init__(self, most: int | None = None) -> None:
        self.most, self.seen = most, 0

    @hookimpl
    def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest | None:
        self.seen = request.max_output_tokens
        return None if self.most is None else replace(request, max_output_tokens=self.most)


async def test_budgets_reserve_for_all_of_them_and_limit_each(tmp_path: Path) -> None:
    seen = Limits()
    async with relayed(tmp_path, MIXED, plugins=[seen]) as (one, upstream):
        await one.post(CHAT, asked(max_tokens=50))
        assert (seen.seen, upstream.requests[0]["max_tokens"]) == (150, 50)
        await one.post(CHAT, asked())
        assert seen.seen == 3 * 32_000
        assert not {"max_tokens", "max_completion_tokens"} & upstream.requests[1].keys()
    async with relayed(tmp_path, MIXED, plugins=[Limits(100)]) as (one, upstream):
        await one.post(CHAT, asked(max_tokens=50))
        assert (upstream.requests[0]["max_tokens"], upstream.requests[0]["n"]) == (33, 3)


async def test_a_secret_that_two_answers_would_make_together_is_none(tmp_path: Path) -> None:
    """What is held back of one answer is told before the next one begins."""
    secret = "sk-upstream-0123456789"
    answer = told((0, secret[:10]), (1, secret[10:]), (2, secret))
    async with relayed(tmp_path, answer) as (one, _):
        first, second, third = texts_of(frames_of(await streamed(one, CHAT, asked(stream=True))))
    assert (first, second) == (secret[:10], secret[10:])
    assert secret not in third


WRONG: list[tuple[Any, str]] = [
    ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tools"),
    ({"web_search_options": {"x": 1}}, "web_search_options"),
    ({"model": "anthropic/m"}, "another wire"),
    ({"n": 1000}, "1 to 128"),
    ({"n": 0}, "1 or more"),
    ({"model": "helper"}, "no word for it"),
    ({"model": "timed"}, "brings tools"),
]


@pytest.mark.parametrize(("more", "why"), WRONG)
async def test_what_cannot_be_is_a_400_that_names_both(more: Any, why: str, tmp_path: Path) -> None:
    aliases = {
        "helper": {"mode": "agent", "agent": "main", "to": ["openai/m"]},
        "timed": {"to": "openai/m", "mode": "assist", "tools": ["*"]},
    }
    async with relayed(tmp_path, MIXED, compat={"aliases": aliases}) as (one, upstream):
        status, answer = await one.post(CHAT, asked() | more)
        assert (status, answer["error"]["param"]) == (400, "n")
        assert why in answer["error"]["message"]
        assert upstream.requests == []


CALL = {"index": 0, "id": "x", "type": "function", "function": {"name": "x", "arguments": "{}"}}
BAD: list[list[Any]] = [
    told((0, "a"), (3, "beyond")),
    [piece(0, {"content": "a"}), piece(1, {"tool_calls": [CALL]}), "[DONE]"],
    [piece(0, {"content": "a"}), piece(0, {}, "stop"), piece(0, {"content": "again"}), "[DONE]"],
    [piece(0, {"content": "a"}), piece(0, {}, "stop"), piece(1, {"content": "cut"})],
]


@pytest.mark.parametrize("answer", BAD)
async def test_what_an_upstream_may_not_say_is_a_502(answer: list[Any], tmp_path: Path) -> None:
    async with relayed(tmp_path, answer) as (one, _):
        status, _ = await one.post(CHAT, asked())
        assert status == 502


async def test_fewer_answers_than_were_asked_for_are_those(tmp_path: Path) -> None:
    async with relayed(tmp_path, told((0, "only"))) as (one, _):
        _, answer = await one.post(CHAT, asked())
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["only"]


async def test_one_answer_is_asked_for_as_ever(tmp_path: Path) -> None:
    async with relayed(tmp_path, told((0, "only"))) as (one, upstream):
        status, _ = await one.post(CHAT, asked(1, tools=[]))
        assert (status, upstream.requests[0]["n"]) == (200, 1)
