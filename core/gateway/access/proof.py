"""Proof that this is the gateway of a home folder, before a client tells it anything.

Whoever can open a port can pose as a gateway. So a gateway makes a random key at its start
and leaves it in its home folder, where its user alone can read it. A client that has read it
there sends a fresh nonce with its request, and gets back an HMAC of the nonce and of the
address at which the request arrived. The key stays where it is, an answer is good for one
nonce, and one that somebody at another address has passed on is wrong there.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any

from hookgate.core.gateway.access.origin import canonical_address

NONCE_HEADER = "Hookgate-Nonce"
"""The request's header with the nonce: 64 hexadecimal digits."""

PROOF_HEADER = "Hookgate-Proof"
"""The response's header with the proof."""

PURPOSE = "hookgate gateway of this home, 1"
"""What a proof is for, so that it can be taken for nothing else."""

_NONCE = re.compile("[0-9a-f]{64}")


def new_key() -> str:
    """Return a key for one gateway."""
    return secrets.token_hex(32)


def new_nonce() -> str:
    """Return a nonce for one connection."""
    return secrets.token_hex(32)


def prove(key: str, nonce: str, local: Any) -> str | None:
    """Return the gateway's answer to a nonce.

    Args:
        key: The gateway's key.
        nonce: What the client sent.
        local: The address at which the request arrived, as the socket names it.

    Returns:
        None where the nonce is none, or the connection has no address.
    """
    if not isinstance(local, tuple) or not _NONCE.fullmatch(nonce):
        return None
    told = "\n".join((PURPOSE, nonce, str(canonical_address(local[0])), str(local[1])))
    return hmac.new(key.encode(), told.encode(), hashlib.sha256).hexdigest()


def proves(key: str, nonce: str, proof: str, peer: Any) -> bool:
    """Whether `proof` comes from the gateway with this key, at the address `peer`.

    Args:
        key: The key, from the home folder.
        nonce: What was sent.
        proof: What came back.
        peer: The address that the client is connected to, as its socket names it.
    """
    expected = prove(key, nonce, peer)
    return expected is not None and hmac.compare_digest(expected.encode(), proof.encode())
