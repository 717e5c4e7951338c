"""SKILL.md files by the agentskills format (https://agentskills.io/specification)."""

from __future__ import annotations

import re
from pathlib import Path

from hookgate import Capability, CapabilityDetail, Flags
from hookgate.builtin_plugins.discovery.sources.manifests import Declared, Reading, display_name
from hookgate.catalogue import ExamplesError, checked_examples
from hookgate.kit.content.fields import (
    DESCRIPTION_CHARS,
    LABEL,
    SECRET,
    TOOL,
    Fields,
)
from hookgate.kit.content.files import CONTENT_BYTES, inside, read_text
from hookgate.kit.content.frontmatter import body_of, split
from hookgate.kit.content.problems import ContentError, shortened
from hookgate.kit.content.yaml_reader import SourceDocument, read_yaml

SKILL = "SKILL.md"

NAME_CHARS = 64
COMPATIBILITY_CHARS = 500

_SKILL_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SEPARATORS = re.compile(r"[,\s]+")


def is_skill_name(name: str) -> bool:
    """Whether the format allows the name."""
    return len(name) <= NAME_CHARS and _SKILL_NAME.fullmatch(name) is not None


def read_skill(path: Path) -> Reading:
    """Read one SKILL.md. It never raises.

    The format's own keys are checked; others are left to whoever knows them. ``metadata`` may
    say more to hookgate: ``category``, ``tags`` (separated by commas), ``requires-tools`` (or
    ``requires``) and ``requires-secrets`` (separated by commas or spaces), ``display-name``,
    ``examples`` (messages, one a line).
    """
    try:
        real = inside(path.parent, path.name, file=path)
        text, stamp = read_text(real, max_bytes=CONTENT_BYTES)
        head, _ = split(text, str(path))
        document = read_yaml(head, str(path), first_line=2)
    except ContentError as error:
        return Reading(problems=(error.problem,))
    if not isinstance(document.value, dict):
        problem = document.problem((), "no keys in the frontmatter", "name and description")
        return Reading(problems=(problem,))
    fields = Fields(document)
    row = _row(path, document, fields)
    problems = tuple(sorted(fields.problems, key=lambda one: one.line or 0))
    declared = () if fields.failed else (Declared(row=row, path=path, line=1, stamps=(stamp,)),)
    return Reading(declared=declared, problems=problems)


def _row(path: Path, document: SourceDocument, fields: Fields) -> Capability:
    fields.required("name")
    fields.required("description")
    name = _name(path, fields)
    description = fields.prose("description", DESCRIPTION_CHARS)
    fields.prose("license", DESCRIPTION_CHARS)
    fields.prose("compatibility", COMPATIBILITY_CHARS)
    _allowed_tools(fields)
    more = _Metadata(document, fields)

    def load() -> CapabilityDetail:
        real = inside(path.parent, path.name, file=path)
        return CapabilityDetail(content=body_of(read_text(real, max_bytes=CONTENT_BYTES)[0]))

    tools = more.listed("requires-tools", TOOL) + more.listed("requires", TOOL)
    return Capability(
        id=f"skill:{name}",
        kind="skill",
        name=name,
        display_name=more.text("display-name") or display_name(name),
        description=description,
        category=more.label("category"),
        tags=more.labels("tags"),
        examples=more.examples("examples"),
        required_secrets=more.listed("requires-secrets", SECRET),
        required_tools=tuple(dict.fromkeys(tool.removeprefix("tool:") for tool in tools)),
        # A skill is text: what it makes a model do is done by tools, which declare their own.
        flags=Flags(),
        source_ref=str(path),
        load=load,
    )


def _name(path: Path, fields: Fields) -> str:
    name = fields.value("name")
    if name is None:
        return ""
    if not (isinstance(name, str) and is_skill_name(name)):
        expected = (
            f"lowercase letters and digits, with single hyphens between them, at most {NAME_CHARS}"
        )
        fields.problem("name", shortened(name), expected)
        return ""
    if name != path.parent.name:
        found = f"{name!r} in a folder called {shortened(path.parent.name)}"
        fields.problem("name", found, "the name of its folder", severity="warning")
    return name


def _allowed_tools(fields: Fields) -> None:
    """Check a hint that hookgate does not follow: policy says which tools may be called."""
    value = fields.value("allowed-tools")
    texts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(text, str) for text in texts):
        fields.problem("allowed-tools", shortened(value), "names of tools, separated by spaces")


class _Metadata:
    """The ``metadata`` of a skill: strings by name."""

    def __init__(self, document: SourceDocument, fields: Fields) -> None:
        self._document = document
        self._fields = fields
        self._texts: dict[str, str] = {}
        found = fields.value("metadata")
        if found is None:
            return
        if not isinstance(found, dict):
            fields.problem("metadata", shortened(found), "a mapping of strings")
            return
        for key, value in found.items():
            # `version: 1.10` was meant as it was written.
            text = document.texts.get(("metadata", key), value)
            if isinstance(value, dict | list) or not isinstance(text, str):
                path = ("metadata", key)
                fields.problems.append(document.problem(path, shortened(value), "a string"))
            else:
                self._texts[key] = text

    def text(self, key: str) -> str:
        """Return a text as it may be shown, on one line."""
        text = " ".join(self._texts.get(key, "").split())
        return text if text.isprintable() and len(text) <= 80 else ""

    def label(self, key: str) -> str:
        """Return one word or a few."""
        return next(iter(self.labels(key)), "")

    def labels(self, key: str) -> tuple[str, ...]:
        """Return words that are separated by commas."""
        return self._checked(
            key, LABEL, [one.strip() for one in self._texts.get(key, "").split(",")]
        )

    def examples(self, key: str) -> tuple[str, ...]:
        """Return messages, one a line."""
        lines = [line for line in self._texts.get(key, "").splitlines() if line.strip()]
        try:
            return checked_examples(lines)
        except ExamplesError as error:
            problem = self._document.problem(("metadata", key), error.found, error.expected)
            self._fields.problems.append(problem)
            return ()

    def listed(self, key: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return names that are separated by commas or spaces."""
        return self._checked(key, pattern, _SEPARATORS.split(self._texts.get(key, "")))

    def _checked(self, key: str, pattern: re.Pattern[str], parts: list[str]) -> tuple[str, ...]:
        parts = [part for part in parts if part]
        for part in parts:
            if not pattern.fullmatch(part):
                expected = "names, separated by commas"
                problem = self._document.problem(("metadata", key), shortened(part), expected)
                self._fields.problems.append(problem)
                return ()
        return tuple(dict.fromkeys(parts))
