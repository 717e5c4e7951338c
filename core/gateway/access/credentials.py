"""Reading the credential of a request: one at most, in a form that its route takes.

Nothing is compared here. What is malformed is refused before anybody is asked about it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hookgate.core.domain.errors import StartError
from hookgate.core.domain.turn import Credential
from hookgate.core.gateway.codes import wire_error

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from multidict import CIMultiDictProxy

    from hookgate.core.domain.turn import CredentialKind

BEARER_PROTOCOL = "bearer."
"""What a WebSocket subprotocol begins with that brings a token."""

COOKIE = "cookie:"
"""What a form begins with that names a cookie, as in ``cookie:session``."""

FORMS = ("bearer", "x-api-key", "subprotocol")
"""The forms of a credential that a route takes where it does not say otherwise."""

MAX_CREDENTIAL = 4096
"""Characters of the longest credential. A signed token with its claims takes up to 2,000."""

_VALUE = re.compile(rf"[\x21-\x7e]{{1,{MAX_CREDENTIAL}}}")
_COOKIE_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")


def check_forms(forms: Collection[Any]) -> tuple[str, ...]:
    """Return the forms of credentials that a route names.

    Raises:
        StartError: One is unknown, or there is none.
    """
    named = () if isinstance(forms, str) else tuple(forms)
    for form in named:
        if form not in FORMS and not (
            isinstance(form, str)
            and form.startswith(COOKIE)
            and _COOKIE_NAME.fullmatch(form.removeprefix(COOKIE))
        ):
            raise StartError(
                f"found the credential {form!r}, expected {', '.join(map(repr, FORMS))}, or "
                "'cookie:NAME' with the name of a cookie"
            )
    if not named:
        raise StartError(
            f"found credentials={forms!r}, expected a sequence such as ('bearer', 'x-api-key'): a "
            "route that wants none has Access.public or Access.self_checked"
        )
    return named


def offered_protocols(headers: CIMultiDictProxy[str]) -> list[str]:
    """Return the WebSocket subprotocols that the client offers."""
    offers = ",".join(headers.getall("Sec-WebSocket-Protocol", ()))
    return [offer.strip() for offer in offers.split(",") if offer.strip()]


def read_credential(
    headers: CIMultiDictProxy[str], forms: Collection[str], *, client: str = ""
) -> Credential | None:
    """Return the credential that a request brings; None where it brings none.

    A header that stays empty, as a script sends it whose variable is not set, brings none. What
    cannot be right, another scheme than ``Bearer`` for example, has the value "".

    Args:
        headers: The request's headers.
        forms: The forms that the route takes. Cookies that it does not name are not looked at;
            any other form that it does not take is refused.
        client: The client's address.

    Raises:
        WireError: There is more than one, or its form is not taken here.
    """
    given = [(kind, name, value) for kind, name, value in _given(headers, forms) if value != ""]
    if len(given) > 1:
        raise wire_error(
            "unauthorized",
            "found more than one token, expected one",
            action="send one `Authorization: Bearer TOKEN`",
        )
    if not given:
        return None
    kind, name, value = given[0]
    if kind != "cookie" and kind not in forms:
        raise wire_error(
            "unauthorized",
            f"found a credential of the form {kind!r}, which is not taken here",
            action=f"send it as one of {', '.join(forms)}",
        )
    return Credential(kind=kind, value=_checked(value), name=name, client=client)


def bearer(value: str, *, client: str = "") -> Credential:
    """Return a token that came in another way than by a header; "" where it cannot be right."""
    return Credential(kind="bearer", value=_checked(value), client=client)


def _checked(value: str) -> str:
    return value if _VALUE.fullmatch(value) else ""


def _given(
    headers: CIMultiDictProxy[str], forms: Collection[str]
) -> Iterator[tuple[CredentialKind, str, str]]:
    """Yield kind, name and value of whatever is there; a blank for what cannot be right."""
    for text in headers.getall("Authorization", ()):
        scheme, _, token = text.strip().partition(" ")
        yield "bearer", "", token.strip() if scheme.lower() == "bearer" else " "
    for text in headers.getall("X-Api-Key", ()):
        yield "x-api-key", "", text.strip()
    for offer in offered_protocols(headers):
        if offer.startswith(BEARER_PROTOCOL):
            yield "subprotocol", "", offer.removeprefix(BEARER_PROTOCOL) or " "
    if cookies := headers.getall("Cookie", ()):
        names = {form.removeprefix(COOKIE) for form in forms if form.startswith(COOKIE)}
        for text in cookies:
            for pair in text.split(";"):
                name, _, value = pair.strip().partition("=")
                if name in names:
                    yield "cookie", name, value.strip().removeprefix('"').removesuffix('"')
