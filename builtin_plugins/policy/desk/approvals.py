"""Asking people: an inbox of questions, each answered once or not at all.

A question is bound to the tool, its arguments, the session, the turn, the call and the
policy. It lives as long as the call waits for it and somebody can answer it: a timeout, a
cancelled turn, a restart, a change of what it is bound to and the last approver's leaving all
end it, and what ends without an answer is denied.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import new_id
from hookgate.core.domain.tools import Decision, Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hookgate.builtin_plugins.policy.desk.approvers import Approvers
    from hookgate.builtin_plugins.policy.desk.grants import GrantScope
    from hookgate.core.domain.ports import Clock
    from hookgate.core.domain.tools import Answer, Ask, ToolCall
    from hookgate.core.domain.turn import Principal, Turn

__all__ = ["Choice", "Inbox", "Question", "binding"]

Choice: TypeAlias = Literal["allow-once", "allow-always", "deny"]

CHANGED = "the call, its tool or the policy changed while it was asked about"


def binding(turn: Turn, call: ToolCall, force: str = "") -> str:
    """Return SHA-256 (hex) of all that an answer is bound to.

    The tool's digest, who brings it, the canonical arguments, the session, the turn, the
    call's id, and what is in force beside: see `Inbox`.
    """
    plugin = call.tool.plugin
    parts = (call.digest, plugin, str(turn.session), turn.agent.name, turn.id, call.id, force)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question that waits.

    Attributes:
        id: Unique and not to be guessed.
        digest: What the answer is bound to; see `binding`.
        turn: The turn whose call waits.
        call: The call.
        ask: What is asked.
        choices: The answers that are taken.
        scopes: How far ``allow-always`` may reach, the narrowest first.
        policy: The version of the policy that was in force when it was asked.
        asked: When it was asked, in UTC.
        expires: When it is too late, in UTC.
    """

    id: str
    digest: str
    turn: Turn
    call: ToolCall
    ask: Ask
    choices: tuple[Choice, ...]
    scopes: tuple[GrantScope, ...]
    policy: str
    asked: datetime
    expires: datetime
    answer: asyncio.Future[Decision] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return all that a person must see before answering, every byte of it.

        ``arguments_text`` is the arguments in JSON with everything beyond ASCII escaped, so
        that no invisible or reversed character hides in them.
        """
        arguments = json.loads(self.call.canonical)
        return {
            "id": self.id,
            "digest": self.digest,
            "session": str(self.turn.session),
            "turn": self.turn.id,
            "tool_use_id": self.call.id,
            "tool": self.call.name,
            "plugin": self.call.tool.plugin,
            "tool_description": self.call.tool.description,
            "arguments": arguments,
            "arguments_text": json.dumps(arguments, indent=2, sort_keys=True),
            "flags": self.call.flags.to_json(),
            "title": self.ask.title,
            "description": self.ask.description,
            "severity": self.ask.severity,
            "approvers": [list(names) for names in self.ask.approvers],
            "choices": list(self.choices),
            "scopes": list(self.scopes),
            "asked": self.asked.isoformat(),
            "expires": self.expires.isoformat(),
        }


class Inbox:
    """The questions that wait in this process."""

    def __init__(
        self,
        clock: Clock,
        approvers: Approvers,
        *,
        nobody: Callable[[Turn, Ask, Event], str] = lambda turn, ask, event: "",
        policy: Callable[[], str] = lambda: "",
        registered: Callable[[ToolCall], str] = lambda call: "",
        scopes: tuple[GrantScope, ...] = (),
    ) -> None:
        """Open an inbox.

        Args:
            clock: Says when questions end.
            approvers: Say who may answer.
            nobody: Takes what is asked and the event that tells of it; returns why nobody can
                answer, or "".
            policy: Returns the version of the policy that is in force.
            registered: Returns what the tool of a call is as it is registered now.
            scopes: How far ``allow-always`` may reach; empty where it is not offered.
        """
        self._clock = clock
        self._approvers = approvers
        self._nobody = nobody
        self._policy = policy
        self._registered = registered
        self._scopes = scopes
        self._asked: dict[str, Question] = {}
        self._waiting: dict[str, Question] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        """Ask, and wait for the answer at most ``ask.timeout`` seconds.

        Returns:
            What was answered; a denial where nobody is there, or answered in time.
        """
        if closed := self._approvers.closed:
            return Decision.deny(f"{ask.title} {closed}", by="policy", asked=ask)
        question = self._question(turn, call, ask)
        event = self._event(question, {"state": "pending", **question.to_json()})
        if nobody := self._nobody(turn, ask, event):
            return Decision.deny(f"{ask.title} {nobody}", by="policy", asked=ask)
        self._asked[question.id] = self._waiting[question.id] = question
        decision = _ended(question, "withdrawn", "its turn was cancelled")
        try:
            turn.emit(event)
            await asyncio.wait({question.answer}, timeout=ask.timeout)
            decision = self._outcome(question)
            return decision
        finally:
            del self._asked[question.id]
            self._waiting.pop(question.id, None)
            question.answer.cancel()
            data = {"state": decision.answer, "id": question.id, "by": decision.by}
            turn.emit(self._event(question, {**data, "tool": call.name, "why": decision.reason}))

    def _outcome(self, question: Question) -> Decision:
        if not question.answer.done():
            why = f"Nobody answered within {question.ask.timeout:g} s"
            return _ended(question, "expired", why)
        decision = question.answer.result()
        if decision.allowed and self._is_void(question):
            return _ended(question, "withdrawn", CHANGED)
        return decision

    def look_again(self) -> None:
        """End the questions that nobody can answer any more, or whose answer would be void."""
        for question in tuple(self._asked.values()):
            if question.answer.done():
                continue
            why = CHANGED if self._is_void(question) else ""
            if not why and question.id in self._waiting:
                # Of one that somebody is answering, who else is there does not matter.
                event = self._event(question, {"state": "pending"})
                why = self._nobody(question.turn, question.ask, event)
            if why:
                self._waiting.pop(question.id, None)
                question.answer.set_result(_ended(question, "withdrawn", why))

    def _event(self, question: Question, data: dict[str, Any]) -> Event:
        def may_answer(principal: Principal) -> bool:
            return self._approvers.may_answer(principal, question.turn, question.ask)

        return Event("approval", data, scope="approve", audience=may_answer)

    def _question(self, turn: Turn, call: ToolCall, ask: Ask) -> Question:
        now = self._clock.now()
        always = self._scopes if "allow-always" in ask.choices else ()
        return Question(
            id=new_id("ask"),
            digest=self._binding(turn, call),
            policy=self._policy(),
            turn=turn,
            call=call,
            ask=ask,
            choices=tuple(one for one in ask.choices if always or one != "allow-always"),
            scopes=always,
            asked=now,
            expires=now + timedelta(seconds=ask.timeout),
            answer=asyncio.get_running_loop().create_future(),
        )

    def _binding(self, turn: Turn, call: ToolCall) -> str:
        return binding(turn, call, f"{self._policy()}\n{self._registered(call)}")

    def _is_void(self, question: Question) -> bool:
        # What was shown is not what would run, or not by these rules.
        return self._binding(question.turn, question.call) != question.digest

    def still_stands(self, question: Question) -> bool:
        """Whether a question that was claimed can still be answered to any effect."""
        return not question.answer.done() and not self._is_void(question)

    def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions that `principal` may answer, the oldest first."""
        return [
            question
            for question in self._waiting.values()
            if self._approvers.may_answer(principal, question.turn, question.ask)
        ]

    def resolve(
        self, principal: Principal, question_id: str, choice: Choice, *, digest: str = ""
    ) -> Question:
        """Answer a question. The first answer counts; there is no second one.

        Raises:
            TurnError: See `claim`.
        """
        question = self.claim(principal, question_id, choice, digest=digest)
        if choice == "deny":
            reason = f"{principal.id} denied it"
            decision = Decision.deny(reason, by=principal.id, asked=question.ask)
        else:
            reason = f"{principal.id} allowed it once"
            decision = Decision.allow(reason, by=principal.id, asked=question.ask)
        answer: Answer = "denied" if choice == "deny" else "allowed"
        question.answer.set_result(replace(decision, answer=answer))
        return question

    def claim(
        self, principal: Principal, question_id: str, choice: Choice, *, digest: str = ""
    ) -> Question:
        """Take a question in order to answer it; nobody else can any more.

        Args:
            principal: Who answers; that it has the scope ``approve`` has been checked.
            question_id: The question's id.
            choice: The answer.
            digest: What the answerer saw; refused where the question is about something else.

        Raises:
            TurnError: There is no such question for this principal (any more), it may not
                answer, the digest is another one, or the answer is none that is offered: the
                question waits on. Or what it was about has changed: that ends it.
        """
        question = self._waiting.get(question_id)
        if question is None or not principal.may_claim(question.turn.root.address):
            raise TurnError(
                f"no question {question_id!r} waits: it was answered, ran out, or never was",
                code="not_found",
                action="list the questions that wait with `approval.list`",
            )
        if why := self._approvers.why_not(principal.id, question.turn, question.ask):
            raise TurnError(why, code="forbidden", action="have somebody else answer")
        if digest and digest != question.digest:
            raise TurnError(
                "the question is about another call than the one that was shown",
                code="invalid_params",
                action="show the question again and decide on what it says now",
            )
        if choice not in question.choices:
            raise TurnError(
                f"found the decision {choice!r}, expected one of {', '.join(question.choices)}",
                code="invalid_params",
            )
        del self._waiting[question_id]
        if choice != "deny" and self._is_void(question):
            raise self.withdrawn(question)
        return question

    def put_back(self, question: Question) -> None:
        """Let a claimed question wait on for another answer, if its time is not over."""
        if not question.answer.done():
            self._waiting[question.id] = question

    def withdrawn(self, question: Question) -> TurnError:
        """End a claimed question whose answer would be void; return what its answerer is told."""
        if not question.answer.done():
            question.answer.set_result(_ended(question, "withdrawn", CHANGED))
        return TurnError(
            f"the question {question.id!r} ran out, or {CHANGED}: the call is denied",
            code="not_found",
            action="list the questions that wait with `approval.list`",
        )


def _ended(question: Question, answer: Answer, why: str) -> Decision:
    reason = f"{question.ask.title} {why}"
    return Decision(
        effect=Effect.DENY, reason=reason, by="policy", asked=question.ask, answer=answer
    )
