"""What providers report, read into disjoint counts: each shape of theirs, exactly, and no lie."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate import Usage
from hookgate.core.turn.tools.sound import sound_usage
from hookgate.kit.usage import (
    StreamedUsage,
    UsageError,
    UsageMissingError,
    anthropic_messages,
    gemini_content,
    llama_cpp_completion,
    ollama_chat,
    openai_chat,
    openai_responses,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Reading = tuple["Callable[[object], Usage]", Any, Usage]

READINGS: dict[str, Reading] = {
    "chat: cached and reasoning tokens are parts, not more": (
        openai_chat,
        {
            "prompt_tokens": 2006,
            "completion_tokens": 300,
            "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 128,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 7,
            },
        },
        Usage(input_tokens=86, cache_read_tokens=1920, output_tokens=172, reasoning_tokens=128),
    ),
    "chat: what was written to the cache is a part of the prompt": (
        openai_chat,
        {
            "prompt_tokens": 5000,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 3072},
        },
        Usage(input_tokens=904, cache_read_tokens=1024, cache_write_tokens=3072, output_tokens=10),
    ),
    "chat: audio in the prompt and in the answer": (
        openai_chat,
        {
            "prompt_tokens": 150,
            "completion_tokens": 210,
            "total_tokens": 360,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 100, "text_tokens": 50},
            "completion_tokens_details": {"audio_tokens": 180, "text_tokens": 30},
        },
        Usage(input_tokens=50, audio_input_tokens=100, output_tokens=30, audio_output_tokens=180),
    ),
    "chat: cached audio is counted once": (
        openai_chat,
        {
            "prompt_tokens": 150,
            "completion_tokens": 0,
            "prompt_tokens_details": {
                "cached_tokens": 64,
                "audio_tokens": 100,
                "cached_tokens_details": {"text_tokens": 24, "audio_tokens": 40},
            },
        },
        Usage(input_tokens=26, cache_read_tokens=64, audio_input_tokens=60),
    ),
    "chat: cached audio that is known by the sum alone is counted once": (
        openai_chat,
        {
            "prompt_tokens": 150,
            "completion_tokens": 0,
            "prompt_tokens_details": {"cached_tokens": 128, "audio_tokens": 100},
        },
        Usage(cache_read_tokens=128, audio_input_tokens=22),
    ),
    "chat: pictures": (
        openai_chat,
        {
            "prompt_tokens": 500,
            "completion_tokens": 4200,
            "prompt_tokens_details": {"image_tokens": 323},
            "completion_tokens_details": {"image_tokens": 4160},
        },
        Usage(input_tokens=177, image_input_tokens=323, output_tokens=40, image_output_tokens=4160),
    ),
    "responses": (
        openai_responses,
        {
            "input_tokens": 328,
            "input_tokens_details": {"cached_tokens": 256, "cache_write_tokens": 0},
            "output_tokens": 1052,
            "output_tokens_details": {"reasoning_tokens": 1024},
            "total_tokens": 1380,
        },
        Usage(input_tokens=72, cache_read_tokens=256, output_tokens=28, reasoning_tokens=1024),
    ),
    "anthropic: the cache stands beside the input": (
        anthropic_messages,
        {
            "input_tokens": 50,
            "cache_creation_input_tokens": 248,
            "cache_read_input_tokens": 100_000,
            "output_tokens": 503,
            "service_tier": "standard",
            "server_tool_use": {"web_search_requests": 2},
        },
        Usage(
            input_tokens=50, cache_read_tokens=100_000, cache_write_tokens=248, output_tokens=503
        ),
    ),
    "anthropic: writes for five minutes and for an hour": (
        anthropic_messages,
        {
            "input_tokens": 2048,
            "cache_read_input_tokens": 1800,
            "cache_creation_input_tokens": 248,
            "output_tokens": 503,
            "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100},
        },
        Usage(
            input_tokens=2048,
            cache_read_tokens=1800,
            cache_write_tokens=148,
            cache_write_hour_tokens=100,
            output_tokens=503,
        ),
    ),
    "anthropic: thinking is a part of the output": (
        anthropic_messages,
        {
            "input_tokens": 10,
            "output_tokens": 700,
            "output_tokens_details": {"thinking_tokens": 640},
        },
        Usage(input_tokens=10, output_tokens=60, reasoning_tokens=640),
    ),
    "anthropic: a compaction is left out of the figures above it": (
        anthropic_messages,
        {
            "input_tokens": 23_000,
            "output_tokens": 1_000,
            "iterations": [
                {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
                {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
            ],
        },
        Usage(input_tokens=203_000, output_tokens=4_500),
    ),
    "gemini: thoughts stand beside the candidates": (
        gemini_content,
        {
            "promptTokenCount": 21,
            "candidatesTokenCount": 9,
            "thoughtsTokenCount": 60,
            "totalTokenCount": 90,
        },
        Usage(input_tokens=21, output_tokens=9, reasoning_tokens=60),
    ),
    "gemini: cached content is a part of the prompt, what tools brought in is not": (
        gemini_content,
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 800,
            "toolUsePromptTokenCount": 55,
            "candidatesTokenCount": 12,
            "totalTokenCount": 1067,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
            "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 800}],
        },
        Usage(input_tokens=255, cache_read_tokens=800, output_tokens=12),
    ),
    "gemini: modalities, some of them cached": (
        gemini_content,
        {
            "promptTokenCount": 1000,
            "cachedContentTokenCount": 500,
            "candidatesTokenCount": 1300,
            "promptTokensDetails": [
                {"modality": "TEXT", "tokenCount": 100},
                {"modality": "AUDIO", "tokenCount": 600},
                {"modality": "IMAGE", "tokenCount": 258},
                {"modality": "DOCUMENT", "tokenCount": 42},
            ],
            "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 500}],
            "candidatesTokensDetails": [
                {"modality": "TEXT", "tokenCount": 10},
                {"modality": "IMAGE", "tokenCount": 1290},
            ],
        },
        Usage(
            input_tokens=142,
            cache_read_tokens=500,
            audio_input_tokens=100,
            image_input_tokens=258,
            output_tokens=10,
            image_output_tokens=1290,
        ),
    ),
    "gemini's compatible answers: thoughts stand in the total alone": (
        openai_chat,
        {"prompt_tokens": 20, "completion_tokens": 424, "total_tokens": 1016},
        Usage(input_tokens=20, output_tokens=424, reasoning_tokens=572),
    ),
    "gemini's compatible answers: nothing but thoughts": (
        openai_chat,
        {
            "prompt_tokens": 21,
            "completion_tokens": 0,
            "total_tokens": 81,
            "completion_tokens_details": {"reasoning_tokens": 60},
        },
        Usage(input_tokens=21, reasoning_tokens=60),
    ),
    "xai: thoughts beside the completion": (
        openai_chat,
        {
            "prompt_tokens": 32,
            "completion_tokens": 9,
            "total_tokens": 135,
            "prompt_tokens_details": {"text_tokens": 32, "cached_tokens": 6, "image_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 94, "audio_tokens": 0},
        },
        Usage(input_tokens=26, cache_read_tokens=6, output_tokens=9, reasoning_tokens=94),
    ),
    "vllm": (
        openai_chat,
        {
            "prompt_tokens": 9,
            "total_tokens": 27,
            "completion_tokens": 18,
            "prompt_tokens_details": None,
        },
        Usage(input_tokens=9, output_tokens=18),
    ),
    "ollama, its own": (
        ollama_chat,
        {"done": True, "eval_count": 298, "prompt_eval_count": 26, "eval_duration": 4709213000},
        Usage(input_tokens=26, output_tokens=298),
    ),
    "ollama, a prompt that was in memory": (
        ollama_chat,
        {"done": True, "eval_count": 298},
        Usage(output_tokens=298),
    ),
    "ollama, compatible": (
        openai_chat,
        {"prompt_tokens": 26, "completion_tokens": 298, "total_tokens": 324},
        Usage(input_tokens=26, output_tokens=298),
    ),
    "llama.cpp: timings": (
        llama_cpp_completion,
        {"timings": {"cache_n": 236, "prompt_n": 1, "predicted_n": 35, "predicted_ms": 661.064}},
        Usage(input_tokens=1, cache_read_tokens=236, output_tokens=35),
    ),
    "llama.cpp: tokens_cached holds the answer as well": (
        llama_cpp_completion,
        {"tokens_evaluated": 237, "tokens_predicted": 35, "tokens_cached": 271},
        Usage(input_tokens=237, output_tokens=35),
    ),
    "llama.cpp: timings that do not tell what was in memory": (
        llama_cpp_completion,
        {
            "tokens_evaluated": 237,
            "tokens_predicted": 35,
            "tokens_cached": 271,
            "timings": {"prompt_n": 1, "predicted_n": 35},
        },
        Usage(input_tokens=1, cache_read_tokens=236, output_tokens=35),
    ),
    "deepseek: hits and misses are the prompt": (
        openai_chat,
        {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_cache_hit_tokens": 896,
            "prompt_cache_miss_tokens": 104,
            "prompt_tokens_details": {"cached_tokens": 896},
            "completion_tokens_details": {"reasoning_tokens": 20},
        },
        Usage(input_tokens=104, cache_read_tokens=896, output_tokens=30, reasoning_tokens=20),
    ),
    "openrouter": (
        openai_chat,
        {
            "prompt_tokens": 194,
            "completion_tokens": 2,
            "total_tokens": 196,
            "cost": 0.95,
            "cost_details": {"upstream_inference_cost": 19},
            "prompt_tokens_details": {
                "cached_tokens": 0,
                "cache_write_tokens": 100,
                "audio_tokens": 0,
            },
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        Usage(input_tokens=94, cache_write_tokens=100, output_tokens=2),
    ),
    "mistral": (
        openai_chat,
        {
            "prompt_tokens": 400,
            "completion_tokens": 33,
            "total_tokens": 433,
            "num_cached_tokens": 320,
            "prompt_audio_seconds": None,
        },
        Usage(input_tokens=80, cache_read_tokens=320, output_tokens=33),
    ),
}


@pytest.mark.parametrize("case", READINGS)
def test_what_a_provider_reports_is_read_into_disjoint_counts(case: str) -> None:
    read, found, expected = READINGS[case]
    assert read(found) == expected
    assert read(json.loads(json.dumps(found))).reported


# -- what cannot be true -----------------------------------------------------------

LIES = [-1, math.nan, math.inf, 1e30, 1.5, "12", True, [3], {"a": 1}, 10**9 + 1, 10**6000]
PLACES: list[tuple[Callable[[object], Usage], dict[str, Any], tuple[str, ...]]] = [
    (openai_chat, {"prompt_tokens": 5, "completion_tokens": 5}, path)
    for path in (
        ("prompt_tokens",),
        ("completion_tokens",),
        ("total_tokens",),
        ("prompt_cache_hit_tokens",),
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "audio_tokens"),
        ("prompt_tokens_details", "cached_tokens_details", "audio_tokens"),
        ("completion_tokens_details", "reasoning_tokens"),
        ("completion_tokens_details", "image_tokens"),
    )
]
PLACES += [
    (anthropic_messages, {"input_tokens": 5, "output_tokens": 5}, path)
    for path in (
        ("input_tokens",),
        ("output_tokens",),
        ("cache_read_input_tokens",),
        ("cache_creation_input_tokens",),
        ("cache_creation", "ephemeral_1h_input_tokens"),
        ("cache_creation", "ephemeral_5m_input_tokens"),
        ("output_tokens_details", "thinking_tokens"),
    )
]
PLACES += [
    (gemini_content, {"promptTokenCount": 5}, (name,))
    for name in (
        "promptTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
        "totalTokenCount",
        "toolUsePromptTokenCount",
        "cachedContentTokenCount",
    )
]
PLACES += [
    (ollama_chat, {"eval_count": 5}, ("prompt_eval_count",)),
    (ollama_chat, {}, ("eval_count",)),
    (llama_cpp_completion, {"timings": {"predicted_n": 5}}, ("timings", "prompt_n")),
    (llama_cpp_completion, {"timings": {"prompt_n": 5}}, ("timings", "predicted_n")),
    (openai_responses, {"output_tokens": 5}, ("input_tokens",)),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(place[2]))
def test_an_impossible_figure_is_a_fault_of_the_provider(
    place: tuple[Callable[[object], Usage], dict[str, Any], tuple[str, ...]],
) -> None:
    read, whole, path = place
    for lie in LIES:
        found: dict[str, Any] = json.loads(json.dumps(whole))
        table = found
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = lie
        try:
            read(found)
        except UsageError as error:
            assert "expected" in str(error)
        else:
            pytest.fail(f"one of type {type(lie).__name__} was taken for a figure")


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (openai_chat, {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}),
        (openai_chat, {"prompt_tokens": 5, "prompt_tokens_details": {"cache_write_tokens": 6}}),
        (openai_chat, {"prompt_tokens": 5, "prompt_tokens_details": {"audio_tokens": 6}}),
        (openai_chat, {"prompt_tokens": 5, "prompt_cache_hit_tokens": 6}),
        (openai_chat, {"prompt_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}}),
        (openai_chat, {"prompt_tokens": 5, "prompt_tokens_details": [1]}),
        (openai_chat, {"prompt_tokens": 5, "prompt_tokens_details": "none"}),
        (anthropic_messages, {"input_tokens": 1, "output_tokens_details": {"thinking_tokens": 3}}),
        (
            anthropic_messages,
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 5,
                "cache_creation": {"ephemeral_1h_input_tokens": 6},
            },
        ),
        (anthropic_messages, {"input_tokens": 1, "iterations": {"type": "compaction"}}),
        (anthropic_messages, {"input_tokens": 1, "iterations": [7]}),
        (anthropic_messages, {"input_tokens": 1, "iterations": [{"type": "compaction"}]}),
        (gemini_content, {"promptTokenCount": 5, "cachedContentTokenCount": 6}),
        (gemini_content, {"promptTokenCount": 5, "promptTokensDetails": {"modality": "AUDIO"}}),
        (
            gemini_content,
            {
                "promptTokenCount": 5,
                "promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 6}],
            },
        ),
    ],
)
def test_parts_that_do_not_fit_into_their_wholes_are_a_fault(
    read: Callable[[object], Usage], found: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        read({"completion_tokens": 2, "output_tokens": 2, **found})


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (openai_chat, None),
        (openai_chat, {}),
        (openai_chat, {"prompt_tokens": 5}),
        (openai_chat, {"completion_tokens": 5, "prompt_tokens": None}),
        (openai_responses, {"prompt_tokens": 5, "completion_tokens": 5}),
        (anthropic_messages, {"output_tokens": 5}),
        (gemini_content, {"candidatesTokenCount": 5}),
        (ollama_chat, {"prompt_eval_count": 5}),
        (llama_cpp_completion, {"tokens_evaluated": 5, "timings": None}),
    ],
)
def test_usage_without_its_wholes_is_missing(
    read: Callable[[object], Usage], found: object
) -> None:
    with pytest.raises(UsageMissingError, match="found usage without"):
        read(found)


READERS = (
    openai_chat,
    openai_responses,
    anthropic_messages,
    gemini_content,
    ollama_chat,
    llama_cpp_completion,
)
NAMES = sorted(
    {
        name
        for _, found, _ in READINGS.values()
        for table in (found, *(value for value in found.values() if isinstance(value, dict)))
        for name in table
    }
    | {"cached_tokens_details", "iterations"}
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 50)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["12", "AUDIO", "IMAGE", "compaction", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "modality", "tokenCount", "type"]), inner)
    ),
    max_leaves=12,
)


@given(read=st.sampled_from(READERS), found=JSON | st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_json_is_sound_usage_or_a_fault(read: Callable[[object], Usage], found: Any) -> None:
    try:
        usage = read(found)
    except UsageError:
        return
    assert sound_usage(usage) is usage
    assert usage.reported


@given(
    prompt=st.integers(0, 10**6),
    completion=st.integers(0, 10**6),
    total=st.none() | st.integers(0, 10**7),
    details=st.dictionaries(
        st.sampled_from(["cached_tokens", "cache_write_tokens", "audio_tokens", "image_tokens"]),
        st.integers(0, 10**6),
    ),
)
def test_no_token_is_lost_and_none_is_counted_twice(
    prompt: int, completion: int, total: int | None, details: dict[str, int]
) -> None:
    found = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {name: min(part, prompt) for name, part in details.items()},
    }
    usage = openai_chat(found)
    assert usage.total_input == prompt
    assert usage.total == max(total or 0, prompt + completion)


# -- streams -----------------------------------------------------------------------


def of_chat(*reports: Any) -> Usage | None:
    streamed, last = StreamedUsage(openai_chat, "completion_tokens"), None
    for report in reports:
        streamed.take(report)
        last = streamed.news(done=False) or last
    return streamed.news(done=True) or last


def of_anthropic(*reports: Any) -> Usage | None:
    streamed = StreamedUsage(anthropic_messages, "output_tokens")
    for report in reports:
        streamed.take(report)
    return streamed.news(done=True)


def test_usage_that_is_given_twice_is_counted_once() -> None:
    report = {"prompt_tokens": 10, "completion_tokens": 4}
    assert of_chat(report, report) == Usage(input_tokens=10, output_tokens=4)


def test_cumulative_figures_replace_each_other() -> None:
    reports = [{"prompt_tokens": 10, "completion_tokens": count} for count in (0, 1, 2, 7)]
    assert of_chat(*reports) == Usage(input_tokens=10, output_tokens=7)


def test_figures_that_fall_are_no_bill() -> None:
    """Of a server that sends what each chunk took by itself."""
    reports = [{"prompt_tokens": 10, "completion_tokens": count} for count in (3, 5, 2)]
    assert of_chat(*reports) == Usage(input_tokens=10, output_tokens=5, reported=False)


def test_a_message_delta_says_again_what_the_start_has_said() -> None:
    start = {
        "input_tokens": 25,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 900,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100},
        "output_tokens": 1,
    }
    delta = {
        "input_tokens": 25,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 900,
        "output_tokens": 89,
    }
    assert of_anthropic(start, delta) == Usage(
        input_tokens=25, cache_read_tokens=900, cache_write_hour_tokens=100, output_tokens=89
    )


def test_a_part_that_is_told_later_is_not_added_to_its_whole() -> None:
    """Of a server that learns what was cached only at the end."""
    start = {"input_tokens": 1000, "output_tokens": 0}
    delta = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 5}
    assert of_anthropic(start, delta) == Usage(
        input_tokens=100, cache_read_tokens=900, output_tokens=5
    )


def test_a_lie_does_not_take_back_what_was_reported_before() -> None:
    streamed = StreamedUsage(openai_chat, "completion_tokens")
    streamed.take({"prompt_tokens": 10, "completion_tokens": 4})
    with pytest.raises(UsageError):
        streamed.take({"prompt_tokens": -10, "completion_tokens": 9})
    told = Usage(input_tokens=10, output_tokens=4, reported=False)
    assert streamed.news(done=True) == told
    streamed.take({"prompt_tokens": 10, "completion_tokens": 6})
    assert streamed.news(done=True) == Usage(input_tokens=10, output_tokens=6, reported=False)


def test_input_alone_is_told_but_not_as_reported() -> None:
    streamed = StreamedUsage(openai_chat, "completion_tokens")
    streamed.take({"prompt_tokens": 10})
    assert streamed.news(done=True) == Usage(input_tokens=10, reported=False)
    assert "completion_tokens" in streamed.missing


def test_news_are_told_once() -> None:
    streamed = StreamedUsage(openai_chat, "completion_tokens")
    assert streamed.news(done=False) is None
    streamed.take({"prompt_tokens": 10, "completion_tokens": 4})
    assert streamed.news(done=False) == Usage(input_tokens=10, output_tokens=4, reported=False)
    assert streamed.news(done=False) is None
    assert streamed.news(done=True) == Usage(input_tokens=10, output_tokens=4)
    assert streamed.news(done=True) is None


@given(
    reports=st.lists(
        st.fixed_dictionaries(
            {"prompt_tokens": st.integers(-1, 50), "completion_tokens": st.integers(-1, 50)},
            optional={
                "total_tokens": st.integers(-1, 200),
                "prompt_tokens_details": st.dictionaries(
                    st.sampled_from(["cached_tokens", "audio_tokens"]), st.integers(-1, 60)
                ),
            },
        ),
        max_size=5,
    )
)
def test_no_report_lowers_what_a_sound_one_has_said(reports: list[Any]) -> None:
    streamed = StreamedUsage(openai_chat, "completion_tokens")
    floor_in = floor_out = 0
    for report in reports:
        try:
            streamed.take(report)
        except UsageError:
            continue
        usage = openai_chat({**report})
        floor_in = max(floor_in, usage.total_input)
        floor_out = max(floor_out, usage.total_output)
    last = streamed.news(done=True) or Usage()
    assert last.total_input >= floor_in
    assert last.total_output >= floor_out
