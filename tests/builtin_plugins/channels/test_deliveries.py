"""What is to be said: again where it fails, in order, with the dead letters at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.builtin_plugins.channels.bells import KEY, Bell, event
from tests.builtin_plugins.channels.conftest import Serve, Served
from tests.builtin_plugins.channels.test_webhooks import HEADER, SECRETS, post

from hookgate import ChannelError, ProviderError
from hookgate.channels import Webhook
from hookgate.kit.testing.model import ScriptedModel, say


def echo() -> ScriptedModel:
    return ScriptedModel(lambda request: say(f"re: {request.messages[-1].text}"))


def failure(**more: Any) -> ChannelError:
    return ChannelError("the platform is away", **more)


async def call(served: Served, name: str, **params: Any) -> dict[str, Any]:
    url = f"{served.url}/v1/operations/{name}"
    async with served.http.post(url, json=params) as answer:
        found: dict[str, Any] = await answer.json()
        assert answer.status == 200, found
        return found


async def test_message_is_tried_again_with_the_same_key_and_others_wait_behind_it(
    serve: Serve,
) -> None:
    bell = Bell(HEADER)
    bell.failing = [failure(transient=True), failure(transient=True)]
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1, "one"), {"X-Key": KEY}) == 200
        assert await post(served, event(2, "two"), {"X-Key": KEY}) == 200
        assert await post(served, event(3, "three", peer="bob"), {"X-Key": KEY}) == 200
        for attempts in (1, 2):
            await bell.until(lambda count=attempts: len(bell.keys) >= count)
            served.clock.turn(seconds=10)
        await bell.until(lambda: len(bell.said) == 3)
    assert [text for peer, text in bell.said if peer == "ada"] == ["re: one", "re: two"]
    assert len(bell.keys) == 5
    assert len(set(bell.keys)) == 3
    assert all(bell.keys)


async def test_platform_says_how_long_to_wait(serve: Serve) -> None:
    bell = Bell(HEADER)
    bell.failing = [failure(transient=True, retry_after=120.0)]
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1, "one"), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.keys) == 1)
        # For anybody: a platform that has had enough has had enough of all of it.
        assert await post(served, event(2, "two", peer="bob"), {"X-Key": KEY}) == 200
        served.clock.turn(seconds=100)
        (row,) = (await call(served, "channels.list"))["channels"]
        while row["waiting"]:
            (row,) = (await call(served, "channels.list"))["channels"]
        assert (row["unsent"], len(bell.keys)) == (2, 1)
        served.clock.turn(seconds=30)
        await bell.until(lambda: len(bell.said) == 2)


async def test_dead_letters_are_listed_and_said_again_in_order(serve: Serve) -> None:
    bell = Bell(HEADER, max_length=40)
    bell.failing = [failure()]
    model = ScriptedModel(say("first part of it\n\nsecond part of it, longer"), say("other"))
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.keys)
        assert await post(served, event(2), {"X-Key": KEY}) == 200
        # Dead letters hold nobody up.
        await bell.until(lambda: bell.said == [("ada", "other")])
        letters = (await call(served, "channels.dead", channel="bell"))["letters"]
        assert [one["text"] for one in letters] == ["first part of it", "second part of it, longer"]
        assert letters[0]["error"] == "the platform is away"
        assert (await call(served, "channels.replay", id=letters[0]["id"])) == {"letters": 2}
        await bell.until(lambda: len(bell.said) == 3)
        assert (await call(served, "channels.dead")) == {"letters": []}
    assert [text for _, text in bell.said[1:]] == ["first part of it", "second part of it, longer"]


async def test_message_is_given_up_after_so_many_attempts(serve: Serve) -> None:
    bell = Bell(HEADER)
    bell.failing = [failure(transient=True, retry_after=0.0) for _ in range(9)]
    async with serve(bell, model=echo(), channels={"attempts": 3}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.keys) == 3)
        while not (letters := (await call(served, "channels.dead"))["letters"]):
            continue
        assert letters[0]["attempts"] == 3


async def test_fault_of_a_channel_is_a_dead_letter_and_not_the_end(serve: Serve) -> None:
    bell = Bell(HEADER)
    bell.failing = [RuntimeError("a fault"), SystemExit()]
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS) as served:
        for number in range(3):
            assert await post(served, event(number, f"m{number}"), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said == [("ada", "re: m2")])
        letters = (await call(served, "channels.dead"))["letters"]
        assert [one["error"] for one in letters] == ["a fault", "SystemExit"]


async def test_channel_that_is_paused_takes_in_and_says_nothing(serve: Serve) -> None:
    bell, free = Bell(HEADER), asyncio.Event()
    model = ScriptedModel([free.wait, *say("ding")])
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        assert await call(served, "channels.pause", channel="bell") == {"paused": ["bell"]}
        free.set()
        assert await post(served, event(2), {"X-Key": KEY}) == 503
        while (await call(served, "channels.list"))["channels"][0]["unsent"] != 1:
            continue
        assert bell.keys == []
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert (await call(served, "channels.list"))["channels"][0]["paused"]
        assert await post(served, event(2), {"X-Key": KEY}) == 503
        assert await call(served, "channels.resume", channel="bell") == {"paused": []}
        await bell.until(lambda: bell.said == [("ada", "ding")])
        assert await post(served, event(2), {"X-Key": KEY}) == 200
        await bell.until(lambda: len(bell.said) == 2)


async def test_operations_are_for_operators_and_name_what_there_is(serve: Serve) -> None:
    bell = Bell(HEADER)
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS) as served:
        operations = served.gateway.host.operations
        mine = [one for name, one in operations.items() if name.startswith("channels.")]
        assert {one.scope for one in mine} == {"operate"}
        url = f"{served.url}/v1/operations"
        async with served.http.post(f"{url}/channels.pause", json={"channel": "x"}) as answer:
            assert "expected one of bell" in (await answer.json())["error"]["message"]
        async with served.http.post(f"{url}/channels.replay", json={}) as answer:
            assert answer.status == 400


@pytest.mark.parametrize(
    ("kind", "again"), [("rate_limited", True), ("cut", True), ("auth", False)]
)
async def test_who_writes_is_told_to_write_again_where_that_may_help(
    kind: Any, again: bool, serve: Serve
) -> None:
    bell, failed = Bell(HEADER), ProviderError(kind, "not now")
    model = ScriptedModel(*[[failed]] * 9)
    async with serve(bell, model=model, channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
    assert "could not be answered: code provider_failed" in bell.said[0][1]
    assert ("again in a moment" in bell.said[0][1]) == again


async def test_who_writes_too_much_is_told_so(serve: Serve) -> None:
    bell = Bell(Webhook(verification="header", secret="bell_key", header="X-Key"))
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS) as served:
        assert await post(served, event(1, text="word " * 9000), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
    assert "could not be answered: the message takes" in bell.said[0][1]


async def test_refused_turn_is_said_in_the_words_of_who_refuses(serve: Serve) -> None:
    bell = Bell(HEADER)
    budgets = {"metering": {"budgets": {"bells": {"scope": "channel", "of": "bell", "tokens": 0}}}}
    async with serve(bell, model=echo(), channels={}, secrets=SECRETS, plugin=budgets) as served:
        assert await post(served, event(1), {"X-Key": KEY}) == 200
        await bell.until(lambda: bell.said)
    assert "could not be answered: budget exceeded" in bell.said[0][1]
