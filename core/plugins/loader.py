"""Chooses the plugins that run, configures, makes, checks and registers them.

Package-private: `core.plugins.manager` is the face of this.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pluggy
from structlog.typing import FilteringBoundLogger

from hookgate.core.domain.descriptors import identity
from hookgate.core.domain.errors import ConfigError, HookgateError, PluginError, Problem, StartError
from hookgate.core.domain.ports import Key
from hookgate.core.hooks.dispatch import contracts_of, tightened
from hookgate.core.host import PluginInfo
from hookgate.core.plugins.checks import Manager, Published, idle_hooks, prefix_of, problems_with
from hookgate.core.plugins.sources import Candidate, content_of
from hookgate.core.registry.admission import SANDBOX_RUNNER
from hookgate.core.settings.schema import HookSettings, Section, Settings
from hookgate.core.settings.sections import nearest, problem, section_of

SLOTS = (SANDBOX_RUNNER,)
"""Names that count as a builtin's, whether one comes with hookgate or not: what runs under them
is believed, so the operator says who does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A candidate that is to run.

    Attributes:
        name: The name that it runs under, and that of its section.
        candidate: What it is.
        needed: Whether its failure stops the start.
    """

    name: str
    candidate: Candidate
    needed: bool


class Loader:
    """Loads the plugins of one gateway.

    Attributes:
        infos: What is known of every plugin, in load order.
        idle: The plugins that do not run.
        lenient: Whether to go on whatever is wrong, for people who look.
        wrong: What would stop the start, where the loader is lenient.
        published: The hooks that plugins publish.
        overrides: The settings' own contracts, those for hooks of plugins that do not run left out.
    """

    def __init__(self, settings: Settings, manager: Manager, log: FilteringBoundLogger) -> None:
        """Load nothing yet.

        Args:
            settings: The settings.
            manager: Takes the plugins; the specifications are added.
            log: Hears of plugins that are skipped.
        """
        self._settings = settings
        self._manager = manager
        self._candidates: dict[str, Candidate] = {}
        self._log = log
        self.lenient = False
        self.infos: list[PluginInfo] = []
        self.idle: list[Candidate] = []
        self.wrong: list[str] = []
        self.published = Published(manager)
        self.overrides: dict[str, HookSettings] = {}

    def stop(self, error: HookgateError) -> None:
        """Raise what stops the start; or note it, where the loader is lenient."""
        if not self.lenient:
            raise error
        self.wrong.append(str(error))

    def load(
        self,
        candidates: Sequence[Candidate],
        disabled: Sequence[str],
        problems: Iterable[Problem] = (),
    ) -> None:
        """Register all plugins that are to run.

        Args:
            candidates: All plugins that there are, in load order, each name once.
            disabled: Names that the command line disables.
            problems: What is wrong in the settings already.

        Raises:
            ConfigError: Everything that is wrong in the settings of plugins and hooks.
            PluginError: A plugin that is needed is broken.
        """
        settings = self._settings
        self._candidates = {candidate.name: candidate for candidate in candidates}
        found = [*problems, *name_problems(settings, self._candidates, disabled)]
        configured: list[tuple[_Chosen, Section | None]] = []
        for one in self._choose({*settings.plugins.disable, *disabled}):
            try:
                configured.append((one, self._configure(one)))
            except ConfigError as error:
                found += self._misconfigured(one, error)
            except PluginError as error:
                self._broken(one, error)
        made: list[tuple[_Chosen, object]] = []
        for one, section in configured if self.lenient or not found else ():
            try:
                made.append((one, self._made(one, section)))
            except ConfigError as error:
                found += self._misconfigured(one, error)
            except PluginError as error:
                self._broken(one, error)
        # Hooks that plugins publish are known now, so that what is left has no publisher.
        known = {*contracts_of(self._manager)}
        self.overrides = {
            name: override
            for name, override in settings.hooks.items()
            if name in known or not self._may_be_of_a_plugin(name, all_made=not found)
        }
        found += tightened(contracts_of(self._manager), self.overrides)[1]
        if found and not self.lenient:
            raise ConfigError(found)
        for one, plugin in self._checked(made):
            self._register(one, plugin)
        self.wrong += map(str, found)
        ranks = {name: rank for rank, name in enumerate(self._candidates)}
        self.infos.sort(key=lambda info: ranks.get(info.name, len(ranks)))

    def _may_be_of_a_plugin(self, hook: str, *, all_made: bool) -> bool:
        """Whether a hook that is not there may be one of a plugin that does not run."""
        if all_made:
            return bool(self.published.why_idle(hook, ""))
        return any(hook.startswith(prefix_of(name)) for name in self._candidates)

    def _checked(self, made: list[tuple[_Chosen, object]]) -> list[tuple[_Chosen, object]]:
        """Return the plugins with whose implementations nothing is wrong, in load order."""
        # Who publishes hooks comes first: where that one is broken, its hooks are not there.
        for one, plugin in sorted(made, key=lambda pair: not getattr(pair[1], "publishes", ())):
            specs = {
                name: (*caller.spec.argnames, *caller.spec.kwargnames)
                for name, caller in vars(self._manager.hook).items()
                if caller.spec is not None
            }
            problems = problems_with(self._manager, plugin, specs, self.published)
            if problems:
                made = [pair for pair in made if pair[0] is not one]
                self._broken(one, PluginError(one.name, "\n  ".join(problems)))
        return made

    # -- choosing ----------------------------------------------------------

    def _choose(self, off: set[str]) -> list[_Chosen]:
        """Return who is to run, under which name, in load order."""
        options = self._settings.plugins
        replaceable = {*self._candidates, *SLOTS}
        stand_ins = {other for name, other in options.replace.items() if name in replaceable}
        chosen: list[_Chosen] = []
        for name, candidate in self._candidates.items():
            other = self._candidates.get(options.replace.get(name, ""))
            if name in off:
                self._leave_out(candidate, "disabled", "`plugins.disable` or `-p no:` names it")
            elif name in stand_ins:
                continue
            elif other is not None:
                reason = f"{other.name!r} of {other.origin} takes its place (`plugins.replace`)"
                self._leave_out(candidate, "replaced", reason)
                chosen.append(_Chosen(name=name, candidate=other, needed=True))
            elif candidate.refused:
                if name in options.required:
                    self.stop(PluginError(name, f"it is required, and {candidate.refused}"))
                self._leave_out(candidate, "disabled", candidate.refused)
            else:
                needed = not candidate.third_party or name in options.required
                chosen.append(_Chosen(name=name, candidate=candidate, needed=needed))
        for name in SLOTS:
            other = self._candidates.get(options.replace.get(name, ""))
            if other is not None and name not in {*off, *(one.name for one in chosen)}:
                chosen.append(_Chosen(name=name, candidate=other, needed=True))
        return chosen

    def _leave_out(
        self,
        candidate: Candidate,
        state: Literal["disabled", "replaced", "broken"],
        reason: str,
    ) -> None:
        self.idle.append(candidate)
        self.published.withdraw(candidate.name, f"does not run: it is {state}")
        self.infos.append(
            PluginInfo(
                name=candidate.name,
                origin=candidate.origin,
                version=candidate.version,
                state=state,
                reason=reason,
            )
        )

    def _broken(self, one: _Chosen, error: PluginError) -> None:
        """Skip a broken plugin, or stop the start where it is needed."""
        if one.needed:
            self.stop(error)
        reason = str(error).removeprefix(f"plugin {one.name!r}: ")
        self._leave_out(one.candidate, "broken", reason)
        if not self.lenient:
            origin = one.candidate.origin
            self._log.error("plugin skipped", plugin=one.name, origin=origin, reason=reason)

    def _misconfigured(self, one: _Chosen, error: ConfigError) -> Sequence[Problem]:
        if self.lenient:
            reason = "; ".join(f"`{each.key}`: found {each.found}" for each in error.problems)
            self._leave_out(one.candidate, "broken", f"its settings are wrong: {reason}")
        return error.problems

    # -- making ------------------------------------------------------------

    def _configure(self, one: _Chosen) -> Section | None:
        values: Mapping[str, Any] = self._settings.plugin.get(one.name, {})
        found = one.candidate.fetch()
        model = getattr(found, "Settings", None) if inspect.isclass(found) else None
        if model is not None:
            section: Section = section_of(self._settings, one.name, model)
            return section
        if values:
            told = f"a section with {', '.join(f'`{key}`' for key in values)}"
            expected = "no section: this plugin takes no settings"
            raise ConfigError([problem(f"plugin.{one.name}", told, expected)])
        return None

    def _made(self, one: _Chosen, section: Section | None) -> object:
        plugin = one.candidate.make(section)
        for attribute in ("requires", "provides", "uses"):
            keys = getattr(plugin, attribute, ())
            if not isinstance(keys, tuple) or not all(isinstance(key, Key) for key in keys):
                raise PluginError(
                    one.name,
                    f"`{attribute}` is {keys!r}: expected a tuple of `Key`",
                )
        self.published.add(one.candidate.name, plugin)
        return plugin

    def _register(self, one: _Chosen, plugin: object) -> None:
        try:
            self._manager.register(plugin, one.name)
        except (pluggy.PluginValidationError, ValueError) as error:
            self._broken(one, PluginError(one.name, str(error)))
            return
        callers = self._manager.get_hookcallers(plugin) or ()
        idle = idle_hooks(self._manager, plugin, self.published)
        self.infos.append(
            PluginInfo(
                name=one.name,
                origin=one.candidate.origin,
                version=one.candidate.version,
                hooks=tuple(sorted(caller.name for caller in callers if caller.has_spec())),
                publishes=self.published.by_plugin.get(one.candidate.name, ()),
                idle=tuple(f"{hook}: {why}" for hook, why in sorted(idle.items())),
                requires=tuple(key.name for key in getattr(plugin, "requires", ())),
                provides=tuple(key.name for key in getattr(plugin, "provides", ())),
                content=content_of(plugin) if one.candidate.origin != "builtin" else None,
            )
        )


# -- the names that an operator gives ------------------------------------------


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
) -> list[Problem]:
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
            expected = f"{_one_of(by_name)}: install what brings it, or take the section out"
            found.append(problem(key, "a plugin that is not there", expected, near))
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
) -> list[Problem]:
    return [
        problem(key, repr(name), _one_of(known), nearest(name, known), file=file)
        for name in names
        if name not in known
    ]


def _one_of(names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"one of {listed}" if listed else "a plugin that is installed: there is none"
