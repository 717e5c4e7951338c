"""A turn in the lane of its session: from its wait for it to its end.

What holds, whatever happens inside: the user's message is committed before a model is
asked, the answer before `done` goes out; `done` goes out exactly once; `after_turn` runs
exactly once for every turn whose message was committed, in the order of the session.

A tool call without a model holds the lane as well, so no turn runs beside it. It is admitted,
judged, asked about, recorded and tainted as any other. It begins with what the session is tainted
with, and what it brings back taints the session before anybody sees it: that something was
fetched in one call is known when the next one would send.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hookgate import hookspecs
from hookgate.core.domain.errors import (
    HookError,
    RefusedError,
    StaleFenceError,
    StoreError,
    TurnCancelledError,
    TurnError,
)
from hookgate.core.domain.events import Event
from hookgate.core.domain.messages import CLEAN, Message, Taint, ToolUse
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.parts import Image, Text, came_as
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.strict_json import well_formed
from hookgate.core.domain.tools import ToolResult
from hookgate.core.domain.turn import HERE, Fence, Turn, TurnRequest
from hookgate.core.hooks.tasks import finish, raise_if_cancelled
from hookgate.core.settings.secret_store import redact_json
from hookgate.core.turn.context import MOST_TURNS, load_turns, whole
from hookgate.core.turn.end import HOOK_ACTION, ended, ending_of, follow
from hookgate.core.turn.shared import SHARED, only_looks
from hookgate.core.turn.talk import Rounds, admit, give, prepare
from hookgate.core.turn.tools.call import Call
from hookgate.core.turn.tools.held import HeldCalls, brought_history, unanswered
from hookgate.core.turn.tools.inner import MADE, end_calls
from hookgate.core.turn.tools.offer import usable_tools
from hookgate.core.turn.verbatim import Brought, VerbatimCalls, read_history, stamped

if TYPE_CHECKING:
    from hookgate.core.turn.start import Turns

BEGINNINGS = 3
"""So often a turn begins of which nothing was committed, since somebody else had the lane."""


class TurnRun:
    """What runs in the task of a turn: the turn itself, or the one tool call that it is made for.

    Args:
        turns: Those that run.
        turn: The turn; it has not begun.
        request: What was asked.
    """

    def __init__(self, turns: Turns, turn: Turn, request: TurnRequest) -> None:
        self._turns = turns
        self._host = turns.host
        self._turn = turn
        self._request = request
        self._held: HeldCalls | None = None
        self._received = False
        self._begun = False
        self._committed = 0
        """How many of the turn's messages are in the store."""
        self._known: Taint = CLEAN
        """What its session is known to be tainted with, of a turn that keeps nothing else."""

    async def run(self) -> None:
        """Run the turn. It begins anew where somebody else had its lane meanwhile.

        Raises:
            StaleFenceError: Somebody else has written to the session, or has its lane by now, and
                nothing of the turn was committed.
            TurnError: The message cannot be taken.
        """
        turn, taint = self._turn, self._turn.extra_taint
        HERE.set((turn, None))
        for left in reversed(range(BEGINNINGS)):
            try:
                await self._hold()
                break
            except StaleFenceError:
                if turn.ending is not None:
                    break  # the lane went while it ended: it was committed, and `done` was said
                if not left:
                    raise
                # Nothing of it is committed, and nobody has seen any of it: it begins anew.
                self._forget(taint)

    def _forget(self, taint: Taint) -> None:
        self._turn.messages.clear()
        self._turn.extra_taint = taint

    async def _hold(self) -> None:
        turn = self._turn
        async with self._turns.lanes.alone(turn) as lease:
            turn.fence = lease.fence
            if self._request.once_held is not None:
                await self._request.once_held(turn)
            if not self._received:
                await self._receive()
            taint = turn.extra_taint
            recalled = self._recall()
            if not recalled:
                await self._take_in()
            try:
                try:
                    # Whole: a cancellation must not leave it open whether it was committed.
                    await finish(self._begin())
                except StaleFenceError:
                    if not recalled:
                        raise
                    # What was recalled is not there any more, and nobody has seen it yet.
                    self._forget(taint)
                    await self._take_in()
                    await finish(self._begin())
                await self._inside()
            except BaseException as error:
                # Whatever a plugin has raised, also what would stop the loop of all turns.
                if not self._begun:
                    raise
                self._failed(error)
            # Whole, even if another cancellation comes: the turn was begun, so it ends.
            await finish(self._end())

    # -- what the user brings ------------------------------------------------

    async def _receive(self) -> None:
        """Let plugins change the message, or refuse it, before anybody else has seen it.

        Raises:
            TurnError: It was refused, or a plugin that must look at it could not.
        """
        turn, hooks, self._received = self._turn, self._host.hooks, True
        came, request = turn.message, self._request
        said = bool(request.content or request.images)
        if request.verbatim:
            said = Brought.of(request).said is not None
        if not (said and hooks.implemented(hookspecs.receive_message)):
            return
        try:
            made: Message | Refusal = await hooks.fold(hookspecs.receive_message, turn, came)
        except HookError as error:
            raise ending_of(turn, error, "")[1] from error
        if isinstance(made, Refusal):
            raise RefusedError(made)
        parts = came.parts
        if not (turn.verbatim and made.parts == parts):
            if not all(isinstance(one, Text | Image) or one in parts for one in made.parts):
                raise TurnError(
                    "a plugin made a message of something else than texts and pictures",
                    code="hook_failed",
                    action=HOOK_ACTION,
                )
            new = made.with_texts(well_formed).parts
            if turn.verbatim:  # what was not changed is still what it came as
                new = tuple(next((old for old in parts if old == one), one) for one in new)
            parts = new
        # What was said may be changed, and not who said it; what it was tainted with stays.
        received = replace(came, parts=parts, taint=came.taint | made.taint)
        turn.message = came_as(received, came.raw if parts is came.parts else None)

    def _recall(self) -> bool:
        """Begin with what the store remembers, where the message goes on with no earlier turn.

        Returns:
            False where the session is to be read.
        """
        turn, request = self._turn, self._request
        if request.tool_results or turn.plan.history == "client" or turn.ephemeral:
            return False
        wanted, conversations = turn.plan.history_turns, self._host[CONVERSATIONS]
        stored = conversations.recall(turn.session, turns=max(wanted, 1), fence=turn.fence)
        if stored is None or not whole(stored.messages) or unanswered(stored.messages):
            return False
        turn.extra_taint |= stored.taint
        turn.history = tuple(stored.messages) if wanted else ()
        turn.messages.append(turn.message)
        return True

    async def _take_in(self) -> None:
        """Load the history, and set what the user brought: a message, or tool results."""
        turn, request, conversations = self._turn, self._request, self._host[CONVERSATIONS]
        if turn.plan.history == "client" or turn.ephemeral:
            await self._recall_taint()
        if turn.verbatim:
            await self._take_in_as_it_came()
            return
        turns = max(turn.plan.history_turns, 1)
        stored = await load_turns(conversations, turn.session, turns, turn.fence)
        turn.extra_taint |= stored.taint  # what the messages carry comes with them
        history, given = stored.messages, request.tool_results
        if request.client_history is not None:
            history, given = brought_history(request)
        waiting = unanswered(history)
        turn.history = tuple(history) if turn.plan.history_turns or waiting else ()
        unknown = {part.tool_use_id for part in given} - {use.id for use in waiting}
        if unknown:
            raise TurnError(
                f"no call waits for the results of {sorted(unknown)}",
                code="unknown_tool_use",
                action="bring the results of the calls that the last turn ended with",
            )
        if waiting:
            self._held = HeldCalls(self._host, self._turns.calls, turn, waiting)
            turn.messages.append(await self._held.take(given, stored.messages))
        if request.content or request.images or not waiting:
            turn.messages.append(turn.message)
        else:
            turn.message = turn.messages[0]

    async def _recall_taint(self) -> None:
        """Begin with what the session is tainted with.

        What a caller leaves out was read all the same, and it may have kept the answers.
        """
        turn, before = self._turn, self._turn.extra_taint
        conversations = self._host[CONVERSATIONS]
        turn.extra_taint |= await conversations.taint(turn.session, turns=MOST_TURNS)
        self._known = turn.extra_taint - before

    async def _take_in_as_it_came(self) -> None:
        """Set what the user brought of a request that is read as it came."""
        turn, request = self._turn, self._request
        brought = Brought.of(request)
        turn.history = read_history(request, brought)
        own = [
            turn.message if place == brought.said else stamped(message, turn, request.taint)
            for place, message in enumerate(brought.own)
        ]
        self._held = calls = VerbatimCalls(self._host, self._turns.calls, turn, turn.history)
        turn.messages.extend(await calls.read(own))

    async def _begin(self) -> None:
        """Commit what the user brought."""
        turn, messages = self._turn, tuple(self._turn.messages)
        if turn.ephemeral:
            await self._keep_taint()
        elif messages:
            await self._host[CONVERSATIONS].append(turn.session, messages, fence=turn.fence)
        self._begun, self._committed = True, len(messages)
        turn.tell(Event("accepted", _named(turn), scope="chat"))
        if self._held is not None:
            await self._held.over()

    async def _keep_taint(self) -> None:
        """Commit what a turn has read that leaves nothing else in its session."""
        turn = self._turn
        if fresh := turn.taint - self._known:
            # With a fence of its own: it writes behind nobody, and beside others of the session.
            await self._host[CONVERSATIONS].add_taint(turn.session, fresh, fence=Fence())
            self._known |= fresh

    async def _inside(self) -> None:
        turn, loop = self._turn, asyncio.get_running_loop()
        clock = asyncio.timeout(self._host.settings.turn.deadline_seconds)
        try:
            async with clock:
                answer = await prepare(self._host, turn)
                if answer is None:
                    clock.reschedule(min(clock.when() or 0, loop.time() + turn.plan.deadline))
                    waits = await self._rounds().run()
                else:
                    give(self._host, turn, answer)
                    waits = False
                turn.takes_calls = False
                if MADE in turn:
                    await end_calls(turn)
                raise_if_cancelled()
        except TimeoutError as error:
            raise _late(clock, error) from None
        turn.ending = "awaiting_client" if waits else "done"

    def _rounds(self) -> Rounds:
        turns = self._turns
        return Rounds(
            self._host, turns.calls, turns.windows, turns.standing, self._turn, self._request
        )

    # -- one call --------------------------------------------------------------

    async def call(self, use: ToolUse) -> None:
        """Judge and run `use` without a model; what it came to stands in ``turn.calls``.

        Raises:
            TurnError: It was refused before it was judged, or something that it needs has failed.
        """
        turn = self._turn
        HERE.set((turn, None))
        async with AsyncExitStack() as stack:
            lanes = self._turns.lanes
            if only_looks(turn.snapshot.tools.get(use.name)):
                turn[SHARED] = True
                turn.fence = await stack.enter_async_context(lanes.shared(turn))
            else:
                turn.fence = (await stack.enter_async_context(lanes.alone(turn))).fence
            clock = asyncio.timeout(self._host.settings.turn.deadline_seconds)
            try:
                async with clock:
                    await self._call(use)
                    raise_if_cancelled()
            except Exception as error:
                if isinstance(error, TimeoutError):
                    error = _late(clock, error)
                _, told = ending_of(turn, error, "")
                if told.code == "internal":
                    self._log(told, error)
                raise told from error
            turn.ending = "done"

    async def _call(self, use: ToolUse) -> None:
        turn, host, conversations = self._turn, self._host, self._host[CONVERSATIONS]
        turns = max(turn.plan.history_turns, 1)
        known = await conversations.taint(turn.session, turns=turns)
        turn.extra_taint |= known
        await admit(host, turn)
        turn.offered = {tool.name: tool for tool in await usable_tools(host, turn)}
        turn.takes_calls = True
        before = turn.extra_taint

        async def keep(result: ToolResult) -> ToolResult:
            nonlocal before
            # What came with the arguments, and what a turn nested in the call has read.
            fresh = result.taint | (turn.extra_taint - known)
            if not fresh:
                return result
            before |= fresh
            try:
                await conversations.add_taint(turn.session, fresh, fence=turn.fence)
            except StoreError as error:
                return ToolResult.error(
                    f"the tool has run, and its result is not handed out: {error}; that the "
                    "session has read it could not be kept"
                )
            return result

        item = Call(use)
        try:
            await self._turns.calls.judge(turn, item)
            await self._turns.calls.run(turn, item, keep=keep)
        finally:
            await finish(end_calls(turn))
            if left := turn.extra_taint - before:
                # Of calls that hooks made, before this one ran or once it was over.
                await finish(conversations.add_taint(turn.session, left, fence=turn.fence))

    # -- the end ---------------------------------------------------------------

    async def _end(self) -> None:
        """Commit the answer, say that the turn is done, and let what follows follow."""
        turn = self._turn
        turn.takes_calls = False
        if MADE in turn:
            try:
                await end_calls(turn)
            except HookError as error:
                self._failed(error)
        fresh = turn.messages[self._committed :]
        if fresh:
            try:
                if turn.ephemeral:
                    await self._keep_taint()
                else:
                    await self._host[CONVERSATIONS].append(turn.session, fresh, fence=turn.fence)
            except BaseException as error:  # noqa: BLE001 - told
                # Who has heard already that the lane is lost does not hear it again.
                if not (isinstance(error, StaleFenceError) and turn.fence.lost and turn.error):
                    self._failed(error)
        data = {
            **_named(turn),
            "ending": turn.ending,
            "text": turn.answer,
            "stop": turn.stop,
            "usage": turn.usage.to_json(),
        }
        if turn.error is not None:
            data["error"] = _told(turn.error)
        if turn.ending == "awaiting_client":
            data["pending"] = [
                {"id": use.id, "name": use.name, "input": use.input} for use in turn.pending
            ]
        await ended(self._host, turn)
        # Client and bus hear the same; what the conversation keeps is for the model.
        turn.emit(Event("done", redact_json(self._host.secrets, data), scope="chat"))
        self._turns.after.run(turn.session, lambda: follow(self._host, turn))

    def _failed(self, error: BaseException) -> None:
        """Set how the turn ended, in words that a client can act on."""
        turn, task = self._turn, asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None:
            # It has been heard: what follows is the turn's orderly end.
            task.uncancel()
            if turn.fence.lost:
                error = StaleFenceError.of(turn.session)
        handle = self._turns.handle(turn.id)
        turn.ending, turn.error = ending_of(turn, error, handle.reason if handle else "")
        self._log(turn.error, error)
        data = redact_json(self._host.secrets, _told(turn.error))
        turn.emit(Event("error", data, scope="chat"))

    def _log(self, told: TurnError, error: BaseException) -> None:
        """Name a turn that did not end well, for whoever has to look for the reason."""
        turn = self._turn
        log, about = self._host.log, {"turn": turn.id, "session": str(turn.session)}
        if told.code == "internal":
            log.error("turn failed", **about, code=told.code, exc_info=error)
        elif turn.ending == "cancelled":
            log.info("turn cancelled", **about, code=told.code, reason=str(told))
        else:
            log.warning(f"turn {turn.ending}", **about, code=told.code, reason=str(told))


def _told(error: TurnError) -> dict[str, Any]:
    """Return what a client is told of the error that a turn ended with."""
    return {
        "code": error.code,
        "message": str(error),
        "action": error.action,
        **error.data,
    }


def _named(turn: Turn) -> dict[str, Any]:
    return {"turn": turn.id, "session": str(turn.session)}


def _late(clock: asyncio.Timeout, error: TimeoutError) -> Exception:
    """Return what `error` says of a turn: its time was over, or something else took too long."""
    if not clock.expired():
        return error
    return TurnCancelledError(
        "the turn reached its deadline",
        code="deadline",
        action="raise `turn.deadline_seconds`, or ask for less at once",
    )
