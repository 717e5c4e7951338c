"""Asking people: an inbox of questions, each answered once or not at all.

A question is bound to the tool, its arguments, the session, the turn, the call and the
policy. It lives as long as the call waits for it: a timeout, a cancelled turn and a restart
all end it, and what ends without an answer is denied.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hookgate.core.errors import TurnError
from hookgate.core.events import Event
from hookgate.core.messages import new_id
from hookgate.core.tools import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hookgate.builtin_plugins.policy.grants import GrantScope
    from hookgate.core.ports import Clock
    from hookgate.core.tools import Ask, ToolCall
    from hookgate.core.turn import Principal, Turn

__all__ = ["Choice", "Inbox", "Question", "binding"]

Choice: TypeAlias = Literal["allow-once", "allow-always", "deny"]


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
        *,
        attended: Callable[[Turn, Event], bool] = lambda turn, event: True,
        closed: str = "",
        why_not: Callable[[str, Turn], str] = lambda principal, turn: "",
        force: Callable[[ToolCall], str] = lambda call: "",
        scopes: tuple[GrantScope, ...] = (),
    ) -> None:
        """Open an inbox.

        Args:
            clock: Says when questions end.
            attended: Whether anybody is there who may answer.
            closed: Why nobody may answer at all; "" where somebody may.
            why_not: Takes a principal's id; returns why it may not answer, or "".
            force: Returns what an answer is bound to beside the call: the policy, and the
                tool as it is registered now.
            scopes: How far ``allow-always`` may reach; empty where it is not offered.
        """
        self._clock = clock
        self._attended = attended
        self._closed = closed
        self._why_not = why_not
        self._force = force
        self._scopes = scopes
        self._waiting: dict[str, Question] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    async def ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
        """Ask, and wait for the answer at most ``ask.timeout`` seconds.

        Returns:
            What was answered; a denial where nobody is there, or answered in time.
        """
        if self._closed:
            return Decision.deny(f"{ask.title} {self._closed}", by="policy", asked=ask)
        question = self._question(turn, call, ask)
        event = Event("approval", {"state": "pending", **question.to_json()}, scope="approve")
        if not self._attended(turn, event):
            return Decision.deny(
                f"{ask.title} Nobody who may approve is connected", by="policy", asked=ask
            )
        self._waiting[question.id] = question
        state, by = "withdrawn", ""
        try:
            turn.emit(event)
            await asyncio.wait({question.answer}, timeout=ask.timeout)
            if not question.answer.done():
                state = "expired"
                return Decision.deny(
                    f"{ask.title} Nobody answered within {ask.timeout:g} s", by="policy", asked=ask
                )
            decision = question.answer.result()
            if self._binding(turn, call) != question.digest:
                # What was shown is not what would run.
                decision = Decision.deny(
                    "the call, its tool or the policy changed while it was asked about",
                    by="policy",
                )
            state, by = ("allowed" if decision.allowed else "denied"), decision.by
            return decision
        finally:
            self._waiting.pop(question.id, None)
            question.answer.cancel()
            data = {"state": state, "id": question.id, "by": by, "tool": call.name}
            turn.emit(Event("approval", data, scope="approve"))

    def _question(self, turn: Turn, call: ToolCall, ask: Ask) -> Question:
        now = self._clock.now()
        always = self._scopes if "allow-always" in ask.choices else ()
        return Question(
            id=new_id("ask"),
            digest=self._binding(turn, call),
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
        return binding(turn, call, self._force(call))

    def waiting(self, principal: Principal) -> Sequence[Question]:
        """Return the questions that `principal` may answer, the oldest first."""
        return [
            question
            for question in self._waiting.values()
            if principal.may_claim(question.turn.address)
            and not self._why_not(principal.id, question.turn)
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
        question.answer.set_result(decision)
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
                answer, the digest is another one, or the answer is none that is offered. The
                question waits on.
        """
        question = self._waiting.get(question_id)
        if question is None or not principal.may_claim(question.turn.address):
            raise TurnError(
                f"no question {question_id!r} waits: it was answered, ran out, or never was",
                code="not_found",
                action="list the questions that wait with `approval.list`",
            )
        if why := self._why_not(principal.id, question.turn):
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
        return question

    def put_back(self, question: Question) -> None:
        """Let a claimed question wait on for another answer, if its time is not over."""
        if not question.answer.done():
            self._waiting[question.id] = question
