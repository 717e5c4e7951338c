"""What a protocol has to say for itself: requests in its shape, answers read from it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import orjson

from hookgate import (
    CLEAN,
    Citation,
    ContentPart,
    Image,
    Message,
    ModelEvent,
    ModelParameters,
    ModelRequest,
    Opaque,
    Part,
    ProviderError,
    Taint,
    Text,
    ToolResultPart,
    ToolUse,
)
from hookgate.kit.tokens.bounds import picture_type
from hookgate.kit.usage import StreamedUsage, UsageError
from hookgate.wire import StrictJSONError, WirePart, left_out, loads

if TYPE_CHECKING:
    from hookgate.builtin_plugins.providers.wire.template import FrameTemplate, TextTemplate


class Reader(ABC):
    """Reads one answer.

    Args:
        provider: The provider's name.
        complain: Takes what is wrong with the usage.
        template: The shape of the events that hold some text and nothing else.
        usage: Adds up what is reported of the tokens that it took.

    Attributes:
        done: Whether the protocol's own end has been read; nothing comes after it.
        template: The template.
        usage: The usage.
        frames: The shape of events that are passed on; None where each is read whole.
    """

    def __init__(
        self,
        provider: str,
        complain: Callable[[str], None],
        template: TextTemplate,
        usage: StreamedUsage,
    ) -> None:
        self.done = False
        self.template = template
        self.usage = usage
        self.frames: FrameTemplate | None = None
        self._provider = provider
        self._complain = complain

    @abstractmethod
    def read(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what one event says.

        Raises:
            ProviderError: It reports a failure, or is not what the protocol knows.
        """

    @abstractmethod
    def whole(self, data: bytes) -> Iterable[ModelEvent]:
        """Return what an answer says that came as one JSON object and not as a stream.

        Raises:
            ProviderError: It reports a failure, or is no answer of the protocol.
        """

    @abstractmethod
    def end(self) -> Iterable[ModelEvent]:
        """Return what is left to say when the connection has ended without `done`.

        Raises:
            ProviderError: The answer was not at its end.
        """

    def _take(self, found: object) -> None:
        """Take reported figures in; what cannot be true of them is complained of."""
        try:
            self.usage.take(found)
        except UsageError as error:
            self._complain(str(error))

    def _cut(self) -> NoReturn:
        raise ProviderError(
            "cut",
            f"{self._provider} ended the stream in the middle of the answer",
            provider=self._provider,
        )


class Wire(Protocol):
    """One provider's protocol.

    Attributes:
        name: What it is called, where a request says that it came by it.
        url: Where requests are sent.
        models_url: Where its server lists its models.
        count_url: Where it counts the tokens of a request; "" for nowhere.
        embeddings_url: Where it makes vectors; "" for nowhere.
        kept_url: Below what it keeps answers by their ids; "" where it keeps none.
        headers: The protocol's own headers, the key among them.
        passed: Names of headers that are passed on with a request that is sent as it came.
    """

    name: str
    passed: frozenset[str]
    url: str
    models_url: str
    count_url: str
    embeddings_url: str
    kept_url: str
    headers: Mapping[str, str]

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the protocol's shape, JSON-ready."""

    def picture(self, image: Image, model: str) -> int:
        """Return the most tokens that `image` can be billed for, by the provider's formula."""

    def reader(self, complain: Callable[[str], None]) -> Reader:
        """Return a reader for one answer.

        Args:
            complain: Takes what is wrong with reported token counts; they count as missing.
        """


OF_THE_MODEL = ("thinking", "redacted_thinking", "reasoning", "server_tool_use")
"""The types of a provider's own parts that bring nothing into the conversation."""
BROUGHT: Taint = frozenset(("provider:tool",))
"""What the results of tools taint a turn with that a provider runs."""


def malformed(provider: str, found: str) -> NoReturn:
    """Refuse what came.

    Raises:
        ProviderError: Always; ``malformed``.
    """
    raise ProviderError(
        "malformed", f"{provider} sent what is not its protocol: {found}", provider=provider
    )


def parse(provider: str, data: bytes) -> dict[str, Any]:
    """Read the JSON object of one event.

    Raises:
        ProviderError: It is none; ``malformed``.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        value = _loosely(data)
        if value is None:
            malformed(provider, f"an event that is no JSON ({error})")
    if isinstance(value, dict):
        return value
    malformed(provider, f"an event that is a JSON {type(value).__name__} and no object")


def _loosely(data: bytes) -> Any:
    """Return JSON with numbers that it does not know, as some servers write them; or None.

    NaN and the infinities are read as such, and so are numbers past all bounds: whoever
    uses a number sees that it cannot be one.
    """
    try:
        value = json.loads(data.decode(), parse_int=_number)
        orjson.dumps(value)  # Half of a surrogate pair is not let through.
    except (TypeError, ValueError, RecursionError):
        return None
    return value


def _number(digits: str) -> int | float:
    return int(digits) if len(digits) < 19 else float(digits)


def object_of(provider: str, parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under `key`, {} where there is none.

    Raises:
        ProviderError: Something else stands there; ``malformed``.
    """
    value = parent.get(key)
    if isinstance(value, dict):
        return value
    if value is None:
        return {}
    malformed(provider, f"a {type(value).__name__} under {key!r} in the place of an object")


def text_of(provider: str, parent: Mapping[str, Any], key: str) -> str:
    """Return the text under `key`, "" where there is none.

    Raises:
        ProviderError: Something else stands there; ``malformed``.
    """
    value = parent.get(key)
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    malformed(provider, f"a {type(value).__name__} under {key!r} in the place of text")


def arguments_of(raw: str) -> Mapping[str, Any] | str:
    """Return a tool call's arguments: an object, or the text itself where it is none."""
    if not raw.strip():
        return {}
    try:
        value = loads(raw)
    except StrictJSONError:
        return raw
    return value if isinstance(value, dict) else raw


def sendable_input(value: Mapping[str, Any] | str) -> dict[str, Any]:
    """Return a tool call's arguments as the object that both protocols want to see."""
    return {"malformed_arguments": value} if isinstance(value, str) else dict(value)


_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")

MAX_ID = 64
"""Characters of the longest id of a tool call that every provider takes."""


@lru_cache(maxsize=4096)
def safe_id(call_id: str) -> str:
    """Return a tool call's id in the characters that every provider takes.

    A conversation may have begun at another provider, with other ids. Long ones that begin
    alike stay different. Each request with the call in its history asks for it again.
    """
    safe = _UNSAFE.sub("_", call_id) or "_"
    if len(safe) <= MAX_ID:
        return safe
    return f"{safe[: MAX_ID - 17]}_{sha256(call_id.encode()).hexdigest()[:16]}"


def merge_options(
    provider: str, body: dict[str, Any], options: Mapping[str, Any], reserved: frozenset[str]
) -> dict[str, Any]:
    """Return `body` with the provider's own parameters added.

    Raises:
        ProviderError: One of them would change what the gateway has judged and counted.
    """
    taken = sorted(reserved & options.keys())
    if taken:
        raise ProviderError(
            "rejected",
            f"{provider}: the options name {', '.join(taken)}, which the gateway sets itself: "
            "take them out of the agent's `options`",
            provider=provider,
        )
    return {**body, **options}


# -- Requests that are sent as they came ------------------------------------------


def passes(request: ModelRequest, wire: str) -> bool:
    """Whether `request` is sent as it came, by the wire called `wire`."""
    return request.raw is not None and request.raw.wire == wire and request.baseline is not None


def raw_of(part: WirePart, wire: str) -> Any:
    """Return what `part` came as by the wire called `wire`; None where it did not, or not so."""
    raw = part.raw
    return raw.data if raw is not None and raw.wire == wire else None


def write_changes(
    body: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Write those fields into `body` that somebody has changed since it came, and no others."""
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        there = body.get(name)
        if isinstance(there, dict) and (isinstance(old, dict) or isinstance(new, dict)):
            kept = {key: value for key, value in there.items() if key not in (old or {})}
            new = {**kept, **(new or {})} or None
        if new is None:
            body.pop(name, None)
        else:
            body[name] = new


def body_of(request: ModelRequest) -> tuple[dict[str, Any], ModelRequest]:
    """Return the body of a request that passes, for its model, and what it says as a request."""
    raw, came = request.raw, request.baseline
    if raw is None or came is None or not isinstance(raw.data, dict):
        raise TypeError(f"found {request!r}, expected one with the body that it came as")
    return {**raw.data, "model": request.model.model}, came


def cannot_carry(provider: str, protocol: str, what: str) -> NoReturn:
    """Refuse what a request has and this protocol has no place for.

    Raises:
        ProviderError: Always; ``rejected``.
    """
    raise ProviderError(
        "rejected",
        f"{provider} is asked by {protocol}, which cannot carry {what}",
        provider=provider,
        action="leave it out, or ask a model whose provider can",
    )


PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The types of pictures that every protocol takes."""


def as_it_is(part: ContentPart) -> ContentPart:
    """Return a picture under the type that its data has; a note in the place of one that is none.

    A provider refuses a request with either, and so each later one of the conversation.
    """
    if not isinstance(part, Image) or part.media_type not in PICTURES:
        return part
    found = picture_type(part)
    if not found:
        return left_out(part, "its data is no picture")
    return part if found == part.media_type else replace(part, media_type=found)


NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "logprobs": False, "top_logprobs": 0}
"""Parameters that ask for nothing where they have this value, which many clients always send."""


def check_absent(
    provider: str, protocol: str, parameters: ModelParameters, names: Iterable[str]
) -> None:
    """Refuse parameters that a protocol has no field for, where they ask for something.

    Raises:
        ProviderError: One of them does; ``rejected``.
    """
    for name in names:
        value = getattr(parameters, name)
        if value is not None and value != NEUTRAL.get(name):
            cannot_carry(provider, protocol, f"`{name}`")


def carried(provider: str, request: ModelRequest, protocol: str) -> Iterable[Message]:
    """Return the messages of a request, where none of them came as what this protocol has not.

    Raises:
        ProviderError: Such a part or role is there; the text names it and its place.
    """
    if request.raw is None:
        return request.messages
    for place, message in enumerate(request.messages):
        data = message.raw.data if message.raw is not None else None
        role = data.get("role") if isinstance(data, dict) else None
        if role not in (None, "user", "assistant", "tool"):
            cannot_carry(provider, protocol, f"the role `{role}` of message {place} in its place")
        for part in message.parts:
            # What another provider has said in a round that the client has not seen is left out.
            is_own = message.raw is None and part.raw is None
            if isinstance(part, Opaque) and part.provider != provider and not is_own:
                kind = part.data.get("type", "unknown")
                cannot_carry(provider, protocol, f"the part `{kind}` of message {place}")
    return neighbours_joined(request.messages)


# -- Making every tool call of a conversation have its result --------------------

# Both protocols refuse a conversation with a call that has no result, or a result without a call.
# A turn that was cut short, or a history that a caller keeps, can hold either.

NO_RESULT = "This call has no result: it was not run, or its result was not kept."


def paired(messages: Iterable[Message]) -> list[Message]:
    """Return `messages` so that behind each message with calls stand exactly their results.

    A missing result becomes an error result. A result without a call becomes text of the
    user's side, so that nothing that was read is lost.
    """
    found: list[Message] = []
    waiting: Sequence[ToolUse] = ()
    for message in messages:
        if message.plain and not waiting:
            found.append(message)
            continue
        results = message.tool_results
        if waiting and _answers(message, results, waiting):
            waiting = ()
            found.append(message)
            continue
        if waiting:
            given = {part.tool_use_id: part for part in results}
            answered = [given.pop(use.id) if use.id in given else _missing(use) for use in waiting]
            found.append(Message(role="tool", parts=tuple(answered), id=f"{message.id}/results"))
            message = _without_results(message, set(given))
        elif results:
            message = _without_results(message, {one.tool_use_id for one in results})
        waiting = message.tool_uses if message.role == "assistant" else ()
        if message.parts:
            found.append(message)
    if waiting:
        found.append(Message(role="tool", parts=tuple(_missing(use) for use in waiting)))
    return found


def turns_taken(messages: Iterable[Message]) -> list[Message]:
    """Return `messages` with blocks in one with the user's message behind them.

    Templates of many models refuse two messages of a user in a row.
    """
    found: list[Message] = []
    blocks: Message | None = None
    for message in messages:
        if blocks is not None:
            if message.role == "user":
                message = replace(message, parts=(*blocks.parts, *message.parts))
            else:
                found.append(blocks)
            blocks = None
        if message.role == "user" and message.is_context:
            blocks = message
        else:
            found.append(message)
    if blocks is not None:
        found.append(blocks)
    return found


def neighbours_joined(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield `messages` with those in one that stand side by side and are of one side.

    Chat has each result in a message of its own, and Responses each call as well.
    """
    held: Message | None = None
    for message in messages:
        if held is not None and message.role == held.role != "user":
            parts = (*held.parts, *message.parts)
            held = replace(held, parts=parts, taint=held.taint | message.taint)
            continue
        if held is not None:
            yield held
        held = message
    if held is not None:
        yield held


def _answers(
    message: Message, results: Sequence[ToolResultPart], waiting: Sequence[ToolUse]
) -> bool:
    """Whether a message is the results of the calls that wait, in their order, and nothing else."""
    if message.role != "tool" or len(results) != len(message.parts):
        return False
    return list(map(_answered, results)) == list(map(_id, waiting))


_answered, _id = attrgetter("tool_use_id"), attrgetter("id")


def brought(part: Mapping[str, Any]) -> Taint:
    """Return what a provider's own part taints a turn with: all but the model's thoughts do."""
    return CLEAN if part.get("type") in OF_THE_MODEL else BROUGHT


def cited(note: object, before: int = 0) -> Citation | None:
    """Return what an annotation says that names a page of the web; None for any other.

    Args:
        note: The annotation, of either of OpenAI's wires.
        before: Characters of the answer in front of the text that it counts in.
    """
    if not isinstance(note, dict) or note.get("type") != "url_citation":
        return None
    told = note.get("url_citation", note)
    if not isinstance(told, dict):
        return None
    first, last = told.get("start_index"), told.get("end_index")
    start = first if isinstance(first, int) and first >= 0 else 0
    end = last if isinstance(last, int) and last >= start else start
    page = page_of(told.get("url"), told.get("title"), told.get("content"))
    return page and replace(page, start=before + start, end=before + end)


def page_of(url: object, title: object, text: object) -> Citation | None:
    """Return a citation of a page of the web; None where the address is none of it."""
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        return None
    return Citation(
        url=url,
        title=title if isinstance(title, str) else "",
        cited=text if isinstance(text, str) else "",
        taint=BROUGHT,
    )


def _missing(use: ToolUse) -> ToolResultPart:
    return ToolResultPart(tool_use_id=use.id, content=NO_RESULT, is_error=True)


def _without_results(message: Message, orphans: set[str]) -> Message:
    """Return `message` without its results; those in `orphans` become text."""
    if not message.tool_results:
        return message
    parts: list[Part] = []
    for part in message.parts:
        if not isinstance(part, ToolResultPart):
            parts.append(part)
        elif part.tool_use_id in orphans:
            told = "Result of an earlier tool call: "
            if isinstance(part.content, str):
                parts.append(Text(told + part.content))
            else:
                parts += (Text(told), *part.content)
    role = "user" if message.role == "tool" else message.role
    return replace(message, role=role, parts=tuple(parts))


# -- server-sent events ------------------------------------------------------------

# Text is never split: a chunk may end inside a character, and ``str.splitlines`` would cut
# JSON at U+2028. Every byte is looked at once or twice however the stream is chunked.


MAX_EVENT = 1024 * 1024
"""The longest line, and the longest data of one event, in bytes."""

_BOM = b"\xef\xbb\xbf"


class SSEError(ValueError):
    """The stream holds a line or an event that is longer than `MAX_EVENT`."""


class SSESplitter:
    """Takes chunks and gives the data of events (WHATWG HTML, section 9.2.6).

    Only the ``data`` field is kept: both protocols that are read here repeat the event's
    name in it. Comments, other fields and events without data are passed over.

    Attributes:
        between: Whether the next chunk begins where an event begins.
    """

    __slots__ = ("_data", "_fresh", "_line", "_line_size", "_size", "_skip_lf", "between")

    def __init__(self) -> None:
        self.between = False
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._skip_lf = False
        self._fresh = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next chunk and return the data of the events that it completes.

        Raises:
            SSEError: A line or an event is too long.
        """
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # A line feed that belongs to this carriage return may be in the next chunk.
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines:
            if self._line:
                self._line.append(lines[0])
                lines[0] = b"".join(self._line)
                self._line.clear()
                self._line_size = 0
            if self._fresh:
                self._fresh = False
                lines[0] = lines[0].removeprefix(_BOM)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
            if self._line_size > MAX_EVENT:
                raise SSEError(f"a line is longer than {MAX_EVENT} bytes")
        events = self._events(lines) if lines else []
        self.between = not (self._line or self._data or self._skip_lf)
        return events

    def close(self) -> bytes | None:
        """Return the data of an event whose blank line never came, or None.

        The standard drops it; some servers end their stream without that line.
        """
        if self._line:
            self._events([b"".join(self._line)])
            self._line.clear()
        return b"\n".join(self._data) if self._data else None

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line.startswith(b"data: ") else line[5:]
                self._size += len(value) + 1
                if self._size > MAX_EVENT + 1:
                    raise SSEError(f"an event is longer than {MAX_EVENT} bytes")
                data.append(value)
            elif not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    self._size = 0
            elif line == b"data":
                data.append(b"")
                self._size += 1
        return events
