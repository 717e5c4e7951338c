"""Whether the names that an operator gives to plugins make sense.

Package-private: `core.plugins.manager` is the face of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hookgate.core.domain.descriptors import identity
from hookgate.core.domain.errors import ConfigProblem, PluginError, StartError
from hookgate.core.registry.admission import SANDBOX_RUNNER
from hookgate.core.settings.sections import nearest, problem

if TYPE_CHECKING:
    from hookgate.core.plugins.sources import Candidate
    from hookgate.core.settings.schema import Settings

SLOTS = (SANDBOX_RUNNER,)
"""Names that count as a builtin's, whether one comes with hookgate or not: what runs under them
is believed, so the operator says who does."""


def reserved(
    candidates: Sequence[Candidate], settings: Settings, builtin: Collection[str]
) -> list[Candidate]:
    """Return the installed plugins; one that has taken a reserved name may not be imported."""
    return [
        replace(
            one,
            refused=f"the name {one.name!r} is that of the plugin which runs the sandbox, and "
            f'installing one chooses none: `replace = {{ {one.name} = "{one.name}" }}` in '
            "[plugins] does",
        )
        if one.name in SLOTS
        and one.name not in builtin
        and not one.refused
        and settings.plugins.replace.get(one.name) != one.name
        else one
        for one in candidates
    ]


def refuse_doubles(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, each name once.

    One that may not be imported anyway gives way to another of its name.

    Raises:
        PluginError: A plugin that is no builtin has a builtin's name.
        StartError: Two distributions bring plugins of one name.
    """
    seen: dict[str, Candidate] = {}
    for candidate in candidates:
        name = candidate.name
        first = seen.setdefault(identity(name), candidate)
        if first is candidate or candidate.refused:
            continue
        if first.refused:
            seen[identity(name)] = candidate
        elif first.origin == "builtin":
            raise PluginError(
                name,
                f"{candidate.origin} brings a plugin of this name, which is a builtin's, and "
                f"installing never replaces a builtin: have it renamed, say to 'acme_{name}', "
                f'and write `replace = {{ {name} = "acme_{name}" }}` in [plugins]; '
                "or uninstall it",
            )
        else:
            raise StartError(
                f"plugin {name!r} is brought by both {first.origin} and {candidate.origin}"
                f"{f', there as {first.name!r}' if first.name != name else ''}: "
                "uninstall one of them, or leave one out of `plugins.allow`"
            )
    return list(seen.values())


def name_problems(
    settings: Settings, by_name: Mapping[str, Candidate], disabled: Sequence[str]
) -> list[ConfigProblem]:
    """Return what is wrong with the names in ``[plugins]`` and ``[plugin.NAME]``.

    Args:
        settings: The settings.
        by_name: Every plugin that is builtin, installed, or brought by the program.
        disabled: The names that the command line disables.
    """
    options = settings.plugins
    own = [name for name, one in by_name.items() if one.origin == "builtin"]
    builtin = [*own, *(name for name in SLOTS if name not in own)]
    others = [name for name, one in by_name.items() if one.origin != "builtin"]
    found = [
        *_strangers("plugins.disable", options.disable, by_name),
        *_strangers("-p no", disabled, by_name, file="command line"),
        *_strangers("plugins.required", options.required, others),
    ]
    for name in options.replace:
        if name not in builtin:
            key = f"plugins.replace.{name}"
            near = nearest(name, builtin, "plugins.replace.")
            found.append(problem(key, "a name that is no builtin's", _one_of(builtin), near))
    stand_ins = {other: name for name, other in options.replace.items() if name in builtin}
    for name, other in options.replace.items():
        key = f"plugins.replace.{name}"
        found += [
            problem(key, repr(other), expected, nearest(other, others))
            for expected in _unfit(other, name, others, by_name, stand_ins)
        ]
        if {name, other} & {*options.disable, *disabled}:
            found.append(problem(key, repr(other), "that neither of the two is disabled"))
    for name in settings.plugin:
        key = f"plugin.{name}"
        if stand_ins.get(name, name) != name:
            here = stand_ins[name]
            expected = f"[plugin.{here}], after the name that it runs under"
            found.append(problem(key, "a section for a replacement", expected, f"plugin.{here}"))
        elif name not in by_name and name not in options.replace:
            near = nearest(name, by_name, "plugin.")
            found.append(problem(key, "a plugin that is not there", _one_of(by_name), near))
    return found


def _unfit(
    other: str,
    name: str,
    others: Collection[str],
    by_name: Mapping[str, Candidate],
    stand_ins: Mapping[str, str],
) -> Iterator[str]:
    """Say what was expected of `other`, which cannot replace the builtin `name`."""
    if other not in others:
        yield _one_of(others)
    elif by_name[other].refused:
        yield f"a plugin that may be imported: {by_name[other].refused}"
    elif stand_ins.get(other, name) != name:
        yield f"another plugin: it replaces {stand_ins[other]!r} already"


def _strangers(
    key: str, names: Iterable[str], known: Collection[str], *, file: str = ""
) -> list[ConfigProblem]:
    return [
        problem(key, repr(name), _one_of(known), nearest(name, known), file=file)
        for name in names
        if name not in known
    ]


def _one_of(names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"one of {listed}" if listed else "nothing: there is no plugin to name here"
