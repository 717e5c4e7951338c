"""Questions about tool calls, put to people over channels, and their answers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hookgate import (
    QUESTIONS,
    Address,
    Choice,
    Event,
    HookgateError,
    Host,
    ReceivedMessage,
    StoreError,
    new_id,
)
from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
from hookgate.builtin_plugins.channels.intake import deliveries_of
from hookgate.builtin_plugins.channels.peers import LETTERS
from hookgate.builtin_plugins.channels.roster import Hosted
from hookgate.builtin_plugins.channels.settings import ApproverSettings
from hookgate.clients import call_operation

DIGITS = 8
WHOLE = 12
SHOWN = 4
"""So much of a code people write; buttons carry all of it."""

PREFIX = "hookgate"

DECISIONS = {"allow": "allow-once", "always": "allow-always", "deny": "deny"}
LABELS = {"allow-once": "Allow once", "allow-always": "Allow always", "deny": "Deny"}

_TEXT = re.compile(r"\s*(allow|always|deny)\s+([2-9][2-9A-HJ-NP-Z]{3,11})\s*", re.IGNORECASE)
_DATA = re.compile(rf"{PREFIX}:([a-z-]{{4,12}}):([2-9A-HJ-NP-Z]{{12}})")


def code_of(question_id: str, digest: str) -> str:
    """Return the code of a question: 12 letters and digits, a digit first.

    It follows from the question and from all that an answer is bound to, so that any gateway on
    the store knows it, and a code never stands for another call.
    """
    number = int.from_bytes(hashlib.sha256(f"{question_id}\n{digest}".encode()).digest())
    code = LETTERS[number % DIGITS]
    for _ in range(WHOLE - 1):
        number //= len(LETTERS)
        code += LETTERS[number % len(LETTERS)]
    return code


def choices_of(code: str, offered: Sequence[str]) -> tuple[Choice, ...]:
    """Return the buttons that answer a question."""
    return tuple(
        Choice(LABELS.get(decision, decision), f"{PREFIX}:{decision}:{code}")
        for decision in offered
    )


def words_of(code: str, offered: Sequence[str]) -> str:
    """Return what an approver writes who sees no buttons."""
    words = [f"{word} {code[:SHOWN]}" for word, one in DECISIONS.items() if one in offered]
    return ", ".join(f"`{text}`" for text in words)


def read_answer(message: ReceivedMessage) -> tuple[str, str] | None:
    """Return decision and code of a message that answers a question; None where it does not."""
    if message.choice:
        found = _DATA.fullmatch(message.choice)
        return None if found is None else (found[1], found[2])
    found = _TEXT.fullmatch(message.content)
    return None if found is None else (DECISIONS[found[1].lower()], found[2].upper())


# -- answers ---------------------------------------------------------------------

# Answers to questions: from listed approvers alone, by the operation that everybody uses.

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
        if len(found) > 1:
            return f"Several questions begin with {code}: use the buttons, or the command line."
        if not found:
            return f"No question with the code {code} waits any more."
        (question,) = found
        asked = {"id": question.id, "decision": decision, "digest": question.binding}
        try:
            await call_operation(host, principal, RESOLVE, asked, path=hosted.name)
        except HookgateError as error:
            return f"{code}: {error}"
        return ""

    async def _tell(
        self, hosted: Hosted, approver: ApproverSettings, message: ReceivedMessage, text: str
    ) -> None:
        address = Address(hosted.name, approver.account, approver.peer or approver.sender)
        await self._deliveries.add(deliveries_of(hosted, address, text, batch=message.id))
        self._wake(hosted.name)


# -- asking ----------------------------------------------------------------------

# Questions in a channel: shown whole to each listed approver, and changed once they are over.

REMEMBERED = 1000
"""Questions whose messages can still be changed."""

NOT_SHOWN = frozenset(("id", "digest", "state", "approvers", "choices", "scopes", "asked"))
"""Parts of a question that say nothing of the call; `arguments_text` says what `arguments` does."""


@dataclass(slots=True)
class _Shown:
    """A question as one approver has it: its last message, and that one's id once it was sent.

    `message_id` is None while the platform has not said it; `over` is how the question ended.
    """

    last: Delivery
    message_id: str | None = None
    over: Mapping[str, Any] | None = None


class ApproverQuestions:
    """Asks the approvers of one channel.

    It listens to events as each approver would: so policy knows that somebody can answer, and
    decides who that is. A channel of anybody else can do the same.

    Args:
        host: The gateway.
        hosted: The channel.
        deliveries: Takes what is to be said.
        wake: Called when there is something to say.
    """

    def __init__(
        self, host: Host, hosted: Hosted, deliveries: Deliveries, wake: Callable[[], None]
    ) -> None:
        self._host = host
        self._hosted = hosted
        self._deliveries = deliveries
        self._wake = wake
        self._shown: OrderedDict[tuple[str, str, str], _Shown] = OrderedDict()

    async def run(self) -> None:
        """Ask for as long as it runs."""
        async with asyncio.TaskGroup() as group:
            for approver in self._hosted.approvers:
                group.create_task(self._ask(approver))

    async def _ask(self, approver: ApproverSettings) -> None:
        principal = self._hosted.principal_of(approver)
        events = self._host.events

        # No more may be asked of an event: policy tries with less whether anybody would get it.
        with events.subscribe(principal=principal, types=("approval",)) as subscription:
            async for event in subscription:
                try:
                    await self._take(approver, event)
                except StoreError as error:
                    self._host.log.warning(
                        "a question is not shown, since the store fails",
                        channel=self._hosted.name,
                        error=str(error),
                    )

    async def _take(self, approver: ApproverSettings, event: Event) -> None:
        data = event.data
        key = (str(data.get("id", "")), approver.account, approver.sender)
        if data.get("state") != "pending":
            if shown := self._shown.get(key):
                shown.over = data
                await self._end(key, shown)
        elif said := self._question(approver, data):
            self._shown[key] = _Shown(said[-1])
            while len(self._shown) > REMEMBERED:
                self._shown.popitem(last=False)
            await self._deliveries.add(said)
            self._wake()

    async def sent(self, delivery_id: str, message_id: str) -> None:
        """Take note of the id of a message that was sent.

        Raises:
            StoreError: The question is over, and the store does not take what is to be said.
        """
        for key, shown in tuple(self._shown.items()):
            if shown.last.id == delivery_id:
                shown.message_id = message_id
                await self._end(key, shown)

    async def _end(self, key: tuple[str, str, str], shown: _Shown) -> None:
        """Say how a question ended, once the platform has said which message is to be changed.

        People answer faster than some platforms reply: until then there is nothing to change.
        """
        if shown.over is None or (shown.message_id is None and self._hosted.channel.features.edit):
            return
        await self._deliveries.add([self._ended(shown, shown.over)])
        self._shown.pop(key, None)
        self._wake()

    # -- words -------------------------------------------------------------

    def _question(self, approver: ApproverSettings, data: Mapping[str, Any]) -> list[Delivery]:
        peer = approver.peer or approver.sender
        address = Address(self._hosted.name, approver.account, peer)
        code, offered = code_of(str(data["id"]), str(data["digest"])), list(data["choices"])
        expires = datetime.fromisoformat(str(data["expires"]))
        # ASCII alone: nothing invisible hides in it, and every byte is there.
        whole = {name: value for name, value in data.items() if name not in NOT_SHOWN}
        whole.pop("arguments_text", None)
        text = json.dumps(whole, indent=1, sort_keys=True)
        if self._hosted.channel.features.markdown:
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            text = f"{fence}\n{text}\n{fence}"
        content = (
            f"A tool call waits for your approval, code {code[:SHOWN]}:\n\n{text}\n\n"
            f"Answer {words_of(code, offered)} before {expires:%H:%M:%S} UTC."
        )
        said = deliveries_of(
            self._hosted,
            address,
            content,
            batch=str(data["id"]),
            choices=choices_of(code, offered),
            expires=int(expires.timestamp() * 1000),
        )
        return [replace(one, id=new_id("say")) for one in said]

    def _ended(self, shown: _Shown, data: Mapping[str, Any]) -> Delivery:
        by = f" by {data['by']}" if data.get("by") not in (None, "", "policy") else ""
        why = f": {data['why']}" if data.get("why") and not by else ""
        end = f"{data.get('tool', 'The call')}: {data['state']}{by}{why}"
        features, last = self._hosted.channel.features, shown.last
        if not (features.edit and shown.message_id):
            return replace(last, id="", content=end, choices=(), edits="", batch="", expires=0)
        content = f"{last.content}\n\n{end}" if isinstance(last.content, str) else end
        if features.max_length and len(content) > features.max_length:
            content = end
        return replace(
            last, id="", content=content, choices=(), edits=shown.message_id, batch="", expires=0
        )
