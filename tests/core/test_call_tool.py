"""`Host.call_tool`: a tool call without a model, as a plugin of a third party makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.script import (
    Allow,
    Events,
    Recorder,
    Script,
    Scripted,
    Tools,
    call,
    echo_tool,
    gateway,
    say,
    until,
)

from hookgate import (
    CONVERSATIONS,
    LANES,
    Address,
    Ask,
    Decision,
    FinishedCall,
    Flags,
    Host,
    NotAllowedError,
    Origin,
    Principal,
    Provenance,
    Refusal,
    SessionKey,
    StoreError,
    ToolCall,
    Turn,
    TurnCancelledError,
    TurnError,
    TurnRequest,
    Verdict,
    hookimpl,
)
from hookgate.core.domain.turn import Claim
from hookgate.sessions import InProcessConversations

SCHEDULE = Origin(provenance=Provenance.SCHEDULED, path="schedule")
BOB = Principal(id="bob", scopes=frozenset(["chat"]), bindings=(Claim(channel="mail"),))
HOME = Address("mail", "acme", "bob")
SESSION = SessionKey("main", "mail", "acme", "bob")
FETCHES = Flags(reads_external_data=True, sends_externally=False)
FETCHES_ALONE = Flags.from_mapping({**Flags.none().to_json(), "reads_external_data": True})
SENDS = Flags(reads_external_data=False, sends_externally=True)


class Careful:
    """Allows what does not send, and what sends where nothing foreign was read."""

    name = "careful"

    def __init__(self) -> None:
        self.judged: list[tuple[str, frozenset[str]]] = []

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        self.judged.append((call.name, turn.taint))
        if turn.taint and call.flags.sends_externally is not False:
            return Verdict.deny("nothing is sent after foreign text", rule="tainted")
        return Verdict.allow()


def made(host: Host, name: str = "echo", **more: Any) -> Any:
    arguments: Mapping[str, Any] = more.pop("arguments", {"text": "hey"})
    principal, address = more.pop("principal", BOB), more.pop("address", HOME)
    return host.call_tool(principal, SCHEDULE, address, name, arguments, **more)


async def test_a_call_is_judged_run_recorded_and_returned_with_its_decision() -> None:
    recorder, events = Recorder(), Events()
    async with gateway(Allow(), Tools(echo_tool()), recorder) as gate:
        recorder.decided.clear()
        finished: FinishedCall = await made(gate.host, sink=events)
        assert gate.host.running() == ()

    assert (finished.result.content, finished.result.status) == ("hey", "done")
    assert finished.decision.allowed
    assert (finished.call.name, finished.call.arguments) == ("echo", {"text": "hey"})
    assert recorder.decided == [(finished.call.id, "ALLOW")]
    assert recorder.finished == [(finished.call.id, "done")]
    assert (recorder.before, recorder.turns) == ([], [])  # no model, and no turn
    assert events.of("tool_result")[0]["content"] == "hey"


async def test_without_any_policy_a_call_is_denied() -> None:
    async with gateway(Tools(echo_tool())) as gate:
        finished = await made(gate.host)

    assert (finished.result.status, finished.decision.allowed) == ("denied", False)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"principal": Principal(id="x", scopes=frozenset(["read"]))}, "expected `chat`"),
        ({"address": Address("irc", "acme", "bob")}, "may not speak as channel 'irc'"),
        ({"principal": BOB, "agent": "secret"}, "may not speak to agent 'secret'"),
    ],
)
async def test_the_claim_is_checked_as_for_a_turn(more: dict[str, Any], told: str) -> None:
    agents = {"main": {"model": "script/one"}, "secret": {"model": "script/one"}}
    if "agent" in more:
        more["principal"] = Principal(
            id="bob",
            scopes=frozenset(["chat"]),
            bindings=(Claim(channel="mail"),),
            agents=frozenset(["main"]),
        )
    async with gateway(Allow(), Tools(echo_tool()), agents=agents) as gate:
        with pytest.raises(NotAllowedError, match=told):
            await made(gate.host, **more)
        with pytest.raises(NotAllowedError, match=told):
            more.pop("origin", None)
            await gate.host.offered(more.pop("principal", BOB), more.pop("address", HOME), **more)


async def test_a_plugin_refuses_a_call_as_it_refuses_a_turn() -> None:
    class Closed:
        @hookimpl
        def before_turn(self, turn: Turn) -> Refusal:
            return Refusal(code="maintenance", message="Back at 18:00 UTC.")

    recorder = Recorder()
    async with gateway(Closed(), Allow(), Tools(echo_tool()), recorder) as gate:
        with pytest.raises(TurnError, match="Back at 18:00") as refused:
            await made(gate.host)
    assert refused.value.code == "maintenance"
    assert recorder.finished == []


async def test_what_is_withheld_or_not_the_agents_can_neither_be_seen_nor_called() -> None:
    class Withholds:
        @hookimpl
        def withhold_capabilities(self, turn: Turn) -> Sequence[str]:
            return ["tool:hidden"]

    tools = [echo_tool(name) for name in ("echo", "hidden", "other")]
    agents = {"main": {"model": "script/one", "tools": ["echo", "hidden"]}}
    ran: list[str] = []
    async with gateway(Withholds(), Allow(), Tools(*tools), agents=agents) as gate:
        offered = [tool.name for tool in await gate.host.offered(BOB, HOME)]
        for name in ("hidden", "other", "nothing"):
            finished = await made(gate.host, name)
            ran.append(finished.result.content)
            assert (finished.result.status, finished.decision.allowed) == ("failed", False)
    assert offered == ["echo"]
    assert [text.partition(":")[0] for text in ran] == [
        *("unknown tool 'hidden'", "unknown tool 'other'", "unknown tool 'nothing'")
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"text": 1}, "arguments of 'echo' are wrong"), ({}, "arguments of 'echo' are wrong")],
)
async def test_arguments_that_do_not_fit_are_an_error_result(
    arguments: dict[str, Any], told: str
) -> None:
    async with gateway(Allow(), Tools(echo_tool())) as gate:
        finished = await made(gate.host, arguments=arguments)
    assert finished.result.is_error
    assert told in finished.result.content


async def test_arguments_that_are_no_json_are_refused() -> None:
    async with gateway(Allow(), Tools(echo_tool())) as gate:
        with pytest.raises(TurnError, match="no JSON object"):
            await made(gate.host, arguments={"text": object()})


# -- taint -----------------------------------------------------------------------------


def both() -> Tools:
    return Tools(echo_tool("fetch", flags=FETCHES), echo_tool("send", flags=SENDS))


async def test_what_one_call_has_fetched_the_next_one_does_not_send() -> None:
    careful = Careful()
    async with gateway(careful, both()) as gate:
        careful.judged.clear()
        before = await made(gate.host, "send")
        fetched = await made(gate.host, "fetch")
        after = await made(gate.host, "send")
        elsewhere = await made(gate.host, "send", address=Address("mail", "acme", "eve"))
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=0)

    assert fetched.result.taint == {"tool:fetch"} == kept
    statuses = [one.result.status for one in (before, after, elsewhere)]
    assert statuses == ["done", "denied", "done"]
    assert careful.judged[2] == ("send", frozenset({"tool:fetch"}))


async def test_what_a_turn_has_read_a_call_in_its_session_does_not_send_and_the_other_way() -> None:
    careful = Careful()
    reads = [call_of("fetch"), say("read")]
    sends = [call_of("send"), say("sent")]
    script = Script(*reads, *sends)
    async with gateway(careful, both(), Scripted(script)) as gate:
        turn = TurnRequest(content="go", address=HOME)
        await gate.host.start_turn(BOB, SCHEDULE, turn).wait()
        assert (await made(gate.host, "send")).result.status == "denied"
        there = Address("mail", "acme", "eve")
        assert (await made(gate.host, "fetch", address=there)).result.status == "done"
        turn = TurnRequest(content="go", address=there)
        ended = await gate.host.start_turn(BOB, SCHEDULE, turn).wait()
    assert [one.result.status for one in ended.calls] == ["denied"]


def call_of(name: str) -> Any:
    return call((f"c_{name}", name, {"text": "x"}))


async def test_what_arguments_and_messages_carry_counts_for_the_call_and_what_follows() -> None:
    careful, mail = Careful(), frozenset({"mail:stranger"})
    script = Script(call_of("send"), say("sent"))
    there = Address("mail", "acme", "eve")
    async with gateway(careful, both(), Scripted(script)) as gate:
        assert (await made(gate.host, "send", taint=mail)).result.status == "denied"
        assert (await made(gate.host, "send")).result.status == "done"
        request = TurnRequest(content="go", address=there, taint=mail)
        turn = await gate.host.start_turn(BOB, SCHEDULE, request).wait()
        assert (await made(gate.host, "send", address=there)).result.status == "denied"
    assert [one.result.status for one in turn.calls] == ["denied"]


async def test_what_a_nested_turn_has_read_within_a_call_taints_the_session() -> None:
    holder: list[Any] = []

    async def nest(turn: Turn, arguments: Mapping[str, Any]) -> str:
        child = await holder[0].nested_turn(turn, "read it")
        return f"{child.ending}"

    tools = Tools(echo_tool("nest", run=nest), echo_tool("fetch", flags=FETCHES))
    script = Script(call_of("fetch"), say("read"))
    async with gateway(Allow(), tools, Scripted(script)) as gate:
        holder.append(gate.host)
        assert (await made(gate.host, "nest")).result.content == "done"
        assert await gate.host[CONVERSATIONS].taint(SESSION, turns=0) == {"tool:fetch"}


async def test_a_result_whose_taint_cannot_be_kept_is_shown_to_nobody() -> None:
    class Forgetful(InProcessConversations):
        async def add_taint(self, session: SessionKey, taint: Any, *, fence: int) -> None:
            raise StoreError("the disk is full")

    events, recorder = Events(), Recorder()
    async with gateway(Allow(), both(), recorder) as gate:
        gate.host.provide(CONVERSATIONS, Forgetful())
        finished = await made(gate.host, "fetch", arguments={"text": "the page"}, sink=events)

    assert (finished.result.status, finished.result.is_error) == ("failed", True)
    assert "the disk is full" in finished.result.content
    assert "the page" not in str((finished.result, events))
    assert recorder.finished == [(finished.call.id, "failed")]


# -- the lane, questions, and ending it early ------------------------------------------


class Slow:
    """A tool that stands still until it is let go."""

    def __init__(self) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        self.tool = echo_tool("slow", run=self.run)

    async def run(self, turn: Turn, arguments: Mapping[str, Any]) -> str:
        self.reached.set()
        await self.go.wait()
        return "at last"


async def test_a_call_has_the_lane_of_its_session_and_a_turn_waits_for_it() -> None:
    slow, events = Slow(), Events()
    async with gateway(Allow(), Tools(slow.tool), Scripted(Script(say("ok")))) as gate:
        calling = asyncio.create_task(made(gate.host, "slow"))
        await slow.reached.wait()
        request = TurnRequest(content="hi", address=HOME)
        turn = gate.host.start_turn(BOB, SCHEDULE, request, sink=events)
        await until(lambda: bool(events))
        assert events.types() == ["queued"]
        assert len(gate.host.running()) == 2
        slow.go.set()
        assert (await calling).result.content == "at last"
        assert (await turn.wait()).answer == "ok"


async def test_a_question_is_asked_and_its_answer_counts() -> None:
    class Asks:
        name = "asks"

        @hookimpl
        def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
            return Verdict.ask(Ask(title="May it?"))

        @hookimpl
        def resolve_ask(self, turn: Turn, call: ToolCall, ask: Ask) -> Decision:
            return Decision.allow("a person said yes", by="ann")

    async with gateway(Asks(), Tools(echo_tool()), turn={"answerers": ["asks"]}) as gate:
        finished = await made(gate.host)
    assert (finished.result.status, finished.decision.by) == ("done", "ann")


async def test_a_cancelled_call_is_finished_and_says_so() -> None:
    slow, recorder = Slow(), Recorder()
    async with gateway(Allow(), Tools(slow.tool), recorder) as gate:
        calling = asyncio.create_task(made(gate.host, "slow"))
        await slow.reached.wait()
        assert gate.host.cancel(gate.host.running()[0].id, "enough")
        finished = await calling
    assert finished.result.status == "cancelled"
    assert recorder.finished == [(finished.call.id, "cancelled")]


async def test_a_call_that_is_cancelled_before_it_is_judged_has_no_result() -> None:
    slow = Slow()
    async with gateway(Allow(), Tools(slow.tool)) as gate:
        first = asyncio.create_task(made(gate.host, "slow"))
        await slow.reached.wait()
        second = asyncio.create_task(made(gate.host, "slow"))
        await until(lambda: len(gate.host.running()) == 2)
        gate.host.cancel(gate.host.running()[1].id, "enough")
        with pytest.raises(TurnCancelledError, match="enough"):
            await second
        slow.go.set()
        assert (await first).result.status == "done"


async def test_a_call_whose_caller_goes_away_is_cancelled_and_the_lane_is_free() -> None:
    slow, recorder = Slow(), Recorder()
    async with gateway(Allow(), Tools(slow.tool, echo_tool()), recorder) as gate:
        calling = asyncio.create_task(made(gate.host, "slow"))
        await slow.reached.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert [status for _, status in recorder.finished] == ["cancelled"]
        assert (await made(gate.host)).result.status == "done"


# -- side by side --------------------------------------------------------------------------


async def test_calls_that_only_look_run_side_by_side_in_one_session() -> None:
    together = asyncio.Barrier(8)

    async def looks(turn: Turn, arguments: Mapping[str, Any]) -> str:
        await together.wait()
        return "seen"

    tools = Tools(echo_tool("look", run=looks, flags=FETCHES_ALONE))
    async with gateway(Allow(), tools) as gate:
        calls = await asyncio.gather(*(made(gate.host, "look") for _ in range(8)))
        kept = await gate.host[CONVERSATIONS].taint(SESSION, turns=0)
    assert [one.result.content for one in calls] == ["seen"] * 8
    assert kept == {"tool:look"}


@pytest.mark.parametrize("flag", [None, True])
async def test_a_call_that_acts_or_may_runs_alone_and_those_behind_it_wait(
    flag: bool | None,
) -> None:
    order: list[str] = []
    go = {name: asyncio.Event() for name in ("look", "act", "late")}

    def runs(name: str) -> Any:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
            order.append(name)
            await go[name].wait()
            order.append(f"{name} over")
            return name

        return run

    acts = Flags.from_mapping({**Flags.none().to_json(), "writes_persistent_state": flag})
    tools = Tools(
        echo_tool("look", run=runs("look"), flags=FETCHES_ALONE),
        echo_tool("act", run=runs("act"), flags=acts),
        echo_tool("late", run=runs("late"), flags=FETCHES_ALONE),
    )
    async with gateway(Allow(), tools) as gate:
        tasks = [asyncio.create_task(made(gate.host, "look"))]
        await until(lambda: order == ["look"])
        tasks.append(asyncio.create_task(made(gate.host, "act")))
        await until(lambda: gate.host[LANES].ahead(SESSION) == 2)
        tasks.append(asyncio.create_task(made(gate.host, "late")))
        await until(lambda: gate.host[LANES].ahead(SESSION) == 3)
        for name in ("look", "act", "late"):
            go[name].set()
            await until(lambda name=name: f"{name} over" in order)  # type: ignore[misc]
        await asyncio.gather(*tasks)
    assert order == ["look", "look over", "act", "act over", "late", "late over"]


async def test_who_opened_a_shared_lane_keeps_it_until_all_have_left_it() -> None:
    order: list[str] = []
    first, second = asyncio.Event(), asyncio.Event()

    async def looks(turn: Turn, arguments: Mapping[str, Any]) -> str:
        number = len(order)
        order.append("looks")
        await (first, second)[number].wait()
        return "seen"

    tools = Tools(echo_tool("look", run=looks, flags=FETCHES_ALONE), echo_tool("act", flags=SENDS))
    async with gateway(Allow(), tools) as gate:
        opened = asyncio.create_task(made(gate.host, "look"))
        await until(lambda: len(order) == 1)
        joined = asyncio.create_task(made(gate.host, "look"))
        await until(lambda: len(order) == 2)
        opened.cancel()
        acts = asyncio.create_task(made(gate.host, "act"))
        await until(lambda: gate.host[LANES].ahead(SESSION) == 2)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not acts.done()
        second.set()
        assert (await joined).result.content == "seen"
        assert (await acts).result.status == "done"
        with pytest.raises(asyncio.CancelledError):
            await opened


@pytest.mark.parametrize("flag", [None, True])
async def test_what_acts_is_not_called_from_a_tool_that_shares_its_lane(flag: bool | None) -> None:
    acts = Flags.from_mapping({**Flags.none().to_json(), "writes_persistent_state": flag})
    wrote: list[str] = []
    met: list[TurnError] = []

    async def writes(turn: Turn, arguments: Mapping[str, Any]) -> str:
        wrote.append(turn.id)
        return "written"

    async def reports(turn: Turn, arguments: Mapping[str, Any]) -> str:
        looked = await turn.call("look", {"text": "x"})
        try:
            await turn.call("write", {"text": "x"})
        except TurnError as error:
            met.append(error)
        return looked.result.content

    tools = Tools(
        echo_tool("report", run=reports, flags=FETCHES_ALONE),
        echo_tool("honest", run=reports, flags=acts),
        echo_tool("look", flags=FETCHES_ALONE),
        echo_tool("write", run=writes, flags=acts),
    )
    async with gateway(Allow(), tools) as gate:
        assert (await made(gate.host, "report")).result.status == "done"
        (error,) = met
        assert error.code == "lane_shared"
        assert "'write' may act" in str(error)
        assert "writes_persistent_state" in error.action
        assert wrote == []
        assert (await made(gate.host, "honest")).result.status == "done"
        assert len(wrote) == len(met) == 1
