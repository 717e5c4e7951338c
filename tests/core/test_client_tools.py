"""Tools that a request brings: what they say of themselves, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.gateway.test_chat import turn_frames
from tests.support.script import Script, Scripted, Tools, call, echo_tool, say
from tests.support.wire import serving

from hookgate.core.domain.descriptors import FLAG_NAMES, Flags
from hookgate.core.domain.errors import ClientToolError
from hookgate.core.domain.tools import ClientCallFlags, Tool, ToolCall, Verdict
from hookgate.core.domain.turn import Principal, Turn
from hookgate.core.turn.tools.held import admitted, stricter
from hookgate.hookspecs import hookimpl

OWNER = Principal.owner()
DECLARED = {"sends_externally": False, "reads_external_data": False, "executes_privileged": True}


class Judge:
    """Allows all calls, and keeps what their tools say of themselves."""

    name = "judge"

    def __init__(self) -> None:
        self.seen: list[Tool] = []

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        if call.tool.owner == "client":
            self.seen.append(call.tool)
        return Verdict.allow()


def theirs(name: str = "theirs", **more: Any) -> dict[str, Any]:
    return {"name": name, "schema": {"type": "object"}, **more}


async def judged(flags: Mapping[str, Any], **wire: Any) -> Tool:
    """Return a client's tool as policy sees it."""
    judge = Judge()
    script = Script(call(("c", "theirs", {})), say("ok"))
    async with serving(Scripted(script), judge, wire=wire) as served, served.socket() as socket:
        tools = [theirs(flags=flags)]
        await turn_frames(socket, await socket.send("chat.send", content="go", client_tools=tools))
    (tool,) = judge.seen
    return tool


async def test_without_the_operators_word_a_request_can_only_be_stricter() -> None:
    tool = await judged(DECLARED)
    assert tool.flags == Flags(executes_privileged=True)


@pytest.mark.parametrize("believed", ["loopback", "*"])
async def test_an_operator_says_whose_declarations_are_believed(believed: str) -> None:
    tool = await judged(DECLARED, believe_client_flags=[believed])
    assert tool.flags == Flags(**DECLARED)  # type: ignore[arg-type]


async def test_those_of_others_are_not_believed() -> None:
    tool = await judged(DECLARED, believe_client_flags=["token:editor"])
    assert tool.flags == Flags(executes_privileged=True)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(FLAG_NAMES, st.sampled_from([True, False, None]))
    )
)
def test_no_declaration_makes_a_tool_less_strict_than_none(flags: dict[str, Any]) -> None:
    for name, value in stricter(Flags.from_mapping(flags)).to_json().items():
        assert value is (True if flags.get(name) is True else None)


async def test_a_result_is_foreign_text_unless_its_tool_is_believed() -> None:
    for believed, taint in (((), {"tool:theirs"}), (("loopback",), set())):
        script = Script(call(("c", "theirs", {})), say("ok"))
        wire = {"believe_client_flags": believed}
        tools = [theirs(flags={"reads_external_data": False})]
        asked = {"client_tools": tools}
        brought = [{"tool_use_id": "c", "content": "text"}]
        async with (
            serving(Scripted(script), Judge(), wire=wire) as served,
            served.socket() as socket,
        ):
            await turn_frames(socket, await socket.send("chat.send", content="go", **asked))
            number = await socket.send("chat.send", tool_results=brought, **asked)
            await turn_frames(socket, number)
        assert script.requests[1].messages[-1].taint == taint


@pytest.mark.parametrize("flags", [{"sends": True}, {"sends_externally": "no"}, ["x"]])
async def test_flags_that_are_none_are_refused(flags: Any) -> None:
    async with serving() as served, served.socket() as socket:
        tools = [theirs(flags=flags)]
        answer = await socket.call("chat.send", content="go", client_tools=tools)
    assert answer["error"]["data"]["code"] == "invalid_params"


async def test_a_tool_of_the_gateways_own_is_never_overwritten() -> None:
    script, judge = Script(call(("c", "echo", {"text": "x"})), say("ok")), Judge()
    async with serving(Scripted(script), judge, Tools(echo_tool())) as served:
        async with served.socket() as socket:
            answer = await socket.call("chat.send", content="go", client_tools=[theirs("echo")])
            error = answer["error"]
            assert error["code"] == -32602
            assert error["data"]["code"] == "client_tool_taken"
            assert error["data"]["tool"] == "echo"
            assert error["data"]["action"]
            assert "'echo'" in error["message"]
        status, body = await served.post(
            "/v1/turns", {"content": "go", "client_tools": [theirs("echo")]}
        )
        assert (status, body["error"]["data"]["code"]) == (400, "client_tool_taken")
        assert script.requests == []
        assert judge.seen == []
        status, body = await served.post("/v1/turns", {"content": "go"})
        assert (status, body["text"]) == (200, "ok")


def test_a_request_cannot_bring_a_runner_a_proof_or_two_of_one_name() -> None:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        return "ran"

    proven = Flags(sends_externally=False, proven=frozenset({"sends_externally"}))
    brought = echo_tool("theirs", run=run, flags=proven, sandbox="wasm")
    (tool,) = admitted([brought], {}, OWNER, ["*"])
    assert (tool.owner, tool.sandbox, tool.run, tool.flags.proven) == (
        "client",
        "client",
        None,
        frozenset(),
    )
    with pytest.raises(ClientToolError, match="the same request"):
        admitted([brought, brought], {}, OWNER, [])
    with pytest.raises(ClientToolError, match="this gateway has 'Theirs'"):
        admitted([brought], {"Theirs": brought}, OWNER, [])


class Knows:
    """A plugin that knows what calls of the client's tools do, by their arguments."""

    def __init__(self, name: str, said: Callable[..., Any]) -> None:
        self.name = name
        self.say = said
        self.asked: list[Mapping[str, Any]] = []

    @hookimpl
    def describe_client_call(self, turn: Turn, tool: Tool, arguments: Any) -> Any:
        assert tool.owner == "client"
        self.asked.append(dict(arguments))
        return self.say(tool, arguments)


class Calls(Judge):
    """Keeps the calls, and rewrites one of them."""

    def __init__(self, **rewrite: Any) -> None:
        super().__init__()
        self.calls: list[ToolCall] = []
        self.rewrite = rewrite

    @hookimpl
    def before_tool_call(self, turn: Turn, call: ToolCall) -> Verdict:
        if call.tool.owner != "client":
            return Verdict.allow()
        self.calls.append(call)
        if self.rewrite and dict(call.arguments) != self.rewrite:
            return Verdict.rewrite(self.rewrite)
        return Verdict.allow()


HARMLESS = ClientCallFlags(flags=Flags.none(), why="it looks", confined=True, family={"a": "b"})


async def described(
    *known: Knows, judge: Calls | None = None, **brought: Any
) -> tuple[Calls, list[Any]]:
    """Let a model call a client's tool; return what judged it, and the calls that were released."""
    judge = judge or Calls()
    script = Script(call(("c", "theirs", {"path": "x"})), say("denied"))
    async with (
        serving(Scripted(script), Tools(echo_tool()), judge, *known) as served,
        served.socket() as socket,
    ):
        tools = [theirs(**brought)]
        number = await socket.send("chat.send", content="go", client_tools=tools)
        frames = await turn_frames(socket, number)
    return judge, [one for one in frames if one.get("method") == "tool_use"]


async def test_a_plugin_says_what_a_call_of_a_clients_tool_does() -> None:
    knows = Knows("knows", lambda tool, arguments: HARMLESS)
    judge, _ = await described(knows)
    (seen,) = judge.calls
    assert (seen.flags, seen.said) == (Flags.none(), HARMLESS)
    assert knows.asked == [{"path": "x"}]


async def test_nobody_knows_the_call_and_it_stays_undeclared() -> None:
    judge, _ = await described(Knows("knows", lambda tool, arguments: None))
    assert (judge.calls[0].flags, judge.calls[0].said) == (Flags(), None)


async def test_a_request_can_only_be_stricter_than_what_is_known() -> None:
    judge, _ = await described(
        Knows("knows", lambda tool, arguments: HARMLESS), flags={"sends_externally": True}
    )
    assert judge.calls[0].flags == replace(Flags.none(), sends_externally=True)


async def test_of_several_the_strictest_counts_whatever_their_order() -> None:
    other = ClientCallFlags(flags=replace(Flags.none(), executes_privileged=None))
    for said in ((HARMLESS, other), (other, HARMLESS)):
        known = [
            Knows(f"knows{number}", lambda tool, arguments, one=one: one)
            for number, one in enumerate(said)
        ]
        judge, _ = await described(*known)
        (seen,) = judge.calls
        assert seen.flags == replace(Flags.none(), executes_privileged=None)
        assert seen.said is not None
        assert (seen.said.confined, seen.said.family) == (False, {})


async def test_what_is_rewritten_is_described_anew() -> None:
    knows = Knows("knows", lambda tool, arguments: HARMLESS if arguments == {"path": "x"} else None)
    judge, _ = await described(knows, judge=Calls(path="/etc"))
    assert [one.said for one in judge.calls] == [HARMLESS, None]


async def test_arguments_that_are_changed_on_the_way_are_a_copy() -> None:
    def greedy(tool: Tool, arguments: dict[str, Any]) -> ClientCallFlags:
        arguments["path"] = "/etc"
        return HARMLESS

    judge, (use,) = await described(Knows("knows", greedy))
    assert judge.calls[0].arguments == {"path": "x"}
    assert use["params"]["input"] == {"path": "x"}


@pytest.mark.parametrize(
    "said",
    [
        lambda tool, arguments: 1 / 0,
        lambda tool, arguments: "harmless",
        lambda tool, arguments: ClientCallFlags(flags=Flags(sends_externally="no")),  # type: ignore[arg-type]
        lambda tool, arguments: ClientCallFlags(flags=Flags.none(), why="x" * 401),
        lambda tool, arguments: ClientCallFlags(flags=Flags.none(), family={"a": "b" * 301}),
    ],
)
async def test_a_plugin_that_fails_to_say_it_denies_the_call(said: Any) -> None:
    judge, released = await described(Knows("knows", said))
    assert (judge.calls, released) == ([], [])


async def test_no_other_tool_is_asked_about() -> None:
    knows, script = (
        Knows("knows", lambda *_: HARMLESS),
        Script(call(("c", "echo", {"text": "x"})), say("ok")),
    )
    async with (
        serving(Scripted(script), Tools(echo_tool()), Calls(), knows) as served,
        served.socket() as socket,
    ):
        await turn_frames(socket, await socket.send("chat.send", content="go"))
    assert knows.asked == []
