"""What a provider can truly have billed for one call: the window that its figures must lie in.

The edges are made of the request and of what was said, by what holds for every tokenizer. A token
is one of some 250,000 at most, so it tells 18 bits at most, a little over two bytes; what is left
of a text once it has been compressed is about what it tells. And text has no more tokens than
bytes. Between the edges the provider knows best.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hookgate.core.domain.models import (
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolUseEvent,
    Usage,
)
from hookgate.core.host import Host, QuarterTokens
from hookgate.core.turn.context import message_tokens
from hookgate.core.turn.tools.sound import at_least, bytes_of, note_usage
from hookgate.kit.tokens.bounds import input_bound, sizes_of
from hookgate.kit.tokens.sizes import typical_of_text, typical_tokens

FAR = 4
"""So many times below what is typical a figure is looked at closely: no tokenizer is so far off."""
BYTES_PER_TOKEN = 8
"""Of compressed text; with its 18 bits a token holds 2.25, and no compressor is three times worse
than the best of its kind at English, nor four times at anything that people write."""
ENVELOPE = 16
"""Bytes that compressing adds to the shortest text."""
SPARE = 16
"""Tokens of input about which nobody is accused; none at all for a message is never true."""
BESIDE = 131_072
"""Tokens that a provider may bill beside the request: instructions of its own, what its search
has found; and beside the answer, thoughts that it shows nobody. The usual context of a model."""
TRIMS = frozenset(("context_management", "plugins", "transforms", "truncation"))
"""Options by which a provider leaves out some of a request before its model reads it: Anthropic's
context editing, OpenRouter's middle-out, truncation at OpenAI."""


class Wording(NamedTuple):
    """What a model has said, as it came.

    Attributes:
        text: Answer and tool calls.
        thoughts: Reasoning that was shown.
    """

    text: str
    thoughts: str

    @property
    def most(self) -> int:
        """The most tokens that it can be: its bytes."""
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in self)


def said_of(events: Iterable[ModelEvent]) -> Wording:
    """Return what the events of an answer say."""
    texts: list[str] = []
    thoughts: list[str] = []
    for event in events:
        if isinstance(event, TextDelta):
            texts.append(event.text)
        elif isinstance(event, ReasoningDelta):
            thoughts.append(event.text)
        elif isinstance(event, ToolUseEvent):
            given = event.input
            texts += (
                str(event.name),
                given if isinstance(given, str) else bytes_of(given).decode(),
            )
    return Wording("".join(texts), "".join(thoughts))


class UsageBills:
    """The `hookgate.core.domain.ports.Bills` of whoever meters: provided under ``BILLS``.

    Args:
        host: The gateway.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    def settled(
        self,
        request: ModelRequest,
        said: Sequence[ModelEvent],
        told: Usage | None,
        *,
        whole: bool,
        answered: bool,
    ) -> Usage | None:
        """Return what a call counts as; tell the operator of figures that cannot be true."""
        wording = said_of(said)
        if told is not None:
            final = told.reported and whole
            told, wrong = believed(self._host, request, wording, told, final=final)
            if wrong:
                note_usage(self._host, request.model.provider, wrong)
            elif told.total_input > request.input_tokens:
                self._check_bound(request, told.total_input)
        if (told is None or not told.reported) and answered:
            return at_least(counted(self._host, request, wording), told)
        return told

    def _check_bound(self, request: ModelRequest, billed: int) -> None:
        """Say so where a provider has billed more than budgets were told that it could."""
        bound = input_bound(self._host, request)
        if billed > bound:
            self._host.standing(f"bound of provider {request.model.provider}").note(
                f"it billed {billed:,} tokens of input for a request of {request.model} that "
                f"{bound:,} were the most of: budgets may be overrun; its `bound` is too low"
            )


def counted(host: Host, request: ModelRequest, said: Wording) -> Usage:
    """Return an estimate of what a call took, of which its provider has told nothing.

    It is that of the gateway's `TokenCounter`. The one of four characters is right for English
    alone; beside it the typical tokens of each writing count, where these are more.
    """
    counter = host.tokens
    read = request.input_tokens or sum(
        message_tokens(message, counter) for message in request.messages
    )
    written, thought = counter.count(said.text), counter.count(said.thoughts)
    if isinstance(counter, QuarterTokens):
        read = max(read, typical_tokens(sizes_of(request).counts))
        written = max(written, typical_of_text(said.text))
        thought = max(thought, typical_of_text(said.thoughts))
    return Usage(input_tokens=read, output_tokens=written, reasoning_tokens=thought, reported=False)


def believed(
    host: Host, request: ModelRequest, said: Wording, told: Usage, *, final: bool
) -> tuple[Usage, str]:
    """Return what a provider told, where it can be true, and what of it cannot, or "".

    A side that is too low is replaced by what is counted here, one that is too high by the most
    that it can be; the whole is then an estimate.

    Args:
        host: The gateway.
        request: The request, as it was sent.
        said: What was answered.
        told: The provider's figures.
        final: Whether they are of the whole answer: before its end they may be too low.
    """
    wrong: list[str] = []
    read, written = told.total_input, told.total_output
    limit = request.max_output_tokens
    if final and read < (least := least_input(request, read)):
        wrong.append(f"{read:,} tokens of input for a request of {least:,} at least")
        told = _with(told, Usage.INPUTS, max(counted(host, request, said).total_input, least))
    elif read > BESIDE and read > (most := input_bound(host, request)) + BESIDE:
        wrong.append(f"{read:,} tokens of input for a request of {most:,} at most")
        told = _with(told, Usage.INPUTS, most)
    if final and written < (least := _least_output(said, written)):
        wrong.append(f"{written:,} tokens of output for an answer of {least:,} at least")
        told = _with(told, Usage.OUTPUTS, max(counted(host, request, said).total_output, least))
    elif written > limit and _too_much(told, max(limit, said.most)):
        most = max(limit, said.most)
        wrong.append(f"{written:,} tokens of output for an answer of {most:,} at most")
        told = _with(told, Usage.OUTPUTS, most)
    return (replace(told, reported=False), " and ".join(wrong)) if wrong else (told, "")


def _too_much(told: Usage, most: int) -> bool:
    """Whether the output is more than `most`; thoughts that nobody was shown may come beside."""
    plain = told.total_output - told.reasoning_tokens
    return plain > most or told.reasoning_tokens > most + BESIDE


def _least_output(said: Wording, told: int) -> int:
    """Return the fewest tokens that can say `said`, 0 where `told` is beyond doubt."""
    text = said.text + said.thoughts
    # No writing has more tokens than characters, as a rule.
    if FAR * told >= len(text):
        return 0
    return _told_by(text)


def least_input(request: ModelRequest, told: int) -> int:
    """Return the fewest tokens that `request` can take, 0 where `told` is beyond doubt."""
    if FAR * told >= request.input_tokens > 0 or not TRIMS.isdisjoint(request.options):
        return 0
    return max(_told_by(_text_of(request)) - SPARE, int(bool(request.messages)))


def _text_of(request: ModelRequest) -> str:
    texts = [piece.text for piece in request.system]
    texts += [message.text for message in request.messages]
    texts += [tool.declaration for tool in request.tools]
    return "\n".join(texts)


def _told_by(text: str) -> int:
    """Return the fewest tokens that can tell `text`."""
    compressed = zlib.compress(text.encode("utf-8", "surrogatepass"), 1)
    return max(len(compressed) - ENVELOPE, 0) // BYTES_PER_TOKEN


def _with(usage: Usage, names: Sequence[str], tokens: int) -> Usage:
    """Return `usage` with all of one side as plain tokens."""
    counts: dict[str, Any] = {**dict.fromkeys(names, 0), names[0]: tokens}
    return replace(usage, **counts)
