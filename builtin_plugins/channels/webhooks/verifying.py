"""Whether a post comes from the platform: a secret in a header, or a signature over the body."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from collections.abc import Mapping

from hookgate import Webhook

MAX_HEADER = 1024
"""Characters of a secret or a signature."""


class RefusedPostError(Exception):
    """A post is not taken.

    Attributes:
        status: What it is answered with.
        why: Why, for the log; whoever has posted is told as little as possible.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def verifies_ed25519() -> bool:
    """Whether signatures by Ed25519 can be checked: the extra ``ed25519`` is installed."""
    try:
        import nacl.signing  # noqa: F401 - that it can be imported is the answer
    except ImportError:
        return False
    return True


def check_head(webhook: Webhook, secret: str, headers: Mapping[str, str], now: float) -> None:
    """Check what can be checked before the body is read.

    Raises:
        RefusedPostError: The secret is another one, there is no signature, or it is too old.
    """
    found = headers.get(webhook.header, "")
    if not found or len(found) > MAX_HEADER or not found.isascii():
        raise RefusedPostError(401, f"found no usable header {webhook.header}")
    if webhook.verification == "header":
        if not hmac.compare_digest(found.encode(), (webhook.prefix + secret).encode()):
            raise RefusedPostError(401, f"found another secret in {webhook.header}")
        return
    if not found.startswith(webhook.prefix):
        raise RefusedPostError(401, f"found {webhook.header} without {webhook.prefix!r}")
    if webhook.timestamp:
        stamp = headers.get(webhook.timestamp, "")
        if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
            raise RefusedPostError(401, f"found no time in {webhook.timestamp}")
        if abs(now - int(stamp)) > webhook.tolerance:
            raise RefusedPostError(403, f"its time is off by more than {webhook.tolerance} s")


class Signature:
    """Checks the signature of a post while its body comes in.

    Args:
        webhook: How the post is signed.
        secret: What it is checked by.
        headers: The headers of the post, which `check_head` has let pass.
    """

    def __init__(self, webhook: Webhook, secret: str, headers: Mapping[str, str]) -> None:
        self._webhook, self._secret = webhook, secret
        before, after = webhook.signed.split("{body}") if self._signs else ("", "")
        stamp = headers.get(webhook.timestamp, "") if webhook.timestamp else ""
        self._before, self._after = (
            part.replace("{timestamp}", stamp).encode() for part in (before, after)
        )
        self._text = headers[webhook.header].removeprefix(webhook.prefix)
        self._hash = hmac.new(secret.encode(), self._before, hashlib.sha256)

    @property
    def _signs(self) -> bool:
        return self._webhook.verification != "header"

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the body, where the signature can be made of pieces."""
        if self._webhook.verification == "hmac-sha256":
            self._hash.update(piece)

    def check(self, body: bytes) -> None:
        """Check the signature, once all of `body` has been fed.

        Raises:
            RefusedPostError: It is none of the platform's.
        """
        if not self._signs:
            return
        encoding = self._webhook.encoding
        try:
            found = (
                bytes.fromhex(self._text)
                if encoding == "hex"
                else b64decode(self._text, validate=True)
            )
        except ValueError:
            raise RefusedPostError(401, f"the signature is no {encoding}") from None
        if self._webhook.verification == "hmac-sha256":
            self._hash.update(self._after)
            right = hmac.compare_digest(self._hash.digest(), found)
        else:
            # Ed25519 goes over what is signed twice, so it needs all of it.
            signed = self._before + body + self._after
            right = _is_ed25519(bytes.fromhex(self._secret), signed, found)
        if not right:
            raise RefusedPostError(401, "the signature is another one")


def _is_ed25519(key: bytes, signed: bytes, signature: bytes) -> bool:
    # Only who speaks with such a platform has the library.
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    if len(signature) != 64:
        return False
    try:
        VerifyKey(key).verify(signed, signature)
    except BadSignatureError:
        return False
    return True
