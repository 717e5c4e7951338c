"""Who may answer a question."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hookgate.builtin_plugins.policy.settings import ApprovalSettings
    from hookgate.core.turn import Turn

__all__ = ["Approvers"]


class Approvers:
    """Says which principals may answer. That they have the scope is checked elsewhere."""

    def __init__(self, settings: ApprovalSettings) -> None:
        self._globs = settings.approvers
        self._self_approval = settings.self_approval

    @property
    def closed(self) -> str:
        """Why nobody at all may answer; "" where somebody may."""
        if self._globs is None or self._globs:
            return ""
        return "`[plugin.policy.approvals] approvers` is empty, so nobody may approve anything"

    def may(self, principal: str, turn: Turn) -> bool:
        """Whether the principal with this id may answer questions of `turn`."""
        return not self.why_not(principal, turn)

    def why_not(self, principal: str, turn: Turn) -> str:
        """Return why the principal with this id may not answer; "" where it may."""
        if self._globs is not None and not any(
            fnmatchcase(principal, glob) for glob in self._globs
        ):
            return f"{principal} is not among `[plugin.policy.approvals] approvers`"
        if not self._self_approval and principal in set(_principals(turn)):
            return (
                f"{principal} sent the message that led to this call, and "
                "`[plugin.policy.approvals] self_approval` is false"
            )
        return ""


def _principals(turn: Turn | None) -> Iterator[str]:
    # A nested turn is the call of whoever sent the message at its root.
    while turn is not None:
        yield turn.principal.id
        turn = turn.parent
