"""All that is wrong with the settings, found at once and without opening anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hookgate.core.domain.errors import ConfigError, Problem, StartError

if TYPE_CHECKING:
    from hookgate.cli.state import State
    from hookgate.core.settings.file import Source
    from hookgate.core.settings.schema import Settings
    from hookgate.gateway import Gateway

ROUNDS = 4
"""How often what is wrong is left out, to see what else is: the core's keys, then the plugins'."""


@dataclass
class FileFindings:
    """What a check came to.

    Attributes:
        problems: What is wrong, by key.
        notes: What may be right, and is worth a look.
        plugins: The plugins that would run.
    """

    problems: dict[str, Problem] = field(default_factory=dict)
    notes: list[Problem] = field(default_factory=list)
    plugins: tuple[str, ...] = ()

    def add(self, problems: Iterable[Problem]) -> None:
        """Take problems; the first one of a key stands."""
        for problem in problems:
            self.problems.setdefault(problem.key, problem)


def check_settings(state: State) -> FileFindings:
    """Return all that is wrong: keys and values, those of plugins, models, keys and listener.

    Raises:
        ConfigError: The settings file cannot be read at all.
        StartError: A plugin cannot be loaded.
    """
    from hookgate.core.settings.file import complete_problems

    findings = FileFindings()
    source, left_out = state.source, set[str]()
    for _ in range(ROUNDS):
        try:
            settings = source.settings()
            gateway = state.make_gateway(settings)
        except ConfigError as error:
            findings.add(error.problems)
            source = _without(source, error.problems, left_out)
            continue
        running = [info.name for info in gateway.plugins.infos() if info.state == "running"]
        findings.plugins = tuple(running)
        problems, notes = state.run(_deeper(gateway, settings, left_out))
        findings.add(complete_problems(problems, state.source))
        findings.notes += complete_problems(notes, state.source)
        break
    findings.problems = {
        problem.key: problem
        for problem in complete_problems(findings.problems.values(), state.source)
    }
    return findings


def _without(source: Source, problems: Iterable[Problem], left_out: set[str]) -> Source:
    """Return `source` without the tables and keys that are wrong.

    Which agent a message goes to needs no second look: a name that is left out would be
    missed there.
    """
    from hookgate.core.settings.layers import normal

    data = {key: value for key, value in source.data.items() if key != "bindings"}
    data.pop("default_agent", None)
    for problem in problems:
        first, *rest = normal(problem.key).split(".")
        table = data.get(first)
        if isinstance(table, dict) and rest and rest[0] in table:
            data[first] = {name: value for name, value in table.items() if name != rest[0]}
            left_out.add(f"{first}.{rest[0]}")
        else:
            data.pop(first, None)
            left_out.add(first)
    return replace(source, data=data, problems=())


async def _deeper(
    gateway: Gateway, settings: Settings, left_out: set[str]
) -> tuple[list[Problem], list[Problem]]:
    """Return what is wrong between sections, and what is worth a note."""
    from hookgate import hookspecs
    from hookgate.core.gateway.access.auth import AccessGate, check_listener
    from hookgate.core.registry.agents import load_agents
    from hookgate.kit.model_check import check_models, describe

    problems: list[Problem] = []
    notes: list[Problem] = []
    if left_out.isdisjoint(("gateway", "gateway.tokens")):
        try:
            check_listener(settings)
            AccessGate(gateway.host).close()
        except ConfigError as error:
            problems += error.problems
        except StartError as error:
            problems.append(_refused(str(error)))
    try:
        await load_agents(settings)
    except ConfigError as error:
        problems += error.problems
    hooks = gateway.plugins.hooks
    try:
        described = await describe(gateway.host, hooks)
    finally:
        await hooks.close()
    # What a plugin with a wrong section would bring is not known.
    bringing = {one.plugin for one in hooks.implementations(hookspecs.list_providers)}
    lost = (name for name in bringing if not left_out.isdisjoint(("plugin", f"plugin.{name}")))
    described = replace(described, silent=(*described.silent, *lost))
    if settings.agents or not any(key.startswith("agents") for key in left_out):
        for fault in check_models(settings, described):
            (problems if fault.certain else notes).append(fault.problem)
    return problems, notes


def _refused(text: str) -> Problem:
    return Problem(key="gateway", found=text, expected="settings that it can listen with")
