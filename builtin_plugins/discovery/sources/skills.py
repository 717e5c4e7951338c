"""SKILL.md files by the agentskills format (https://agentskills.io/specification)."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from hookgate import Capability, CapabilityDetail
from hookgate.builtin_plugins.discovery.sources.manifests import DeclaredCapability, display_name
from hookgate.kit.content.documents import (
    Description,
    Examples,
    Form,
    Label,
    Labels,
    Reading,
    Secrets,
    SourceDocument,
    ToolNames,
    matching,
    parse,
    prose,
    read,
)
from hookgate.kit.content.files import CONTENT_BYTES, inside, read_text
from hookgate.kit.content.frontmatter import body_of, split
from hookgate.kit.content.problems import ContentError, shortened
from hookgate.wire import Documented

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


def read_skill(path: Path) -> Reading[DeclaredCapability]:
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
        return Reading(problems=(error.problem,))
    reading = read(SkillHead, document)
    head, warnings = reading.one, []
    if head is None:
        return Reading(problems=reading.problems)
    if head.name != path.parent.name:
        found = f"{head.name!r} in a folder called {shortened(path.parent.name)}"
        expected = "the name of its folder"
        warnings.append(document.problem(("name",), found, expected, severity="warning"))
    declared = DeclaredCapability(row=_row(path, head), path=path, line=1, stamps=(stamp,))
    return Reading(found=(declared,), problems=reading.problems).and_problems(warnings)


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
