"""What a protocol has to say for itself: requests in its shape, answers read from it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import orjson

from hookgate.core.errors import ProviderError
from hookgate.core.strict_json import StrictJSONError, loads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hookgate.core.models import ModelEvent, ModelRequest

__all__ = [
    "Reader",
    "TextTemplate",
    "Wire",
    "arguments_of",
    "merge_options",
    "object_of",
    "parse",
    "safe_id",
    "sendable_input",
    "text_of",
]


class Reader(Protocol):
    """Reads one answer.

    Attributes:
        done: Whether the protocol's own end has been read; nothing comes after it.

    """

    done: bool

    def read(self, data: bytes) -> Sequence[ModelEvent]:
        """Return what one event says.

        Raises:
            ProviderError: It reports a failure, or is not what the protocol knows.

        """

    def end(self) -> Sequence[ModelEvent]:
        """Return what is left to say when the connection has ended without `done`.

        Raises:
            ProviderError: The answer was not at its end.

        """


class TextTemplate:
    """Reads events that differ from one that was parsed in a single text, without parsing.

    Nearly all events of an answer do. What stands before and behind the text is kept; an
    event that has the same around a text without quotes, backslashes and control
    characters is the same JSON with another string in it. Measured on the wire, a JSON
    parser that was not at work just before costs more than all the rest of the relay.

    Args:
        opening: Finds the name that the text stands under, and the quote that opens it.

    """

    __slots__ = ("_head", "_opening", "_room", "_tail", "_tries")

    def __init__(self, opening: re.Pattern[bytes]) -> None:
        self._opening = opening
        self._head = b""
        self._tail = b""
        self._room = 0
        self._tries = 8

    def learn(self, data: bytes) -> None:
        """Take the shape of an event whose only effect was its text.

        A server that changes more than the text from event to event is given up on.
        """
        if self._tries == 0:
            return
        self._tries -= 1
        places = [match.end() for match in self._opening.finditer(data)]
        if len(places) != 1:
            return
        end = data.find(b'"', places[0])
        if b"\\" in data[places[0] : end]:
            return
        self._head, self._tail = data[: places[0]], data[end:]
        self._room = len(self._head) + len(self._tail)

    def text(self, data: bytes) -> str | None:
        """Return the text of an event of the known shape, None for any other one."""
        room = self._room
        if not room or len(data) < room:
            return None
        if not data.startswith(self._head) or not data.endswith(self._tail):
            return None
        raw = data[len(self._head) : len(data) - len(self._tail)]
        if b'"' in raw or b"\\" in raw:
            return None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return None
        return text if text.isprintable() else None


class Wire(Protocol):
    """One provider's protocol.

    Attributes:
        url: Where requests are sent.
        headers: The protocol's own headers, the key among them.

    """

    url: str
    headers: Mapping[str, str]

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request in the protocol's shape, JSON-ready."""

    def reader(self, complain: Callable[[str], None]) -> Reader:
        """Return a reader for one answer.

        Args:
            complain: Takes what is wrong with reported token counts; they count as missing.

        """


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
        malformed(provider, f"an event that is no JSON ({error})")
    if isinstance(value, dict):
        return value
    malformed(provider, f"an event that is a JSON {type(value).__name__} and no object")


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


def safe_id(call_id: str) -> str:
    """Return a tool call's id in the characters that every provider takes.

    A conversation may have begun at another provider, with other ids.
    """
    return _UNSAFE.sub("_", call_id)[:64] or "_"


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
