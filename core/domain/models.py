"""Models: what a provider offers, what is asked of it, and what comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias
from urllib.parse import quote

from hookgate.core.domain.messages import CLEAN, Message, Opaque, Taint, join_taints, new_id
from hookgate.core.domain.parts import Raw, Text, WirePart
from hookgate.core.domain.tools import Tool

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Turn

StopReason: TypeAlias = Literal[
    "end", "tool_use", "max_tokens", "stop_sequence", "paused", "refusal", "other"
]


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model by provider and name; written ``provider/model`` in the settings."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

    @classmethod
    def parse(cls, text: str) -> ModelRef:
        """Read ``provider/model``; the model's name may hold further slashes.

        Raises:
            ValueError: There is no slash, or one side of it is empty.
        """
        provider, slash, model = text.partition("/")
        if not (slash and provider and model):
            raise ValueError(f"found model {text!r}, expected `provider/model`")
        return cls(provider, model)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What a provider says about one of its models.

    Attributes:
        name: The model's name at its provider; ``*`` stands for any name.
        context_tokens: The longest input, in tokens; None where it is not known.
        max_output_tokens: The longest output, in tokens; None where it is not known, 0 for a model
            that makes vectors and writes nothing.
        tools: Whether it can call tools.
        images: Whether it reads images. What a model does not read is not sent to it: a note
            in its place names it.
        audio: Whether it hears audio.
        documents: Whether it reads documents such as PDF.
    """

    name: str
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    tools: bool = True
    images: bool = False
    audio: bool = False
    documents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParameters:
    """How a model is asked. What is None is left to the agent's settings, or to the provider.

    Not every provider's protocol has all of them: one that is set and cannot be carried is an
    error of the attempt that names it.

    Attributes:
        temperature: The sampling temperature, at least 0.
        max_output_tokens: The most tokens that the model may write, at least 1.
        stop: Texts at which it stops.
        top_p: The share of likely tokens that is sampled from: above 0, at most 1.
        top_k: How many of the likeliest tokens are sampled from, at least 1.
        seed: Makes sampling repeatable, as far as the provider can.
        frequency_penalty: How much the model shuns what it has said often.
        presence_penalty: How much the model shuns what it has said at all.
        logprobs: Whether the likelihood of each token is told.
        top_logprobs: Of how many other tokens as well, at least 0.
        tool_choice: ``auto``, ``none``, ``required``, or the name of the tool to call.
        parallel_tool_calls: Whether one answer may call several tools.
        response_format: ``text``, ``json_object``, or the JSON schema that the answer fits.
        reasoning: How much the model thinks: a word such as ``low``, or a budget in tokens.
        service_tier: The provider's tier that the call is served in.
        cache_key: What calls that begin alike have in common, for the provider's cache.
        user: Who is behind the call, as the provider is told: an opaque id.
        answers: How many answers are wanted, where there are to be several; each may be as long as
            `max_output_tokens`.
    """

    temperature: float | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | Literal["text", "json_object"] | None = None
    reasoning: str | int | None = None
    service_tier: str | None = None
    cache_key: str | None = None
    user: str | None = None
    answers: int | None = None

    def __post_init__(self) -> None:
        temperature, most = self.temperature, self.max_output_tokens
        if temperature is not None and not 0 <= temperature < inf:
            raise ValueError(f"found temperature {temperature!r}, expected a number from 0")
        if most is not None and most < 1:
            raise ValueError(f"found max_output_tokens {most!r}, expected 1 or more")
        if not all(self.stop):
            raise ValueError(f"found stop {self.stop!r}, expected texts of which none is empty")
        if self.top_p is not None and not 0 <= self.top_p <= 1:
            raise ValueError(f"found top_p {self.top_p!r}, expected a number from 0 to 1")
        for name, least in (("top_k", 1), ("top_logprobs", 0), ("answers", 1)):
            count = getattr(self, name)
            if count is not None and count < least:
                raise ValueError(f"found {name} {count!r}, expected {least} or more")
        for name in ("frequency_penalty", "presence_penalty"):
            penalty = getattr(self, name)
            if penalty is not None and not -inf < penalty < inf:
                raise ValueError(f"found {name} {penalty!r}, expected a number")
        form = self.response_format
        if isinstance(form, str) and form not in ("text", "json_object"):
            raise ValueError(
                f"found response_format {form!r}, expected `text`, `json_object` or a JSON schema"
            )


AS_CONFIGURED = ModelParameters()
"""How a model is asked of which a request says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one model call. The counts are disjoint: their sum is what was used.

    A token that is two things, such as cached audio, is counted once, and as read from the
    cache. `hookgate.kit.usage` reads what providers report into these counts.

    Attributes:
        input_tokens: Input that was neither read from nor written to a cache, and is none of
            the kinds below.
        cache_read_tokens: Input that was read from the provider's cache.
        cache_write_tokens: Input that was written to the provider's cache, for the time that
            it holds things by default: five minutes at Anthropic.
        cache_write_hour_tokens: Input that was written to the provider's cache for an hour.
        audio_input_tokens: Input that was heard, where the provider bills it apart.
        image_input_tokens: Input that was seen, where the provider bills it apart.
        output_tokens: Output that is none of the kinds below.
        reasoning_tokens: Output spent on reasoning, where the provider says how much.
        audio_output_tokens: Output that was spoken, where the provider bills it apart.
        image_output_tokens: Output that was drawn, where the provider bills it apart.
        reported: True: the provider's figures. False: counted here, an estimate.
    """

    INPUTS: ClassVar[tuple[str, ...]] = (
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "cache_write_hour_tokens",
        "audio_input_tokens",
        "image_input_tokens",
    )
    """The names of the counts of input."""

    OUTPUTS: ClassVar[tuple[str, ...]] = (
        "output_tokens",
        "reasoning_tokens",
        "audio_output_tokens",
        "image_output_tokens",
    )
    """The names of the counts of output."""

    COUNTS: ClassVar[tuple[str, ...]] = (*INPUTS, *OUTPUTS)
    """The names of all counts."""

    MEDIA: ClassVar[frozenset[str]] = frozenset(
        ("audio_input_tokens", "image_input_tokens", "audio_output_tokens", "image_output_tokens")
    )
    """Which of them are no text, and may cost far more."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_hour_tokens: int = 0
    audio_input_tokens: int = 0
    image_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    reported: bool = True

    @property
    def total_input(self) -> int:
        """All input tokens, of whatever kind, cached or not."""
        return sum(_inputs_of(self))

    @property
    def total_output(self) -> int:
        """All output tokens, of whatever kind, reasoning included."""
        return sum(_outputs_of(self))

    @property
    def total(self) -> int:
        """All tokens, input and output."""
        return sum(_counts_of(self))

    def __add__(self, other: Usage) -> Usage:
        sums = map(add, _counts_of(self), _counts_of(other))
        return Usage(
            **dict(zip(self.COUNTS, sums, strict=True)),
            reported=self.reported and other.reported,
        )

    @property
    def counts(self) -> dict[str, int]:
        """All counts by name."""
        return dict(zip(self.COUNTS, _counts_of(self), strict=True))

    def to_json(self) -> dict[str, int | bool]:
        """Return the wire form: totals first, then their parts.

        `cache_write_tokens` is a total as well here: of all that was written to the cache.
        """
        counts = dict(zip(self.COUNTS, _counts_of(self), strict=True))
        totals = {
            "input_tokens": sum(_inputs_of(self)),
            "output_tokens": sum(_outputs_of(self)),
        }
        written = counts["cache_write_tokens"] + counts["cache_write_hour_tokens"]
        totals["cache_write_tokens"] = written
        return {**totals, **(counts | totals), "reported": self.reported}


_inputs_of = attrgetter(*Usage.INPUTS)
_outputs_of = attrgetter(*Usage.OUTPUTS)
_counts_of = attrgetter(*Usage.COUNTS)


BETWEEN = "\n\n"
"""What ends a block that stands in a message, so that it does not run into what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemText(WirePart):
    """One piece of the instructions.

    Attributes:
        text: The text.
        stable: Whether it stays the same from turn to turn; stable pieces come first,
            so that a provider's prompt cache keeps hitting.
        taint: Where untrusted text in it came from.
        source: Which block it is, as `source_of` names it; "" where nobody said. Of a piece
            that was `joined` of several, all of theirs, with spaces between them. For plugins
            alone: no provider sends it.
    """

    text: str
    stable: bool = False
    taint: Taint = CLEAN
    source: str = ""

    @classmethod
    def joined(cls, pieces: Iterable[SystemText], between: str = "\n\n") -> SystemText:
        """Make one piece of several: it has the text, the taint and the sources of all."""
        pieces = tuple(pieces)
        return cls(
            text=between.join(piece.text for piece in pieces),
            stable=all(piece.stable for piece in pieces),
            taint=join_taints(piece.taint for piece in pieces),
            source=" ".join(piece.source for piece in pieces if piece.source),
        )


@lru_cache(maxsize=4096)
def source_of(plugin: str, kind: str, key: str = "") -> str:
    """Return the id of a piece of system text, such as ``awareness/cards/weather``.

    Args:
        plugin: The name of the plugin that brings it.
        kind: What it is; the kind of its block.
        key: Which of the plugin's pieces of that kind. What is no part of an id is quoted as
            in a URL, so that no id holds a space.
    """
    names = (plugin, kind, key) if key else (plugin, kind)
    return "/".join(quote(name, safe="/:@+", errors="surrogatepass") for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """What is to be turned into vectors.

    Attributes:
        inputs: One for each vector: a text, or the numbers of its tokens as the model has them.
        dimensions: The length of the vectors; None for the model's own.
    """

    inputs: tuple[str | tuple[int, ...], ...]
    dimensions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(WirePart):
    """The vectors that a provider has made of a request's `embed`.

    Attributes:
        vectors: One for each input, in their order.
        usage: What the provider reports; None where it says nothing.
    """

    vectors: Sequence[Sequence[float]] = field(repr=False)
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCount(WirePart):
    """The tokens that a provider says a request has.

    Attributes:
        tokens: All of its input.
    """

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One attempt at one model. Frozen before the first `before_model_call` sees it.

    Attributes:
        model: The model that is asked.
        system: The instructions, and those blocks that stay the same from turn to turn.
        messages: The conversation, oldest first. In front of what began the turn stands a
            message of the user's side with the other blocks, if there are any: `is_context`.
        tools: The tools that are offered, in a stable order.
        max_output_tokens: The most tokens that the model may write.
        temperature: The sampling temperature; None leaves it to the provider.
        stop: Texts at which the model stops.
        cause: What the call is for: ``turn``, or a plugin's own word (`host.call_model`).
        call_id: Unique for each attempt.
        attempt: 0 for the plan's first model, 1 for the next one, and so on.
        iteration: 0 for the turn's first request, one more after each round of tools.
        input_tokens: The input's tokens, tools included, as the gateway's counter has them.
        options: The provider's own parameters, passed on unchanged.
        whole: Whether the answer is read at its end, so that it may come in few large pieces.
        parameters: What else it is asked with; its `temperature`, `max_output_tokens` and `stop`
            are those of the request itself.
        raw: The body of the client's request, where it is passed on: a provider of that wire sends
            it as it came, but for what differs here from `baseline`.
        baseline: What `raw` says, as a request: what is the same here is sent as it came.
        embed: What is to be turned into vectors, where no answer is asked for: the messages hold
            the same as text, for whoever judges, changes and counts it.
        counts: Whether its tokens alone are asked for, and no answer.
        sized: What it is made of, once somebody has looked; see `kit.tokens.bounds.sizes_of`.
    """

    model: ModelRef
    system: tuple[SystemText, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    max_output_tokens: int = 1024
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    cause: str = "turn"
    call_id: str = field(default_factory=lambda: new_id("call"))
    attempt: int = 0
    iteration: int = 0
    input_tokens: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    parameters: ModelParameters = AS_CONFIGURED
    raw: Raw | None = field(default=None, repr=False)
    baseline: ModelRequest | None = field(default=None, repr=False, compare=False)
    embed: Embed | None = None
    counts: bool = False
    sized: Any = field(default=None, init=False, repr=False, compare=False)

    @property
    def taint(self) -> Taint:
        """The union of the taints of all that the model will read."""
        return join_taints(
            [*[piece.taint for piece in self.system], *[item.taint for item in self.messages]]
        )

    @property
    def sources(self) -> Mapping[str, str]:
        """What stands in the request, by `SystemText.source`: the text of the piece, as it is sent.

        Blocks of this turn alone, and those that came behind tool calls, stand among the
        messages, and are here as well. A piece that was joined of several stands here under
        each of theirs, whole.
        """
        parts = (part for message in self.messages for part in message.parts)
        pieces: tuple[SystemText | Text, ...] = (
            *self.system,
            *(part for part in parts if isinstance(part, Text)),
        )
        return {
            source: piece.text.removesuffix(BETWEEN)
            for piece in pieces
            if piece.text.strip()
            for source in piece.source.split()
        }


@dataclass(frozen=True, slots=True)
class TextDelta(WirePart):
    """Some more of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta(WirePart):
    """Some more of the reasoning that a provider shows. Not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseEvent(WirePart):
    """A tool call, whole: its fragments have been put together.

    Attributes:
        id: The provider's id for the call.
        name: The tool's name.
        input: The arguments; the raw text where it is no JSON object.
    """

    id: str
    name: str
    input: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class OpaqueDelta(WirePart):
    """A provider's own part that must be sent back unchanged, in its place.

    Attributes:
        part: The part.
        taint: What it taints the turn with, such as the result of a tool that the provider runs.
    """

    part: Opaque
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation(WirePart):
    """A page of the web that some of the answer's text rests on, for a client that shows it.

    Of an answer that is passed on as it came, it stands in what the text came as.

    Attributes:
        url: Where the page is.
        title: What it is called.
        cited: What it says there.
        start: Where the text begins that rests on it, in the characters of this model's answer.
        end: Where that text ends.
        taint: What it taints the turn with: whoever wrote the page has been read.
    """

    url: str
    title: str = ""
    cited: str = ""
    start: int = 0
    end: int = 0
    taint: Taint = CLEAN


@dataclass(frozen=True, slots=True)
class UsageEvent(WirePart):
    """The call's usage so far, cumulative: each one replaces the one before."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class StopEvent(WirePart):
    """The model stopped; the last event of a stream that ended well.

    Attributes:
        reason: Why it stopped; ``paused`` where the provider goes on once it gets the answer back.
        matched: The text that ended it, of those that were to, where the provider says so.
        marked: Whether the stream came to its own end: behind the reason there was the mark of
            the protocol's end, or the usage of the whole answer. Where there was neither, the
            answer is whole, and what it has used is not known: the call counts as cut.
    """

    reason: StopReason
    marked: bool = field(default=True, compare=False)
    matched: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of the wire that says nothing to the gateway, for a client of the same wire.

    A provider yields it only where the request has a `raw` of its wire. A filter passes it on, as
    it passes on what it does not know. It goes to whoever started the turn, and nobody else.

    Attributes:
        raw: The piece.
        ends: Whether what was said before it is over: nothing behind it goes on with that text.
    """

    raw: Raw
    ends: bool = False


ModelEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolUseEvent
    | OpaqueDelta
    | Citation
    | UsageEvent
    | StopEvent
    | Frame
    | Embedded
    | TokenCount
)
"""What a model says, piece by piece.

Of an answer that is passed on to a client of the same wire, the pieces carry what they came as
(`raw`): its `data` is the piece of the wire that a `TextDelta` or a `ReasoningDelta` came in, and a
list of all the pieces, in order, that a `ToolUseEvent`, an `OpaqueDelta` or the end (`StopEvent`)
was put together from. No piece of the wire stands at two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one begun model call ended.

    Attributes:
        status: ``done``; ``refused`` (by a plugin, nothing was sent); ``failed`` (before the
            first token); ``cut`` (after it); ``cancelled``.
        stop: Why the model stopped, where it did.
        error: What went wrong, for people.
        kind: The `ProviderError.kind`, where there was one.
        started: Whether a first token had arrived.
        sent: Whether the provider was asked at all.
    """

    status: Literal["done", "refused", "failed", "cut", "cancelled"]
    stop: StopReason | None = None
    error: str = ""
    kind: str = ""
    started: bool = False
    sent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A plugin refuses a turn or a model call.

    Attributes:
        code: A stable word for programs, for example ``budget_exceeded``.
        message: What was found and what was expected.
        action: What the caller can do about it.
        retry_after: Seconds after which it may succeed, if that is known.
        plugin: Who refused; stamped by the loop.
    """

    code: str
    message: str
    action: str = ""
    retry_after: float | None = None
    plugin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """What can be said of a provider before anything has been opened.

    Attributes:
        name: The name that stands before the slash in ``provider/model``.
        models: Its models; one called ``*`` says that it takes other names as well.
        missing: What it lacks to be asked, such as ``no key for openai``; "" where nothing.
        action: What to do about that: where a key was looked for, and can be put.
        local: Whether it is reached at an address of this machine or of its own network.
    """

    name: str
    models: tuple[ModelInfo, ...] = (ModelInfo(name="*"),)
    missing: str = ""
    action: str = ""
    local: bool = False


class Provider(Protocol):
    """Something that answers model requests.

    One `stream` is one attempt: no retries after the first event, and none that the
    gateway does not see. Failures are `ProviderError`.

    One that sends a request as it came, where its `ModelRequest.raw` is of the same wire, says so
    by an attribute ``wire``, the name of that: ``openai-chat`` or ``anthropic-messages``, or
    another one by its own name.

    One whose models make vectors has ``async embed(turn, request) -> Embedded`` as well, which is
    called in the place of `stream` where the request has an `embed`.

    One that counts a request's tokens has ``async count(turn, request) -> int``, which is called
    where the request `counts`. Nothing is billed for that.

    One that knows its bills has ``bound(request) -> int`` as well: the most tokens of input that
    a request can be billed for. Of others, `kit.tokens.bounds.upper_bound` is taken.
    """

    @property
    def name(self) -> str:
        """The name that stands before the slash in ``provider/model``."""

    def models(self) -> Sequence[ModelInfo]:
        """Return the models with their limits; a name of ``*`` accepts any other."""

    def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask the model once and yield what it says, as it says it.

        Raises:
            ProviderError: The attempt failed.
        """
