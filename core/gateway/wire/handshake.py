"""What a socket says to be let in, and what it is told."""

from __future__ import annotations

from hookgate.core.gateway.operations import OperationModel

PROTOCOL = 1
"""The version of the wire protocol. It grows when an old client would no longer work."""


class AuthParams(OperationModel):
    """The token of a socket that has shown none yet."""

    token: str
    """The token."""


class AuthResult(OperationModel):
    """The socket is open."""

    principal: str
    """Who the gateway takes the client for."""
    scopes: tuple[str, ...]
    """What it may do."""
