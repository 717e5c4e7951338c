"""What a request carries once it was decided on: who asks, and the route that it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from hookgate.core.gateway.access.auth import Caller
from hookgate.core.gateway.routes import Route

if TYPE_CHECKING:
    from hookgate.core.domain.turn import Principal

CALLER: web.RequestKey[Caller] = web.RequestKey("hookgate caller", Caller)
"""Where the decision leaves who asks."""

ROUTE: web.RequestKey[Route] = web.RequestKey("hookgate route", Route)
"""The route that a request came to, or the nearest one of its path."""


CLIENT: web.RequestKey[str] = web.RequestKey("hookgate client", str)
"""What a request to a route that checks for itself is counted by."""


def client_of(request: web.Request) -> str:
    """Return where a request to a route with ``Access.self_checked`` comes from.

    That is the client's address, as far as trusted proxies tell it; an IPv6 address stands for
    its whole /64. It is what attempts are counted by, not who somebody is.

    Raises:
        KeyError: The route is public or scoped.
    """
    return request[CLIENT]


def principal_of(request: web.Request) -> Principal:
    """Return who makes a request to a route with ``Access.scoped``.

    Raises:
        KeyError: The route is public or checks for itself, so nobody was identified.
    """
    return request[CALLER].principal
