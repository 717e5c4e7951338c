"""What plugins bring to the command line, found by name: without plugin, gateway or settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from hookgate.builtin_plugins import BUILTIN
from hookgate.core.domain.errors import ConfigError

if TYPE_CHECKING:
    from hookgate.cli.state import State

COMMANDS = "commands"
"""What ``COMMANDS`` of ``NAME/commands.py`` holds, or entry points in ``hookgate.commands``: a
typer app or a function, under its words. In the name of an entry point dots join the words:
``cards.sign`` becomes `hookgate cards sign`."""

VIEWS = "views"
"""What ``VIEWS`` of ``NAME/views.py`` holds, or entry points in ``hookgate.views``: what is shown
of the result of an operation, under its name; see `operation_commands`."""

CHECKS = "checks"
"""What ``CHECKS`` of ``NAME/commands.py`` holds, or entry points in ``hookgate.checks``: what
other commands ask about a file that they look through, under the file's kind: ``card``."""

PLUGINS = "hookgate"
"""The group of the entry points that are plugins themselves."""

PANEL = "Of plugins"
"""Where the help shows them."""


@dataclass(frozen=True, slots=True)
class BroughtCommand:
    """Something that a plugin brings to the command line.

    Attributes:
        words: Where it stands, such as ``("cards", "scan")``.
        plugin: Who brings it: a builtin plugin, or a distribution.
        load: Returns the thing itself.
        builtin: Whether it is a builtin plugin's.
    """

    words: tuple[str, ...]
    plugin: str
    load: Callable[[], Any]
    builtin: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What ``[plugins]`` says of who may bring something; see `PluginsSettings`."""

    entry_points: bool = True
    allow: Sequence[str] | None = None
    disable: Sequence[str] = ()
    replace: Mapping[str, str] = field(default_factory=dict)


def commands(state: State) -> Iterator[BroughtCommand]:
    """Yield the commands and groups that plugins bring; builtin ones last, so that they count."""
    return _known(state, COMMANDS)


def view(state: State, operation: str) -> Callable[..., Any] | None:
    """Return what is shown of the result of `operation`; None where nobody says."""
    words = tuple(operation.split("."))
    found = [one for one in _known(state, VIEWS) if one.words == words]
    return found[-1].load() if found else None


def checks(state: State, kind: str) -> Sequence[Callable[..., Any]]:
    """Return what plugins have to say about files of `kind`.

    A check that cannot be loaded is no small thing to leave out: its error is raised.
    """
    return [one.load() for one in _known(state, CHECKS) if one.words == (kind,)]


def missing_plugin(state: State, words: Sequence[str]) -> str:
    """Return the builtin plugin that would bring the command `words`; "" where none would.

    It is one that does not run: what the others bring is found.
    """
    section, wanted = _plugins_section(state), " ".join(words)
    for name in BUILTIN:
        if wanted in _table(name, COMMANDS) and not _runs(section, state, name):
            return name
    return ""


def builtins(state: State) -> tuple[Sequence[str], bool]:
    """Return the builtin plugins that would run here, and whether no others would."""
    section = _plugins_section(state)
    without = {*state.disabled, *section.disable}
    others = _of_third_parties(section, without, state, PLUGINS)
    alone = not section.replace and next(others, None) is None
    return [name for name in BUILTIN if _runs(section, state, name)], alone


def _runs(section: _Chosen, state: State, name: str) -> bool:
    return name not in {*state.disabled, *section.disable, *section.replace}


def _table(plugin: str, what: str) -> Mapping[str, Any]:
    """Return what a builtin plugin brings; nothing, where it has no module for that."""
    module = f"hookgate.builtin_plugins.{plugin}.{VIEWS if what == VIEWS else COMMANDS}"
    found: Mapping[str, Any] = {}
    return getattr(import_module(module), what.upper(), found) if find_spec(module) else found


def _known(state: State, what: str) -> Iterator[BroughtCommand]:
    """Yield what the plugins that may run bring; builtin ones last, so that they count."""
    section = _plugins_section(state)
    without = {*state.disabled, *section.disable}
    yield from _of_third_parties(section, without, state, f"hookgate.{what}")
    for name in BUILTIN:
        if not _runs(section, state, name):
            continue
        for path, thing in _table(name, what).items():
            yield BroughtCommand(
                tuple(re.split("[ .]", path)), name, partial(_itself, thing), builtin=True
            )


def _itself(thing: Any) -> Any:
    return thing


def _plugins_section(state: State) -> _Chosen:
    """Return ``[plugins]``, whatever is wrong with the rest.

    Where it cannot be read, no third party is allowed; commands such as `config check`, which
    say what is wrong, are there all the same.
    """
    try:
        given = state.source.data.get("plugins", {})
    except ConfigError:
        return _Chosen(entry_points=False)
    if not given:
        # Then there is nothing to check, and help need not load what checks it.
        return _Chosen()
    from pydantic import ValidationError

    from hookgate.core.settings.schema import PluginsSettings

    try:
        checked = PluginsSettings.model_validate(given)
    except ValidationError:
        return _Chosen(entry_points=False)
    return _Chosen(checked.entry_points, checked.allow, checked.disable, checked.replace)


def _of_third_parties(
    section: _Chosen, without: set[str], state: State, group: str
) -> Iterator[BroughtCommand]:
    if not section.entry_points:
        return
    for entry in sorted(state.installed.select(group=group), key=lambda one: one.name):
        distribution = entry.dist
        if distribution is None:
            continue
        from hookgate.core.plugins.sources import is_allowed

        if not is_allowed(section.allow, distribution.name, distribution.version):
            continue
        brings = {one.name for one in distribution.entry_points if one.group == PLUGINS}
        if brings and brings <= without:
            continue
        words = tuple(entry.name.split("."))
        yield BroughtCommand(words, distribution.name, entry.load, builtin=False)


def loaded(state: State, one: BroughtCommand) -> Any:
    """Return a command as click runs it; None where it cannot be loaded, which is said."""
    name = one.words[-1]
    try:
        found = one.load()
    except Exception as error:  # noqa: BLE001  a stranger's module may fail in any way
        state.err.print(
            f"the command `{' '.join(one.words)}` of {one.plugin} cannot be loaded: "
            f"{type(error).__name__}: {error}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
        return None
    command = made(found, name)
    command.name, command.rich_help_panel = name, PANEL
    return command


def made(thing: Any, name: str) -> Any:
    """Return a typer app or a function as click runs it."""
    app = thing
    if not isinstance(thing, typer.Typer):
        app = typer.Typer(add_completion=False)
        app.command(name)(thing)
    return typer.main.get_command(app)
