"""What a request carries once it was decided on: who asks, and the route that it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.gateway.access.auth import Caller
from hookgate.core.gateway.routes import Route

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Principal

__all__ = ["CALLER", "ROUTE", "principal_of"]

CALLER: web.RequestKey[Caller] = web.RequestKey("hookgate caller", Caller)
"""Where the decision leaves who asks."""

ROUTE: web.RequestKey[Route] = web.RequestKey("hookgate route", Route)
"""The route that a request came to, or the nearest one of its path."""


def principal_of(request: web.Request) -> Principal:
    """Return who makes a request to a route with ``Access.scoped``.

    Raises:
        KeyError: The route is public or checks for itself, so nobody was identified.
    """
    return request[CALLER].principal
