"""New capabilities from a template, and checking files without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Literal, TypeAlias

from hookgate.builtin_plugins.discovery.sources.extensions import read_catalogue
from hookgate.builtin_plugins.discovery.sources.folders import Root
from hookgate.builtin_plugins.discovery.sources.manifests import (
    MANIFEST,
    display_name,
    read_manifest,
)
from hookgate.builtin_plugins.discovery.sources.scanner import Scan, scan
from hookgate.builtin_plugins.discovery.sources.skills import SKILL, is_skill_name, read_skill
from hookgate.catalogue import ExamplesError, checked_examples
from hookgate.kit.content.documents import NAME
from hookgate.kit.content.problems import ContentError, Problem, shortened

Kind: TypeAlias = Literal["tool", "skill", "extension", "channel"]

SCHEMA = "schema.json"

_MANIFEST = """\
# What this capability is, for whoever looks for it: models and people.
# `hookgate capabilities validate` checks this file.

kind: {kind}
name: {name}
# id: {kind}:{name}          # the default
displayName: {display}

# One or two sentences: what it does, and when to use it. It is found by these words.
description: {description}

category: {category}
tags: [example]

# Messages that ask for it, as people would write them, short and long: it is found by them, too.
{examples}
# Without these it is shown as not available.
requiredSecrets: []      # names, such as OPENAI_API_KEY; never values
requiredTools: []        # names, such as http_get
{more}"""

_MORE = {
    "tool": """
# A manifest describes a tool and runs nothing: a plugin brings the tool itself.
# Its input is described by schema.json beside this file.
hasSideEffects: false

# What the tool does to the world; true, false, or null for unknown.
flags:
  readsExternalData: null
  writesPersistentState: null
  sendsExternally: null
  executesPrivileged: null
  createsAutonomousActions: null
""",
    "skill": """
# The instructions stand in SKILL.md beside this file.
skillContent: SKILL.md
""",
    "extension": "",
    "channel": "",
}

_SKILL = """\
---
name: {name}
description: Say here what the skill is for, and when to use it.
---

# {display}

1. Say what to do first.
2. Say how the result should look.

## Pitfalls

- Name what goes wrong most often, and how to avoid it.
"""

_SCHEMA = """\
{
  "type": "object",
  "properties": {
    "query": {
      "type": "string",
      "description": "What to look for."
    }
  },
  "required": ["query"],
  "additionalProperties": false
}
"""

_CATEGORIES = {
    "tool": "tools",
    "skill": "writing",
    "extension": "extension",
    "channel": "communication",
}


def create(kind: Kind, name: str, folder: Path, examples: Sequence[str] = ()) -> list[Path]:
    """Write the files of a new capability into the new folder ``folder / name``.

    Args:
        kind: What it is.
        name: Its name.
        folder: Where its folder is made.
        examples: Messages that ask for it.

    Returns:
        The files.

    Raises:
        ContentError: The name or an example cannot be used, or there is something of this name
            already.
    """
    place = folder / name
    usable = is_skill_name(name) if kind == "skill" else NAME.fullmatch(name) is not None
    if not usable:
        expected = "letters, digits, `.`, `_` and `-`, at most 64"
        if kind == "skill":
            expected = "lowercase letters and digits with single hyphens between them, at most 64"
        found = f"the name {shortened(name)}"
        raise ContentError(Problem(file=str(folder), found=found, expected=expected))
    try:
        asked = checked_examples(examples)
    except ExamplesError as error:
        problem = Problem(file=str(folder), found=error.found, expected=error.expected)
        raise ContentError(problem) from error
    display = display_name(name)
    texts = {
        MANIFEST: _MANIFEST.format(
            kind=kind,
            name=_quoted(name),
            display=_quoted(display),
            description=f"Say here what the {kind} {name} is for.",
            category=_CATEGORIES[kind],
            examples=_listed(asked),
            more=_MORE[kind],
        )
    }
    if kind == "skill":
        texts[SKILL] = _SKILL.format(name=_quoted(name), display=display)
    if kind == "tool":
        texts[SCHEMA] = _SCHEMA
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place.mkdir()
        for file, text in texts.items():
            with (place / file).open("x", encoding="utf-8") as opened:
                opened.write(text)
    except FileExistsError:
        expected = "another name, or remove what is there: nothing is overwritten"
        problem = Problem(file=str(place), found="a file or folder already", expected=expected)
        raise ContentError(problem) from None
    except OSError as error:
        why = (error.strerror or "an error").lower()
        problem = Problem(file=str(place), found=why, expected="a folder to write to")
        raise ContentError(problem) from None
    return [place / file for file in texts]


def _listed(examples: Sequence[str]) -> str:
    if not examples:
        return "examples: []"
    # A string of JSON is one of YAML.
    return "\n".join(["examples:", *(f"- {dumps(one, ensure_ascii=False)}" for one in examples)])


def _quoted(text: str) -> str:
    """Return a text as YAML takes it for a string: 123 and true would be something else."""
    return text if text[:1].isalpha() and text.casefold() not in _WORDS else f'"{text}"'


_WORDS = {"true", "false", "null"}


def check_path(path: Path) -> Scan:
    """Return what a manifest, a SKILL.md, a catalogue or a folder of them holds.

    It blocks, and never raises. A folder without any capability is a problem.
    """
    if path.is_dir():
        found = scan([Root(path=path, origin="settings", expected=True)])
        if found.declared or found.problems:
            return found
        expected = f"a {MANIFEST} or a {SKILL} in it, or in a folder below it"
        problem = Problem(file=str(path), found="no capability", expected=expected)
        return Scan(problems=(problem,))
    if path.name == SKILL:
        reading = read_skill(path)
    elif path.name == MANIFEST:
        reading = read_manifest(path)
    elif path.suffix in (".toml", ".yaml", ".yml"):
        reading = read_catalogue(path)
    else:
        expected = f"a {MANIFEST}, a {SKILL}, a catalogue of extensions, or a folder"
        problem = Problem(file=str(path), found=f"a file called {path.name}", expected=expected)
        return Scan(problems=(problem,))
    return Scan(declared=reading.found, problems=reading.problems)
