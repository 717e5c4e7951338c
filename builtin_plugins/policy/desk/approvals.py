"""Asking people: an inbox of questions, each answered once or not at all.

A question is bound to the tool, its arguments, the session, the turn, the call and the
policy. It lives as long as the call waits for it and somebody can answer it: a timeout, a
cancelled turn, a restart, a change of what it is bound to and the last approver's leaving all
end it, and what ends without an answer is denied. It waits where `Questions` are kept, so any
gateway on the same store shows it and takes the answer; the one whose call waits acts on it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate import (
    Address,
    Answer,
    Ask,
    Clock,
    Decision,
    Effect,
    Event,
    Host,
    Principal,
    Question,
    Questions,
    Settled,
    StoreError,
    ToolCall,
    Turn,
    TurnError,
    new_id,
)
from hookgate.builtin_plugins.policy.desk.grants import GrantScope
from hookgate.builtin_plugins.policy.settings import ApprovalSettings
from hookgate.clients import principal_id, token_book
from hookgate.tasks import finish

if TYPE_CHECKING:
    from sqlalchemy import Connection

Choice: TypeAlias = Literal["allow-once", "allow-always", "deny"]

SUBJECT = "tool_call"
"""What the questions of this inbox are about."""

CHANGED = "the call, its tool or the policy changed while it was asked about"


def binding(turn: Turn, call: ToolCall, force: str = "") -> str:
    """Return SHA-256 (hex) of all that an answer is bound to.

    The tool's digest, who brings it, the canonical arguments, the session, the turn, the
    call's id, and what is in force beside: see `Inbox`.
    """
    plugin = call.tool.plugin
    parts = (call.digest, plugin, str(turn.session), turn.agent.name, turn.id, call.id, force)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(slots=True, kw_only=True, eq=False)
class AskedOnce:
    """A question of this gateway's own, and what it takes to act on its answer.

    Attributes:
        question: The question, as every gateway on the store sees it.
        turn: The turn whose call waits.
        call: The call.
        ask: What is asked.
        ending: Why it ends without an answer, once that is known.
        decided: Set when what the answer leads to has been decided.
        answering: How many are answering it here right now.
    """

    question: Question
    turn: Turn
    call: ToolCall
    ask: Ask
    ending: asyncio.Future[str]
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    answering: int = 0


def shown(turn: Turn, call: ToolCall, ask: Ask) -> dict[str, Any]:
    """Return all of a call that a person must see before answering, every byte of it.

    ``arguments_text`` is the arguments in JSON with everything beyond ASCII escaped, so
    that no invisible or reversed character hides in them.
    """
    arguments = json.loads(call.canonical)
    return {
        "session": str(turn.session),
        "turn": turn.id,
        "tool_use_id": call.id,
        "tool": call.name,
        "plugin": call.tool.plugin,
        "tool_description": call.tool.description,
        "arguments": arguments,
        "arguments_text": json.dumps(arguments, indent=2, sort_keys=True),
        "flags": call.flags.to_json(),
        **({} if call.said is None else {"family": dict(call.said.family)}),
        "title": ask.title,
        "description": ask.description,
        "severity": ask.severity,
        "approvers": [list(names) for names in ask.approvers],
    }


class Inbox:
    """The questions about tool calls: those of this gateway, and those that wait for people."""

    def __init__(
        self,
        clock: Clock,
        approvers: Approvers,
        questions: Questions,
        *,
        nobody: Callable[[Turn, Ask, Event], str] = lambda turn, ask, event: "",
        policy: Callable[[], str] = lambda: "",
        registered: Callable[[ToolCall], str] = lambda call: "",
        scopes: tuple[GrantScope, ...] = (),
        redact: Callable[[Any], Any] = lambda data: data,
        basis: Callable[[Turn, ToolCall, str], Mapping[str, Any]] = lambda turn, call, policy: {},
        void: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Open an inbox.

        Args:
            clock: Says when questions end.
            approvers: Say who may answer.
            questions: Where questions wait.
            nobody: Takes what is asked and the event that tells of it; returns why nobody can
                answer, or "".
            policy: Returns the version of the policy that is in force.
            registered: Returns what the tool of a call is as it is registered now.
            scopes: How far ``allow-always`` may reach; empty where it is not offered.
            redact: Masks secrets in what is shown.
            basis: Returns what a grant is made from, by turn, call and policy.
            void: Takes back the grant with this id, whose answer has come too late.
        """
        self._clock = clock
        self._approvers = approvers
        self._questions = questions
        self._nobody = nobody
        self._policy = policy
        self._registered = registered
        self._scopes = scopes
        self._redact = redact
        self._basis = basis
        self._void = void
        self._asked: dict[str, AskedOnce] = {}

    def __len__(self) -> int:
        return len(self._asked)

    # -- asking ------------------------------------------------------------

    async def ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        """Ask, and wait for the answer at most ``ask.timeout`` seconds.

        Returns:
            What was answered; a denial where nobody is there, or answered in time.
        """
        if closed := self._approvers.closed:
            return Decision.deny(f"{ask.title} {closed}", by="policy", asked=ask)
        asked = self._asking(turn, call, ask)
        question = asked.question
        event = self._event(asked, {"state": "pending", **question.text})
        if nobody := self._nobody(turn, ask, event):
            return Decision.deny(f"{ask.title} {nobody}", by="policy", asked=ask)
        decision: Decision | None = None
        try:
            answer = await self._questions.ask(question)
            self._asked[question.id] = asked
            turn.emit(event)
            # What has changed while it was put down is seen now.
            self._look_at(asked)
            wanted: set[asyncio.Future[Any]] = {answer, asked.ending}
            await asyncio.wait(wanted, timeout=ask.timeout, return_when=asyncio.FIRST_COMPLETED)
            decision = await finish(self._outcome(asked, answer))
        except StoreError as error:
            decision = _ended(asked, "withdrawn", f"The store fails: {error}")
        finally:
            if decision is None:
                decision = await finish(self._cancelled(asked))
            self._asked.pop(question.id, None)
            data = {"state": decision.answer, "id": question.id, "by": decision.by}
            turn.emit(self._event(asked, {**data, "tool": call.name, "why": decision.reason}))
            asked.decided.set()
        return decision

    async def _outcome(self, asked: AskedOnce, answer: asyncio.Future[Settled]) -> Decision:
        """Decide by the answer, or end the question where there is none."""
        if answer.done():
            settled = answer.result()
        elif asked.ending.done():
            settled = await self._questions.end(
                asked.question.id, "withdrawn", asked.ending.result()
            )
        else:
            why = f"Nobody answered within {asked.ask.timeout:g} s"
            settled = await self._questions.end(asked.question.id, "expired", why)
        if settled.state != "answered":
            return _ended(asked, settled.state, settled.why)
        return await self._acted_on(asked, settled)

    async def _acted_on(self, asked: AskedOnce, settled: Settled) -> Decision:
        """Return what an answer comes to, given here or at another gateway."""
        choice, grant = settled.value["decision"], settled.value.get("grant", "")
        said = f": {why}" if (why := settled.value.get("reason", "")) else ""
        if choice == "deny":
            denied = Decision.deny(f"{settled.by} denied it{said}", by=settled.by, asked=asked.ask)
            return replace(denied, answer="denied")
        why = CHANGED if self._is_void(asked) else ""
        # Another gateway may have other approvers; this one is where the call runs.
        why = why or self._approvers.why_not(settled.by, asked.turn, asked.ask)
        if why:
            if grant and self._void is not None:
                await self._void(grant)
            return _ended(asked, "withdrawn", why)
        reason = f"{settled.by} allowed it once"
        if grant:
            reason = f"{settled.by} allowed it always, until {settled.value['until'][:10]}"
        allowed = Decision.allow(f"{reason}{said}", by=settled.by, asked=asked.ask)
        return replace(allowed, rule=f"grant:{grant}" if grant else "", answer="allowed")

    async def _cancelled(self, asked: AskedOnce) -> Decision:
        why = "its turn was cancelled"
        try:
            await self._questions.end(asked.question.id, "withdrawn", why)
        except StoreError as error:
            # Nobody acts on an answer to it any more, whatever the store says of it.
            why = f"{why}, and the store fails: {error}"
        return _ended(asked, "withdrawn", why)

    def look_again(self) -> None:
        """End the questions that nobody can answer any more, or whose answer would be void."""
        for asked in tuple(self._asked.values()):
            self._look_at(asked)

    def _look_at(self, asked: AskedOnce) -> None:
        if asked.ending.done():
            return
        why = CHANGED if self._is_void(asked) else ""
        if not why and not asked.answering:
            # Of one that somebody is answering, who else is there does not matter.
            event = self._event(asked, {"state": "pending"})
            why = self._nobody(asked.turn, asked.ask, event)
        if why:
            asked.ending.set_result(why)

    def _event(self, asked: AskedOnce, data: dict[str, Any]) -> Event:
        def may_answer(principal: Principal) -> bool:
            return self._approvers.may_answer(principal, asked.turn, asked.ask)

        return Event("approval", data, scope="approve", audience=may_answer)

    def _asking(self, turn: Turn, call: ToolCall, ask: Ask) -> AskedOnce:
        now, policy = self._clock.now(), self._policy()
        expires = now + timedelta(seconds=min(ask.timeout, *_left(turn, now)))
        always = self._scopes if "allow-always" in ask.choices else ()
        if call.said is None or not call.said.family:
            always = tuple(one for one in always if one != "family")
        choices = [one for one in ask.choices if always or one != "allow-always"]
        question_id, digest = new_id("ask"), self._binding(turn, call)
        text = {
            "id": question_id,
            "digest": digest,
            **self._redact(shown(turn, call, ask)),
            "choices": choices,
            "scopes": list(always),
            "asked": now.isoformat(),
            "expires": expires.isoformat(),
        }
        question = Question(
            id=question_id,
            subject=SUBJECT,
            text=text,
            schema=_schema(choices),
            binding=digest,
            address=turn.root.address,
            senders=tuple(senders(turn)),
            approvers=ask.approvers,
            basis=self._basis(turn, call, policy),
            asked=now,
            expires=expires,
        )
        ending = asyncio.get_running_loop().create_future()
        return AskedOnce(question=question, turn=turn, call=call, ask=ask, ending=ending)

    def _binding(self, turn: Turn, call: ToolCall) -> str:
        return binding(turn, call, f"{self._policy()}\n{self._registered(call)}")

    def _is_void(self, asked: AskedOnce) -> bool:
        # What was shown is not what would run, or not by these rules.
        return self._binding(asked.turn, asked.call) != asked.question.binding

    # -- answering ---------------------------------------------------------

    async def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions that `principal` may answer, the oldest first."""
        return [
            question
            for question in await self._questions.waiting(principal)
            if question.subject == SUBJECT and not self._why_not(principal, question)
        ]

    def _why_not(self, principal: Principal, question: Question) -> str:
        return self._approvers.refusal(principal.id, question.senders, question.approvers)

    async def resolve(
        self, principal: Principal, question_id: str, choice: Choice, *, digest: str = ""
    ) -> Question:
        """Answer a question. The first answer counts; there is no second one.

        Raises:
            TurnError: See `answerable` and `answer`.
        """
        question = await self.answerable(principal, question_id, choice, digest=digest)
        await self.answer(principal, question, {"decision": choice})
        return question

    async def answerable(
        self, principal: Principal, question_id: str, choice: Choice, *, digest: str = ""
    ) -> Question:
        """Return a question that waits, at whichever gateway, and may be answered so.

        Args:
            principal: Who answers; that it has the scope ``approve`` has been checked.
            question_id: The question's id.
            choice: The answer.
            digest: What the answerer saw; refused where the question is about something else.

        Raises:
            TurnError: There is no such question for this principal (any more), it may not
                answer, the digest is another one, or the answer is none that is offered: the
                question waits on.
        """
        question = await self._questions.find(question_id)
        if (
            question is None
            or question.subject != SUBJECT
            or not principal.may_claim(question.address)
        ):
            raise _gone(question_id)
        if why := self._why_not(principal, question):
            raise TurnError(why, code="forbidden", action="have somebody else answer")
        if digest and digest != question.binding:
            raise TurnError.invalid(
                "the question is about another call than the one that was shown",
                "show the question again and decide on what it says now",
            )
        if choice not in (offered := question.text["choices"]):
            raise TurnError.invalid(
                f"found the decision {choice!r}, expected one of {', '.join(offered)}"
            )
        return question

    @contextmanager
    def answering(self, question: Question) -> Iterator[None]:
        """Let a question wait on while its answer is made, even if nobody else could give one."""
        asked = self._asked.get(question.id)
        if asked is None:
            yield
            return
        asked.answering += 1
        try:
            yield
        finally:
            asked.answering -= 1
            if question.id in self._asked:
                self._look_at(asked)

    async def answer(
        self,
        principal: Principal,
        question: Question,
        value: Mapping[str, Any],
        *,
        also: Callable[[Connection | None], None] | None = None,
    ) -> None:
        """Give the answer to a question that is `answerable`.

        Args:
            principal: Who answers.
            question: The question.
            value: The answer; see the question's schema.
            also: Writes what belongs to it in the same transaction.

        Raises:
            TurnError: It does not wait any more, or what it was about has changed, which ends it.
            StoreError: The answer cannot be kept; the question waits on.
        """
        allows = value["decision"] != "deny"
        asked = self._asked.get(question.id)
        if asked is not None and allows and self._is_void(asked):
            if not asked.ending.done():
                asked.ending.set_result(CHANGED)
            raise _gone(question.id, changed=True)
        if not await self._questions.answer(question.id, value, by=principal.id, also=also):
            raise _gone(question.id, changed=also is not None)
        if asked is not None and also is not None and self._is_void(asked):
            # Keeping takes time, in which what was asked about may have changed.
            await asked.decided.wait()
            raise _gone(question.id, changed=True)


def _left(turn: Turn | None, now: datetime) -> Iterator[float]:
    """Yield the seconds until the deadlines of a turn and of those that wait for it."""
    while turn is not None:
        yield turn.plan.deadline - (now - turn.started).total_seconds()
        turn = turn.parent


def _gone(question_id: str, *, changed: bool = False) -> TurnError:
    what = f"no question {question_id!r} waits: it was answered, ran out, or never was"
    if changed:
        what = f"the question {question_id!r} ran out, or {CHANGED}: the call is denied"
    return TurnError(
        what, code="not_found", action="list the questions that wait with `approvals.list`"
    )


def answer_of(choice: Choice, reason: str = "") -> dict[str, Any]:
    """Return the value of an answer: the decision, and why where that was said."""
    return {"decision": choice, **({"reason": reason} if reason else {})}


def _schema(choices: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an answer: the decision, why, and the grant that goes with it."""
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "decision": {"enum": list(choices)},
            "reason": text,
            "grant": text,
            "until": text,
        },
        "required": ["decision"],
        "additionalProperties": False,
    }


def _ended(asked: AskedOnce, answer: Answer, why: str) -> Decision:
    reason = f"{asked.ask.title} {why}"
    return Decision(effect=Effect.DENY, reason=reason, by="policy", asked=asked.ask, answer=answer)


# -- Who may answer a question, and whether there is anybody who can -------------


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

        It is while its token is there, is not revoked or over, and may approve at that address.
        Who has come in without a token, as the owner does, needs none.
        """
        if not principal.startswith(principal_id("")):
            return True
        return any(
            "approve" in one.scopes and one.may_claim(address)
            for one in self._bearers()
            if one.id == principal
        )

    def _can(self, principal: Principal, turn: Turn, ask: Ask) -> bool:
        return "approve" in principal.scopes and self._approvers.may_answer(principal, turn, ask)

    def _coming(self) -> Sequence[Principal]:
        """Return who can come in at this gateway."""
        book = token_book(self._host)
        if not book.configured:
            return (Principal.owner(),)
        return tuple(self._bearers())

    def _bearers(self) -> Iterator[Principal]:
        """Yield those whose tokens are good now."""
        book, now = token_book(self._host), self._host.clock.now()
        for token in book.tokens:
            if not book.is_revoked(token) and not token.principal.has_expired(now):
                yield token.principal
