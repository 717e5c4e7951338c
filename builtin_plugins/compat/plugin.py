"""The plugin ``compat``: endpoints for other people's clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from hookgate import Access, ConfigError, Host, ModelRequest, Problem, Refusal, Routes, Turn
from hookgate.builtin_plugins.compat.settings import (
    DENIED,
    LOST,
    MISFIT,
    NOT_CARRIED,
    REUSED,
    CompatSettings,
    Path,
    lost_aliases,
)
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
        self._off = settings.off
        self._guard: Guard | None = None

    def take_settings(self, settings: CompatSettings) -> Collection[str]:
        """Take over changed settings; what runs goes on as it began."""
        takes_a_restart = ("off",) if settings.off != self._off else ()
        self._settings = settings
        if self._guard is not None:
            self._guard.use(settings)
        return takes_a_restart

    @hookimpl
    def check_settings(self, host: Host) -> Sequence[Problem]:
        """Say which names stand for an agent that there is not."""
        return lost_aliases(self._settings, host)

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Host) -> AsyncIterator[None]:
        """Refuse to start with names that nobody could be answered by."""
        if problems := lost_aliases(self._settings, host):
            raise ConfigError(problems)
        yield

    @hookimpl
    def add_routes(self, host: Host, routes: Routes) -> None:
        """Serve the vendors' paths, plain and below the vendor's name."""

        def served(name: str) -> Handler:
            async def handler(request: web.Request) -> web.StreamResponse:
                answer: web.StreamResponse = await getattr(self._loaded(host), name)(request)
                return answer

            handler.__qualname__ = f"compat {name}"
            return handler

        openai, anthropic = ("", "/openai"), ("", "/anthropic")
        served_paths: tuple[tuple[Path, Sequence[str], str, str, str], ...] = (
            ("chat", openai, "POST", "chat/completions", "chat"),
            ("responses", openai, "POST", "responses", "responses"),
            ("responses", openai, "GET", "responses/{response}", "show_response"),
            ("responses", openai, "DELETE", "responses/{response}", "delete_response"),
            ("responses", openai, "POST", "responses/{response}/cancel", "cancel_response"),
            ("responses", openai, "GET", "responses/{response}/input_items", "input_items"),
            ("embeddings", openai, "POST", "embeddings", "embeddings"),
            ("messages", anthropic, "POST", "messages", "messages"),
            ("count_tokens", anthropic, "POST", "messages/count_tokens", "count"),
            ("models", (*openai, "/anthropic"), "GET", "models", "list_models"),
            ("models", (*openai, "/anthropic"), "GET", "models/{model:.+}", "one_model"),
        )
        for path, prefixes, method, rest, name in served_paths:
            if path in self._off:
                continue
            body = MAX_BODY if method == "POST" else None
            for prefix in prefixes:
                where = f"{prefix}/v1/{rest}"
                routes.add(method, where, served(name), access=ACCESS, max_body=body)
        for name in ("chat", "responses", "embeddings", "messages", "models"):
            routes.errors(f"/v1/{name}", _shaped)
        routes.errors("/openai", _shaped)
        routes.errors("/anthropic", _shaped)
        routes.error_code(DENIED, 403, "The model's calls were denied too often.")
        routes.error_code(LOST, 409, "The conversation needs what is not kept any longer.")
        routes.error_code(REUSED, 409, "The Idempotency-Key is that of another request.")
        routes.error_code(MISFIT, 502, "An agent's answer has not the form that was asked for.")
        routes.error_code(NOT_CARRIED, 400, "The model's wire cannot carry a field of the request.")

    @hookimpl
    def before_model_call(
        self, turn: Turn, request: ModelRequest
    ) -> Refusal | Coroutine[Any, Any, None] | None:
        """Refuse a call of a model that was denied too often, or that cannot take the request."""
        return None if self._guard is None else self._guard.refusal(turn, request)

    def _loaded(self, host: Host) -> Guard:
        """Return what serves the routes: who declares them loads nothing of the server."""
        if self._guard is None:
            from hookgate.builtin_plugins.compat.guard import Guard

            self._guard = Guard(host, self._settings)
        return self._guard


def _shaped(request: web.Request, error: ErrorAnswer) -> web.Response:
    from hookgate.builtin_plugins.compat.answers import shape

    return shape(request, error)
