"""What serves clients and looks at them: errors as they are told, tokens, origins, peers."""

# ruff: noqa: I001

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
from hookgate.core.gateway.wire.rpc import (
    PROTOCOL as PROTOCOL,
    call_operation as call_operation,
)
