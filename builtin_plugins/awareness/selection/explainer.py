"""What a message would bring up, without a turn; and what messages that need nothing would."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson

from hookgate import Flags, Rejected, not_found
from hookgate.builtin_plugins.awareness.selection.injector import frame
from hookgate.builtin_plugins.awareness.selection.selector import (
    CardQuestion,
    JudgedCard,
    fit,
    force,
    order,
    refuse,
)

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.service import Awareness


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What messages whose cards are known came to.

    Attributes:
        needless: Messages that need no card.
        wrong: Those of them that show one.
        needing: Messages that need a card which is there.
        hits: Those of them that show it.
        cards: How often each card was shown to a message that needs none.
    """

    needless: int
    wrong: int
    needing: int
    hits: int
    cards: Mapping[str, int]


class Explainer:
    """Holds messages against the cards that there are now."""

    def __init__(self, awareness: Awareness) -> None:
        self._awareness = awareness

    async def explain(
        self,
        *,
        message: str,
        agent: str = "",
        session_type: Literal["main", "isolated"] = "main",
        point: Literal["bootstrap", "mid"] = "bootstrap",
        tools: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return what would be shown, JSON-ready.

        Other plugins' selectors are not asked: they choose for a turn, and there is none.

        Raises:
            TurnError: There is no such agent or tool.
        """
        awareness = self._awareness
        if agent and agent not in (agents := awareness.host.settings.agents) and agents:
            raise not_found("agent", agent, f"name one of {', '.join(sorted(agents))}")
        host, rules = awareness.host, awareness.rules(agent or self._agent())
        cards = host.cards.view()
        hidden = rules.withheld(cards)
        matcher = awareness.made(cards).matcher
        used = [(name, self._flags(name)) for name in tools]
        await awareness.prepare()
        started = time.perf_counter()
        tags = await awareness.tags(message, cards)
        asking = CardQuestion(
            message=message, tags=frozenset(tags), session_type=session_type, point=point
        )
        judged = force(matcher.judge(asking), rules.forced)
        if used:
            judged = _either(judged, matcher.after_tools(used, session_type=session_type))
        took = (time.perf_counter() - started) * 1000
        judged = refuse(judged, rules.excluded, "excluded")
        judged = refuse(judged, hidden - rules.excluded, "not in the agent's profile")
        waiting = awareness.registry.waiting(cards)
        judged = refuse(judged, waiting, "waits to be approved")
        decisions = fit(order(await self._clean(judged)), rules.budget, frame)
        return {
            "on": awareness.control.on,
            "tags": tags,
            "budget": rules.budget,
            "tokens": sum(one.tokens for one in decisions),
            "milliseconds": round(took, 3),
            "cards": [one.to_json() for one in decisions],
            "text": "\n\n".join(one.text for one in decisions if one.text),
        }

    async def trial(self) -> Trial:
        """Hold messages whose cards are known against the cards that there are now.

        Those that need a card ask about what comes with hookgate; a message counts as needing
        one where a card that answers it is there.
        """
        awareness = self._awareness
        cards, rules = awareness.host.cards.view(), awareness.rules(self._agent())
        there = frozenset(cards) - rules.withheld(cards)
        matcher = awareness.made(cards).matcher
        messages = await asyncio.to_thread(known_messages)
        await awareness.prepare()
        wrong: Counter[str] = Counter()
        needless = needing = hits = mistaken = 0
        for text, wanted in messages:
            tags = frozenset(await awareness.tags(text, cards))
            asking = CardQuestion(message=text, tags=tags, session_type="main", point="bootstrap")
            judged = matcher.found(asking, there.__contains__, always=rules.forced)
            chosen = {one.card.id for one in force(judged, rules.forced) if one.chosen}
            if not wanted:
                needless += 1
                mistaken += bool(chosen)
                wrong.update(chosen)
            elif wanted & there:
                needing += 1
                hits += bool(chosen & wanted)
        return Trial(
            needless=needless, wrong=mistaken, needing=needing, hits=hits, cards=dict(wrong)
        )

    def _agent(self) -> str:
        settings = self._awareness.host.settings
        return settings.default_agent or next(iter(settings.agents), "demo")

    def _flags(self, name: str) -> Flags:
        made = self._awareness.host.tools.view().get(name)
        if made is None:
            raise not_found("tool", name, "`hookgate tools list` shows all")
        return made.flags

    async def _clean(self, judged: Sequence[JudgedCard]) -> list[JudgedCard]:
        host = self._awareness.host
        clean = []
        for one in judged:
            safe = await host.sanitize(one.card) if one.chosen else one.card
            if isinstance(safe, Rejected):
                clean += refuse([one], {one.card.id}, f"rejected: {safe.reason}")
            else:
                clean.append(replace(one, card=replace(one.card, text=safe.text)))
        return clean


def known_messages() -> tuple[tuple[str, frozenset[str]], ...]:
    """Return messages with the ids of the cards that answer each, none for most; reads a file.

    Of all that are there, those to which no constant of the router was fitted.
    """
    lines = Path(__file__).with_name("messages.jsonl").read_bytes().splitlines()
    rows = (orjson.loads(line) for line in lines)
    return tuple((row["text"], frozenset(row["cards"])) for row in rows if is_held_out(row["text"]))


def is_held_out(text: str) -> bool:
    """Whether a message is in the half, chosen by a digest, that nothing was fitted to."""
    return bool(hashlib.sha256(text.encode()).digest()[0] & 1)


def _either(first: Sequence[JudgedCard], second: Sequence[JudgedCard]) -> list[JudgedCard]:
    """Return for each card the decision that chooses it, if one of the two does."""
    later = {one.card.id: one for one in second if one.chosen}
    return [one if one.chosen else later.get(one.card.id, one) for one in first]
