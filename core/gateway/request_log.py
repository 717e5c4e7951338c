"""The line of each request in the log, where `[log] requests` asks for it.

It says who asked for what and how it went, and nothing of what was said: a query, the
parameters and the body are left out, since they hold what people write, and tokens by mistake.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hookgate.core.gateway.request_keys import CALLER

if TYPE_CHECKING:
    from aiohttp import web
    from structlog.typing import FilteringBoundLogger

MAX_NAME = 200
"""Characters of the longest path or method that is shown."""


class RequestLog:
    """Writes a line for each request.

    Args:
        log: Where the lines go.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    @staticmethod
    def begin() -> float:
        """Return when a request began, for its line."""
        return time.perf_counter()

    def http(self, request: web.Request, status: int, began: float) -> None:
        """Write the line of an HTTP request; a status of 0 where no answer went out whole."""
        caller = request.get(CALLER)
        self._log.info(
            "request",
            face="http",
            method=request.method[:MAX_NAME],
            path=request.path[:MAX_NAME],
            status=status,
            ms=_since(began),
            principal=caller.principal.id if caller else "",
        )

    def frame(self, method: str, status: str, began: float, principal: str) -> None:
        """Write the line of a request over a socket; `status` is ``ok`` or the error's code."""
        self._log.info(
            "request",
            face="ws",
            method=method[:MAX_NAME],
            status=status,
            ms=_since(began),
            principal=principal,
        )


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
