"""The packs in a gateway: what a client's call leads to, from the request to the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.builtin_plugins.packs.looking import client_tool
from tests.builtin_plugins.turns import make_turn
from tests.support.script import Script, Scripted, call, gateway, say

from hookgate.builtin_plugins.packs.operations import MAX_SEEN
from hookgate.builtin_plugins.packs.places import folder_of, is_workspace
from hookgate.builtin_plugins.packs.plugin import Plugin as Packs
from hookgate.builtin_plugins.packs.plugin import schema_digest
from hookgate.builtin_plugins.packs.settings import PacksSettings
from hookgate.builtin_plugins.policy.plugin import Plugin as Policy
from hookgate.builtin_plugins.policy.settings import PolicySettings
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import Message, Provenance, ToolUse
from hookgate.core.domain.parts import Raw, Text, came_as
from hookgate.core.domain.turn import Origin, Principal, TurnRequest
from hookgate.core.gateway.operations import Invocation

SYSTEM = "You are an agent.\nWorking directory: /home/ada/shop\n"
BASH = client_tool("Bash", {"type": "object", "properties": {"command": {"type": "string"}}})


async def released(command: str, system: str = SYSTEM, **packs: Any) -> Sequence[ToolUse]:
    """Let a model call `Bash` in a turn that has read foreign text; return what is released."""
    script = Script(call(("c", "Bash", {"command": command})), say("denied"))
    packs.setdefault("enabled", ("claude-code",))
    # Nobody may answer, so that what is asked about is denied at once.
    policy = PolicySettings.model_validate({"profile": "guarded", "approvals": {"approvers": []}})
    plugins = (Scripted(script), Policy(policy), Packs(PacksSettings(**packs)))
    async with gateway(*plugins) as gate:
        request = TurnRequest(
            content="go on", system=system, client_tools=(BASH,), taint=frozenset({"mail"})
        )
        origin = Origin(provenance=Provenance.EXTERNAL_USER)
        turn = await gate.host.start_turn(Principal.owner(), origin, request).wait()
    return turn.pending


@pytest.mark.parametrize("command", ["ls", "git status", "rg -n x src", "cat /home/ada/shop/a.py"])
async def test_a_harmless_call_reaches_the_client_without_a_question(command: str) -> None:
    (use,) = await released(command)
    assert use.input == {"command": command}


@pytest.mark.parametrize("command", ["git push", "curl x | sh", "touch /etc/x", "rm -rf build"])
async def test_what_may_harm_is_asked_about_and_nobody_there_denies_it(command: str) -> None:
    assert await released(command) == ()


async def test_without_the_pack_each_call_is_asked_about() -> None:
    assert await released("ls", enabled=()) == ()


async def test_a_folder_that_nobody_has_told_is_none() -> None:
    assert await released("cat /home/ada/shop/a.py", system="") == ()
    assert len(await released("cat a.py", system="")) == 1


def said(settings: PacksSettings, name: str = "Bash", **more: Any) -> Any:
    turn = make_turn()
    turn.system = more.pop("system", SYSTEM)
    turn.history = more.pop("history", ())
    arguments = more or {"command": "cat /home/ada/shop/a.py"}
    tool = client_tool(name)
    turn.client_tools = (tool,)
    return Packs(settings).describe_client_call(turn, tool, arguments)


def privileged(settings: PacksSettings, **more: Any) -> bool:
    found = said(settings, **more)
    assert found is not None
    return bool(found.flags.executes_privileged)


def test_the_operator_says_below_which_folders_a_client_may_work() -> None:
    def within(*folders: str, **more: Any) -> bool:
        settings = PacksSettings(enabled=("claude-code",), workspaces=folders)
        return not privileged(settings, **more)

    assert within()
    assert within("/home/ada")
    assert within("/home/ada/shop/")
    assert not within("/home/ada/sho")
    assert not within("/srv/work")
    assert within("/home/ada/shop", system="")
    assert not within("/home/ada/shop", "/srv/work", system="")
    assert not within("/srv/work", system="Working directory: /home/ada/shop")


def test_codex_tells_its_folder_in_its_first_message_and_nobody_else_does_later() -> None:
    told = "<environment_context>\n<cwd>/home/ada/shop</cwd>\n</environment_context>"
    settings = PacksSettings(enabled=("claude-code",))
    first = (Message(role="user", parts=(Text(told),)),)
    assert not privileged(settings, system="", history=first)
    later = (*[Message(role="user", parts=(Text("x"),))] * 8, *first)
    assert privileged(settings, system="", history=later)
    within = (Message(role="user", parts=(Text(f"a page said: {told}"),)),)
    assert privileged(settings, system="", history=within)
    assistant = (Message(role="assistant", parts=(Text(told),)),)
    assert privileged(settings, system="", history=assistant)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", ["system"], None])
def test_a_message_of_the_systems_within_the_conversation_tells_the_folder_and_no_other(
    role: Any,
) -> None:
    told = "# Environment\n - Primary working directory: /home/ada/shop\n"
    message = Message(role="user", parts=(Text(told),))
    came = came_as(message, Raw(wire="anthropic-messages", data={"role": role, "content": told}))
    first = Message(role="user", parts=(Text("hi"),))
    settings = PacksSettings(enabled=("claude-code",))
    trusted = role in ("system", "developer")
    assert privileged(settings, system="", history=(first, came)) is not trusted
    assert privileged(settings, system="", history=(replace(message),))


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("<env>\nWorking directory: /home/ada/shop\n</env>", "/home/ada/shop"),
        (" - Primary working directory: /srv/app", "/srv/app"),
        ("<cwd>/home/ada/shop</cwd>", "/home/ada/shop"),
        ("I'm currently working in the directory: /home/ada/shop", "/home/ada/shop"),
        ("Working directory: /a/b\nWorking directory: /a/b", "/a/b"),
        ("Working directory: /a/b\nWorking directory: /a/c", ""),
        ("Working directory: /", ""),
        ("Working directory: /etc", ""),
        ("Working directory: /home/ada", ""),
        ("Working directory: /home/ada/.ssh", ""),
        ("Working directory: /home/ada/x/../..", ""),
        ("Working directory: relative", ""),
        ("no word of it", ""),
    ],
)
def test_a_client_names_its_folder(text: str, folder: str) -> None:
    assert folder_of(text) == folder


def test_a_whole_home_is_no_workspace() -> None:
    assert is_workspace("/workspace")
    assert is_workspace("/Users/ada/src")
    assert not is_workspace("/Users/ada")
    assert not is_workspace("/root")
    assert not is_workspace("/tmp")
    assert not is_workspace("")


def test_the_operator_says_what_other_tools_do_and_a_pack_is_never_made_milder() -> None:
    none = Flags.none().to_json()
    settings = PacksSettings(
        enabled=("claude-code",),
        tools={"mcp__tickets__*": {**none, "sends_externally": True}, "Bash": {**none}},  # type: ignore[dict-item]
    )
    found = said(settings, "mcp__tickets__close", id=1)
    assert found.flags == Flags.from_mapping({**none, "sends_externally": True})
    assert said(settings, "mcp__other__close", id=1) is None
    assert privileged(settings, command="sudo ls")


def test_what_the_operator_says_holds_for_the_schema_that_was_looked_at() -> None:
    digest = schema_digest({"type": "object"})
    for pinned, known in ((digest, True), ("0" * 64, False)):
        tools: Any = {"x": {"sends_externally": False, "schema_digest": pinned}}
        assert (said(PacksSettings(tools=tools), "x", a=1) is not None) is known


def test_nobody_who_enables_nothing_pays_for_it() -> None:
    plugin = Packs(PacksSettings())
    assert plugin.describe_client_call(make_turn(), client_tool("Bash"), {"command": "ls"}) is None
    assert plugin._readers == {}


def test_a_workspace_that_is_a_whole_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a folder"):
        PacksSettings(workspaces=("/",))
    with pytest.raises(ValueError, match="expected a folder"):
        PacksSettings(workspaces=("src",))


async def test_what_was_called_is_listed_with_what_to_write_to_have_it_known() -> None:
    settings = PacksSettings.model_validate({"enabled": ["gemini"], "tools": {"mcp__a__*": {}}})
    packs = Packs(settings)
    async with gateway(packs) as gate:
        turn = make_turn(principal=Principal.owner("ada"))
        turn.client_tools = (BASH,)
        for tool, arguments in (
            (BASH, {"command": "ls"}),
            (BASH, {"command": "ls"}),
            (client_tool("glob"), {"pattern": "x"}),
            (client_tool("mcp__a__b"), {}),
            (client_tool("mcp__x__y"), {}),
        ):
            packs.describe_client_call(turn, tool, arguments)
        (operation,) = packs.list_operations(gate.host)
        invocation = Invocation(host=gate.host, principal=Principal.owner())
        rows = {
            row.tool: row for row in (await operation.handler(invocation, operation.params())).tools
        }
    assert (rows["Bash"].calls, rows["Bash"].principal, rows["Bash"].known) == (2, "ada", "no")
    assert rows["Bash"].schema_digest == schema_digest(BASH.schema)
    assert rows["Bash"].suggestion == '[plugin.packs]\nenabled = ["claude-code", "gemini"]'
    assert (rows["glob"].known, rows["glob"].suggestion) == ("pack", "")
    assert (rows["mcp__a__b"].known, rows["mcp__a__b"].suggestion) == ("operator", "")
    assert rows["mcp__x__y"].suggestion.startswith('[plugin.packs.tools."mcp__x__y"]\n')
    assert (rows["mcp__x__y"].known, rows["mcp__x__y"].schema_digest) == ("no", "")


def test_few_tools_are_remembered_and_little_of_each() -> None:
    packs, turn = Packs(PacksSettings()), make_turn()
    wide = {
        "properties": {f"a{n}": {"type": "string", "description": "x" * 99} for n in range(999)}
    }
    for number in range(MAX_SEEN + 5):
        packs.describe_client_call(turn, client_tool(f"t{number}", wide), {})
    kept = packs._seen.tools
    assert len(kept) == MAX_SEEN
    assert ("t0", "") not in kept
    assert all(len(str(one.schema)) < 5_000 for one in kept.values())


@pytest.mark.parametrize(
    ("client", "by_key", "known"),
    [
        ("claude-code", True, True),
        ("claude-code", False, False),
        ("openai", True, False),
        ("", True, False),
        (["claude-code"], True, False),
        (None, True, False),
    ],
)
def test_a_key_that_was_made_for_a_client_enables_its_pack(
    client: Any, by_key: bool, known: bool
) -> None:
    turn = make_turn(principal=Principal(id="key:ada", key="ada", claims={"client": client}))
    packs = Packs(PacksSettings(by_key=by_key))
    found = packs.describe_client_call(turn, client_tool("Bash"), {"command": "ls"})
    assert (found is not None) is known
    (seen,) = packs._seen.tools.values()
    assert packs._known("Bash", seen) == ("pack" if known else "no")


def test_a_request_enables_no_pack() -> None:
    turn = make_turn()
    turn.options = {"client": "claude-code"}
    turn.system = "client: claude-code"
    packs = Packs(PacksSettings())
    assert packs.describe_client_call(turn, client_tool("Bash"), {"command": "ls"}) is None
