"""A request that is sent again: it joins the turn that runs, or gets what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.integration.test_compat import BOTH, CHAT, asked, error_of, text_of
from tests.integration.test_compat_kept import Slow, served
from tests.support.script import Script, say, until
from tests.support.wire import bearer, tokens

from hookgate import ProviderError
from hookgate.builtin_plugins.compat.kept import idempotency

KEY = {"headers": {"idempotency-key": "k1"}}
OWN = {"compat": {"anthropic": "script"}}
AGENT = "agent/main"


def retry(count: int) -> dict[str, Any]:
    return {"headers": {"x-stainless-retry-count": str(count)}}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[idempotency.KeptRun]:
    """The answers that may be asked for twice, in the order in which they began."""
    made: list[idempotency.KeptRun] = []

    class Noted(idempotency.KeptRun):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            made.append(self)

    monkeypatch.setattr(idempotency, "KeptRun", Noted)
    return made


async def read_by(runs: Sequence[idempotency.KeptRun], readers: int) -> None:
    """Wait until so many wait for an answer."""
    await until(lambda: sum(len(run.readers) for run in runs) == readers)


@BOTH
@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_request_joins_the_turn_that_runs_and_is_answered_again(
    path: str, stream: bool, tmp_path: Path, runs: list[idempotency.KeptRun]
) -> None:
    slow = Slow(say("here"))
    async with served(tmp_path, script=slow, plugin=OWN) as (one, _):
        body = asked(path, stream=stream)

        async def ask() -> tuple[int, str, Any]:
            async with one.http.post(one.url + path, json=body, **KEY) as answer:
                return answer.status, await answer.text(), answer.headers

        first, second = asyncio.ensure_future(ask()), asyncio.ensure_future(ask())
        await read_by(runs, 2)
        slow.go.set()
        answers = [await first, await second, await ask()]
        assert {(status, text) for status, text, _ in answers} == {(200, answers[0][1])}
        assert "here" in answers[0][1]
        turns = {headers["x-hookgate-turn"] for _, _, headers in answers}
        assert len(turns) == 1
        replayed = [headers.get("idempotent-replayed") for _, _, headers in answers]
        assert sorted(map(str, replayed)) == ["None", "true", "true"]
        assert len({headers["x-request-id"] for _, _, headers in answers}) == 3
    assert len(slow.requests) == 1


@BOTH
async def test_another_body_with_the_key_is_a_409(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, say("a"), say("never"), plugin=OWN) as (one, script):
        await one.post(path, asked(path), **KEY)
        for more in ({"temperature": 0.5}, {"stream": True}):
            async with one.http.post(one.url + path, json=asked(path, **more), **KEY) as answer:
                told = error_of(path, await answer.json())
                assert (answer.status, "another request" in told["message"]) == (409, True)
                assert answer.headers["x-should-retry"] == "false"
        assert len(script.requests) == 1


async def test_a_key_is_its_principals_own(tmp_path: Path) -> None:
    section, made = tokens(a={"scopes": ["chat"]}, b={"scopes": ["chat"]})
    async with served(tmp_path, say("of a"), say("of b"), gateway=section) as (one, _):
        for name in ("a", "b"):
            headers = {**bearer(made[name])["headers"], **KEY["headers"]}
            _, answer = await one.post(CHAT, asked(CHAT), headers=headers)
            assert text_of(CHAT, answer) == f"of {name}"


async def test_what_has_failed_can_be_sent_again(tmp_path: Path) -> None:
    wrong = ProviderError("rejected", "it went wrong", provider="script")
    cut = [*say("half")[:1], ProviderError("cut", "it broke off", provider="script")]
    async with served(tmp_path, [wrong], cut, say("here")) as (one, script):
        status, _ = await one.post(CHAT, asked(CHAT), **KEY)
        assert status == 400
        async with one.http.post(one.url + CHAT, json=asked(CHAT, stream=True), **KEY) as torn:
            text = await torn.text()
            assert "half" in text
            assert "it broke off" in text
            assert "[DONE]" not in text
        _, answer = await one.post(CHAT, asked(CHAT), **KEY)
        assert text_of(CHAT, answer) == "here"
        status, _ = await one.post(CHAT, {"model": "one"}, headers={"idempotency-key": "k2"})
        assert status == 400
    assert len(script.requests) == 3


async def test_a_client_that_goes_away_finds_the_answer_when_it_comes_again(
    tmp_path: Path,
    runs: list[idempotency.KeptRun],
) -> None:
    slow = Slow(say("here"))
    async with served(tmp_path, script=slow) as (one, _):
        first = asyncio.ensure_future(one.post(CHAT, asked(CHAT), **KEY))
        await read_by(runs, 1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        slow.go.set()
        _, answer = await one.post(CHAT, asked(CHAT), **KEY)
        assert text_of(CHAT, answer) == "here"
    assert len(slow.requests) == 1


@pytest.mark.parametrize("key", ["", "with space", "x" * 256])
async def test_a_key_that_cannot_be_one_is_a_400(key: str, tmp_path: Path) -> None:
    async with served(tmp_path, say("never")) as (one, script):
        status, _ = await one.post(CHAT, asked(CHAT), headers={"idempotency-key": key})
        assert status == 400
    assert script.requests == []


# -- what the SDKs send again of their own accord -----------------------------------------


async def test_a_retry_joins_the_agents_turn_and_no_tool_runs_twice(
    tmp_path: Path, runs: list[idempotency.KeptRun]
) -> None:
    slow = Slow(say("here"), say("anew"))
    async with served(tmp_path, script=slow) as (one, _):
        body = {"model": AGENT, "messages": [{"role": "user", "content": "go"}]}
        first = asyncio.ensure_future(one.post(CHAT, body, **retry(0)))
        await read_by(runs, 1)
        second = asyncio.ensure_future(one.post(CHAT, body, **retry(1)))
        await read_by(runs, 2)
        slow.go.set()
        assert (await first)[1] == (await second)[1]
        assert (await one.post(CHAT, body, **retry(2)))[1] == (await first)[1]
        assert len(slow.requests) == 1
        _, anew = await one.post(CHAT, body, **retry(0))
        assert text_of(CHAT, anew) == "anew"


async def test_in_guard_a_retry_is_a_request_like_any_other(
    tmp_path: Path, runs: list[idempotency.KeptRun]
) -> None:
    async with served(tmp_path, say("a"), say("b")) as (one, script):
        for count in (0, 1):
            await one.post(CHAT, asked(CHAT), **retry(count))
        assert runs == []
    assert len(script.requests) == 2


async def test_an_agents_turn_that_nobody_comes_back_for_ends(
    tmp_path: Path, runs: list[idempotency.KeptRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "ALONE", 0.01)
    slow = Slow(say("never"))
    async with served(tmp_path, script=slow) as (one, _):
        body = {"model": AGENT, "messages": [{"role": "user", "content": "go"}]}
        first = asyncio.ensure_future(one.post(CHAT, body, **retry(0)))
        await read_by(runs, 1)
        await slow.asked.wait()
        first.cancel()
        assert await slow.left.wait()


@pytest.mark.slow
async def test_another_gateway_of_the_store_waits_and_gives_the_same_answer(
    tmp_path: Path, runs: list[idempotency.KeptRun], url: str
) -> None:
    slow, other, store = Slow(say("here")), Script(say("never")), {"storage": {"url": url}}
    async with (
        served(tmp_path / "1", script=slow, plugin=store) as (one, _),
        served(tmp_path / "2", script=other, plugin=store) as (two, _),
    ):
        first = asyncio.ensure_future(one.post(CHAT, asked(CHAT), **KEY))
        await read_by(runs, 1)
        second = asyncio.ensure_future(two.post(CHAT, asked(CHAT), **KEY))
        await asyncio.sleep(0)
        slow.go.set()
        assert (await first)[1] == (await second)[1]
        status, _ = await two.post(CHAT, asked(CHAT, temperature=1), **KEY)
        assert status == 409
    assert other.requests == []


async def test_what_a_killed_gateway_ran_is_run_anew(
    tmp_path: Path, runs: list[idempotency.KeptRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(say("here"))
    async with served(tmp_path, script=slow) as (one, _):
        monkeypatch.setattr(idempotency, "LOST", -5)
        first = asyncio.ensure_future(one.post(CHAT, asked(CHAT), **KEY))
        await read_by(runs, 1)
        first.cancel()
    async with served(tmp_path, say("anew")) as (one, _):
        _, answer = await one.post(CHAT, asked(CHAT), **KEY)
        assert text_of(CHAT, answer) == "anew"
