"""CAPABILITY.yaml: what a folder says of one capability."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hookgate import Capability, CapabilityDetail, ToolDefinitionError
from hookgate.catalogue import KIND_PATTERN, KINDS, parameters_of
from hookgate.kit.content.fields import (
    DESCRIPTION_CHARS,
    DISPLAY_CHARS,
    ID,
    LABEL,
    NAME,
    SECRET,
    TOOL,
    Fields,
)
from hookgate.kit.content.files import (
    CONTENT_BYTES,
    MANIFEST_BYTES,
    Stamp,
    inside,
    read_text,
    stamp_of,
)
from hookgate.kit.content.frontmatter import body_of
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.yaml_reader import read_yaml
from hookgate.settings import nearest
from hookgate.wire import StrictJSONError, compile_schema, loads

MANIFEST = "CAPABILITY.yaml"
CONTENT = "SKILL.md"
SCHEMA = "schema.json"

DECLARED_KINDS = tuple(kind for kind in KINDS if kind != "card")

KEYS = (
    "id",
    "name",
    "kind",
    "description",
    "display_name",
    "category",
    "tags",
    "examples",
    "required_secrets",
    "required_tools",
    "has_side_effects",
    "flags",
    "input_schema",
    "skill_content",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of reading one file.

    Attributes:
        declared: What it declares; empty where something is wrong.
        problems: What is wrong, warnings included.
    """

    declared: tuple[Declared, ...] = ()
    problems: tuple[Problem, ...] = ()


def display_name(name: str) -> str:
    """Return a name for people: ``pdf-forms`` becomes ``Pdf Forms``."""
    words = name.replace("_", " ").replace("-", " ").split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


def read_manifest(path: Path) -> Reading:
    """Read one CAPABILITY.yaml, and check the files that it names. It never raises."""
    try:
        text, stamp = read_text(inside(path.parent, path.name, file=path), max_bytes=MANIFEST_BYTES)
        document = read_yaml(text, str(path))
    except ContentError as error:
        return Reading(problems=(error.problem,))
    if not isinstance(document.value, dict):
        found = "nothing" if document.value is None else shortened(document.value)
        return Reading(problems=(document.problem((), found, "keys and values"),))
    manifest = _Manifest(path, Fields(document), stamp)
    declared = manifest.declared()
    problems = tuple(sorted(manifest.fields.problems, key=lambda one: one.line or 0))
    return Reading(declared=() if declared is None else (declared,), problems=problems)


class _Manifest:
    def __init__(self, path: Path, fields: Fields, stamp: Stamp) -> None:
        self.path = path
        self.fields = fields
        self._stamps = [stamp]

    def declared(self) -> Declared | None:
        fields = self.fields
        fields.only(KEYS)
        for key in ("name", "kind", "description"):
            fields.required(key)
        name = fields.text("name", NAME)
        kind = self._kind()
        row_id = self._id(kind, name)
        flags = fields.flags("flags")
        changes = fields.truth("has_side_effects")
        tools = fields.texts("required_tools", TOOL)
        detail = self._detail(name)
        row = Capability(
            id=row_id,
            kind=kind,
            name=name,
            display_name=fields.prose("display_name", DISPLAY_CHARS) or display_name(name),
            description=fields.prose("description", DESCRIPTION_CHARS),
            category=fields.text("category", LABEL),
            tags=fields.texts("tags", LABEL),
            examples=fields.examples("examples"),
            parameters=detail.parameters,
            parameter_texts=detail.parameter_texts,
            required_secrets=fields.texts("required_secrets", SECRET),
            required_tools=tuple(dict.fromkeys(tool.removeprefix("tool:") for tool in tools)),
            has_side_effects=changes
            if changes is not None
            else bool(flags.writes_persistent_state or flags.sends_externally),
            flags=flags,
            source_ref=str(self.path),
            load=detail.load,
        )
        if fields.failed:
            return None
        return Declared(row=row, path=self.path, stamps=tuple(self._stamps))

    def _kind(self) -> str:
        kind = self.fields.value("kind")
        if kind is None or kind in DECLARED_KINDS:
            return str(kind or "")
        expected = f"one of {', '.join(DECLARED_KINDS)}"
        if not isinstance(kind, str) or not re.fullmatch(KIND_PATTERN, kind) or kind == "card":
            expected += ", or a word of your own: lower-case letters, digits, _ and -"
        elif near := nearest(kind, KINDS, cutoff=0.75):
            expected += f"; did you mean {near!r}?"
        else:
            return kind
        self.fields.problem("kind", shortened(kind), expected)
        return ""

    def _id(self, kind: str, name: str) -> str:
        row_id = self.fields.text("id", ID) or f"{kind}:{name}"
        head, colon, _ = row_id.partition(":")
        if colon and row_id != f"{kind}:{name}" and head in KINDS:
            self.fields.problem(
                "id",
                shortened(row_id),
                f"{kind}:{name}, or an id that does not begin with the name of a kind",
            )
        return row_id

    # -- the files beside it -----------------------------------------------

    def _detail(self, name: str) -> _Detail:
        folder, fields = self.path.parent, self.fields
        content = self._beside("skill_content", CONTENT)
        inline = fields.value("input_schema")
        if isinstance(inline, dict):
            schema: Path | None = None
            self._check_schema(inline, name)
        else:
            schema, inline = self._beside("input_schema", SCHEMA), None
        found = inline
        if schema is not None:
            found = self._read_schema(schema, name)
        parameters, texts = parameters_of(found)
        return _Detail(
            folder=folder,
            manifest=self.path,
            content=_relative(content, folder),
            schema=_relative(schema, folder),
            inline=inline,
            parameters=parameters,
            parameter_texts=texts,
        )

    def _beside(self, key: str, default: str) -> Path | None:
        """Return the real path of the file that `key` names, or of the one called `default`."""
        folder = self.path.parent
        named = key in self.fields
        name = self.fields.value(key) if named else default
        if not isinstance(name, str):
            self.fields.problem(key, shortened(name), "the name of a file in this folder")
            return None
        # A link that leads nowhere is there, and is a mistake.
        if not named and not (folder / name).exists() and not (folder / name).is_symlink():
            return None
        try:
            real = inside(
                folder, name, file=self.path, key=key if named else "", line=self.fields.line(key)
            )
            stamp = stamp_of(real)
            if stamp.size > CONTENT_BYTES:
                found, expected = f"{stamp.size} bytes", f"at most {CONTENT_BYTES}: make it shorter"
                raise ContentError(Problem(file=str(real), found=found, expected=expected))
        except ContentError as error:
            self.fields.problems.append(error.problem)
            return None
        self._stamps.append(stamp)
        return real

    def _read_schema(self, path: Path, name: str) -> Any:
        try:
            schema = _schema(path)
        except ContentError as error:
            self.fields.problems.append(error.problem)
            return None
        self._check_schema(schema, name, file=path)
        return schema

    def _check_schema(
        self, schema: Mapping[str, Any], name: str, *, file: Path | None = None
    ) -> None:
        try:
            compile_schema(schema, tool=name)
        except (ToolDefinitionError, ValueError, TypeError, RecursionError) as error:
            found = f"a schema that cannot be used: {error}"
            expected = "a JSON Schema (2020-12) whose type is object"
            if file is None:
                self.fields.problem("input_schema", found, expected)
            else:
                problem = Problem(file=str(file), found=found, expected=expected)
                self.fields.problems.append(problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """Where schema and content are, to be read when they are asked for."""

    folder: Path
    manifest: Path
    content: str | None = None
    schema: str | None = None
    inline: Mapping[str, Any] | None = None
    parameters: tuple[str, ...] = field(default=(), compare=False)
    parameter_texts: tuple[str, ...] = field(default=(), compare=False)

    def load(self) -> CapabilityDetail:
        """Read them.

        Raises:
            ContentError: A file has become one that cannot be used since it was looked at.
        """
        schema, content = self.inline, ""
        if self.schema is not None:
            schema = _schema(inside(self.folder, self.schema, file=self.manifest))
        if self.content is not None:
            path = inside(self.folder, self.content, file=self.manifest)
            content = body_of(read_text(path, max_bytes=CONTENT_BYTES)[0])
        return CapabilityDetail(schema=schema, content=content)


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
