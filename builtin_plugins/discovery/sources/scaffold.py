"""New capabilities from a template, and checking files without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from json import dumps
from pathlib import Path
from typing import Literal, TypeAlias

from hookgate.builtin_plugins.discovery.sources.collection import read_catalogue
from hookgate.builtin_plugins.discovery.sources.folders import Root, Scan, scan
from hookgate.builtin_plugins.discovery.sources.manifests import (
    MANIFEST,
    NAME_FORM,
    SKILL,
    display_name,
    is_skill_name,
    read_manifest,
    read_skill,
)
from hookgate.catalogue import ExamplesError, checked_examples
from hookgate.kit.content.documents import NAME
from hookgate.kit.content.problems import ContentError, Problem, shortened
from hookgate.kit.content.scaffold import filled, quoted, scaffold

Kind: TypeAlias = Literal["tool", "skill", "extension", "channel"]

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
    usable = is_skill_name(name) if kind == "skill" else NAME.fullmatch(name) is not None
    if not usable:
        expected = "letters, digits, `.`, `_` and `-`, at most 64"
        if kind == "skill":
            expected = NAME_FORM
        found = f"the name {shortened(name)}"
        raise ContentError(Problem(file=str(folder), found=found, expected=expected))
    try:
        asked = checked_examples(examples)
    except ExamplesError as error:
        problem = Problem(file=str(folder), found=error.found, expected=error.expected)
        raise ContentError(problem) from error
    words = {
        "kind": kind,
        "name": quoted(name),
        "display": quoted(display_name(name)),
        "description": f"Say here what the {kind} {name} is for.",
        "category": _CATEGORIES[kind],
        "examples": _listed(asked),
    }
    templates = files("hookgate.builtin_plugins.discovery") / "sources" / "templates"
    texts, own = filled(templates / "common", words), filled(templates / kind, words)
    texts[MANIFEST] += own.pop("more")
    return scaffold(folder / name, texts | own)


def _listed(examples: Sequence[str]) -> str:
    if not examples:
        return "examples: []"
    # A string of JSON is one of YAML.
    return "\n".join(["examples:", *(f"- {dumps(one, ensure_ascii=False)}" for one in examples)])


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
