"""``/v1/session``: a credential is shown once, and a cookie stands for it from then on."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web
from pydantic import ValidationError

from hookgate.core.domain import strict_json
from hookgate.core.domain.errors import WireError
from hookgate.core.gateway.access.auth import Caller
from hookgate.core.gateway.access.browser import session_cookie
from hookgate.core.gateway.codes import wire_error
from hookgate.core.gateway.operations import OperationModel
from hookgate.core.gateway.requests import CALLER
from hookgate.core.gateway.server import Server
from hookgate.core.gateway.wire.rpc import AuthParams

LOGIN_BYTES = 16 * 1024
"""The longest body of a login."""


class SessionResult(OperationModel):
    """Who is logged in."""

    principal: str
    """Who the gateway takes the page for."""
    scopes: tuple[str, ...]
    """What the page may do."""
    expires: datetime | None
    """When the session ends; it is told later each time it is shown. Null without a session."""


async def log_in(server: Server, request: web.Request) -> web.Response:
    """Serve ``POST /v1/session``: open a session for whoever shows a token.

    Raises:
        WireError: The body is not ``{"token": "..."}``, the token is not known, or this address
            has failed too often.
    """
    if request.content_type != "application/json":
        raise wire_error(
            "unsupported_media_type",
            "found a body that does not say it is JSON",
            action="send `Content-Type: application/json`",
        )
    body = await server.bodies.read(request, LOGIN_BYTES, None)
    try:
        token = AuthParams.model_validate(strict_json.loads(body)).token
    except (strict_json.StrictJSONError, ValidationError):
        raise wire_error(
            "invalid_params",
            "expected one parameter, `token`, a text",
            action='send `{"token": "..."}`',
        ) from None
    gate = server.gate
    caller = await gate.check(gate.credential(token, request), request)
    cookie, ends = await gate.sessions.issue(caller.token, "" if caller.token else token)
    return await _answer(server, request, caller, cookie, ends)


async def show(server: Server, request: web.Request) -> web.Response:
    """Serve ``GET /v1/session``: say who asks, and have a session last from now on.

    Raises:
        WireError: The store fails.
    """
    caller = request[CALLER]
    if not caller.session:
        return await _answer(server, request, caller)
    gate = server.gate
    cookie, ends = await gate.sessions.renew(await gate.shown_session(request))
    return await _answer(server, request, caller, cookie, ends)


async def log_out(server: Server, request: web.Request) -> web.Response:
    """Serve ``DELETE /v1/session``: end the session, if it has not ended, and take the cookie back.

    It is ended for good also where what opened it is not known at this moment, and may be again.

    Raises:
        WireError: A foreign page asks, more than one credential came, or it cannot be kept that
            the session was ended.
    """
    sessions, shown = server.gate.sessions, await server.gate.shown_session(request)
    try:
        ended = (await sessions.read(shown)).id if shown else ""
    except WireError as error:
        if error.data.get("code") != "unauthorized":
            raise
        ended = ""
    if ended:
        await sessions.end(ended)
    response = web.Response(status=204)
    await _set_cookie(server, request, response, "")
    return response


async def _answer(
    server: Server, request: web.Request, caller: Caller, cookie: str = "", ends: int = 0
) -> web.Response:
    result = SessionResult(
        principal=caller.principal.id,
        scopes=tuple(sorted(caller.principal.scopes)),
        expires=datetime.fromtimestamp(ends, UTC) if cookie else None,
    )
    response = web.Response(body=server.body(result), content_type="application/json")
    if cookie:
        await _set_cookie(server, request, response, cookie)
    return response


async def _set_cookie(
    server: Server, request: web.Request, response: web.Response, cookie: str
) -> None:
    secure = server.gate.is_secure(request)
    name = await server.gate.sessions.cookie(secure=secure)
    response.headers["Set-Cookie"] = session_cookie(name, cookie, secure=secure)
