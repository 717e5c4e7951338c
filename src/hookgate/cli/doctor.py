"""What ails a gateway: its settings, its plugins, its start."""

from __future__ import annotations

import platform
import tempfile
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from hookgate.cli.tracing import isolated
from hookgate.core.errors import ConfigError, HookgateError

if TYPE_CHECKING:
    from hookgate.cli.state import State

__all__ = ["examine"]

_LIBRARIES = ("pluggy", "pydantic", "aiohttp", "uvloop", "httpx", "sqlalchemy")


async def examine(state: State) -> list[dict[str, Any]]:
    """Load everything and start it once; return findings: ``level``, ``about``, ``text``."""
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
    findings.append(_finding("ok", "settings", state.source.file))
    with tempfile.TemporaryDirectory(prefix="hookgate-doctor-") as home:
        try:
            async with state.gateway(isolated(settings, home)) as gateway:
                findings += [_of_plugin(info) for info in gateway.plugins.infos()]
                findings += [
                    _finding("note", f"degraded: {part}", why)
                    for part, why in gateway.host.degraded.items()
                ]
                said = f"{len(gateway.host.tools)} tools, {len(gateway.host.operations)} operations"
                findings.append(_finding("ok", "start", said))
        except HookgateError as error:
            findings.append(_finding("problem", "start", str(error)))
    return findings


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
            return _finding("ok", about, f"{info.origin}, {hooks}")
        case "broken":
            return _finding("problem", about, f"{info.origin}: {info.reason}")
        case _:
            return _finding("note", about, f"{info.state}: {info.reason}")


def _library(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return ""
