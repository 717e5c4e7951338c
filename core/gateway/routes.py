"""Routes: each declares who may use it, and none is served that does not.

They are declared at every start, so this loads nothing of the server that may serve them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.turn import Scope
from hookgate.core.gateway.access.credentials import FORMS, check_forms
from hookgate.core.gateway.access.origin import OriginRule
from hookgate.core.gateway.codes import FAILED, Code, ErrorAnswer, is_own_code
from hookgate.core.settings.schema import OriginName

if TYPE_CHECKING:
    from aiohttp import web

T = TypeVar("T")

Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"

ErrorShape: TypeAlias = "Callable[[web.Request, ErrorAnswer], web.Response]"
"""Makes the answer to an error."""

CORS_HEADERS = (
    *("Authorization", "Content-Type", "X-Api-Key"),
    *("Anthropic-*", "OpenAI-*", "X-Stainless-*"),
    *("Idempotency-Key", "X-Client-Request-Id", "X-Hookgate-*"),
)
"""The request headers that pages of listed origins may send: what the vendors' SDKs send."""

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
_CODE = re.compile(r"[a-z][a-z0-9_]{2,63}")
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'+.^_`|~-]+")
_ORIGINS = TypeAdapter(tuple[OriginName, ...])


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use a route. A route that declares none is refused at start.

    Build it with `public`, `scoped` or `self_checked`.
    """

    kind: Literal["public", "scoped", "self_checked"]
    scope: Scope | None = None
    why: str = ""

    @classmethod
    def public(cls, why: str) -> Access:
        """Anybody may use it; `why` is shown by `plugins why` and in the route listing."""
        return cls("public", None, why)

    @classmethod
    def scoped(cls, scope: Scope) -> Access:
        """A principal with `scope` may use it."""
        return cls("scoped", scope)

    @classmethod
    def self_checked(cls, why: str) -> Access:
        """The handler checks a signature or a secret of its own, as a webhook does."""
        return cls("self_checked", None, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """The foreign web pages that may use one route.

    Attributes:
        origins: Their origins, ``https://app.example``. There is no ``*``: on loopback it would
            hand the gateway to every page that its owner opens.
        methods: The methods that a browser is told; none stands for the route's own.
        headers: The request headers that it is told; ``X-Acme-*`` stands for all that begin so.
    """

    origins: tuple[str, ...]
    methods: tuple[str, ...] = ()
    headers: tuple[str, ...] = CORS_HEADERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route.

    Attributes:
        method: The HTTP method.
        path: The path, with ``{name}`` for its variables, as aiohttp reads it.
        handler: Serves it.
        access: Who may use it.
        plugin: Who has added it.
        credentials: The forms of a credential that it takes.
        errors: Gives its errors their shape; None for the gateway's own.
        max_body: The longest body in bytes; None for the gateway's limit.
        cors: The foreign pages that may use it; None for those of the settings.
        origins: The same as a rule.
        probe: Whether load balancers ask it, which name no host or an address.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    plugin: str = "core"
    credentials: tuple[str, ...] = FORMS
    errors: ErrorShape | None = None
    max_body: int | None = None
    cors: Cors | None = None
    origins: OriginRule | None = None
    probe: bool = False


class Routes:
    """Takes routes, and the codes of their errors; handed to the hook `add_routes`.

    Attributes:
        plugin: Whose routes are added now.
        codes: The error codes that plugins have registered, by name.
        pages: Where the pages are that were added; ``/`` leads to the first.
    """

    def __init__(self) -> None:
        self.pages: list[str] = []
        self._routes: dict[tuple[str, str], Route] = {}
        self._owners: dict[str, str] = {}
        self._shapes: dict[str, tuple[str, ErrorShape]] = {}
        self.plugin = "core"
        self.codes: dict[str, Code] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        access: Access,
        credentials: Collection[str] = FORMS,
        errors: ErrorShape | None = None,
        max_body: int | None = None,
        cors: Cors | None = None,
        probe: bool = False,
    ) -> None:
        """Add one route.

        Args:
            method: GET, HEAD, POST, PUT, PATCH or DELETE.
            path: Begins with a slash; ``{name}`` stands for a variable.
            handler: An ``async`` function of the request.
            access: Who may use it: ``Access.scoped("read")``, ``Access.public("why")`` or
                ``Access.self_checked("how")``.
            credentials: The forms of a credential that a scoped route takes: ``bearer``,
                ``x-api-key``, ``subprotocol``, ``session`` (of a browser, ``/v1/session``) and
                ``cookie:NAME``. A cookie counts only in requests of the gateway's own pages.
            errors: Makes the answer to an error, those from before the handler included: a
                function of the request and the `ErrorAnswer`. It must return a `web.Response`.
                `errors` of this object settles it for all paths below one.
            max_body: The longest body in bytes, for ``request.read()``, ``json()``, ``text()``
                and ``post()``, instead of ``gateway.limits.frame_bytes``. A handler that reads
                ``request.content`` counts by itself what comes without a length.
            cors: The foreign pages that may use it, instead of ``gateway.allowed_origins``.
            probe: Whether load balancers and monitors ask it: then a request passes that has no
                Host header, or an IP address there. For routes that only read.

        Raises:
            StartError: It declares no access, is malformed, or is there already.
        """
        method = method.upper()
        where = f"route {method} {path}"
        if not isinstance(access, Access):
            raise StartError(
                f"{where}: found access {access!r}, expected an Access, such as "
                'Access.scoped("read"): a route that does not say who may use it is not served'
            )
        if method not in _METHODS or not path.startswith("/"):
            raise StartError(
                f"{where}: expected one of {', '.join(sorted(_METHODS))} and a "
                "path that begins with a slash"
            )
        if max_body is not None and (type(max_body) is not int or max_body < 1):
            raise StartError(f"{where}: found max_body {max_body!r}, expected bytes, 1 or more")
        if probe and method not in ("GET", "HEAD"):
            raise StartError(f"{where}: a probe only reads, expected GET or HEAD")
        if errors is not None and not callable(errors):
            raise StartError(f"{where}: found errors {errors!r}, expected a function")
        self._keep(
            Route(
                method=method,
                path=path,
                handler=handler,
                access=access,
                plugin=self.plugin,
                credentials=_checked(where, lambda: check_forms(credentials)),
                errors=errors,
                max_body=max_body,
                cors=cors,
                origins=None if cors is None else OriginRule(_origins(where, cors)),
                probe=probe,
            )
        )

    def errors(self, prefix: str, shape: ErrorShape) -> None:
        """Own the shape of the errors below a path, where there is no route as well.

        It holds for the routes of this plugin whose path begins with `prefix` and for paths there
        that nobody serves: 401, 404, 405, 413 and what comes from before any handler. Of several
        the longest counts, and what a route says of itself first. Routes of others keep their own.

        Args:
            prefix: Such as ``/v1/messages``: this path, and all of ``/v1/messages/...``.
            shape: A function of the request and the `ErrorAnswer` that returns a `web.Response`.

        Raises:
            StartError: It is malformed, or another plugin owns this very prefix.
        """
        where = f"the errors below {prefix}"
        if not str(prefix).startswith("/") or (prefix != "/" and prefix.endswith("/")):
            raise StartError(f"{where}: expected a path that begins with a slash, and ends in none")
        if not callable(shape):
            raise StartError(f"{where}: found {shape!r}, expected a function")
        if (known := self._shapes.get(prefix)) is not None:
            raise StartError(
                f"{where} are shaped by {known[0]} already, and now by {self.plugin}; choose a "
                "longer prefix"
            )
        self._shapes[prefix] = self.plugin, shape

    def shape_of(self, path: str, route: Route | None) -> ErrorShape | None:
        """Return what shapes an error at `path`; None for the gateway's own form.

        Args:
            path: The path as it was asked for.
            route: What is served there, or the nearest; None where nothing is.
        """
        if route is not None and route.errors is not None:
            return route.errors
        fitting = [
            prefix
            for prefix, (plugin, _) in self._shapes.items()
            if f"{path}/".startswith(f"{prefix.rstrip('/')}/")
            and (route is None or route.plugin == plugin)
        ]
        return self._shapes[max(fitting, key=len)][1] if fitting else None

    def static(self, prefix: str, package: str, folder: str, *, why: str) -> None:
        """Add a page: the files of a folder in a package, for anybody, since they hold no data.

        ``index.html`` is served at `prefix`, under a content security policy that lets it load and
        send nothing elsewhere and run no script of its own text. It names the other files below
        ``{{static}}/``, a path that changes with them, so browsers keep them for ever.

        Args:
            prefix: Such as ``/ui``.
            package: The package that holds the folder, such as ``__package__``.
            folder: Its name in the package.
            why: Why anybody may load it; see `Access.public`.

        Raises:
            StartError: There is no such folder, or one of the paths is there already.
        """
        # Loaded for whoever has a page: what declares routes loads nothing of the server.
        from hookgate.core.gateway.static import StaticPage

        page, access = StaticPage(package, folder), Access.public(why)
        self.pages.append(prefix)
        self.add("GET", prefix, page.to_shell, access=access)
        self.add("GET", f"{prefix}/", page.shell, access=access)
        self.add("GET", f"{prefix}/{{digest:[0-9a-f]{{16}}}}/{{file:.+}}", page.file, access=access)

    def extend(self, others: Iterable[Route]) -> None:
        """Add routes that were added elsewhere.

        Raises:
            StartError: One of them is there already.
        """
        for route in others:
            self._keep(route)

    def _keep(self, route: Route) -> None:
        known = self._routes.get((route.method, route.path))
        if known is not None:
            raise StartError(
                f"route {route.method} {route.path} is added twice: by {_home(known)} and by "
                f"{_home(route)}; choose another path"
            )
        self._routes[route.method, route.path] = route

    def error_code(self, name: str, status: int, meaning: str) -> None:
        """Register a code for errors of this plugin, and the HTTP status that goes with it.

        ``WireError.named(name, ...)``, a `TurnError` and a `Refusal` with this code are then
        answered with `status`. Over JSON-RPC they keep their number, and ``data.code`` tells.

        Args:
            name: 3 to 64 lower-case letters, digits and ``_``; begin it with the plugin's name.
            status: 400 to 599.
            meaning: When it is sent, one sentence.

        Raises:
            StartError: It is malformed, the gateway's own, or registered already.
        """
        where = f"error code {name!r} of {self.plugin}"
        if not _CODE.fullmatch(str(name)):
            raise StartError(
                f"{where}: expected 3 to 64 lower-case letters, digits and _, a letter first"
            )
        if type(status) is not int or not 400 <= status <= 599:
            raise StartError(f"{where}: found status {status!r}, expected 400 to 599")
        if not str(meaning or "").strip():
            raise StartError(f"{where}: expected a sentence that says when it is sent")
        if is_own_code(name):
            raise StartError(f"{where}: the gateway has a code of this name; choose another")
        if (known := self._owners.get(name)) is not None:
            raise StartError(f"{where}: {known} has registered one of this name; choose another")
        self._owners[name] = self.plugin
        self.codes[name] = Code(FAILED, name, status, meaning)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def __len__(self) -> int:
        return len(self._routes)


def _home(route: Route) -> str:
    handler = route.handler
    name = getattr(handler, "__qualname__", type(handler).__qualname__)
    return f"{getattr(handler, '__module__', '?')}.{name} of {route.plugin}"


def _checked(where: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except StartError as error:
        raise StartError(f"{where}: {error}") from None


def _origins(where: str, cors: Cors) -> tuple[str, ...]:
    """Return the origins of `cors`, checked like those of the settings."""
    if not isinstance(cors, Cors):
        raise StartError(f"{where}: found cors {cors!r}, expected a Cors")
    for field in ("origins", "methods", "headers"):
        texts = getattr(cors, field)
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            raise StartError(f"{where}: cors.{field}: found {texts!r}, expected a tuple of texts")
        wrong = [text for text in texts if not TOKEN.fullmatch(text.removesuffix("*"))]
        if wrong and field != "origins":
            raise StartError(f"{where}: cors.{field}: found {wrong[0]!r}, expected a name")
    try:
        return _ORIGINS.validate_python(cors.origins)
    except ValidationError as error:
        raise StartError(f"{where}: cors.origins: {error.errors()[0]['msg']}") from None


# -- request keys ----------------------------------------------------------------

# What a request carries once it was decided on: who asks, and the route that it came to.
