"""Chooses the plugins that run, configures, makes, checks and registers them.

Package-private: `core.plugins.manager` is the face of this.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pluggy

from hookgate.core.domain.errors import ConfigError, ConfigProblem, PluginError
from hookgate.core.domain.ports import Key
from hookgate.core.hooks.contracts import contracts_of, tightened
from hookgate.core.host import PluginInfo
from hookgate.core.plugins.checks import idle_hooks, problems_with
from hookgate.core.plugins.choice import SLOTS, name_problems
from hookgate.core.plugins.published import Published, prefix_of
from hookgate.core.plugins.sources import content_of
from hookgate.core.settings.sections import problem, section_of

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from hookgate.core.plugins.sources import Candidate
    from hookgate.core.settings.schema import HookSettings, Section, Settings


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
        wrong: What would stop the start, where the loader is lenient.
        published: The hooks that plugins publish.
        overrides: The settings' own contracts, those for hooks of plugins that do not run left out.
    """

    def __init__(
        self,
        settings: Settings,
        manager: pluggy.PluginManager,
        candidates: Sequence[Candidate],
        log: FilteringBoundLogger,
        *,
        lenient: bool = False,
    ) -> None:
        """Load nothing yet.

        Args:
            settings: The settings.
            manager: Takes the plugins; the specifications are added.
            candidates: All plugins that there are, in load order, each name once.
            log: Hears of plugins that are skipped.
            lenient: Whether to go on whatever is wrong, for people who look: what would stop
                the start is noted in `wrong`.
        """
        self._settings = settings
        self._manager = manager
        self._candidates = {candidate.name: candidate for candidate in candidates}
        self._log = log
        self.infos: list[PluginInfo] = []
        self.idle: list[Candidate] = []
        self.wrong: list[str] = []
        self._lenient = lenient
        self.published = Published(manager)
        self.overrides: dict[str, HookSettings] = {}

    def load(self, disabled: Sequence[str], problems: Iterable[ConfigProblem] = ()) -> None:
        """Register all plugins that are to run.

        Args:
            disabled: Names that the command line disables.
            problems: What is wrong in the settings already.

        Raises:
            ConfigError: Everything that is wrong in the settings of plugins and hooks.
            PluginError: A plugin that is needed is broken.
        """
        settings = self._settings
        found = [
            *problems,
            *name_problems(settings, self._candidates, disabled),
        ]
        configured: list[tuple[_Chosen, Section | None]] = []
        for one in self._choose({*settings.plugins.disable, *disabled}):
            try:
                configured.append((one, self._configure(one)))
            except ConfigError as error:
                found += self._misconfigured(one, error)
            except PluginError as error:
                self._broken(one, error)
        made: list[tuple[_Chosen, object]] = []
        for one, section in configured if self._lenient or not found else ():
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
        if found and not self._lenient:
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
                    required = PluginError(name, f"it is required, and {candidate.refused}")
                    if not self._lenient:
                        raise required
                    self.wrong.append(str(required))
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
            if not self._lenient:
                raise error
            self.wrong.append(str(error))
        reason = str(error).removeprefix(f"plugin {one.name!r}: ")
        self._leave_out(one.candidate, "broken", reason)
        if self._lenient:
            return
        self._log.error(
            "plugin skipped", plugin=one.name, origin=one.candidate.origin, reason=reason
        )

    def _misconfigured(self, one: _Chosen, error: ConfigError) -> Sequence[ConfigProblem]:
        if self._lenient:
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
