"""Which tools a turn offers to its model, and which cards and skills apply."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from hookgate import hookspecs
from hookgate.core.domain.descriptors import Selection
from hookgate.core.domain.errors import TurnError
from hookgate.core.domain.events import Event
from hookgate.core.domain.ports import TokenCounter
from hookgate.core.domain.tools import Tool
from hookgate.core.domain.turn import Turn, TurnPlan
from hookgate.core.registry.snapshots import Capabilities
from hookgate.core.turn.tools.call import matches, may_use

if TYPE_CHECKING:
    from hookgate.core.hooks.caller import HookAnswer
    from hookgate.core.hooks.dispatch import HookFailure
    from hookgate.core.host import Host


def schema_tokens(tools: Iterable[Tool], counter: TokenCounter, *, enough: float = math.inf) -> int:
    """Return how many tokens the declarations of tools take in a request.

    An admitted tool keeps its own.

    Args:
        tools: The tools.
        counter: Counts tokens.
        enough: Those behind so many tokens are not looked at.
    """
    total = 0
    for tool in tools:
        known = tool.counted
        if known is None or known[0] is not counter:
            known = counter, counter.count(tool.declaration)
            if tool.admitted:
                object.__setattr__(tool, "counted", known)
        total += known[1]
        if total > enough:
            break
    return total


async def choose_tools(host: Host, turn: Turn) -> None:
    """Withhold, select, and set what the turn offers.

    Client-owned tools are always offered, and in what is read as it came nothing else but what the
    request names of the gateway's, behind them. The order is by name, so that the same set of tools
    makes the same request and a provider's prompt cache keeps hitting.

    Raises:
        HookError: What should be withheld could not be found out.
        TurnError: A selector failed and the plan says ``fail_closed``.
    """
    plan = turn.plan
    usable = await usable_tools(host, turn)
    if turn.verbatim:
        own = [tool for tool in usable if matches(tool.name, turn.host_tools)]
        own.sort(key=attrgetter("name"))
        turn.offered = {tool.name: tool for tool in (*turn.client_tools, *own)}
        turn.takes_calls = True
        return
    failed = await _select(host, turn)
    is_some = is_chosen(host, plan, usable)
    if plan.tool_selection == "auto":
        # Whoever looks at the plan from here on sees what it came to.
        turn.plan = replace(plan, tool_selection="discovered" if is_some else "all")
    if is_some:
        chosen = _selected(turn, usable)
        if plan.widened:
            turn.degrade("tools_widened", "all tools are offered in place of discovered ones")
        if failed or plan.widened or _finds_all_but_tools(turn, chosen):
            chosen = _capped(host, turn, usable)
        usable = chosen
    usable.sort(key=attrgetter("name"))
    turn.offered = {tool.name: tool for tool in (*usable, *turn.client_tools)}
    turn.takes_calls = True


async def usable_tools(host: Host, turn: Turn) -> list[Tool]:
    """Withhold what is to be withheld from `turn`; return the gateway's tools that are left to it.

    Raises:
        HookError: What should be withheld could not be found out.
    """
    index = turn.snapshot.capabilities
    withheld: set[str] = set()
    for ids in await host.hooks.each(hookspecs.withhold_capabilities, turn, index):
        withheld.update(ids)
    turn.withheld = frozenset(withheld)
    tools = turn.snapshot.tools.values()
    if turn.agent.tools is None and not withheld:
        return list(tools)
    return [tool for tool in tools if may_use(turn, tool)]


def is_chosen(host: Host, plan: TurnPlan, usable: Sequence[Tool]) -> bool:
    """Whether a turn offers what was discovered of its `usable` tools, and not all of them."""
    if not plan.discovery or plan.tool_selection == "all":
        return False
    if plan.tool_selection == "discovered":
        return True
    if not host.hooks.implemented(hookspecs.select_capabilities):
        return False
    # All tools are better for a provider's prompt cache, and for a model: while they are few.
    room = plan.whole_tool_tokens
    return schema_tokens(usable, host.tokens, enough=room) > room


async def _select(host: Host, turn: Turn) -> Sequence[HookFailure]:
    """Ask the selectors; return their failures, where the plan lets the turn go on."""
    if not turn.plan.discovery or not host.hooks.implemented(hookspecs.select_capabilities):
        return ()
    view = turn.snapshot.capabilities.without(turn.withheld)
    failures = []
    best = dict(turn.selections)
    for answer in await _asked(host, turn, view):
        if answer.failure is not None:
            failures.append(answer.failure)
        for selection in answer.value or ():
            known = best.get(selection.id)
            if selection.id in view and (known is None or selection.score > known.score):
                best[selection.id] = selection
    turn.selections = best
    if failures:
        why = "; ".join(f"{failure.plugin}: {failure.message}" for failure in failures)
        if turn.plan.failure_mode == "fail_closed":
            raise TurnError(
                f"discovery failed and the turn is fail_closed: {why}", code="discovery_failed"
            )
        turn.degrade("discovery_failed", why)
        turn.emit(Event("discovery_failed", {"reason": why}, scope="chat"))
    return failures


async def _asked(
    host: Host, turn: Turn, view: Capabilities
) -> Sequence[HookAnswer[Sequence[Selection]]]:
    """Return what the selectors came to; one that has raised is asked again, as planned."""
    hooks, plan = host.hooks, turn.plan
    answers = await hooks.each_by_plugin(hookspecs.select_capabilities, turn, view)
    for retry in range(plan.discovery_retries):
        raised = {one.plugin for one in answers if one.failure and one.failure.kind == "raised"}
        if not raised:
            break
        await asyncio.sleep(plan.discovery_retry_delay * 2**retry)
        answers = [one for one in answers if one.plugin not in raised]
        answers += await hooks.each_of(raised, hookspecs.select_capabilities, turn, view)
    return answers


def _finds_all_but_tools(turn: Turn, chosen: Sequence[Tool]) -> bool:
    """Whether something fits the message, and no tool among it: then some tool may be meant.

    A card explains the gateway, and what is forced comes along whatever fits.
    """
    capabilities = turn.snapshot.capabilities
    fit = {
        one.id
        for one in turn.selections.values()
        if not one.forced and (row := capabilities.get(one.id)) and row.kind != "card"
    }
    return bool(fit) and not any(f"tool:{tool.name}" in fit for tool in chosen)


def _selected(turn: Turn, usable: Sequence[Tool]) -> list[Tool]:
    return [tool for tool in usable if tool.always_on or f"tool:{tool.name}" in turn.selections]


def _capped(host: Host, turn: Turn, usable: Sequence[Tool]) -> list[Tool]:
    """Return as many tools as fit the fallback's cap, always-on and selected ones first."""
    room = turn.plan.fallback_tool_tokens
    chosen = []
    preferred = {tool.name for tool in _selected(turn, usable)}
    for tool in sorted(usable, key=lambda tool: (tool.name not in preferred, tool.name)):
        tokens = schema_tokens((tool,), host.tokens)
        if tokens <= room:
            chosen.append(tool)
            room -= tokens
    return chosen
