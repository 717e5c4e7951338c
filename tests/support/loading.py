"""Plugins without a gateway: loaded for a test, and what was wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.hooking import Log

from hookgate.core.domain.errors import ConfigError, Problem
from hookgate.core.host import Host
from hookgate.core.plugins.manager import Plugins
from hookgate.core.settings.schema import HookSettings, PluginsSettings, Settings
from hookgate.core.settings.secret_store import SecretStore


def load(
    *plugins: object,
    section: dict[str, Any] | None = None,
    hooks: dict[str, HookSettings] | None = None,
    builtin: Iterable[str] = (),
    disabled: Iterable[str] = (),
    package: str = "hookgate.builtin_plugins",
    log: Any = None,
    **options: Any,
) -> Plugins:
    options.setdefault("entry_points", False)
    settings = Settings(plugins=PluginsSettings(**options), plugin=section or {}, hooks=hooks or {})
    return Plugins.load(
        settings,
        builtin=tuple(builtin),
        extra=plugins,
        disabled=tuple(disabled),
        package=package,
        log=log or Log(),
    )


def host_of(plugins: Plugins) -> Host:
    settings = Settings()
    return Host(settings, SecretStore(settings))


def problems_of(*plugins: object, **options: Any) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        load(*plugins, **options)
    return caught.value.problems
