"""What ails a gateway: its settings, its plugins, its start."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hookgate.cli.trace import isolated
from hookgate.core.domain.errors import ConfigError, HookgateError, Problem, StartError, counted
from hookgate.core.domain.events import CUT_SHORT, HookSpan

if TYPE_CHECKING:
    from pathlib import Path

    from hookgate.cli.state import State
    from hookgate.core.domain.turn import Turn
    from hookgate.core.hooks.caller import Hooks
    from hookgate.core.hooks.dispatch import HookFailure
    from hookgate.core.host import Host, PluginInfo
    from hookgate.core.registry.agents import Router
    from hookgate.core.settings.file import Source
    from hookgate.core.settings.schema import Settings
    from hookgate.core.turn.start import Turns
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


def check_settings(state: State, *, strict: bool = False) -> FileFindings:
    """Return all that is wrong: keys and values, those of plugins, models, keys and listener.

    Args:
        state: What the command line has been told.
        strict: Whether a note counts as wrong, a variable that nothing reads, and a home folder
            that cannot be written.

    Raises:
        ConfigError: The settings file cannot be read at all.
        StartError: A plugin cannot be loaded.
    """
    from hookgate.core.settings.file import complete_problems
    from hookgate.core.settings.layers import unread_variable

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
        infos = gateway.plugins.infos()
        findings.plugins = tuple(info.name for info in infos if info.state == "running")
        findings.notes += [_broken(info) for info in infos if info.state == "broken"]
        problems, notes = state.run(_deeper(gateway, settings, left_out))
        findings.add(complete_problems(problems, state.source))
        findings.notes += complete_problems(notes, state.source)
        break
    if strict:
        findings.add(findings.notes)
        findings.add(map(unread_variable, state.source.unread))
        findings.add(_unwritable(state.source.folder))
        findings.notes = []
    findings.problems = {
        problem.key: problem
        for problem in complete_problems(findings.problems.values(), state.source)
    }
    return findings


def _broken(info: PluginInfo) -> Problem:
    return Problem(
        key=f"plugins.{info.name}",
        found=f"a plugin that cannot be loaded, and is skipped: {info.reason}",
        expected="one that can: mend it, or name it under `disable` of [plugins]; named under "
        "`required`, nothing starts without it",
    )


def _unwritable(home: Path) -> Iterator[Problem]:
    """Yield that the home folder can be neither written nor made."""
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        yield Problem(
            key="home",
            found=f"{there}, which this user cannot write to",
            expected="the one folder that a gateway writes to: set HOOKGATE_HOME, or mount one",
        )


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
    from hookgate.core.registry.agents import Router, load_agents
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
            expected = "settings that it can listen with"
            problems.append(Problem(key="gateway", found=str(error), expected=expected))
    hooks, host = gateway.plugins.hooks, gateway.host
    routes = _Routes(Router({}, (), None))
    try:
        routes = _Routes(
            Router(await load_agents(settings), settings.bindings, settings.default_agent)
        )
    except ConfigError as error:
        problems += error.problems
    else:
        problems += [] if left_out else _unanswered(settings)
    host.attach(hooks=hooks, plugins=gateway.plugins, turns=cast("Turns", routes))
    try:
        described = await describe(host, hooks)
        # Where something was left out, what is lacking may be lacking for that alone.
        for one in () if left_out else await _lacking(host, hooks):
            (notes if one.severity == "warning" else problems).append(one)
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


async def _lacking(host: Host, hooks: Hooks) -> list[Problem]:
    """Return what plugins say that they lack."""
    from hookgate import hookspecs

    return [one for found in await hooks.each(hookspecs.check_settings, host) for one in found]


class _Routes(NamedTuple):
    """What plugins ask of a gateway that has not started: which agent answers whom."""

    router: Router


def _unanswered(settings: Settings) -> list[Problem]:
    """Return that nobody is answered, where there are agents and nothing chooses one of them."""
    if len(settings.agents) < 2 or settings.default_agent or settings.bindings:
        return []
    first, second, *_ = settings.agents
    return [
        Problem(
            key=f"agents.{second}",
            found=f"{len(settings.agents)} agents and nothing that chooses one: nobody is answered",
            expected=f'`default_agent = "{first}"`, or a [[bindings]] entry for each who writes',
        )
    ]


# -- What ails a gateway: its settings, its plugins, its start -------------------

DEMO = "demo"
DOCTOR = "hookgate-doctor"
QUESTION = "what is 17*23?"

LONG_SECONDS = 1.0
"""Seconds for which a hook may hold the event loop before that is a problem, and no note."""

_LIBRARIES = ("pluggy", "pydantic", "aiohttp", "uvloop", "httpx", "sqlalchemy")


async def examine(state: State) -> list[dict[str, Any]]:
    """Load everything, start it, and run one turn of the demo model.

    Returns:
        Findings: ``level``, ``about``, ``text``.
    """
    findings = [_finding("ok", "python", f"{platform.python_version()} on {platform.platform()}")]
    findings.append(_finding("ok", "libraries", ", ".join(filter(None, map(_library, _LIBRARIES)))))
    try:
        settings = state.settings
    except ConfigError as error:
        return [*findings, *_wrong(error), *_sound(state)]
    except Exception as error:  # noqa: BLE001 - what ails a gateway is said, whatever it is
        return [*findings, _unexpected("settings", error)]
    heard = _Heard()
    with tempfile.TemporaryDirectory(prefix="hookgate-doctor-") as home:
        keys, alone = settings.home / "keys", _with_doctor(settings, home)
        try:
            async with state.gateway(alone, spans=heard.note, keys=keys) as gateway:
                findings.append(_finding("ok", "settings", state.settings_name))
                findings += [_of_plugin(info) for info in gateway.plugins.infos()]
                gateway.plugins.hooks.failed = heard.failed
                if DEMO in gateway.host.providers:
                    turn = await gateway.chat(QUESTION, agent=DOCTOR)
                    findings += _of_turn(turn)
                    await gateway.drain()
                await gateway.read_operations()
                findings += [
                    _finding("note", f"degraded: {part}", why)
                    for part, why in gateway.host.degraded.items()
                ]
                said = ", ".join(
                    (
                        counted(len(gateway.host.tools), "tool"),
                        counted(len(gateway.host.operations), "operation"),
                    )
                )
                findings.append(_finding("ok", "start", said))
        except ConfigError as error:
            return [*findings, *_wrong(error), *_sound(state)]
        except HookgateError as error:
            findings.append(_finding("problem", "start", str(error)))
            findings += _sound(state) if not heard.any else []
        except Exception as error:  # noqa: BLE001 - as above
            findings.append(_unexpected("start", error))
    # What a plugin does counts for more than that it could be loaded.
    ailing = heard.findings()
    told = {one["about"] for one in ailing}
    return [*(one for one in findings if one["about"] not in told), *ailing]


def _with_doctor(settings: Settings, home: str) -> Settings:
    """Return the settings with an agent beside the user's, which asks no model outside."""
    from hookgate.core.settings.schema import AgentSettings

    alone = isolated(settings, home)
    default = alone.default_agent or next(iter(alone.agents), DOCTOR)
    agents = {**alone.agents, DOCTOR: AgentSettings(model=f"{DEMO}/{DEMO}")}
    return alone.model_copy(update={"agents": agents, "default_agent": default})


def _wrong(error: ConfigError) -> list[dict[str, Any]]:
    return [_finding("problem", "settings", str(one)) for one in error.problems]


class _Heard:
    """What the hooks of plugins came to.

    Attributes:
        any: Whether one was called.
    """

    def __init__(self) -> None:
        self.any = False
        self._said: dict[str, dict[str, str]] = {}

    def note(self, span: HookSpan) -> None:
        self.any = True
        if span.outcome != CUT_SHORT and (span.failed or span.held):
            long = span.held and span.seconds >= LONG_SECONDS
            level = "problem" if span.failed or long else "note"
            fault = "broken: its hook" if span.failed else "slow: its hook"
            told = f"{fault} {span.hook} {'fails: ' if span.failed else ''}{span.outcome}"
            self._said.setdefault(f"plugin {span.plugin}", {}).setdefault(told, level)

    def failed(self, failure: HookFailure) -> None:
        """Take a failure; that of a stream's filter comes when no hook is called any more."""
        told = f"broken: its hook {failure.hook} fails: {failure.message}"
        self._said.setdefault(f"plugin {failure.plugin}", {}).setdefault(told, "problem")

    def findings(self) -> list[dict[str, Any]]:
        return [
            _finding(level, about, told)
            for about, said in self._said.items()
            for told, level in said.items()
        ]


def _sound(state: State) -> list[dict[str, Any]]:
    """Return findings on the plugins where no gateway can be made; what is wrong is told."""
    plugins, _ = state.survey()
    return [_of_plugin(info) for info in plugins.infos() if info.state != "broken"]


def _finding(level: str, about: str, text: str) -> dict[str, Any]:
    return {"level": level, "about": about, "text": text}


def _of_turn(turn: Turn) -> list[dict[str, Any]]:
    """Return what is wrong with the turn of the demo model, which nothing should stop."""
    if turn.error is None:
        return []
    plugin = turn.error.data.get("plugin")
    by = f" by the plugin {plugin}" if plugin else ""
    return [_finding("problem", "turn", f"its own turn was {turn.ending}{by}: {turn.error}")]


def _unexpected(about: str, error: Exception) -> dict[str, Any]:
    return _finding("problem", about, f"{type(error).__name__}, which nobody expected: {error}")


def _of_plugin(info: Any) -> dict[str, Any]:
    about = f"plugin {info.name}"
    match info.state:
        case "running":
            hooks = f"{len(info.hooks)} hook{'s' * (len(info.hooks) != 1)}"
            told = f"{info.origin}, {hooks}" + "".join(f"; idle: {why}" for why in info.idle)
            return _finding("note" if info.idle else "ok", about, told)
        case "broken":
            return _finding("problem", about, f"{info.origin}: {info.reason}")
        case _:
            return _finding("note", about, f"{info.state}: {info.reason}")


def _library(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
