"""CAPABILITY.yaml: what a folder says of one capability."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_snake

from hookgate import Capability, CapabilityDetail, Flags
from hookgate.catalogue import KIND_PATTERN, KINDS, parameters_of
from hookgate.kit.content.documents import (
    A_SCHEMA,
    ArgumentsSchema,
    Description,
    DisplayName,
    DocumentModel,
    DocumentReading,
    Examples,
    FlagValues,
    Form,
    Id,
    Label,
    Labels,
    Name,
    Secrets,
    SourceDocument,
    ToolNames,
    matching,
    parse,
    prose,
    read,
    read_text_as,
    wrong_schema,
)
from hookgate.kit.content.files import (
    CONTENT_BYTES,
    MANIFEST_BYTES,
    Stamp,
    inside,
    read_text,
    stamp_of,
)
from hookgate.kit.content.frontmatter import body_of, split
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.settings import nearest
from hookgate.wire import Documented, StrictJSONError, loads

MANIFEST = "CAPABILITY.yaml"
CONTENT = "SKILL.md"
SCHEMA = "schema.json"

DECLARED_KINDS = tuple(kind for kind in KINDS if kind != "card")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCapability:
    """A capability as a file declares it; whether it is available is not known yet.

    Attributes:
        row: The capability, with `available` as the file says.
        path: The file.
        line: The line of the file on which it begins.
        stamps: Of every file that it was made from, so that a change of one shows.
    """

    row: Capability
    path: Path
    line: int = 1
    stamps: tuple[Stamp, ...] = ()


def display_name(name: str) -> str:
    """Return a name for people: ``pdf-forms`` becomes ``Pdf Forms``."""
    words = name.replace("_", " ").replace("-", " ").split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


class CapabilityText(DocumentModel):
    """What every file says of a capability."""

    name: Name
    description: Description
    display_name: DisplayName = ""
    category: Label = ""
    tags: Labels = ()
    examples: Examples = ()
    required_secrets: Secrets = ()
    required_tools: ToolNames = ()

    def row(self, **more: Any) -> Capability:
        """Return the capability; `more` is what files of this kind say beside it."""
        said = {name: getattr(self, name) for name in CapabilityText.model_fields}
        said["display_name"] = self.display_name or display_name(self.name)
        return Capability(**(said | more))


def _kind(kind: str) -> str:
    expected = f"one of {', '.join(DECLARED_KINDS)}"
    if not re.fullmatch(KIND_PATTERN, kind) or kind == "card":
        expected += ", or a word of your own: lower-case letters, digits, _ and -"
    elif kind not in KINDS and (near := nearest(kind, KINDS, cutoff=0.75)):
        expected += f"; did you mean {near!r}?"
    else:
        return kind
    raise ValueError(f"expected {expected}")


class CapabilityManifest(CapabilityText):
    """What CAPABILITY.yaml says."""

    kind: Annotated[str, AfterValidator(_kind)]
    id: Id = ""
    flags: FlagValues = Flags()
    has_side_effects: bool | None = None
    input_schema: Annotated[
        str | ArgumentsSchema | None, Form("the name of a file in this folder, or a JSON Schema")
    ] = None
    skill_content: Annotated[str | None, Form("the name of a file in this folder")] = None

    @model_validator(mode="after")
    def _of_its_kind(self) -> Self:
        head, colon, _ = self.id.partition(":")
        if colon and self.id != f"{self.kind}:{self.name}" and head in KINDS:
            raise ValueError(
                f"id is {shortened(self.id)}, expected {self.kind}:{self.name}, or an id that "
                "does not begin with the name of a kind"
            )
        return self


def read_manifest(path: Path) -> DocumentReading[DeclaredCapability]:
    """Read one CAPABILITY.yaml, and check the files that it names. It never raises."""
    try:
        text, stamp = read_text(inside(path.parent, path.name, file=path), max_bytes=MANIFEST_BYTES)
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    reading = read_text_as(CapabilityManifest, text, str(path), lenient=True)
    manifest, document = reading.one, reading.document
    if manifest is None or document is None:
        return DocumentReading(problems=reading.problems)
    try:
        detail, stamps = _detail(path, manifest, document)
    except ContentError as error:
        return DocumentReading(problems=(*reading.problems, error.problem))
    flags, changes = manifest.flags, manifest.has_side_effects
    if changes is None:
        changes = bool(flags.writes_persistent_state or flags.sends_externally)
    parameters, texts = parameters_of(detail.shown())
    row = manifest.row(
        id=manifest.id or f"{manifest.kind}:{manifest.name}",
        kind=manifest.kind,
        flags=flags,
        has_side_effects=changes,
        parameters=parameters,
        parameter_texts=texts,
        source_ref=str(path),
        load=detail.load,
    )
    declared = DeclaredCapability(row=row, path=path, stamps=(stamp, *stamps))
    return DocumentReading(found=(declared,), problems=reading.problems)


# -- the files beside it ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """Where schema and content are, to be read when they are asked for."""

    manifest: Path
    content: str | None = None
    schema: str | Mapping[str, Any] | None = None

    def shown(self) -> Mapping[str, Any] | None:
        """Read the schema.

        Raises:
            ContentError: It cannot be used.
        """
        if isinstance(self.schema, str):
            return _schema(inside(self.manifest.parent, self.schema, file=self.manifest))
        return self.schema

    def load(self) -> CapabilityDetail:
        """Read them.

        Raises:
            ContentError: A file has become one that cannot be used since it was looked at.
        """
        schema, content = self.shown(), ""
        if self.content is not None:
            path = inside(self.manifest.parent, self.content, file=self.manifest)
            content = body_of(read_text(path, max_bytes=CONTENT_BYTES)[0])
        return CapabilityDetail(schema=schema, content=content)


def _detail(
    path: Path, manifest: CapabilityManifest, document: SourceDocument
) -> tuple[_Detail, tuple[Stamp, ...]]:
    content = _beside(path, document, "skill_content", manifest.skill_content, CONTENT)
    schema: Any = manifest.input_schema
    files = [content]
    if not isinstance(schema, dict):
        files.append(_beside(path, document, "input_schema", schema, SCHEMA))
        schema = _relative(files[-1], path.parent)
    detail = _Detail(manifest=path, content=_relative(content, path.parent), schema=schema)
    if isinstance(schema, str) and (wrong := wrong_schema(dict(detail.shown() or {}))):
        raise ContentError(Problem(file=str(files[-1]), found=wrong, expected=A_SCHEMA))
    return detail, tuple(stamp_of(one) for one in files if one is not None)


def _beside(
    path: Path, document: SourceDocument, key: str, named: str | None, default: str
) -> Path | None:
    """Return the real path of the file that `key` names, or of the one called `default`.

    Raises:
        ContentError: It leads out of the folder, or is no file, or too large.
    """
    folder = path.parent
    name = default if named is None else named
    # A link that leads nowhere is there, and is a mistake.
    if named is None and not (folder / name).exists() and not (folder / name).is_symlink():
        return None
    spelt = next((one for one in document.value if to_snake(one) == key), key)
    line = None if named is None else document.position((spelt,)).line
    real = inside(folder, name, file=path, key="" if named is None else key, line=line)
    size = stamp_of(real).size
    if size > CONTENT_BYTES:
        found, expected = f"{size} bytes", f"at most {CONTENT_BYTES}: make it shorter"
        raise ContentError(Problem(file=str(real), found=found, expected=expected))
    return real


def _schema(path: Path) -> dict[str, Any]:
    text, _ = read_text(path, max_bytes=CONTENT_BYTES)
    try:
        schema = loads(text)
    except StrictJSONError as error:
        found = f"no JSON ({error})"
        raise ContentError(Problem(file=str(path), found=found, expected="JSON")) from None
    if not isinstance(schema, dict):
        raise ContentError(
            Problem(file=str(path), found=shortened(schema), expected="a JSON Schema, an object")
        )
    return schema


def _relative(path: Path | None, folder: Path) -> str | None:
    return None if path is None else str(path.relative_to(folder.resolve()))


# -- skills ----------------------------------------------------------------------

# SKILL.md files by the agentskills format (https://agentskills.io/specification).

SKILL = "SKILL.md"

NAME_CHARS = 64
NAME_FORM = f"lowercase letters and digits, with single hyphens between them, at most {NAME_CHARS}"

_SKILL_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"


def is_skill_name(name: str) -> bool:
    """Whether the format allows the name."""
    return len(name) <= NAME_CHARS and re.fullmatch(_SKILL_NAME, name) is not None


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if text.isprintable() and len(text) <= 80 else ""


def _parted(by: str) -> BeforeValidator:
    return BeforeValidator(lambda text: tuple(filter(None, map(str.strip, re.split(by, text)))))


_NAMES = _parted(r"[,\s]+")


class Metadata(Documented):
    """What ``metadata`` may say to hookgate beside what it says to others, all of it strings."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)

    category: Annotated[Label, BeforeValidator(lambda text: text.split(",")[0].strip())] = ""
    tags: Annotated[Labels, _parted(",")] = ()
    examples: Annotated[Examples, _parted("\n")] = ()
    requires_secrets: Annotated[Secrets, _NAMES] = Field(default=(), alias="requires-secrets")
    requires_tools: Annotated[ToolNames, _NAMES] = Field(default=(), alias="requires-tools")
    requires: Annotated[ToolNames, _NAMES] = ()
    display_name: Annotated[str, AfterValidator(_shown)] = Field(default="", alias="display-name")


class SkillHead(Documented):
    """The format's own keys; others are left to whoever knows them."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, matching(rf"(?=.{{1,{NAME_CHARS}}}\Z){_SKILL_NAME}", NAME_FORM)]
    description: Description
    license: Description = ""
    compatibility: Annotated[str, prose(500)] = ""
    allowed_tools: Annotated[str | tuple[str, ...], Form("names of tools, separated by spaces")] = (
        Field(default=(), alias="allowed-tools")
    )
    """A hint that hookgate does not follow: policy says which tools may be called."""
    metadata: Annotated[Metadata, Form("a mapping of strings")] = Metadata()


def read_skill(path: Path) -> DocumentReading[DeclaredCapability]:
    """Read one SKILL.md. It never raises.

    The format's own keys are checked; others are left to whoever knows them. ``metadata`` may
    say more to hookgate: ``category``, ``tags`` (separated by commas), ``requires-tools`` (or
    ``requires``) and ``requires-secrets`` (separated by commas or spaces), ``display-name``,
    ``examples`` (messages, one a line).
    """
    try:
        real = inside(path.parent, path.name, file=path)
        text, stamp = read_text(real, max_bytes=CONTENT_BYTES)
        document = _as_written(parse(split(text, str(path))[0], str(path), first_line=2))
    except ContentError as error:
        return DocumentReading(problems=(error.problem,))
    reading = read(SkillHead, document)
    head, warnings = reading.one, []
    if head is None:
        return DocumentReading(problems=reading.problems)
    if head.name != path.parent.name:
        found = f"{head.name!r} in a folder called {shortened(path.parent.name)}"
        expected = "the name of its folder"
        warnings.append(document.problem(("name",), found, expected, severity="warning"))
    declared = DeclaredCapability(row=_row(path, head), path=path, line=1, stamps=(stamp,))
    return DocumentReading(found=(declared,), problems=reading.problems).and_problems(warnings)


def _as_written(document: SourceDocument) -> SourceDocument:
    """Return a document whose metadata are texts: `version: 1.10` was meant as it was written."""
    value: Any = document.value
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return document
    said = value["metadata"]
    texts = {key: document.texts.get(("metadata", key), one) for key, one in said.items()}
    return replace(document, value={**value, "metadata": texts})


def _row(path: Path, head: SkillHead) -> Capability:
    def load() -> CapabilityDetail:
        real = inside(path.parent, path.name, file=path)
        return CapabilityDetail(content=body_of(read_text(real, max_bytes=CONTENT_BYTES)[0]))

    more = head.metadata
    # A skill is text: what it makes a model do is done by tools, which declare their own flags.
    return Capability(
        id=f"skill:{head.name}",
        kind="skill",
        name=head.name,
        display_name=more.display_name or display_name(head.name),
        description=head.description,
        category=more.category,
        tags=more.tags,
        examples=more.examples,
        required_secrets=more.requires_secrets,
        required_tools=tuple(dict.fromkeys(more.requires_tools + more.requires)),
        source_ref=str(path),
        load=load,
    )
