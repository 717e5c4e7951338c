"""The plugin ``control``: what clients and operators ask of the gateway itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hookgate.builtin_plugins.control.inspection import inspection_operations
from hookgate.builtin_plugins.control.operations import control_operations
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hookgate.core.domain.operations import Operation
    from hookgate.core.host import Host


class Plugin:
    """Brings the operations; it has no settings and keeps nothing."""

    @hookimpl
    def list_operations(self, host: Host) -> Sequence[Operation[Any, Any]]:
        """Bring the operations that talk, list, look, cancel, reload and revoke."""
        return (*control_operations(host), *inspection_operations(host))
