"""Why an answer is over, for clients of another wire than its upstream's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.providers.transcripts import chunk
from tests.integration.test_compat_as_it_came import relayed
from tests.integration.test_compat_citations import PATHS, asked

STOPS = ["END", "FIN"]


def of_chat(**more: Any) -> list[Any]:
    last = chunk({}, "stop")
    last["choices"][0].update(more)
    return [chunk({"role": "assistant", "content": "so"}), last, "[DONE]"]


def of_messages(reason: str, matched: str | None = None) -> list[Any]:
    head = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "m"}
    usage = {"input_tokens": 3, "output_tokens": 2}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": "so"}
    ended = {"stop_reason": reason, "stop_sequence": matched}
    return [
        {"type": "message_start", "message": {**head, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, ("end_turn", None)),
        ({"stop_reason": "FIN"}, ("stop_sequence", "FIN")),
        ({"matched_stop": "END"}, ("stop_sequence", "END")),
        ({"stop_reason": 2}, ("end_turn", None)),
        ({"stop_reason": "eos"}, ("end_turn", None)),
    ],
)
async def test_which_text_has_ended_it_is_told_where_an_upstream_of_chat_says_it(
    more: Any, told: Any, tmp_path: Path
) -> None:
    async with relayed(tmp_path, of_chat(**more)) as (one, _):
        body = {**asked("messages", "chat"), "stop_sequences": STOPS}
        status, answer = await one.post(PATHS["messages"], body)
    assert (status, answer["stop_reason"], answer["stop_sequence"]) == (200, *told)


async def test_a_client_of_chat_is_told_it_as_some_servers_do(tmp_path: Path) -> None:
    async with relayed(tmp_path, of_messages("stop_sequence", "FIN")) as (one, _):
        body = {**asked("chat", "messages"), "stop": STOPS, "max_tokens": 9}
        status, answer = await one.post(PATHS["chat"], body)
    (choice,) = answer["choices"]
    assert (status, choice["finish_reason"], choice["stop_reason"]) == (200, "stop", "FIN")


async def test_an_answer_that_its_provider_has_paused_is_told_as_one_that_is_not_whole(
    tmp_path: Path,
) -> None:
    async with relayed(tmp_path, of_messages("pause_turn")) as (one, _):
        _, chat = await one.post(PATHS["chat"], asked("chat", "messages"))
        _, responses = await one.post(PATHS["responses"], asked("responses", "messages"))
        _, same = await one.post(PATHS["messages"], asked("messages", "messages"))
    assert chat["choices"][0]["finish_reason"] == "length"
    assert "stop_reason" not in chat["choices"][0]
    assert responses["status"] == "incomplete"
    assert responses["incomplete_details"] == {"reason": "max_output_tokens"}
    assert same["stop_reason"] == "pause_turn"
