"""Routes: each declares who may use it, and none is served that does not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aiohttp import web

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.operations import Access
from hookgate.core.gateway.auth import Caller

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.core.domain.turn import Principal

__all__ = ["CALLER", "Handler", "Route", "Routes", "principal_of"]

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

CALLER: web.RequestKey[Caller] = web.RequestKey("hookgate caller", Caller)
"""Where the decision leaves who asks."""

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes:
        method: The HTTP method.
        path: The path, with ``{name}`` for its variables, as aiohttp reads it.
        handler: Serves it.
        access: Who may use it.
    """

    method: str
    path: str
    handler: Handler
    access: Access


class Routes:
    """Takes routes; handed to the hook `add_routes`."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], Route] = {}

    def add(self, method: str, path: str, handler: Handler, *, access: Access) -> None:
        """Add one route.

        Args:
            method: GET, HEAD, POST, PUT, PATCH or DELETE.
            path: Begins with a slash; ``{name}`` stands for a variable.
            handler: An ``async`` function of the request.
            access: Who may use it: ``Access.scoped("read")``, ``Access.public("why")`` or
                ``Access.self_checked("how")``.

        Raises:
            StartError: It declares no access, is malformed, or is there already.
        """
        method = method.upper()
        if not isinstance(access, Access):
            raise StartError(
                f"route {method} {path}: found access {access!r}, expected an Access, such as "
                'Access.scoped("read"): a route that does not say who may use it is not served'
            )
        if method not in _METHODS or not path.startswith("/"):
            raise StartError(
                f"route {method} {path}: expected one of {', '.join(sorted(_METHODS))} and a "
                "path that begins with a slash"
            )
        known = self._routes.get((method, path))
        if known is not None:
            raise StartError(
                f"route {method} {path} is added twice: by {_home(known.handler)} and by "
                f"{_home(handler)}; choose another path"
            )
        self._routes[method, path] = Route(method, path, handler, access)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def __len__(self) -> int:
        return len(self._routes)


def principal_of(request: web.Request) -> Principal:
    """Return who makes a request to a route with ``Access.scoped``.

    Raises:
        KeyError: The route is public or checks for itself, so nobody was identified.
    """
    return request[CALLER].principal


def _home(handler: Handler) -> str:
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    return f"{getattr(handler, '__module__', '?')}.{name}"
