"""A request's JSON, read field by field: what is wrong is told with the place where it stands.

Nothing here knows a wire. A reader asks for a field by the type that it expects, and whoever sent
another one gets a 400 that names the field as its SDK does (``param``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from hookgate import (
    Audio,
    ContentPart,
    Document,
    Image,
    Link,
    Message,
    ModelParameters,
    Opaque,
    Part,
    SystemText,
    Taint,
    Tool,
    WireError,
)
from hookgate.kit.tokens.bounds import picture_size
from hookgate.wire import Raw, StrictJSONError, dumps, loads, wrong_in_content

T = TypeVar("T")

INVALID = "invalid_params"
"""The gateway's code of a 400."""

MOST_MESSAGES = 10_000
MOST_PARTS = 10_000
"""Parts of one message."""
MOST_TOOLS = 512
MOST_SCHEMA = 256 * 1024
"""Bytes of one tool's declaration."""
LISTS_KEPT = 32
LONGEST_KEPT = 256 * 1024
"""Lists of tools that are kept as they were read, and the bytes of the longest of them."""
MOST_STOPS = 64
LONGEST_NAME = 256

DOCUMENTS = ("document", "file", "input_file")
"""The types of parts that hold what somebody else has written, whoever has sent it."""
OF_THE_MODEL = ("thinking", "redacted_thinking", "reasoning", "server_tool_use")
"""The types of a provider's own parts that bring nothing into the conversation."""
READ_TAINT = frozenset(("client:document",))
BROUGHT_TAINT = frozenset(("provider:tool",))
"""What taints the results of tools that a provider runs, of whose calls nobody is asked."""

ONE_TEXT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""The arguments of a call in free text, as it is judged."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
DATA_URL = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request of one wire, read.

    Attributes:
        wire: The wire's name.
        model: The model as the client names it.
        stream: Whether the client reads the answer while it comes.
        usage: Whether a client that streams wants the usage of the whole answer.
        system: The instructions in front.
        messages: The conversation, one for each message of the wire.
        tools: The tools that the client runs.
        parameters: How the model is asked.
        body: All of it, as it came.
        foreign: What of it no other wire can carry, by name.
        free_text: Tools, and calls of them, that are written in free text, by place: Chat and
            Responses alone can carry them.
        dropped: What of it a model of another wire is not told, by place, as the operator has it.
        hosted: The tools that the provider would run, by their types.
        substitutes: The models that the provider may ask in the place of the one that is named.
        session: What the body names the client's session.
        conversation: The conversation that it goes on with, by its name.
        previous: The answer that it goes on with, by its id.
        told: What the answer repeats of the request, and its upstream was not sent.
    """

    wire: str
    model: str
    stream: bool
    usage: bool = True
    system: tuple[SystemText, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    parameters: ModelParameters = field(default_factory=ModelParameters)
    body: Mapping[str, Any]
    foreign: tuple[str, ...] = ()
    free_text: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    session: str = ""
    conversation: str = ""
    previous: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_kept_here(self) -> bool:
        """Whether the client sends what is new alone."""
        return bool(self.conversation or self.previous)

    @property
    def custom(self) -> frozenset[str]:
        """The names of the tools that are called in free text."""
        return frozenset([tool.name for tool in self.tools if _is_custom(tool.raw)])


def _is_custom(raw: Raw | None) -> bool:
    return raw is not None and isinstance(raw.data, dict) and raw.data.get("type") == "custom"


def bad(param: str, message: str, *, action: str = "") -> WireError:
    """Return the error for what is wrong in one field of a request."""
    where = f"`{param}`: " if param else ""
    return WireError.named(INVALID, f"{where}{message}", action=action, param=param)


def json_object(data: bytes) -> dict[str, Any]:
    """Read a body, strictly.

    Raises:
        WireError: It is no JSON object, or one that two readers could understand differently.
    """
    try:
        value = loads(data)
    except StrictJSONError as error:
        raise bad("", f"the body is no JSON that can be taken: {error}") from None
    if not isinstance(value, dict):
        raise bad("", f"the body is {kind_of(value)}, expected a JSON object")
    return value


def kind_of(value: object) -> str:
    """Return what a JSON value is, for people."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), "a number")


class Fields:
    """One object of a request.

    Args:
        value: What stands where an object is expected.
        at: Where that is, as ``param`` names it.

    Raises:
        WireError: It is no object. Likewise each of the methods, of a field of another type.
    """

    def __init__(self, value: object, at: str = "") -> None:
        if not isinstance(value, dict):
            raise bad(at, f"found {kind_of(value)}, expected an object")
        self.raw: dict[str, Any] = value
        self.at = at

    def __contains__(self, name: str) -> bool:
        return self.raw.get(name) is not None

    def place(self, name: str) -> str:
        """Return where a field stands."""
        return f"{self.at}.{name}" if self.at else name

    def problem(self, name: str, expected: str) -> WireError:
        """Return the error for a field that is not as expected."""
        value = self.raw.get(name)
        short = isinstance(value, str | int | float) and len(str(value)) <= 80
        found = repr(value) if short else kind_of(value)
        return bad(self.place(name), f"found {found}, expected {expected}")

    def wrong(self, name: str, expected: str) -> NoReturn:
        """Refuse a field.

        Raises:
            WireError: Always; see `problem`.
        """
        raise self.problem(name, expected)

    def _of(self, name: str, kinds: type | tuple[type, ...], expected: str) -> Any:
        value = self.raw.get(name)
        if value is None:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            self.wrong(name, expected)
        return value

    def text(self, name: str) -> str:
        """Return a text; "" where there is none."""
        return self._of(name, str, "text") or ""

    def needed(self, name: str) -> str:
        """Return a text that must be there."""
        return self.text(name) or self.wrong(name, "text that is not empty")

    def flag(self, name: str) -> bool | None:
        """Return true or false."""
        value: bool | None = self._of(name, bool, "true or false")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """Return a number between two others."""
        expected = f"a number from {least:g} to {most:g}"
        value: float | None = self._of(name, (int, float), expected)
        if value is not None and not least <= value <= most:
            self.wrong(name, expected)
        return value

    def count(self, name: str, least: int = 1) -> int | None:
        """Return a whole number from `least` on."""
        value: int | None = self._of(name, int, "a whole number")
        if value is not None and value < least:
            self.wrong(name, f"a whole number, {least} or more")
        return value

    def object(self, name: str) -> Fields:
        """Return an object; an empty one where there is none."""
        value = self.raw.get(name)
        return Fields({} if value is None else value, self.place(name))

    def objects(self, name: str, most: int) -> Iterator[Fields]:
        """Yield the objects of a list; none where there is no list."""
        value: list[Any] = self._of(name, list, "a list") or []
        if len(value) > most:
            raise bad(self.place(name), f"found {len(value):,} of them, expected {most:,} at most")
        for number, item in enumerate(value):
            yield Fields(item, f"{self.place(name)}[{number}]")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return some texts, none of which is empty; one text stands for itself."""
        value = self.raw.get(name)
        if value is None:
            return ()
        given = [value] if isinstance(value, str) else value
        sound = isinstance(given, list) and all(isinstance(one, str) and one for one in given)
        if not sound or len(given) > MOST_STOPS:
            self.wrong(name, f"texts that are not empty, {MOST_STOPS} at most")
        return tuple(given)

    def beyond(
        self, known: frozenset[str], neutral: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Return where the fields stand that are set, and are none of the known ones.

        Args:
            known: The fields that are passed over.
            neutral: What fields ask for nothing with, which is as good as not set.
        """
        unset = neutral or {}
        names = (name for name, value in self.raw.items() if value not in (None, unset.get(name)))
        return tuple(self.place(name) for name in names if name not in known)


def kept(read: Callable[[Fields], T]) -> Callable[[Fields], T]:
    """Return `read`, which reads the tools of a request, such that each list is read once.

    Agents bring the same dozens of tools with each request of a session. What was read of a list
    can be kept, since it is made of that list alone, and nobody changes it.
    """

    @lru_cache(maxsize=LISTS_KEPT)
    def known(written: bytes) -> T:
        return read(Fields({"tools": loads(written)}))

    def tools(fields: Fields) -> T:
        written = dumps(fields.raw.get("tools"))
        return known(written) if len(written) <= LONGEST_KEPT else read(fields)

    return tools


def tool_of(fields: Fields, schema: str) -> Tool:
    """Return a tool that the client runs.

    Args:
        fields: Its name, its description and the schema of its arguments.
        schema: The field that has the schema; "" for a tool that takes no arguments.

    Raises:
        WireError: It cannot be offered.
    """
    name = fields.needed("name")
    if not NAME.fullmatch(name):
        fields.wrong("name", "1 to 128 letters, digits, _ and -")
    taken = fields.object(schema).raw if schema else {}
    if len(dumps(fields.raw)) > MOST_SCHEMA:
        raise bad(fields.at, f"found a tool of more than {MOST_SCHEMA:,} bytes, expected less")
    # Some SDKs leave it out, and nothing else is possible.
    typed = taken if taken.get("type") else {**taken, "type": "object"}
    return Tool(
        name=name,
        description=fields.text("description"),
        schema=typed,
        owner="client",
        sandbox="client",
        plugin="client",
    )


def check_tools(tools: Sequence[tuple[Fields, Tool]]) -> tuple[Tool, ...]:
    """Return the tools of a request.

    Raises:
        WireError: Two have one name.
    """
    seen: set[str] = set()
    for fields, tool in tools:
        if tool.name in seen:
            message = f"found a second tool {tool.name!r}, expected a name of its own"
            raise bad(fields.place("name"), message)
        seen.add(tool.name)
    return tuple(tool for _, tool in tools)


def taint_of(parts: Sequence[Part]) -> Taint:
    """Return what taints a message: its documents, and what a provider's own tools have brought.

    A document is one as a file, as text and where it stands for an address.
    """
    found: Taint = frozenset()
    for part in parts:
        came = part.raw.data if part.raw is not None else None
        given = came if isinstance(came, dict) else {}
        if given.get("type") in DOCUMENTS:
            found |= READ_TAINT
        opaque = isinstance(part, Opaque) and given.get("type") not in OF_THE_MODEL
        if opaque or given.get("annotations") or given.get("citations"):
            found |= BROUGHT_TAINT
    return found


def media_of(fields: Fields, media_type: str, data: str, *, name: str = "") -> ContentPart:
    """Return what was sent as base64.

    Raises:
        WireError: It is not what it says that it is.
    """
    part: ContentPart
    if media_type.startswith("image/"):
        part = Image(media_type=media_type, data=data)
    elif media_type.startswith("audio/"):
        part = Audio(media_type=media_type, data=data)
    else:
        part = Document(media_type=media_type, data=data, name=name)
    if wrong := wrong_in_content((part,)):
        raise bad(fields.at, f"the content {wrong}")
    if isinstance(part, Image) and (media_type not in IMAGES or picture_size(part) is None):
        raise bad(fields.at, f"found no picture, expected one of {', '.join(IMAGES)}")
    return part


def file_of(fields: Fields, name: str = "") -> ContentPart:
    """Return the file in the field ``file_data``: base64, as a ``data:`` URL or by itself a PDF.

    Raises:
        WireError: It is not what it says that it is.
    """
    data = fields.needed("file_data")
    head = DATA_URL.match(data)
    media, data = (head[1], data[head.end() :]) if head else ("application/pdf", data)
    return media_of(fields, media, data, name=name)


def arguments_of(written: str) -> Mapping[str, Any] | str:
    """Return a call's arguments: an object, or the text itself where it is none."""
    try:
        given = loads(written) if written.strip() else {}
    except StrictJSONError:
        return written
    return given if isinstance(given, dict) else written


def url_of(fields: Fields, url: str) -> ContentPart:
    """Return what stands at an address, or in it where it is ``data:``.

    Raises:
        WireError: It is neither.
    """
    if url.startswith("data:"):
        head = DATA_URL.match(url)
        if head is None:
            raise bad(fields.at, "found a `data:` URL, expected `data:TYPE/SUBTYPE;base64,...`")
        return media_of(fields, head[1], url[head.end() :])
    if not url.startswith(("https://", "http://")):
        raise bad(fields.at, "expected a URL that begins with https://, or with data:")
    return Link(uri=url)


def parameters_of(fields: Fields, given: Mapping[str, Any]) -> ModelParameters:
    """Return how a model is asked; what is None was not set.

    Raises:
        WireError: A value cannot be.
    """
    try:
        return ModelParameters(**{name: one for name, one in given.items() if one is not None})
    except ValueError as error:
        raise bad(fields.at, str(error)) from None


def check_calls(messages: Sequence[tuple[str, Message]], *, is_all: bool = True) -> None:
    """Refuse a conversation in which a call and its result cannot find each other.

    Args:
        messages: Where each message stands, and the message.
        is_all: Whether nothing stands before it.

    Raises:
        WireError: Two calls have one id, or a result answers no call before it.
    """
    made: set[str] = set()
    answered: set[str] = set()
    for at, message in messages:
        for part in message.tool_results:
            if is_all and part.tool_use_id not in made:
                told = f"found a result of {part.tool_use_id[:80]!r}, which is no call before it"
                raise bad(at, told, action="leave it out, or send the message that calls it")
            if part.tool_use_id in answered:
                raise bad(at, f"found a second result of the call {part.tool_use_id[:80]!r}")
            answered.add(part.tool_use_id)
        for use in message.tool_uses:
            if use.id in made:
                raise bad(at, f"found a second call with the id {use.id[:80]!r}")
            made.add(use.id)
