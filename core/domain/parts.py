"""What a message or a tool's result may hold: text, pictures, sound, documents, links.

A plain string is the easy way and stays one; `Content` is that or a row of parts. What a
reader cannot show is named in its place (`described`), never dropped in silence.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, Self, TypeAlias, TypeVar

import orjson

from hookgate.core.domain.strict_json import dumps

_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,126}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_TEXT_TYPES = ("application/json", "application/xml", "application/yaml", "application/toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """What something came as, on the wire that it came by.

    Attributes:
        wire: The wire: ``openai-chat``, ``openai-responses``, ``anthropic-messages``, or another
            one by its own name.
        data: What stood there, parsed. Nobody changes it in place.
        headers: Of a whole body, the headers that belong to it, such as ``anthropic-beta``, names
            in lower case. A provider sends those that its protocol has, and never a credential.
    """

    wire: str
    data: Any = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class TextForm:
    """What frames of a stream have in common that differ in one text alone.

    Attributes:
        frame: One of them, parsed. Nobody changes it in place.
        field: The name that its text stands under, wherever in the frame that is.
        text: Its text.
        head: What stands before the text, as JSON.
        tail: What stands behind it.
    """

    frame: Mapping[str, Any]
    field: str
    text: str
    head: bytes
    tail: bytes

    @classmethod
    def of(cls, frame: Mapping[str, Any], field: str, text: str) -> Self | None:
        """Return the form of a frame that has this text; None where it is not clear where."""
        written, opening = dumps(frame), b'"%b":"' % field.encode()
        before, found, behind = written.partition(opening + dumps(text)[1:])
        if not found or written.count(opening) != 1:
            return None
        return cls(frame, field, text, before + opening, b'"' + behind)

    def like(self, frame: Mapping[str, Any]) -> Self | None:
        """Return the form of another frame that has the same text under the same name."""
        return type(self).of(frame, self.field, self.text)


class TextFrames(Raw):
    """Frames of one form: those that a text came in, as they are written and not parsed yet.

    Most of an answer is such frames. Who passes them on writes them anew of `form` and `texts`;
    who looks at `data` gets them parsed, one alone or a list.

    Attributes:
        form: What they have in common.
        texts: The texts in which they differ, each as JSON without its quotes.
    """

    __slots__ = ("form", "texts")

    form: TextForm
    texts: Sequence[bytes]

    def __init__(self, wire: str, form: TextForm, texts: Sequence[bytes]) -> None:
        setting = object.__setattr__
        setting(self, "wire", wire)
        setting(self, "headers", ())
        setting(self, "form", form)
        setting(self, "texts", texts)

    @property
    def data(self) -> Any:
        """What stood there, parsed."""
        form = self.form
        frames = [orjson.loads(form.head + text + form.tail) for text in self.texts]
        return frames if len(frames) > 1 else frames[0]


def raws_together(raws: Sequence[Raw]) -> Raw:
    """Return what a text came as whose pieces came as these, one behind the other."""
    first = raws[0]
    if type(first) is TextFrames:
        alike = [one for one in raws if type(one) is TextFrames and one.form is first.form]
        if len(alike) == len(raws):
            texts = [text for one in alike for text in one.texts]
            return TextFrames(first.wire, first.form, texts)
    frames: list[Any] = []
    for raw in raws:
        data = raw.data
        frames += data if isinstance(data, list) else [data]
    return Raw(wire=first.wire, data=frames)


class WirePart:
    """Something that may carry what it came as, for a provider or a client of the same wire.

    Whoever makes another one, with a constructor or with `dataclasses.replace`, makes one without:
    so what was changed is sent as it is now, and no filter is passed by. It is neither compared,
    shown nor stored, and a part that carries none costs nothing.
    """

    __slots__ = ("_raw",)

    _raw: Raw

    @property
    def raw(self) -> Raw | None:
        """What it came as; None where nobody has said, or where it was changed since."""
        try:
            return self._raw
        except AttributeError:
            return None


_P = TypeVar("_P", bound=WirePart)


def came_as(part: _P, raw: Raw | None) -> _P:
    """Say of `part`, which was just made, that it means what `raw` says; return it.

    A provider of that wire sends `raw` in its place, so it has to say nothing that the part does
    not: what plugins judge and change is the part.
    """
    if raw is not None:
        object.__setattr__(part, "_raw", raw)
    return part


@dataclass(frozen=True, slots=True)
class Text(WirePart):
    """Plain text.

    Attributes:
        text: The text.
        source: Of a block that stands beside the turn's message or behind tool calls, which one
            it is; see `core.domain.models.SystemText`. It is neither stored nor sent.
    """

    text: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bytes(WirePart):
    media_type: str
    data: str

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data) // 4 * 3 - self.data[-2:].count("=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(_Bytes):
    """A picture: base64 `data` of a `media_type` such as ``image/png``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio(_Bytes):
    """Sound: base64 `data` of a `media_type` such as ``audio/wav``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document(_Bytes):
    """A file: base64 `data` of a `media_type` such as ``application/pdf``.

    Attributes:
        name: What it is called, for people and models.
    """

    name: str = ""

    @property
    def text(self) -> str | None:
        """The text of a document that is nothing but text (UTF-8); None of any other."""
        if not (self.media_type.startswith("text/") or self.media_type in _TEXT_TYPES):
            return None
        try:
            return b64decode(self.data).decode()
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(WirePart):
    """Something that is elsewhere. A model reads it as text.

    Attributes:
        uri: Where it is.
        name: What it is called.
        description: What it is, in a sentence.
        media_type: Its type, where that is known.
    """

    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


Media: TypeAlias = Image | Audio | Document
ContentPart: TypeAlias = Text | Image | Audio | Document | Link
Content: TypeAlias = str | tuple[ContentPart, ...]
"""Plain text, or parts in their order."""

MEDIA = (Image, Audio, Document)
CONTENT_PARTS = (Text, Link, *MEDIA)
_NOUNS = {Image: "an image", Audio: "audio", Document: "a document"}


def parts_of(content: Content) -> tuple[ContentPart, ...]:
    """Return `content` as parts; plain text is one of them, and "" none."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return content


def described(part: Media) -> str:
    """Return what `part` is, such as ``an image (image/png, 1,234 bytes)``."""
    name = f" {part.name!r}" if isinstance(part, Document) and part.name else ""
    return f"{_NOUNS[type(part)]}{name} ({part.media_type}, {part.size:,} bytes)"


def left_out(part: Media, why: str) -> Text:
    """Return the text that stands in the place of what is left out."""
    return Text(f"[left out: {described(part)}: {why}]")


def plain_text(content: Content) -> str:
    """Return `content` for who reads text alone: what is none is named in its place."""
    if isinstance(content, str):
        return content
    return "\n".join(map(_text, content))


def _text(part: ContentPart) -> str:
    match part:
        case Text(text):
            return text
        case Link():
            told = f"[{part.name or part.uri}]({part.uri})"
            return f"{told} {part.description}".rstrip()
        case _:
            return f"[{described(part)}]"


def with_texts(content: Content, change: Callable[[str], str]) -> Content:
    """Return `content` with every text in it changed, those of links and names included.

    A document that is text becomes text, so that it is changed as well. Data that `change`
    would change, such as a secret that was passed off as a picture, is left out.
    """
    if isinstance(content, str):
        return change(content)
    return tuple(_changed(part, change) for part in content)


def _changed(part: ContentPart, change: Callable[[str], str]) -> ContentPart:
    match part:
        case Text(text):
            new = change(text)
            return part if new == text else replace(part, text=new)
        case Link():
            texts = (part.uri, part.name, part.description, part.media_type)
            uri, name, description, media_type = map(change, texts)
            return Link(uri=uri, name=name, description=description, media_type=media_type)
    if isinstance(part, Document):
        part = replace(part, name=change(part.name))
        if (text_in := part.text) is not None:
            return Text(change(f"{part.name}:\n{text_in}" if part.name else text_in))
    return part if change(part.data) == part.data else left_out(part, "it holds a secret")


def wrong_in_content(content: object) -> str:
    """Say why `content` is none, in words that follow "whose content"; "" where it is one."""
    if isinstance(content, str):
        return ""
    if not isinstance(content, tuple):
        return f"is of type {type(content).__name__}, expected text or a tuple of parts"
    for part in content:
        if type(part) not in CONTENT_PARTS:
            return f"holds a {type(part).__name__}, expected Text, Image, Audio, Document and Link"
        names = type(part).__dataclass_fields__
        if not all(isinstance(getattr(part, name), str) for name in names):
            return f"holds a {type(part).__name__} with something else than text in a field"
        if isinstance(part, _Bytes):
            if not _MEDIA_TYPE.fullmatch(part.media_type):
                return f"holds media of type {part.media_type[:80]!r}, expected `image/png`, ..."
            if len(part.data) % 4 or not _BASE64.fullmatch(part.data):
                return f"holds {_NOUNS[type(part)]} whose data is no base64"
    return ""


# -- JSON ----------------------------------------------------------------------------


class PartForms:
    """The JSON forms of parts: their ``type``, and behind it their fields by name.

    A field whose text is "" may be missing. That a text came from a `Text.source` is not stored.

    Args:
        types: The classes of the parts by their ``type``.
    """

    def __init__(self, types: Mapping[str, type]) -> None:
        self.types = types
        self._forms = {kind: (name, _fields_of(kind)) for name, kind in types.items()}

    def to_json(self, part: object) -> dict[str, Any]:
        """Return the JSON form of one part."""
        name, stored = self._forms[type(part)]
        body: dict[str, Any] = {"type": name}
        for key, default, write, _ in stored:
            value = getattr(part, key)
            if value or default != "":
                body[key] = write(value) if write else value
        return body

    def from_json(self, data: Mapping[str, Any]) -> Any:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is of a type that this version does not know.
            KeyError: A required key is missing.
        """
        kind = self.types.get(data["type"])
        if kind is None:
            raise ValueError(
                f"found a part of unknown type {data['type']!r}, expected one of "
                f"{', '.join(self.types)}: it was written by a newer version"
            )
        return kind(
            **{
                key: read(data[key]) if read else data[key]
                for key, default, _, read in self._forms[kind][1]
                if key in data or default is MISSING
            }
        )


def _fields_of(kind: type) -> tuple[tuple[str, Any, Any, Any], ...]:
    """Return of each field that is stored its name, its default, its writer and its reader."""
    return tuple(
        (each.name, each.default, *_WAYS.get(str(each.type), (None, None)))
        for each in fields(kind)
        if each.name != "source"
    )


def content_to_json(content: Content) -> str | list[dict[str, Any]]:
    """Return the JSON form: text as it is, parts as a list."""
    return (
        content if isinstance(content, str) else [CONTENT_FORMS.to_json(part) for part in content]
    )


def content_from_json(data: str | Sequence[Mapping[str, Any]]) -> Content:
    """Read what `content_to_json` wrote.

    Raises:
        ValueError: A part has a type that this version does not know.
    """
    return data if isinstance(data, str) else tuple(CONTENT_FORMS.from_json(item) for item in data)


_WAYS: Mapping[str, tuple[Any, Any]] = {
    "Taint": (sorted, frozenset),
    "Content": (content_to_json, content_from_json),
    "Mapping[str, Any]": (dict, None),
    "Mapping[str, Any] | str": (lambda value: value if isinstance(value, str) else {**value}, None),
}
"""Writer and reader of a field by its annotation; a field of another one is JSON as it is."""

CONTENT_FORMS = PartForms(
    {"text": Text, "image": Image, "audio": Audio, "document": Document, "link": Link}
)
