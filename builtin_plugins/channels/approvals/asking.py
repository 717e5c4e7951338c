"""Questions in a channel: shown whole to each listed approver, and changed once they are over."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hookgate import Address, Event, Host, StoreError, new_id
from hookgate.builtin_plugins.channels.approvals.codes import SHOWN, choices_of, code_of, words_of
from hookgate.builtin_plugins.channels.inbox.saying import deliveries_of

if TYPE_CHECKING:
    from hookgate.builtin_plugins.channels.book.deliveries import Deliveries, Delivery
    from hookgate.builtin_plugins.channels.hosting import Hosted
    from hookgate.builtin_plugins.channels.settings import ApproverSettings

REMEMBERED = 1000
"""Questions whose messages can still be changed."""

NOT_SHOWN = frozenset(("id", "digest", "state", "approvers", "choices", "scopes", "asked"))
"""Parts of a question that say nothing of the call; `arguments_text` says what `arguments` does."""


@dataclass(slots=True)
class _Shown:
    """A question as one approver has it: its last message, and that one's id once it was sent."""

    last: Delivery
    message_id: str = ""


class Asking:
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
        def is_question(event: Event) -> bool:
            return event.type == "approval"

        with events.subscribe(principal=principal, where=is_question) as subscription:
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
        if data.get("state") == "pending":
            said = self._question(approver, data)
            if said:
                self._shown[key] = _Shown(said[-1])
                while len(self._shown) > REMEMBERED:
                    self._shown.popitem(last=False)
        else:
            shown = self._shown.pop(key, None)
            said = [] if shown is None else [self._ended(shown, data)]
        if said:
            await self._deliveries.add(said)
            self._wake()

    def sent(self, delivery_id: str, message_id: str) -> None:
        """Take note of the id of a message that was sent."""
        for shown in self._shown.values():
            if shown.last.id == delivery_id:
                shown.message_id = message_id

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
