"""What somebody shows to say who they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Credential", "CredentialKind"]

CredentialKind: TypeAlias = Literal["bearer", "x-api-key", "cookie", "subprotocol"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Credential:
    """One credential as a request brought it: well-formed, and not checked yet.

    `repr` leaves the value out. Two of them are never equal: compare values with
    ``hmac.compare_digest``, or look their digests up.

    Attributes:
        kind: How it came: ``bearer`` in the header ``Authorization`` or in a socket's first
            frame, ``x-api-key`` in the header of that name, ``cookie``, or ``subprotocol`` of a
            WebSocket from a browser.
        value: The secret itself: 1 to 4,096 visible ASCII characters.
        name: The name of the cookie; "" for every other kind.
        client: The address of the client, as far as trusted proxies tell it.
    """

    kind: CredentialKind
    value: str = field(repr=False)
    name: str = ""
    client: str = ""
