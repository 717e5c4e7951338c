"""Reading what providers say of a call's tokens, for providers of one's own.

Every provider reports with other names and other overlaps: what was cached is part of the input
at one and stands beside it at another, and so do thoughts and the output. Each function here
reads one of the shapes into a `hookgate.Usage`, whose counts are disjoint: what is one thing is
counted once, so that nothing is billed twice, and nothing is left out.

Figures that cannot be true are a `UsageError`: a fault of the provider, never a smaller bill.
`StreamedUsage` is for answers that report more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hookgate.core.domain.models import Usage
from hookgate.core.turn.tools.sound import MAX_TOKENS, note_usage, sound_usage

__all__ = [
    "StreamedUsage",
    "UsageError",
    "UsageMissingError",
    "UsageNegativeError",
    "anthropic_messages",
    "as_anthropic_messages",
    "as_openai_chat",
    "count_of",
    "gemini_content",
    "llama_cpp_completion",
    "note_usage",
    "ollama_chat",
    "openai_chat",
    "openai_responses",
    "table_of",
]


class UsageError(ValueError):
    """A reported figure cannot be true: negative, no whole number, or larger than its whole."""


class UsageNegativeError(UsageError):
    """A reported figure is less than nothing."""


class UsageMissingError(UsageError):
    """The figures that everything else is a part of were not reported."""


# -- figures -----------------------------------------------------------------


def table_of(usage: object, name: str = "usage") -> Mapping[str, Any]:
    """Return a table of figures, {} where there is none.

    Raises:
        UsageError: Something else stands there.
    """
    if usage is None:
        return {}
    if not isinstance(usage, dict):
        raise UsageError(f"found {name} = {_shown(usage)}, expected an object")
    return usage


def count_of(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the count under the first of `names` that is there, or None.

    Raises:
        UsageError: What stands there is no possible count.
    """
    for name in names:
        value = usage.get(name)
        if value is None:
            continue
        if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_TOKENS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TOKENS:
            negative = isinstance(value, int | float) and value < 0
            raise (UsageNegativeError if negative else UsageError)(
                f"found {name} = {_shown(value)}, expected 0 to {MAX_TOKENS} as a number"
            )
        return value
    return None


def _shown(value: object) -> str:
    """Return a value for people, short; neither depth nor digits of it can do harm."""
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return repr(str(value)[:40])


def _needed(usage: Mapping[str, Any], *names: str) -> int:
    count = count_of(usage, *names)
    if count is None:
        raise UsageMissingError(f"found usage without {names[0]}, expected a number")
    return count


def _part(whole: int, name: str, table: Mapping[str, Any], *names: str) -> int:
    """Return a part of `whole`, 0 where it is not reported.

    Raises:
        UsageError: It is more than the whole.
    """
    count = count_of(table, *names) or 0
    if count > whole:
        raise UsageError(f"found {count} {names[0]} of {whole} {name}, expected a part of them")
    return count


def _sound(usage: Usage) -> Usage:
    if sound_usage(usage) is None:
        raise UsageError(f"found {usage.total} tokens of one call, expected {MAX_TOKENS} at most")
    return usage


# -- OpenAI, and those who speak its protocols -------------------------------------


def openai_chat(usage: object) -> Usage:
    """Read `usage` of Chat Completions.

    ``prompt_tokens`` hold what was cached and heard, ``completion_tokens`` what was thought and
    spoken. It is the shape of vLLM, Ollama's ``/v1``, llama.cpp, Mistral, OpenRouter, DeepSeek
    (``prompt_cache_hit_tokens``) and Gemini's compatible answers as well. Of those who leave
    thoughts out of ``completion_tokens``, as Gemini and xAI do, ``total_tokens`` has them.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(usage)
    return _openai(table, "prompt_tokens", "completion_tokens")


def openai_responses(usage: object) -> Usage:
    """Read `usage` of the Responses API: ``input_tokens`` and ``output_tokens`` hold their parts.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(usage)
    return _openai(table, "input_tokens", "output_tokens")


def _openai(table: Mapping[str, Any], read: str, written: str) -> Usage:
    given, said = _needed(table, read), _needed(table, written)
    beyond = max((count_of(table, "total_tokens") or 0) - given - said, 0)
    inside = table_of(table.get(f"{read}_details"), f"{read}_details")
    outside = table_of(table.get(f"{written}_details"), f"{written}_details")
    # What the total has beyond both was thought and left out of `said`.
    whole = said + beyond
    reasoning, audio_out, image_out = beyond, 0, 0
    if outside:
        reasoning = max(_part(whole, written, outside, "reasoning_tokens"), beyond)
        audio_out = _part(whole - reasoning, written, outside, "audio_tokens")
        image_out = _part(whole - reasoning - audio_out, written, outside, "image_tokens")
    beside = {**table, **_present(inside)} if inside else table
    cached = _part(given, read, beside, "cached_tokens", *CACHED_BESIDE)
    stored, audio, image = 0, 0, 0
    if inside:
        stored = _part(given, read, inside, "cache_write_tokens", "cache_creation_tokens")
        of_cache = table_of(inside.get("cached_tokens_details"), "cached_tokens_details")
        audio = _part(given, read, inside, "audio_tokens")
        audio -= _part(min(audio, cached), "cached_tokens", of_cache, "audio_tokens")
        image = _part(given, read, inside, "image_tokens")
        image -= _part(min(image, cached), "cached_tokens", of_cache, "image_tokens")
    return _sound(
        _apart(given, stored=stored, cached=cached, audio=audio, image=image)
        + Usage(
            output_tokens=whole - reasoning - audio_out - image_out,
            reasoning_tokens=reasoning,
            audio_output_tokens=audio_out,
            image_output_tokens=image_out,
        )
    )


CACHED_BESIDE = ("prompt_cache_hit_tokens", "num_cached_tokens")
"""Where DeepSeek and Mistral say what was cached, beside the details or without them."""


def _present(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if value is not None}


def _apart(given: int, *, stored: int, cached: int, audio: int, image: int) -> Usage:
    """Return disjoint counts of input, of parts that may overlap.

    Parts of which nobody says that they overlap are taken not to. Where they are more than
    the whole together, what is too much is two things: written and read again, or heard and
    cached.
    """
    cached = min(cached, given - stored)
    audio = min(audio, given - stored - cached)
    image = min(image, given - stored - cached - audio)
    return Usage(
        input_tokens=given - stored - cached - audio - image,
        cache_write_tokens=stored,
        cache_read_tokens=cached,
        audio_input_tokens=audio,
        image_input_tokens=image,
    )


# -- Anthropic ---------------------------------------------------------------------

APART = ("compaction", "advisor_message")
"""Iterations that the figures above them leave out."""


def anthropic_messages(usage: object) -> Usage:
    """Read `usage` of the Messages API: of an answer, or of the events of a stream together.

    ``input_tokens`` hold neither what was read from the cache nor what was written to it. How
    long it is held stands in ``cache_creation``. Thinking is part of ``output_tokens``. What a
    compaction or an advisor took stands in ``iterations`` alone, and is added.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(usage)
    counts = _anthropic(table)
    iterations = table.get("iterations")
    if iterations is not None:
        if not isinstance(iterations, list):
            raise UsageError(f"found iterations = {_shown(iterations)}, expected a list")
        for number, item in enumerate(iterations):
            iteration = table_of(item, f"iterations[{number}]")
            if iteration.get("type") in APART:
                counts += _anthropic(iteration)
    return _sound(counts)


def _anthropic(table: Mapping[str, Any]) -> Usage:
    given, said = _needed(table, "input_tokens"), _needed(table, "output_tokens")
    name = "cache_creation"
    held = table_of(table.get(name), name)
    hour = count_of(held, "ephemeral_1h_input_tokens") or 0
    minutes = count_of(held, "ephemeral_5m_input_tokens") or 0
    stored = count_of(table, "cache_creation_input_tokens")
    if stored is None:
        stored = hour + minutes
    if hour + minutes > stored:
        raise UsageError(
            f"found {minutes} and {hour} tokens in cache_creation of {stored} "
            "cache_creation_input_tokens, expected parts of them"
        )
    if hour and not minutes:
        hour = stored  # What the parts do not account for is held as long as the rest.
    name = "output_tokens_details"
    thought = _part(said, "output_tokens", table_of(table.get(name), name), "thinking_tokens")
    return Usage(
        input_tokens=given,
        cache_read_tokens=count_of(table, "cache_read_input_tokens") or 0,
        cache_write_tokens=stored - hour,
        cache_write_hour_tokens=hour,
        output_tokens=said - thought,
        reasoning_tokens=thought,
    )


# -- and written, for clients that speak these protocols -------------------------------


def as_openai_chat(usage: Usage) -> dict[str, Any]:
    """Return usage as Chat Completions has it: the parts are parts of the sums."""
    given: dict[str, int] = {
        "cached_tokens": usage.cache_read_tokens,
        "audio_tokens": usage.audio_input_tokens,
    }
    if written := usage.cache_write_tokens + usage.cache_write_hour_tokens:
        given["cache_write_tokens"] = written
    if usage.image_input_tokens:
        given["image_tokens"] = usage.image_input_tokens
    said = {
        "reasoning_tokens": usage.reasoning_tokens,
        "audio_tokens": usage.audio_output_tokens,
    }
    if usage.image_output_tokens:
        said["image_tokens"] = usage.image_output_tokens
    return {
        "prompt_tokens": usage.total_input,
        "completion_tokens": usage.total_output,
        "total_tokens": usage.total,
        "prompt_tokens_details": given,
        "completion_tokens_details": said,
    }


def as_anthropic_messages(usage: Usage) -> dict[str, Any]:
    """Return usage as Messages has it: what was cached stands beside the rest of the input."""
    written, hour = usage.cache_write_tokens, usage.cache_write_hour_tokens
    counts: dict[str, Any] = {
        "input_tokens": usage.input_tokens + usage.audio_input_tokens + usage.image_input_tokens,
        "cache_creation_input_tokens": written + hour,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.total_output,
    }
    if hour:
        counts["cache_creation"] = {
            "ephemeral_5m_input_tokens": written,
            "ephemeral_1h_input_tokens": hour,
        }
    if usage.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counts


# -- Gemini ------------------------------------------------------------------------


def gemini_content(usage: object) -> Usage:
    """Read ``usageMetadata`` of Gemini's own API.

    ``promptTokenCount`` holds what was cached; thoughts, candidates and what tools brought in
    (``toolUsePromptTokenCount``) stand beside each other. Audio and images are told by modality.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(usage, "usageMetadata")
    given = _needed(table, "promptTokenCount")
    tools = count_of(table, "toolUsePromptTokenCount") or 0
    said = count_of(table, "candidatesTokenCount", "responseTokenCount") or 0
    thought = count_of(table, "thoughtsTokenCount") or 0
    beyond = max((count_of(table, "totalTokenCount") or 0) - given - tools - said - thought, 0)
    cached = _part(given, "promptTokenCount", table, "cachedContentTokenCount")
    heard, seen = _modalities(table, given, "promptTokensDetails")
    heard_again, seen_again = _modalities(table, cached, "cacheTokensDetails")
    heard_of_tools, seen_of_tools = _modalities(table, tools, "toolUsePromptTokensDetails")
    name = (
        "candidatesTokensDetails" if "candidatesTokensDetails" in table else "responseTokensDetails"
    )
    spoken, drawn = _modalities(table, said, name)
    inputs = _apart(
        given,
        stored=0,
        cached=cached,
        audio=max(heard - heard_again, 0),
        image=max(seen - seen_again, 0),
    )
    brought = _apart(tools, stored=0, cached=0, audio=heard_of_tools, image=seen_of_tools)
    return _sound(
        inputs
        + brought
        + Usage(
            output_tokens=said - spoken - drawn + beyond,
            reasoning_tokens=thought,
            audio_output_tokens=spoken,
            image_output_tokens=drawn,
        )
    )


def _modalities(table: Mapping[str, Any], whole: int, name: str) -> tuple[int, int]:
    """Return how much of `whole` is audio, and how much is images."""
    details = table.get(name)
    if details is None:
        return 0, 0
    if not isinstance(details, list):
        raise UsageError(f"found {name} = {_shown(details)}, expected a list")
    found = {"AUDIO": 0, "IMAGE": 0}
    for number, item in enumerate(details):
        detail = table_of(item, f"{name}[{number}]")
        kind, count = detail.get("modality"), count_of(detail, "tokenCount") or 0
        if isinstance(kind, str) and kind.upper() in found:
            found[kind.upper()] += count
    if sum(found.values()) > whole:
        raise UsageError(f"found {sum(found.values())} tokens in {name} of {whole}")
    return found["AUDIO"], found["IMAGE"]


# -- local servers -----------------------------------------------------------------


def ollama_chat(answer: object) -> Usage:
    """Read the last object of Ollama's own API, which counts beside the message.

    ``prompt_eval_count`` is left out where all of the prompt was still in memory.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(answer, "answer")
    said = _needed(table, "eval_count")
    return Usage(input_tokens=count_of(table, "prompt_eval_count") or 0, output_tokens=said)


def llama_cpp_completion(answer: object) -> Usage:
    """Read an answer of llama.cpp: ``timings``, or the counts of ``/completion``.

    ``prompt_n`` leaves out what was still in memory (``cache_n``). ``tokens_cached`` is no part
    of the prompt: it is all that the memory holds afterwards, the answer included.

    Raises:
        UsageError: It cannot be true.
    """
    table = table_of(answer, "answer")
    timings = table_of(table.get("timings"), "timings")
    if count_of(timings, "predicted_n") is not None:
        fresh = _needed(timings, "prompt_n")
        cached = count_of(timings, "cache_n")
        if cached is None:
            # Servers that do not tell it yet; the count of `/completion` has both.
            cached = max((count_of(table, "tokens_evaluated") or 0) - fresh, 0)
        said = _needed(timings, "predicted_n")
        return Usage(input_tokens=fresh, cache_read_tokens=cached, output_tokens=said)
    given, said = _needed(table, "tokens_evaluated"), _needed(table, "tokens_predicted")
    return Usage(input_tokens=given, output_tokens=said)


# -- streams -----------------------------------------------------------------------


class StreamedUsage:
    """The usage of one streamed answer, out of all that is reported on its way.

    Each report is cumulative: it stands for what came before, and is not added to it. What one
    leaves out is as it was. Figures never fall; where they do, or where one of them cannot be
    true, the largest are kept, and the usage is not marked as reported: the gateway then counts
    for itself, and takes no less than these.

    Args:
        read: Reads all that was reported so far, such as `openai_chat`.
        output: The name of the count of output; it is 0 until it is reported.

    Attributes:
        negative: What was less than nothing of what was reported; "" where nothing was.
    """

    def __init__(self, read: Callable[[object], Usage], output: str) -> None:
        self._read = read
        self._output = output
        self._raw: dict[str, Any] = {}
        self._usage: Usage | None = None
        self._told: Usage | None = None
        self._missing = ""
        self._faulty = False
        self.negative = ""

    def take(self, found: object) -> None:
        """Take one report in. What it does not have yet is waited for.

        Raises:
            UsageError: It cannot be true.
        """
        try:
            raw = {**self._raw, **_present(table_of(found))}
            try:
                usage = self._read({self._output: 0, **raw})
            except UsageMissingError as error:
                self._raw, self._missing = raw, str(error)
                return
        except UsageError as error:
            self._faulty = True
            if isinstance(error, UsageNegativeError):
                self.negative = str(error)
            raise
        self._raw = raw
        before = self._usage
        if before is None:
            self._usage = usage
            return
        if usage.total_output < before.total_output:
            self._faulty = True
            usage = _with_side(usage, before, Usage.OUTPUTS)
        if usage.total_input < before.total_input:
            usage = _with_side(usage, before, Usage.INPUTS)
        self._usage = usage

    def news(self, *, done: bool) -> Usage | None:
        """Return the usage so far, None where it is what was returned before.

        Args:
            done: Whether nothing more is to come. Before that, it is not marked as reported.
        """
        if self._usage is None:
            return None
        reported = done and not self._faulty and self._output in self._raw
        usage = self._usage
        if usage.reported != reported:
            usage = replace(usage, reported=reported)
        if usage is self._told or usage == self._told:
            return None
        self._told = usage
        return usage

    @property
    def missing(self) -> str:
        """What was left out of all that was reported; "" where nothing was."""
        if self._faulty or (self._usage is not None and self._output in self._raw):
            return ""
        return self._missing or f"found usage without {self._output}, expected a number"


def _with_side(usage: Usage, other: Usage, names: tuple[str, ...]) -> Usage:
    return replace(usage, **{name: getattr(other, name) for name in names})
