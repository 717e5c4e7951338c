"""Who is let in, who is meant in a group, and what is said to the gateway itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Bot, Serve, Served, guest_for
from tests.builtin_plugins.channels.test_approvals import Bell as Ring
from tests.builtin_plugins.channels.test_approvals import asking
from tests.support.bot_api import TOKEN, BotApi

from hookgate import Invocation, Principal, TurnError, Webhook
from hookgate.builtin_plugins.channels import peers
from hookgate.kit.testing.model import ScriptedModel, call, say

GROUP = -1001
NAME = "wasm.telegram"
WEBHOOK = Webhook(verification="header", header="X-Key", secret="bell_key")
SECRETS = {"bell_key": KEY}


@pytest.fixture
def guest(serve: Serve, api: BotApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The guest of the examples as it is right after it was installed: nothing is set up."""
    guest_for(api, "polling", tmp_path / "plugins")
    monkeypatch.setenv("TELEGRAM_API", api.url)
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)

    def served(model: Any, **section: Any) -> Any:
        channels = {NAME: section, "edit_seconds": 0.05}
        plugin = {"wasm": {"folders": [str(tmp_path / "plugins")]}}
        return serve(model=model, channels=channels, plugin=plugin)

    return served


async def ask(served: Served, name: str, **params: Any) -> Any:
    operation = served.gateway.host.operations[f"channels.{name}"]
    invocation = Invocation(host=served.gateway.host, principal=Principal.owner())
    return await operation.handler(invocation, operation.params.model_validate(params))


async def post(served: Served, *bodies: bytes) -> None:
    for body in bodies:
        url = f"{served.url}/webhook/bell"
        async with served.http.post(url, data=body, headers={"X-Key": KEY}) as answer:
            assert answer.status == 200, await answer.text()


# -- who is let in -----------------------------------------------------------------------


async def test_a_stranger_is_given_a_code_and_heard_once_it_was_let_in(
    guest: Any, api: BotApi
) -> None:
    model = ScriptedModel(say("Hello Ada."))
    async with guest(model) as served:
        await api.write("hello?")
        await api.until(lambda: api.said())
        (text,) = api.said()
        await api.write("are you there?")
        await api.write("/help", chat=GROUP, user=43)
        await api.until(lambda: api.pending() == 0)
        (asking_,) = (await ask(served, "people")).people
        (row,) = (await ask(served, "list")).channels
        with pytest.raises(TurnError, match="nobody asks with the code"):
            await ask(served, "pair", code="22222222")
        paired = await ask(served, "pair", code=asking_.code.lower())
        await api.write("and now?")
        await api.until(lambda: len(api.said()) == 2)
        (inside,) = (await ask(served, "people")).people
        await ask(served, "unpair", channel=NAME, sender="42")
        await api.write("and now?")
        await api.until(lambda: len(api.said()) == 3)
        with pytest.raises(TurnError, match="was not let into"):
            await ask(served, "unpair", channel=NAME, sender="42")

    assert f"hookgate channels pair {asking_.code}" in text
    assert (asking_.sender, asking_.channel, row.asking) == ("42", NAME, 1)
    assert (paired.sender, inside.code, inside.since) == ("42", "", None)
    assert api.said()[1] == "Hello Ada."
    assert api.said(GROUP) == [], "nobody is spoken to in a group"
    (request,) = model.requests
    assert request.messages[-1].text == "and now?"
    # Who wrote is the word of sandboxed code: it is tainted still.
    assert request.messages[-1].taint == {f"channel:{NAME}"}


async def test_of_the_people_who_ask_as_many_are_kept_as_fit_and_not_for_ever(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "ASKING", 2)
    bell, channels = Bell(WEBHOOK), {"bell": {"pairing": True, "senders": ["boss"]}}
    async with serve(
        bell, model=ScriptedModel(say("Yes.")), channels=channels, secrets=SECRETS
    ) as one:
        await post(one, *(event(n, sender=f"s{n}", peer=f"s{n}") for n in range(3)))
        await bell.until(lambda: len(bell.said) == 2)
        first = (await ask(one, "people")).people
        one.clock.turn(seconds=peers.ASKING_SECONDS + 1)
        later = (await ask(one, "people")).people
        with pytest.raises(TurnError, match="not any more"):
            await ask(one, "pair", code=first[0].code)
        await post(one, event(3, sender="s2", peer="s2"), event(4, sender="boss", peer="boss"))
        await bell.until(lambda: ("boss", "Yes.") in bell.said)
        last = (await ask(one, "people")).people

    assert [row.sender for row in first] == ["s0", "s1"]
    assert (later, [row.sender for row in last]) == ([], ["s2"])


async def test_who_was_let_in_is_so_after_a_restart(serve: Serve) -> None:
    bell, channels = Bell(WEBHOOK), {"bell": {"pairing": True}}
    async with serve(bell, model=ScriptedModel(), channels=channels, secrets=SECRETS) as one:
        await post(one, event(1, sender="ada"))
        await bell.until(lambda: bell.said)
        await ask(one, "pair", code=(await ask(one, "people")).people[0].code)
    again = Bell(WEBHOOK)
    model = ScriptedModel(say("I know you."))
    async with serve(again, model=model, channels=channels, secrets=SECRETS) as one:
        await post(one, event(2, sender="ada"))
        await again.until(lambda: again.said == [("ada", "I know you.")])


# -- groups ------------------------------------------------------------------------------


async def test_in_a_group_an_agent_answers_who_speaks_to_it(guest: Any, api: BotApi) -> None:
    model = ScriptedModel(say("One."), say("Two."), say("Three."))
    async with guest(model, senders=["*"], mention=["@shop_bot"]) as served:
        await api.write("lunch, anybody?", chat=GROUP, user=7)
        await api.write("@shop_bottle is no name of mine", chat=GROUP, user=7)
        await api.write("what do you say, @Shop_Bot?", chat=GROUP, user=7)
        await api.until(lambda: api.said(GROUP) == ["One."])
        bot = {"from": {"id": 7_000_000, "is_bot": True}}
        await api.write("and why?", chat=GROUP, user=7, reply_to_message=bot)
        await api.until(lambda: api.said(GROUP) == ["One.", "Two."])
        await api.write("/call something", chat=GROUP, user=7)
        await api.until(lambda: api.said(GROUP)[2:] == ["Three."])
        del served
    assert [request.messages[-1].text for request in model.requests] == [
        "what do you say, @Shop_Bot?", "and why?", "/call something",
    ]  # fmt: skip


# -- said to the gateway -----------------------------------------------------------------


async def test_commands_are_for_the_gateway_and_new_begins_anew(guest: Any, api: BotApi) -> None:
    model = ScriptedModel(*[say(f"Answer {number}.") for number in range(8)])
    async with guest(model, senders=["*"]) as served:
        await api.write("/start abc123")
        await api.write("/help@local_bot")
        await api.write("my name is Ada")
        await api.write("what is my name?")
        await api.until(lambda: api.said()[2:] == ["Answer 0.", "Answer 1."])
        await api.write("/new")
        await api.write("what is my name?")
        await api.write("and what did I ask?")
        await api.until(lambda: len(api.said()) == 7)
        # What is said while it comes is seen before it is committed.
        await api.until(lambda: not served.gateway.turns.running())
        host = served.gateway.host
        sessions = await host.operations["sessions.list"].handler(
            Invocation(host=host, principal=Principal.owner()),
            host.operations["sessions.list"].params.model_validate({}),
        )

    assert api.said()[0] == api.said()[1] == peers.HELP
    assert api.said()[4] == peers.BEGUN
    asked = ["\n".join(one.text for one in request.messages) for request in model.requests]
    assert "my name is Ada" in asked[1]
    assert "Ada" not in asked[2]
    assert "what is my name?" in asked[3]
    assert "Ada" not in asked[3]
    # Nothing is deleted: whoever runs the gateway has it still.
    (row,) = sessions.sessions
    assert row["messages"] if isinstance(row, dict) else row.messages >= 8


async def test_what_began_anew_stays_so_after_a_restart(serve: Serve) -> None:
    bell = Bell(WEBHOOK)
    async with serve(bell, model=ScriptedModel(say("Noted.")), channels={}, secrets=SECRETS) as one:
        await post(one, event(1, "I am Ada"))
        await bell.until(lambda: len(bell.said) == 1)
        await post(one, event(2, "/new"))
        await bell.until(lambda: len(bell.said) == 2)
    again, model = Bell(WEBHOOK), ScriptedModel(say("No idea."))
    async with serve(again, model=model, channels={}, secrets=SECRETS) as one:
        await post(one, event(3, "who am I?"))
        await again.until(lambda: again.said == [("ada", "No idea.")])
    assert "Ada" not in repr(model.requests[0].messages)


async def test_stop_breaks_off_what_runs(guest: Any, api: BotApi) -> None:
    reached, never = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        reached.set()
        await never.wait()

    model = ScriptedModel([*say("One moment")[:2], waits, *say(" more.")], say("Here again."))
    async with guest(model, senders=["*"]):
        await api.write("/stop")
        await api.until(lambda: api.said() == [peers.NOTHING_RUNS])
        await api.write("tell me all")
        await reached.wait()
        await api.write("/stop")
        await api.until(lambda: "broken off" in api.said()[-1])
        await api.write("hello?")
        await api.until(lambda: api.said()[-1] == "Here again.")
    assert len(api.said()) == 3


async def test_commands_can_be_left_to_the_model_and_help_says_what_is_set(serve: Serve) -> None:
    for section, heard in (({"commands": False}, ["/help"]), ({"help": "Ask me of tea."}, [])):
        bell, model = Bell(WEBHOOK), ScriptedModel(say("Ask me of tea."))
        channels = {"bell": section}
        async with serve(bell, model=model, channels=channels, secrets=SECRETS) as one:
            await post(one, event(len(heard), "/help"))
            await bell.until(lambda bell=bell: bell.said == [("ada", "Ask me of tea.")])
        assert [request.messages[-1].text for request in model.requests] == heard


# -- while an answer is on its way -------------------------------------------------------


async def test_typing_is_shown_until_there_is_an_answer(guest: Any, api: BotApi) -> None:
    async def shown() -> None:
        await api.until(lambda: api.actions)

    model = ScriptedModel([shown, *say("**Done**, see `x` & [more](https://a.example/).")])
    async with guest(model, senders=["*"]):
        await api.write("go")
        await api.until(lambda: api.said())
        await api.until(lambda: api.said() == ["Done, see x & more."])
    (message,) = api.chats["42"]
    assert api.actions == [("42", "typing")]
    assert message.entities == {"bold": "Done", "code": "x", "text_link": "more"}


async def test_who_waits_for_an_approval_is_told_so(hook: Bot, api: BotApi) -> None:
    ring, seen = Ring(), list[str]()
    approvers = [{"sender": "1", "principal": "ada"}]
    model = ScriptedModel(call("ring", how="once"), say("Rung."))
    async with hook.served(
        model=model,
        channels={"edit_seconds": 0.05, "telegram": {"approvers": approvers}},
        tools=[ring.tool()],
        plugin=asking("ada"),
    ):
        await api.write("ring it")
        await api.until(lambda: api.said() and api.said(1))
        seen += api.said()
        await api.press("Allow once", chat=1)
        await api.until(lambda: api.said() == ["Rung."])
    assert "needs an approval first (ring)" in seen[0]


async def test_a_photo_is_said_to_be_there(guest: Any, api: BotApi) -> None:
    model = ScriptedModel(say("I cannot see it."), say("Nor hear."))
    async with guest(model, senders=["*"]):
        await api.write(None, photo=[{"file_id": "x"}], caption="what is this?")
        await api.until(lambda: len(api.said()) == 1)
        await api.write(None, voice={"file_id": "y"})
        await api.until(lambda: len(api.said()) == 2)
    first, second = (request.messages[-1].text for request in model.requests)
    assert first.startswith("what is this?\n\n[The message has a photo with it")
    assert second.startswith("[The message has a voice message with it")


# -- what is not served ------------------------------------------------------------------


async def test_a_channel_without_its_secret_is_listed_with_the_reason(serve: Serve) -> None:
    async with serve(model=ScriptedModel(), channels={"work": {"kind": "slack"}}) as one:
        (row,) = (await ask(one, "list")).channels

    assert (row.name, row.path) == ("work", "/webhook/work")
    assert "found no secret 'work_secret'" in row.why


async def test_a_channel_that_cannot_be_polled_says_why(
    guest: Any, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN")

    async with guest(ScriptedModel()) as one:
        why = ""
        while not why:
            await asyncio.sleep(0.02)
            (row,) = (await ask(one, "list")).channels
            why = row.why

    assert "the secret TELEGRAM_BOT_TOKEN is not set" in why
    assert api.calls == []
