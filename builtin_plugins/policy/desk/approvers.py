"""Who may answer a question, and whether there is anybody who can."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from hookgate import Address, Ask, Event, Host, Principal, Turn
from hookgate.clients import principal_id, token_book

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.settings import ApprovalSettings


class Approvers:
    """Says which principals may answer. That they have the scope is checked elsewhere."""

    def __init__(self, settings: ApprovalSettings) -> None:
        self._names = settings.approvers
        self._groups = settings.groups
        self._self_approval = settings.self_approval

    @property
    def closed(self) -> str:
        """Why nobody at all may answer; "" where somebody may."""
        if self._names is None or self._names:
            return ""
        return "`[plugin.policy.approvals] approvers` is empty, so nobody may approve anything"

    def may_answer(self, principal: Principal, turn: Turn, ask: Ask) -> bool:
        """Whether `principal` may answer what is asked in `turn`.

        A nested turn's questions belong to the address at which the outermost one came in.
        """
        return principal.may_claim(turn.root.address) and not self.why_not(principal.id, turn, ask)

    def why_not(self, principal: str, turn: Turn, ask: Ask) -> str:
        """Return why the principal with this id may not answer; "" where it may."""
        return self.refusal(principal, tuple(senders(turn)), ask.approvers)

    def refusal(
        self, principal: str, senders: Collection[str], approvers: Sequence[Sequence[str]]
    ) -> str:
        """Return why the principal with this id may not answer; "" where it may.

        Args:
            principal: Its id.
            senders: The ids of those whose message led to the question.
            approvers: The lists of rules, which stand in the place of the one of the settings.
        """
        for names in approvers:
            if not self.among(principal, names):
                listed = ", ".join(names)
                return f"{principal} is not among the approvers of the rule that asks: {listed}"
        if not approvers and not (self._names is None or self.among(principal, self._names)):
            return f"{principal} is not among `[plugin.policy.approvals] approvers`"
        if not self._self_approval and principal in senders:
            return (
                f"{principal} sent the message that led to this call, and "
                "`[plugin.policy.approvals] self_approval` is false"
            )
        return ""

    def among(self, principal: str, names: Sequence[str]) -> bool:
        """Whether `names`, of groups or globs of ids, name the principal with this id."""
        return any(
            fnmatchcase(principal, glob)
            for name in names
            for glob in self._groups.get(name, (name,))
        )


def senders(turn: Turn | None) -> Iterator[str]:
    """Yield the ids of those whose messages led to a turn: a nested one is its root's sender's."""
    while turn is not None:
        yield turn.principal.id
        turn = turn.parent


class AnswerRoutes:
    """Says whether a question can reach anybody who may answer it.

    A route is: the principal of the turn itself; a principal who listens to events; and, where
    `unattended` is ``wait``, a principal who may yet come: the owner of a gateway without
    tokens, or the bearer of a token that is not revoked.
    """

    def __init__(self, host: Host, settings: ApprovalSettings, approvers: Approvers) -> None:
        self._host = host
        self._waits = settings.unattended == "wait"
        self._approvers = approvers

    def nobody(self, turn: Turn, ask: Ask, event: Event) -> str:
        """Return why nobody can answer; "" where somebody can.

        Args:
            turn: The turn whose call waits.
            ask: What is asked.
            event: What tells of it.
        """
        if self._can(turn.principal, turn, ask) or self._host.events.reaches(turn.named(event)):
            return ""
        if not self._waits:
            return "Nobody who may approve is connected"
        if any(self._can(one, turn, ask) for one in self._coming()):
            return ""
        return "Nobody may approve: no owner and no token with the scope `approve` is an approver"

    def stands(self, principal: str, address: Address) -> bool:
        """Whether what the principal with this id has allowed at an address is still its word.

        It is while its token is there, is not revoked, and may approve at that address. Who has
        come in without a token, as the owner does, needs none.
        """
        book = token_book(self._host)
        if not principal.startswith(principal_id("")):
            return True
        return any(
            "approve" in token.principal.scopes and token.principal.may_claim(address)
            for token in book.tokens
            if token.principal.id == principal and not book.is_revoked(token)
        )

    def _can(self, principal: Principal, turn: Turn, ask: Ask) -> bool:
        return "approve" in principal.scopes and self._approvers.may_answer(principal, turn, ask)

    def _coming(self) -> Sequence[Principal]:
        """Return who can come in at this gateway."""
        book = token_book(self._host)
        if not book.configured:
            return (Principal.owner(),)
        return tuple(token.principal for token in book.tokens if not book.is_revoked(token))
