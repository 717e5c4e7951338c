"""The operations of cards and awareness: status, report, switch, list, explain."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import Field

from hookgate import (
    Flags,
    Invocation,
    NotAllowedError,
    Rejected,
    TurnError,
    not_found,
    operation,
)
from hookgate.builtin_plugins.awareness.cards.listing import pointer
from hookgate.builtin_plugins.awareness.selection.injector import frame
from hookgate.builtin_plugins.awareness.selection.selector import (
    CardQuestion,
    JudgedCard,
    fit,
    force,
    order,
    refuse,
)
from hookgate.builtin_plugins.awareness.switch import figures, milliseconds, seen
from hookgate.kit.modules import on_demand

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness import models
else:
    models = on_demand("hookgate.builtin_plugins.awareness.models")

if TYPE_CHECKING:
    from hookgate.builtin_plugins.awareness.service import Awareness


# -- operations ------------------------------------------------------------------

# The operations of cards and awareness: status, report, switch, list, explain, approve.

_HOUR = 3_600_000


class AwarenessOperations:
    """Whether cards are shown to models, and what they have cost."""

    def __init__(self, awareness: Awareness, explainer: Explainer) -> None:
        self._awareness = awareness
        self._explainer = explainer

    @operation("awareness.status", rest=("GET", "/v1/awareness"))
    async def status(self, invocation: Invocation) -> models.StatusResult:
        """Show whether cards are on, and what is wrong with any."""
        host, control, registry = invocation.host, self._awareness.control, self._awareness.registry
        window, rules = control.window(host), control.switch.settings
        review = await registry.reviewed(host)
        return models.StatusResult(
            on=control.on,
            why=control.why_off,
            turns=window.turns,
            with_card=window.triggered,
            rate=round(window.rate, 4),
            threshold=rules.threshold,
            samples=rules.samples,
            window_hours=rules.window_hours,
            cards=len(host.cards),
            rejected=dict(review.rejected),
            warned=dict(review.warned),
            differing=review.differing,
            problems=tuple(str(problem) for problem in registry.problems),
        )

    @operation("awareness.report")
    async def report(
        self,
        invocation: Invocation,
        hours: Annotated[float, Field(gt=0, le=24 * 366)] = 24 * 7,
        trial: bool = True,
    ) -> models.ReportResult:
        """Show what cards have cost, and how often they came up: in sessions that the caller sees.

        Args:
            hours: The last so many hours.
            trial: Whether messages whose cards are known are held against the cards, too.
        """
        host, control = invocation.host, self._awareness.control
        await control.flush()
        since = milliseconds(host) - int(hours * _HOUR)
        try:
            known = await asyncio.to_thread(control.records, host, since)
        except OSError as error:
            raise TurnError(
                f"the records of turns cannot be read: {error}",
                code="unreadable",
                action="let the gateway's user read that file, or take it away",
            ) from error
        records = [record for record in known if invocation.principal.sees(record.session)]
        tried = await self._explainer.trial() if trial else None
        # There may be hundreds of thousands.
        cards, tags = await asyncio.to_thread(seen, records)
        rows = await asyncio.to_thread(figures, records, tried)
        return models.ReportResult(
            hours=hours,
            turns=len(records),
            sessions=len({record.session for record in records}),
            figures=tuple(models.FigureRow(**row) for row in rows),
            cards=_counts(cards),
            tags=_counts(tags),
            shown_for_nothing=_counts(tried.cards if tried else {}),
        )

    @operation("awareness.enable", scope="operate")
    async def enable(self, invocation: Invocation) -> models.CardSwitchRow:
        """Turn cards on again, with a fresh window of the kill switch."""
        if not self._awareness.control.settings.enabled:
            raise NotAllowedError(
                "cards are off by the settings",
                action="set `plugin.awareness.enabled = true`, then `hookgate reload`",
            )
        await self._awareness.control.turn_on(invocation.host)
        return await self._switched(invocation, "awareness_enabled", "")

    @operation("awareness.disable", scope="operate")
    async def disable(
        self,
        invocation: Invocation,
        reason: Annotated[str, Field(min_length=1, max_length=300)] = "an operator turned them off",
    ) -> models.CardSwitchRow:
        """Turn cards off at once; turns that run finish as they began.

        Args:
            reason: Shown in `status` until they are on again.
        """
        # It is kept in a file.
        why = invocation.host.secrets.redact(reason)
        await self._awareness.control.turn_off(invocation.host, why)
        return await self._switched(invocation, "awareness_disabled", why)

    async def _switched(
        self, invocation: Invocation, kind: str, reason: str
    ) -> models.CardSwitchRow:
        await invocation.host.record(kind, by=invocation.principal.id, reason=reason)
        return models.CardSwitchRow(
            on=self._awareness.control.on, why=self._awareness.control.why_off
        )

    @operation("awareness.pointer")
    async def point(self, invocation: Invocation) -> models.PointerResult:
        """Show the two sentences for an AGENTS.md, which name the tools."""
        text = pointer(invocation.host.tools.view())
        return models.PointerResult(text=text, tokens=invocation.host.tokens.count(text))


class CardOperations:
    """Cards that make models aware of capabilities: list, explain, check them."""

    def __init__(self, awareness: Awareness, explainer: Explainer) -> None:
        self._awareness = awareness
        self._explainer = explainer

    @operation("cards.list", rest=("GET", "/v1/cards"))
    async def listed(self, invocation: Invocation) -> models.CardRows:
        """List the cards, and whether each one can be shown."""
        await self._awareness.registry.reviewed(invocation.host)
        rows = [self._awareness.card_row(card) for card in invocation.host.cards.view().values()]
        rows.sort(key=lambda row: str(row["id"]))
        return models.CardRows.model_validate({"cards": rows})

    @operation("cards.explain")
    async def explain(
        self, _: Invocation, params: models.ExplainCardsParams
    ) -> models.ExplainResult:
        """Show which cards a message would bring up, and why not the others."""
        found = await self._explainer.explain(**params.model_dump())
        return models.ExplainResult.model_validate(found)


def _counts(found: Mapping[str, int]) -> tuple[models.CountRow, ...]:
    return tuple(models.CountRow(name=name, turns=count) for name, count in found.items())


# -- explaining a selection --------------------------------------------------------


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
