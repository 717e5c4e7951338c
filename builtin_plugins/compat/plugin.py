"""The plugin ``compat``: endpoints for other people's clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

from hookgate import Access, Host, ModelRequest, Refusal, Routes, Turn
from hookgate.builtin_plugins.compat.settings import DENIED, NOT_CARRIED, CompatSettings
from hookgate.hookspecs import hookimpl

if TYPE_CHECKING:
    from aiohttp import web

    from hookgate import ErrorAnswer
    from hookgate.builtin_plugins.compat.guard import Guard

    Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

ACCESS = Access.scoped("chat")
MAX_BODY = 32 * 1024 * 1024


class Plugin:
    """Speaks OpenAI's and Anthropic's wires to clients, and judges what they run."""

    Settings = CompatSettings

    def __init__(self, settings: CompatSettings) -> None:
        self._settings = settings
        self._guard: Guard | None = None

    def take_settings(self, settings: CompatSettings) -> Collection[str]:
        """Take over changed settings; what runs goes on as it began."""
        self._settings = settings
        if self._guard is not None:
            self._guard.use(settings)
        return ()

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the vendors' paths, plain and below the vendor's name."""

        def served(name: str) -> Handler:
            async def handler(request: web.Request) -> web.StreamResponse:
                answer: web.StreamResponse = await getattr(self._loaded(host), name)(request)
                return answer

            handler.__qualname__ = f"compat {name}"
            return handler

        for prefix in ("", "/openai"):
            path = f"{prefix}/v1/chat/completions"
            routes.add("POST", path, served("chat"), access=ACCESS, max_body=MAX_BODY)
            path = f"{prefix}/v1/responses"
            routes.add("POST", path, served("responses"), access=ACCESS, max_body=MAX_BODY)
        for prefix in ("", "/anthropic"):
            path = f"{prefix}/v1/messages"
            routes.add("POST", path, served("messages"), access=ACCESS, max_body=MAX_BODY)
            path = f"{path}/count_tokens"
            routes.add("POST", path, served("count"), access=ACCESS, max_body=MAX_BODY)
        for prefix in ("", "/openai", "/anthropic"):
            path = f"{prefix}/v1/models"
            routes.add("GET", path, served("list_models"), access=ACCESS)
            routes.add("GET", f"{path}/{{model:.+}}", served("one_model"), access=ACCESS)
        for name in ("v1/chat", "v1/responses", "v1/messages", "v1/models", "openai", "anthropic"):
            routes.errors(f"/{name}", _shaped)
        routes.error_code(DENIED, 403, "The model's calls were denied too often.")
        routes.error_code(NOT_CARRIED, 400, "The model's wire cannot carry a field of the request.")

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        """Refuse a call of a model that was denied too often, or that cannot take the request."""
        return None if self._guard is None else self._guard.refusal(turn, request)

    def _loaded(self, host: Host) -> Guard:
        """Return what serves the routes: who declares them loads nothing of the server."""
        if self._guard is None:
            from hookgate.builtin_plugins.compat.guard import Guard

            self._guard = Guard(host, self._settings)
        return self._guard


def _shaped(request: web.Request, error: ErrorAnswer) -> web.Response:
    from hookgate.builtin_plugins.compat.errors import shape

    return shape(request, error)
