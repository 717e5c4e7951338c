"""What serves clients and looks at them: errors as they are told, tokens, origins, peers."""

# ruff: noqa: I001

from typing import Any

from hookgate.core.domain.operations import Operation, schema_of
from hookgate.core.gateway.access.origin import (
    canonical_address as canonical_address,
)
from hookgate.core.gateway.access.peer import (
    PeerLookup as PeerLookup,
)
from hookgate.core.gateway.access.tokens import (
    followed_token_book as followed_token_book,
    principal_id as principal_id,
    token_book as token_book,
)
from hookgate.core.gateway.codes import (
    describe_error as describe_error,
    wire_error as wire_error,
)
from hookgate.core.gateway.wire.handshake import (
    PROTOCOL as PROTOCOL,
)


def describe_operation(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return an operation's schemas and access, for the documentation and the page."""
    return {
        "name": operation.name,
        "summary": operation.summary,
        "scope": operation.scope,
        "plugin": operation.plugin,
        "command": operation.command,
        "streams": operation.streams,
        "details": operation.details,
        "group": operation.group,
        "params": schema_of(operation.params),
        "result": schema_of(operation.result),
    }
