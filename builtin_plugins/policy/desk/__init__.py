"""The desk: questions are asked there, answered, and answered again by what stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from hookgate import (
    QUESTIONS,
    STORE,
    Address,
    Ask,
    Decision,
    Effect,
    Event,
    Host,
    Principal,
    Question,
    SessionKey,
    StoreError,
    ToolCall,
    Turn,
    TurnError,
)
from hookgate.builtin_plugins.policy.desk.approvals import (
    AnswerRoutes,
    Approvers,
    Choice,
    Inbox,
    answer_of,
)
from hookgate.builtin_plugins.policy.desk.grants import GrantBook, GrantScope, GrantState
from hookgate.builtin_plugins.policy.desk.quarantine import PINS, TOOL, Quarantine, ToolPins
from hookgate.builtin_plugins.policy.settings import ApprovalSettings, PolicySettings
from hookgate.clients import followed_token_book, principal_id
from hookgate.kit.acceptance.acceptances import acceptances_of
from hookgate.kit.tables import tables_of
from hookgate.settings import redact_json
from hookgate.tasks import finish, stop

if TYPE_CHECKING:
    from hookgate.builtin_plugins.policy.desk.tables import StandingGrant
    from hookgate.kit.records import Records

KEY = "key:"
"""How ids begin of those who come in with a key that a plugin knows."""

PART = "policy grants"
"""What `status` calls grants that cannot be read."""

SCOPES: Mapping[str, tuple[GrantScope, ...]] = {
    "off": (),
    "arguments": ("arguments", "family"),
    "tool": ("arguments", "family", "tool"),
}


class Desk:
    """Questions, who may answer them, and standing answers.

    Attributes:
        inbox: The questions that wait.
        grants: The standing answers.
    """

    def __init__(
        self,
        host: Host,
        settings: ApprovalSettings,
        store: Records[StandingGrant],
        policy: Callable[[], str],
    ) -> None:
        """Open the desk.

        Args:
            host: The gateway.
            settings: How people are asked.
            store: Where grants are kept.
            policy: Returns the version of the policy that is in force.
        """
        self._host = host
        self._scopes = SCOPES[settings.always]
        self._approvers = Approvers(settings)
        self._routes = AnswerRoutes(host, settings, self._approvers)
        self._granting: dict[str, StandingGrant] = {}
        self.grants = GrantBook(
            store,
            host.clock,
            days=settings.always_days,
            policy=policy,
            redact=host.secrets.redact,
        )
        self.inbox = Inbox(
            host.clock,
            self._approvers,
            host[QUESTIONS],
            nobody=self._routes.nobody,
            policy=policy,
            registered=self._registered,
            scopes=self._scopes,
            redact=partial(redact_json, host.secrets),
            basis=self.grants.basis,
            void=self._void,
        )

    # -- asking ------------------------------------------------------------

    async def ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        """Return what somebody allowed always, or ask and wait."""
        grant = await self._standing(turn, call, ask)
        if grant is None:
            return await self.inbox.ask(turn, call, ask)
        data = {"state": "granted", "id": grant.id, "by": grant.allowed_by, "tool": call.name}

        def may_answer(principal: Principal) -> bool:
            return self._approvers.may_answer(principal, turn, ask)

        turn.emit(Event("approval", data, scope="approve", audience=may_answer))
        return Decision(
            effect=Effect.ALLOW,
            reason=f"{grant.allowed_by} allowed such calls on {grant.allowed_at[:10]} "
            f"({grant.id}, until {grant.expires[:10]})",
            by=grant.allowed_by,
            rule=f"grant:{grant.id}",
            asked=ask,
            answer="allowed",
        )

    async def _standing(self, turn: Turn, call: ToolCall, ask: Ask) -> StandingGrant | None:
        if not self._scopes or self._approvers.closed or "allow-always" not in ask.choices:
            return None
        there = self._host.tools.view().get(call.name)
        if there is not None and there.digest != call.tool.digest:
            # The tool has changed since the turn began: what was allowed is no longer there.
            return None

        def still(who: str) -> bool:
            may = not self._approvers.why_not(who, turn, ask)
            return may and self._routes.stands(who, turn.root.address)

        try:
            found = await self.grants.fitting(turn, call, by=still)
        except StoreError as error:
            # A person can still be asked.
            self._host.standing(PART).bad(f"what was allowed always is asked about again: {error}")
            return None
        self._host.standing(PART).good()
        return found

    def _registered(self, call: ToolCall) -> str:
        there = self._host.tools.view().get(call.name)
        return "" if there is None else there.digest + there.plugin

    # -- answering ---------------------------------------------------------

    async def resolve(
        self,
        principal: Principal,
        question_id: str,
        choice: Choice,
        *,
        digest: str = "",
        scope: GrantScope = "arguments",
        reason: str = "",
    ) -> tuple[Question, StandingGrant | None]:
        """Answer a question, and say why; return it, and the grant that was made.

        Raises:
            TurnError: It cannot be answered so; see `Inbox.answerable` and `Inbox.answer`.
            StoreError: The grant cannot be kept. The question waits on.
        """
        question = await self.inbox.answerable(principal, question_id, choice, digest=digest)
        if choice != "allow-always":
            await self.inbox.answer(principal, question, answer_of(choice, reason))
            return question, None
        # Half an answer is none: a caller who goes away meanwhile has still answered.
        return question, await finish(self._always(principal, question, scope, reason))

    async def _always(
        self, principal: Principal, question: Question, scope: GrantScope, reason: str
    ) -> StandingGrant:
        if scope not in (scopes := question.text["scopes"]):
            raise TurnError.invalid(
                f"found the scope {scope!r}, expected one of {', '.join(scopes)}",
                "`[plugin.policy.approvals] always` says how far it may reach",
            )
        grant = self.grants.drafted(principal, question.basis, scope)
        until = {"grant": grant.id, "until": grant.expires}
        value = {**answer_of("allow-always", reason), **until}
        with self.inbox.answering(question):
            # Recorded first: there is no permission that the audit does not know.
            await self._record("grant_made", grant)
            self._granting[grant.id] = grant
            try:
                also = self.grants.keeping(grant)
                await self.inbox.answer(principal, question, value, also=also)
            except TurnError:
                # Somebody was faster, it is void, or whoever asked has stopped: nobody has acted on
                # the answer, so the grant is not to stand where it was written with it.
                await self.grants.revoke(grant.id)
                await self._record("grant_revoked", grant, revoked_by="policy")
                raise
            finally:
                del self._granting[grant.id]
        return grant

    async def _void(self, grant_id: str) -> None:
        """Take back the grant of an answer that came too late, given here or elsewhere."""
        found = next((one for one in await self.grants.all() if one.id == grant_id), None)
        await self.grants.revoke(grant_id)
        if found is not None and grant_id not in self._granting:
            await self._record("grant_revoked", found, revoked_by="policy")

    # -- what stands -------------------------------------------------------

    async def granted(self, principal: Principal) -> Sequence[tuple[StandingGrant, GrantState]]:
        """Return the grants of the addresses that `principal` may claim, the newest first.

        Beside each stands whether it still answers anything.
        """
        tools = self._host.tools.view()
        return [
            (
                grant,
                self.grants.state(
                    grant,
                    tools.get(grant.tool),
                    approver=self._routes.stands(grant.allowed_by, _address(grant)),
                ),
            )
            for grant in await self.grants.all()
            if _may_see(principal, grant)
        ]

    async def revoke(self, principal: Principal, grant_id: str) -> StandingGrant:
        """Take a grant back.

        Raises:
            TurnError: There is none of this id for this principal.
            StoreError: It cannot be taken back.
        """
        mine = [one for one in await self.grants.all() if _may_see(principal, one)]
        grant = next((one for one in mine if one.id == grant_id), None)
        if grant is None or not await self.grants.revoke(grant_id):
            raise TurnError(
                f"there is no grant {grant_id!r}: it was revoked, its time is over, or never was",
                code="not_found",
                action="list the grants with `approvals.grants`",
            )
        await self._record("grant_revoked", grant, revoked_by=principal.id)
        return grant

    async def forget(self, principal: str) -> None:
        """Take back what a principal has granted whose token was revoked, or whose key ended.

        Its grants answer nothing from that moment on; this keeps a later one of its name from
        inheriting them.
        """
        try:
            for grant in await self.grants.made_by(principal):
                if await self.grants.revoke(grant.id):
                    await self._record("grant_revoked", grant, revoked_by="core")
        except StoreError as error:
            self._host.standing(PART).bad(f"grants of {principal} cannot be taken back: {error}")

    async def _record(self, kind: str, grant: StandingGrant, **more: str) -> None:
        row = dict(grant)
        row["by"] = row.pop("allowed_by")
        await self._host.record(kind, **row, **more)


def _may_see(principal: Principal, grant: StandingGrant) -> bool:
    return principal.may_claim(_address(grant))


def _address(grant: StandingGrant) -> Address:
    key = SessionKey.parse(grant.session)
    return Address(key.channel, key.account, key.peer)


@asynccontextmanager
async def opened(
    host: Host, settings: PolicySettings, policy: Callable[[], str]
) -> AsyncIterator[tuple[Desk, Quarantine]]:
    """Open the desk and the quarantine.

    Without a store both end with the process. Where the store cannot be read, tools that
    others bring wait until it can.

    Args:
        host: The gateway.
        settings: The plugin's settings.
        policy: Returns the version of the policy that is in force.
    """
    pins = ToolPins(await acceptances_of(host))
    module = "hookgate.builtin_plugins.policy.desk.tables"
    tables, store = await tables_of(host.get(STORE), "policy", module)
    desk = Desk(host, settings.approvals, tables.StandingGrant.records(store), policy)
    quarantine = Quarantine(host, pins, settings.pin_tools)
    pins.kept.desks[TOOL] = quarantine.desk()
    try:
        await desk.grants.prune()
        await pins.kept.load()
    except StoreError as error:
        host.standing(PINS).bad(f"tools that others bring wait, since the store fails: {error}")
    host.tools.watch(quarantine.noticed)
    # What may leave a question without an answer that counts: its tool, or its approvers.
    host.tools.watch(desk.inbox.look_again)

    def gone(principal: str) -> None:
        desk.inbox.look_again()
        host.spawn(desk.forget(principal), name="policy.grants")

    book = await followed_token_book(host)
    unwatch = (
        pins.kept.watch(quarantine.look_again),
        host.events.watch(desk.inbox.look_again),
        book.watch(lambda name: gone(principal_id(name))),
        host.ends_keys(lambda key: gone(KEY + key)),
    )
    following = host.spawn(quarantine.follow(), name="policy.quarantine")
    try:
        yield desk, quarantine
    finally:
        for undo in unwatch:
            undo()
        await stop(following)
