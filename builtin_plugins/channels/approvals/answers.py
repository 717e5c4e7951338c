"""Answers to questions: from listed approvers alone, by the operation that everybody uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hookgate import QUESTIONS, Address, HookgateError, Host, Invocation, ReceivedMessage
from hookgate.builtin_plugins.channels.approvals.codes import code_of, read_answer
from hookgate.builtin_plugins.channels.inbox.saying import deliveries_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Deliveries
    from hookgate.builtin_plugins.channels.hosting import Hosted
    from hookgate.builtin_plugins.channels.settings import ApproverSettings

RESOLVE = "approval.resolve"
"""The operation by which questions are answered, wherever the answer comes from."""


class Answers:
    """Takes answers. They need no lane: the turn that waits for one holds it.

    Args:
        host: The gateway.
        deliveries: Takes what an approver is told.
        wake: Called with a channel's name when it has something to say.
    """

    def __init__(self, host: Host, deliveries: Deliveries, wake: Callable[[str], None]) -> None:
        self._host = host
        self._deliveries = deliveries
        self._wake = wake

    @staticmethod
    def is_one(hosted: Hosted, message: ReceivedMessage) -> bool:
        """Whether a message answers a question, and is no message for a model.

        What somebody writes who is no approver is a message like any other.
        """
        if read_answer(message) is None:
            return False
        return bool(message.choice) or hosted.approver(message) is not None

    async def take(self, hosted: Hosted, message: ReceivedMessage) -> None:
        """Act on an answer. That of somebody who is not listed changes nothing."""
        approver, answer = hosted.approver(message), read_answer(message)
        if approver is None or answer is None:
            self._host.log.info(
                "an answer of somebody who is no approver", channel=hosted.name, peer=message.peer
            )
            return
        try:
            told = await self._resolve(hosted, approver, *answer)
            if told:
                await self._tell(hosted, approver, message, told)
        except HookgateError as error:
            self._host.log.warning(
                "an answer could not be taken", channel=hosted.name, error=str(error)
            )

    async def _resolve(
        self, hosted: Hosted, approver: ApproverSettings, decision: str, code: str
    ) -> str:
        """Answer the question with this code; return what the approver is to be told, or ""."""
        host, principal = self._host, hosted.principal_of(approver)
        waiting = await host[QUESTIONS].waiting(principal)
        found = [one for one in waiting if code_of(one.id, one.binding).startswith(code)]
        operation = host.operations.get(RESOLVE)
        if len(found) > 1:
            return f"Several questions begin with {code}: use the buttons, or the command line."
        if not found or operation is None:
            return f"No question with the code {code} waits any more."
        (question,) = found
        asked = {"id": question.id, "decision": decision, "digest": question.binding}
        try:
            params = operation.params.model_validate(asked)
            await operation.handler(
                Invocation(host=host, principal=principal, path=hosted.name), params
            )
        except HookgateError as error:
            return f"{code}: {error}"
        except ValueError:
            return f"{code}: {decision!r} is no answer to it."
        return ""

    async def _tell(
        self, hosted: Hosted, approver: ApproverSettings, message: ReceivedMessage, text: str
    ) -> None:
        address = Address(hosted.name, approver.account, approver.peer or approver.sender)
        await self._deliveries.add(deliveries_of(hosted, address, text, batch=message.id))
        self._wake(hosted.name)
