"""The `providers` plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookgate.builtin_plugins.providers.demo import DemoProvider
from hookgate.builtin_plugins.providers.settings import ProvidersSettings
from hookgate.core.ports import EGRESS, SECRETS, Key
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hookgate.core.models import Provider


class Plugin:
    """Brings the demo provider."""

    Settings = ProvidersSettings
    requires: tuple[Key[Any], ...] = (EGRESS, SECRETS)

    def __init__(self, settings: ProvidersSettings) -> None:
        self.settings = settings

    @hookimpl
    def list_providers(self) -> Sequence[Provider]:
        """Return the providers."""
        return [DemoProvider()]
