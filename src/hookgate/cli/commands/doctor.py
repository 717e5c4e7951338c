"""What ails a gateway: its settings, its plugins, its start."""

from __future__ import annotations

import platform
import tempfile
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from hookgate.cli.terminal.trace import isolated
from hookgate.core.domain.errors import ConfigError, HookgateError, counted
from hookgate.core.domain.events import CUT_SHORT, HookSpan

if TYPE_CHECKING:
    from hookgate.cli.state import State
    from hookgate.core.settings.schema import Settings

DEMO = "demo"
DOCTOR = "hookgate-doctor"
QUESTION = "what is 17*23?"

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
        state.make_gateway(settings)
    except ConfigError as error:
        findings += [_finding("problem", "settings", str(one)) for one in error.problems]
        return [*findings, *_sound(state)]
    except HookgateError as error:
        findings.append(_finding("problem", "plugins", str(error)))
        return [*findings, *_sound(state)]
    findings.append(_finding("ok", "settings", state.settings_name))
    heard = _Heard()
    with tempfile.TemporaryDirectory(prefix="hookgate-doctor-") as home:
        try:
            async with state.gateway(_with_doctor(settings, home), spans=heard.note) as gateway:
                findings += [_of_plugin(info) for info in gateway.plugins.infos()]
                if DEMO in gateway.host.providers:
                    await gateway.chat(QUESTION, agent=DOCTOR)
                    await gateway.drain()
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
        except HookgateError as error:
            findings.append(_finding("problem", "start", str(error)))
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


class _Heard:
    """What the hooks of plugins came to."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, str]] = {}

    def note(self, span: HookSpan) -> None:
        if span.outcome != CUT_SHORT and (span.failed or span.held):
            level = "problem" if span.failed else "note"
            fault = "broken: its hook" if span.failed else "slow: its hook"
            told = f"{fault} {span.hook} {'fails: ' if span.failed else ''}{span.outcome}"
            self._said.setdefault(f"plugin {span.plugin}", {}).setdefault(told, level)

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
