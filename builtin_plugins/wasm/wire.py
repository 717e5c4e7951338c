"""What guests and the host say to each other, as JSON (UTF-8).

A guest exports some of `describe`, `handle_tool_call`, `parse_incoming`, `format_outgoing` and
`poll`; each takes one JSON object and answers with one. It calls the host in the same way, and the
host answers ``{"ok": ...}`` or ``{"error": {"code": ..., "message": ...}}``.

Keys that are not named here are errors, on both sides: a misspelt one would be passed over in
silence. What may be left out has a default. What a guest says has the bounds at the end of this
module and, of a request to the host, a size: both are held before anything is read.
"""

from __future__ import annotations

import asyncio
import re
import reprlib
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from pydantic import ConfigDict, Field, ValidationError
from pydantic_core import to_json

from hookgate import Content
from hookgate.wire import Documented, content_from_json, content_to_json, wrong_in_content

EXPORTS: Final = ("describe", "handle_tool_call", "parse_incoming", "format_outgoing", "poll")
"""What a guest may export; its kind says which of them it needs."""

HOST_FUNCTIONS: Final = ("log", "clock", "random", "store", "http", "env")
"""What a guest may import, each under a grant."""

REQUEST_BYTES: Final = {
    "log": 64 * 1024,
    "clock": 1024,
    "random": 1024,
    "store": 4 * 1024 * 1024,
    "http": 4 * 1024 * 1024,
    "env": 4 * 1024,
}
"""The longest request that each of them takes, in bytes of JSON."""

LONGEST_ID = 512
"""Characters of an id of a platform: of an event, an account, a peer."""

MOST_MESSAGES = 1000
"""Messages that one answer of `parse_incoming` may hold: a page of a long poll."""


class WireFormError(ValueError):
    """JSON that is none of the forms here; the text says where, what was found and expected."""


class FaultError(WireFormError):
    """A guest says that it has no answer, and why.

    Attributes:
        transient: Whether it may work by itself when it is tried again.
        retry_after: Seconds after which it may, where that is known.
    """

    def __init__(self, message: str, *, transient: bool, retry_after: float | None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class WireForm(Documented):
    """Base of all forms: unknown keys are errors, values are not changed."""


# -- content ---------------------------------------------------------------------------


class TextPart(WireForm):
    """Plain text."""

    type: Literal["text"] = "text"
    text: str


class MediaPart(WireForm):
    """A picture or sound, as base64."""

    type: Literal["image", "audio"]
    media_type: str
    data: str


class DocumentPart(WireForm):
    """A file, as base64."""

    type: Literal["document"]
    media_type: str
    data: str
    name: str = ""


class LinkPart(WireForm):
    """Something that is elsewhere."""

    type: Literal["link"]
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


Part: TypeAlias = Annotated[
    TextPart | MediaPart | DocumentPart | LinkPart, Field(discriminator="type")
]
WrittenContent: TypeAlias = str | Annotated[tuple[Part, ...], Field(fail_fast=True)]
"""Plain text, or parts in their order."""


def as_content(written: WrittenContent) -> Content:
    """Return what a guest has written as the gateway's content.

    Raises:
        WireFormError: Media is of no type, or its data is no base64.
    """
    if isinstance(written, str):
        return written
    content = content_from_json([part.model_dump() for part in written])
    if wrong := wrong_in_content(content):
        raise WireFormError(f"content {wrong}")
    return content


def as_written(content: Content) -> Any:
    """Return the gateway's content as a guest reads it, JSON-ready."""
    return content_to_json(content)


# -- what guests export ----------------------------------------------------------------


class DescribedTool(WireForm):
    """What a guest says of one tool. The manifest counts; this is held against it."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict, alias="schema")


class Description(WireForm):
    """Answer of ``describe {}``."""

    name: str = ""
    version: str = ""
    tools: Annotated[tuple[DescribedTool, ...], Field(fail_fast=True)] = ()


class ToolRequest(WireForm):
    """Request of `handle_tool_call`."""

    name: str
    input: dict[str, Any]


class ToolAnswer(WireForm):
    """Answer of `handle_tool_call`."""

    content: WrittenContent
    is_error: bool = False


class HttpRequest(WireForm):
    """A request that the host sends for the guest, under its grants.

    ``{{secret:NAME}}`` may stand in a header's value, a segment of the path or a string of a JSON
    body, where a grant names the secret, the place and the host.
    """

    url: str = Field(max_length=8192)
    method: str = Field(default="GET", max_length=20)
    headers: dict[str, str] = Field(default_factory=dict, max_length=64)
    body: str = ""
    base64: bool = False
    """Whether `body` is base64 of bytes that are no text."""


class HttpContent(WireForm):
    """What came over HTTP. Header names are in lower case."""

    headers: dict[str, str] = Field(default_factory=dict)
    body: str = ""
    base64: bool = False
    """Whether `body` is base64, since the bytes are no UTF-8."""


class HttpResponse(HttpContent):
    """What came back."""

    status: int = Field(ge=100, le=599)


class Incoming(HttpContent):
    """Request of `parse_incoming`: what the connection brought, already verified.

    With ``sent``, it is the response to what `format_outgoing` made, and the answer is `Sent`.
    Headers that carry the webhook's proof are left out.
    """

    kind: Literal["webhook", "poll", "sent"]
    status: int = 0
    """The status of a response; 0 of a webhook."""
    query: dict[str, str] = Field(default_factory=dict)


_Id = Annotated[str, Field(max_length=LONGEST_ID)]


class IncomingMessage(WireForm):
    """One message that `parse_incoming` found. Ids that are numbers are read as text."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    id: _Id = Field(min_length=1)
    """The platform's own id of the event: one that was seen is not answered again."""
    content: WrittenContent = ""
    account: _Id
    peer: _Id
    guild: _Id = ""
    team: _Id = ""
    sender: _Id = ""
    """Who wrote it, in a peer where several do."""
    thread: _Id = ""
    choice: _Id = ""
    """The data of a button that was pressed."""
    addressed: bool | None = None
    """In a group, whether it was said to the bot; null where that is not known."""


class ParsedIncoming(WireForm):
    """Answer of `parse_incoming` to a webhook or a poll."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    messages: Annotated[tuple[IncomingMessage, ...], Field(fail_fast=True)] = Field(
        default=(), max_length=MOST_MESSAGES
    )
    cursor: str | None = Field(default=None, max_length=4096)
    """Where the next `poll` goes on; kept with the messages."""
    reply: HttpResponse | None = None
    """What the webhook is answered with, such as a challenge; 200 and nothing by itself."""


class OutgoingChoice(WireForm):
    """A button."""

    label: str
    data: str


class Outgoing(WireForm):
    """Request of `format_outgoing`; the answer is `HttpRequest`."""

    action: Literal["send", "edit", "typing"]
    """``typing`` shows that an answer is being written; it is asked where the features say so."""
    content: WrittenContent
    account: str
    peer: str
    thread: str = ""
    message_id: str = ""
    """The message to change, where `action` is ``edit``."""
    choices: tuple[OutgoingChoice, ...] = ()
    key: str = ""
    """The same for each attempt at one message: for platforms that take a key of idempotency."""


class Sent(WireForm):
    """Answer of `parse_incoming` to ``{"kind": "sent"}``."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    message_id: _Id = ""
    done: bool = False
    """Whether all is well, although the status says that the platform has refused: such as a
    message that was to be changed and says already what it should."""


class PollCursor(WireForm):
    """Request of `poll`."""

    cursor: str = ""
    """What the last `parse_incoming` said; "" at first."""
    seconds: int = 25
    """How long the platform may hold the request, as the manifest says; rounded."""


class PollRequest(HttpRequest):
    """Answer of `poll`: the request that brings what is new."""

    seconds: float = Field(default=30.0, ge=0, le=120)
    """How long the platform may hold the request before it answers."""


class GuestFault(WireForm):
    """Why a guest has no answer; from any export, as ``{"error": {...}}``."""

    message: str = Field(max_length=4096)
    """What was found, what was expected and what to do."""
    transient: bool = False
    """Whether it may work by itself when it is tried again."""
    retry_after: float | None = Field(default=None, ge=0, le=86_400)
    """Seconds after which it may, where the platform says so."""


class FaultAnswer(WireForm):
    """The answer of an export that has none."""

    error: GuestFault


# -- what guests ask of the host -------------------------------------------------------


class LogRequest(WireForm):
    """Request of `log`; ok: null."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    message: str


class ClockRequest(WireForm):
    """Request of `clock`; ok: ``{"unix": seconds, "monotonic": seconds}``."""


class RandomRequest(WireForm):
    """Request of `random`; ok: base64."""

    bytes: int = Field(ge=1, le=4096)


class StoreRequest(WireForm):
    """Request of `store`.

    ok: of ``get`` the value or null, of ``set`` null, of ``delete`` whether it was there, of
    ``list`` the keys that begin with `key`, sorted.
    """

    op: Literal["get", "set", "delete", "list"]
    key: str = Field(default="", max_length=256)
    value: str | None = None
    namespace: str = ""
    """Which of the granted namespaces; may be left out where there is one."""


class EnvRequest(WireForm):
    """Request of `env`; ok: the value, or null where it is not set."""

    name: str


# `http` takes `HttpRequest`; ok: `HttpResponse`.

ErrorCode: TypeAlias = Literal[
    "bad_request",  # the request is none of these forms
    "not_granted",  # no grant allows it; nothing was done
    "limit",  # a quota or a limit of the call is used up
    "unavailable",  # what it needs is not there: no store, no way out
    "failed",  # it was tried and failed, such as a connection
    "timeout",  # it took longer than the call may take
]


# -- reading and writing ---------------------------------------------------------------

F = TypeVar("F", bound=WireForm)


def written(form: WireForm) -> bytes:
    """Return `form` as JSON."""
    return form.model_dump_json(by_alias=True).encode()


def ok_answer(value: Any) -> bytes:
    """Return the answer of a host function that did what was asked."""
    if isinstance(value, WireForm):
        value = value.model_dump(by_alias=True)
    return to_json({"ok": value})


def error_answer(code: ErrorCode, message: str) -> bytes:
    """Return the answer of a host function that refuses, or failed; the guest goes on."""
    return to_json({"error": {"code": code, "message": message}})


def read_form(form: type[F], data: bytes, *, what: str) -> F:
    """Read JSON that should be `form`; one that passes a bound is told before it is read.

    Args:
        form: The form.
        data: The JSON.
        what: What it is, for the error: ``the answer of handle_tool_call``.

    Raises:
        WireFormError: It is none; the text says where, what was found and what was expected.
    """
    try:
        hold(data)
        return form.model_validate_json(data)
    except TooMuchError as error:
        raise WireFormError(f"{what}: {error}") from None
    except ValidationError as error:
        raise WireFormError(f"{what}: {_told(form, error)}") from None


def read_answer(form: type[F], data: bytes, *, export: str) -> F:
    """Read what an export of a guest has answered.

    Raises:
        FaultError: The guest says that it has no answer.
        WireFormError: It is not `form`.
    """
    try:
        return read_form(form, data, what=f"the answer of {export}")
    except WireFormError as error:
        try:
            fault = read_form(FaultAnswer, data, what="a fault").error
        except WireFormError:
            raise error from None
        raise FaultError(
            fault.message, transient=fault.transient, retry_after=fault.retry_after
        ) from None


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _told(form: type[WireForm], error: ValidationError) -> str:
    # One is enough to go on with, and there may be as many as the guest likes.
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    if first["type"] == "json_invalid":
        return f"found no JSON ({first['msg'][:200]}), expected an object with {_keys(form)}"
    if first["type"] == "extra_forbidden":
        told = f"found the unknown key {where[:80]!r}, expected {_keys(form)}"
    elif first["type"] == "missing":
        told = f"{where!r} is missing, expected {_keys(form)}"
    else:
        found = _SHORT.repr(first["input"])
        found = found if len(found) <= 80 else found[:77] + "..."
        told = f"{where[:80] + ': ' if where else ''}found {found}: {first['msg'][:200]}"
    return told


def _keys(form: type[WireForm]) -> str:
    return ", ".join(field.alias or name for name, field in form.model_fields.items()) or "no keys"


# -- The bounds of what a guest says, held before anything is made of it ---------

# A parser makes an object of every value and an error of every wrong one, so that a million keys
# are a gigabyte and seconds in which nothing else runs. Here the text alone is looked through:
# the signs that make a value are counted, strings are stepped over, and the first bound that is
# passed ends it. What a parser would take for a value is never more than what is counted here.

KEYS = 64
"""Keys of one object."""
PARTS = 1_000
"""Elements of one array."""
DEPTH = 16
"""Objects and arrays within each other."""
VALUES = 20_000
"""Values in all: a full page of messages has about half as many."""
ESCAPES = 500_000
"""Backslashes in all: each is a step of its own for a parser, which holds all threads meanwhile."""
SCALAR = 64
"""Characters of a number: those of a number of 64 bits, and of a float that is written out."""
LONG = 32 * 1024
"""Bytes from which something is read beside the event loop."""

STEPS = 4 * VALUES
"""Values, signs and blanks between them; there are as many only in what is no JSON."""
TOKEN = re.compile(
    rb"""[ \t\r\n:]{0,65536}+ (?: (?P<open>[{\[]) | (?P<close>[}\]]) | (?P<next>,) | (?P<text>")
    | (?P<scalar>[^ \t\r\n:"{}\[\],]{1,65}+) )?""",
    re.VERBOSE,
)
# In pieces: a match over megabytes would hold all threads of the process.
ESCAPED = re.compile(rb'(?:\\.|[^"\\]{1,64}+){1,1024}+', re.DOTALL)

P = ParamSpec("P")
T = TypeVar("T")


class TooMuchError(ValueError):
    """It holds more than a bound; the text says what was found, and what was expected."""


def hold(data: bytes) -> None:
    """Look through JSON, and build nothing of it. What is no JSON is for the parser to tell.

    Raises:
        TooMuchError: It passes a bound.
    """
    if data.count(b"\\") > ESCAPES:
        raise TooMuchError(_passed(ESCAPES, "backslashes"))
    members: list[tuple[int, int]] = []
    at = values = 0
    for _ in range(STEPS):
        token = TOKEN.match(data, at)
        if token is None or token.end() == at:
            return
        at = token.end()
        match token.lastgroup:
            case "open":
                members.append((1, KEYS if data[at - 1 : at] == b"{" else PARTS))
                values += 1
                if len(members) > DEPTH:
                    raise TooMuchError(_passed(DEPTH, "objects and arrays within each other"))
            case "next" if members:
                count, most = members[-1]
                if count == most:
                    of = "keys in one object" if most == KEYS else "elements in one array"
                    raise TooMuchError(_passed(most, of))
                members[-1] = count + 1, most
                values += 1
            case "text":
                at = _end_of_text(data, at)
            case "scalar" if len(token["scalar"]) > SCALAR:
                raise TooMuchError(_passed(SCALAR, "characters in one number"))
            case "close" if members:
                members.pop()
        if values > VALUES:
            raise TooMuchError(_passed(VALUES, "values"))
        if not members and token.lastgroup:
            return  # the value is over, or it is no JSON
    raise TooMuchError(_passed(VALUES, "values"))


def _end_of_text(data: bytes, at: int) -> int:
    """Return where the string ends whose first character stands at `at`; the end without one."""
    quote = -1
    while True:
        if quote < at:
            quote = data.find(b'"', at)
            if quote < 0:
                return len(data)
        escape = data.find(b"\\", at, quote)
        if escape < 0:
            return quote + 1
        piece = ESCAPED.match(data, escape)
        if piece is None:
            return len(data)  # a backslash at the very end
        at = piece.end()


def _passed(most: int, what: str) -> str:
    return f"found more than {most:,} {what}, expected at most {most:,}"


async def aside(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` on a thread where what it reads is long, so that the event loop goes on.

    Args:
        size: How long it is, in bytes or characters.
        function: Reads it.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    if size < LONG:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
