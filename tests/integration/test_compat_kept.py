"""Responses that are asked for again, gone on from, or left to run: whose, and for how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.builtin_plugins.providers.raw import raw_server
from tests.integration.test_compat import NAMES, rules
from tests.integration.test_compat_as_it_came import relayed, sse
from tests.support.script import (
    Script,
    Scripted,
    Step,
    Tools,
    call,
    echo_tool,
    say,
    settings,
)
from tests.support.wire import Served, bearer, tokens

from hookgate import Gateway, ModelEvent, ModelRequest, ProviderError, Turn
from hookgate.core.gateway.serve import listen

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "Bash", "parameters": {"type": "object"}}


@asynccontextmanager
async def served(
    home: Path,
    *steps: Step,
    script: Script | None = None,
    gateway: Mapping[str, Any] | None = None,
    plugin: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[tuple[Served, Script]]:
    script = script or Script(*steps)
    own: dict[str, Any] = {"compat": {"openai": "script"}}
    for name, values in (plugin or {}).items():
        own[name] = {**own.get(name, {}), **values}
    config = settings(home, gateway={"port": 0, **(gateway or {})}, plugin=own, **sections)
    async with (
        Gateway(config, builtin=NAMES, plugins=[Scripted(script)]) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http), script


def asked(given: Any = "go", **more: Any) -> dict[str, Any]:
    return {"model": "one", "input": given, **more}


def text_of(response: Mapping[str, Any]) -> str:
    parts = [part for item in response["output"] for part in item.get("content", ())]
    return "".join(part["text"] for part in parts)


async def delete(one: Served, path: str, **more: Any) -> tuple[int, Any]:
    async with one.http.delete(one.url + path, **more) as answer:
        return answer.status, await answer.json()


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


async def over(one: Served, name: str) -> Any:
    """Return a response once it is over."""
    while True:
        _, found = await one.get(f"{PATH}/{name}")
        if found["status"] not in ("queued", "in_progress"):
            return found
        await asyncio.sleep(0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_there_as_it_was_shown_until_it_is_deleted(
    stream: bool, tmp_path: Path
) -> None:
    async with served(tmp_path, say("here")) as (one, _):
        async with one.http.post(one.url + PATH, json=asked(stream=stream)) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        name = text.partition('"id":"')[2].partition('"')[0]
        status, found = await one.get(f"{PATH}/{name}")
        assert (status, found["id"], found["status"]) == (200, name, "completed")
        assert text_of(found) == "here"
        if not stream:
            assert found == (await one.get(f"/openai{PATH}/{name}"))[1]
        status, gone = await delete(one, f"{PATH}/{name}")
        assert (status, gone) == (200, {"id": name, "object": "response", "deleted": True})
        for again in (await one.get(f"{PATH}/{name}"), await delete(one, f"{PATH}/{name}")):
            assert again[0] == 404
            assert again[1]["error"]["message"].startswith("there is no response")


async def test_what_is_not_to_be_stored_is_nowhere(tmp_path: Path) -> None:
    async with served(tmp_path, say("never-kept")) as (one, _):
        _, made = await one.post(PATH, asked("also-never-kept", store=False))
        assert (await one.get(f"{PATH}/{made['id']}"))[0] == 404
    assert b"never-kept" not in everything(tmp_path)


async def test_nobody_else_finds_a_response(tmp_path: Path) -> None:
    section, made = tokens(a={"scopes": ["chat"]}, b={"scopes": ["chat"]})
    async with served(tmp_path, say("mine"), say("x"), gateway=section) as (one, script):
        _, mine = await one.post(PATH, asked(), **bearer(made["a"]))
        path, other = f"{PATH}/{mine['id']}", bearer(made["b"])
        assert (await one.get(path, **other))[0] == 404
        assert (await one.get(f"{path}/input_items", **other))[0] == 404
        assert (await delete(one, path, **other))[0] == 404
        assert (await one.post(f"{path}/cancel", {}, **other))[0] == 404
        body = asked("more", previous_response_id=mine["id"])
        status, told = await one.post(PATH, body, **other)
        assert (status, told["error"]["param"]) == (400, "previous_response_id")
        assert (await one.get(path, **bearer(made["a"])))[0] == 200
    assert len(script.requests) == 1


async def test_the_items_that_it_was_asked_with_come_page_by_page(tmp_path: Path) -> None:
    given = [{"role": "user", "content": f"text {number}"} for number in range(5)]
    async with served(tmp_path, say("x"), say("y")) as (one, _):
        _, made = await one.post(PATH, asked(given))
        path = f"{PATH}/{made['id']}/input_items"
        _, first = await one.get(f"{path}?limit=2")
        assert [item["content"] for item in first["data"]] == ["text 4", "text 3"]
        assert first["has_more"]
        _, rest = await one.get(f"{path}?after={first['last_id']}")
        assert [item["content"] for item in rest["data"]] == ["text 2", "text 1", "text 0"]
        assert not rest["has_more"]
        _, other = await one.get(f"{path}?order=asc&limit=1")
        assert other["data"][0]["content"] == "text 0"
        for wrong in ("limit=0", "limit=x", "limit=101", "after=nothing"):
            assert (await one.get(f"{path}?{wrong}"))[0] == 400
        _, made = await one.post(PATH, asked("a text"))
        _, found = await one.get(f"{PATH}/{made['id']}/input_items")
        assert found["data"][0]["content"][0]["text"] == "a text"


async def test_a_request_goes_on_from_a_response(tmp_path: Path) -> None:
    steps = (say("one"), say("two"), say("three"))
    async with served(tmp_path, *steps) as (one, script):
        _, first = await one.post(PATH, asked("a"))
        _, second = await one.post(PATH, asked("b", previous_response_id=first["id"]))
        assert second["previous_response_id"] == first["id"]
        await delete(one, f"{PATH}/{first['id']}")
        last = asked([{"role": "user", "content": "c"}], previous_response_id=second["id"])
        _, third = await one.post(PATH, {**last, "store": False})
        assert text_of(third) == "three"
        status, told = await one.post(PATH, asked("d", previous_response_id=third["id"]))
        assert (status, "of yours here" in told["error"]["message"]) == (400, True)
    said = [[message.text for message in request.messages] for request in script.requests]
    assert said == [["a"], ["a", "one", "b"], ["a", "one", "b", "two", "c"]]


async def test_an_agent_goes_on_from_a_response_too(tmp_path: Path) -> None:
    async with served(tmp_path, say("one"), say("two")) as (one, script):
        _, first = await one.post(PATH, asked("a", model="agent/main"))
        more = asked("b", model="agent/main", previous_response_id=first["id"])
        _, second = await one.post(PATH, more)
        assert text_of(second) == "two"
        status, told = await one.post(PATH, {**more, "conversation": "c"})
        assert (status, told["error"]["param"]) == (400, "conversation")
    assert [message.text for message in script.requests[1].messages] == ["a", "one", "b"]


async def test_a_denied_call_is_in_nothing_that_is_kept(tmp_path: Path) -> None:
    steps = (call(("c1", "Bash", {"command": "ls"})), say("nothing"), say("x"))
    async with served(tmp_path, *steps, plugin=rules(tmp_path, "deny")) as (one, script):
        _, made = await one.post(PATH, asked(tools=[TOOL]))
        _, found = await one.get(f"{PATH}/{made['id']}")
        assert [item["type"] for item in found["output"]] == ["message"]
        await one.post(PATH, asked("more", previous_response_id=made["id"]))
    # The model is told of it all the same: that is a hidden round, and no part of the response.
    _, called, denied, said, _ = script.requests[-1].messages
    assert [use.id for use in called.tool_uses] == ["c1"]
    assert "nobody runs a shell here" in denied.tool_results[0].text
    assert said.text == "nothing"


async def test_it_is_kept_for_as_long_as_the_settings_say(tmp_path: Path) -> None:
    async with served(tmp_path, say("x"), plugin={"compat": {"keep_days": 0}}) as (one, _):
        _, made = await one.post(PATH, asked())
        assert (await one.get(f"{PATH}/{made['id']}"))[0] == 404
        status, told = await one.post(PATH, asked(background=True))
        assert (status, told["error"]["param"]) == (400, "background")


# -- in the background ------------------------------------------------------------------


class Slow(Script):
    """A model that answers when it is let."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(*steps)
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.left = asyncio.Event()

    async def stream(self, turn: Turn, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.set()
        try:
            await self.go.wait()
            async for event in super().stream(turn, request):
                yield event
        finally:
            self.left.set()


async def test_what_runs_in_the_background_is_asked_for_later(tmp_path: Path) -> None:
    slow = Slow(say("done"))
    async with served(tmp_path, script=slow) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        assert (begun["status"], begun["background"], begun["output"]) == ("queued", True, [])
        _, found = await one.get(f"{PATH}/{begun['id']}")
        assert (found["status"], found["id"]) == ("in_progress", begun["id"])
        status, told = await one.post(PATH, asked("b", previous_response_id=begun["id"]))
        assert (status, "not over yet" in told["error"]["message"]) == (400, True)
        slow.go.set()
        found = await over(one, begun["id"])
        assert (found["status"], found["background"], text_of(found)) == ("completed", True, "done")


async def test_what_runs_in_the_background_can_be_cancelled(tmp_path: Path) -> None:
    slow = Slow(say("never"))
    async with served(tmp_path, script=slow) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        await slow.asked.wait()
        status, found = await one.post(f"{PATH}/{begun['id']}/cancel", {})
        assert (status, found["status"], found["id"]) == (200, "cancelled", begun["id"])
        await slow.left.wait()
        assert (await over(one, begun["id"]))["status"] == "cancelled"
        assert (await one.post(f"{PATH}/{begun['id']}/cancel", {}))[1] == found


@pytest.mark.slow
async def test_another_gateway_on_the_store_shows_it_and_ends_it(tmp_path: Path, url: str) -> None:
    slow, store = Slow(say("never")), {"storage": {"url": url}}
    async with (
        served(tmp_path / "1", script=slow, plugin=store) as (one, _),
        served(tmp_path / "2", say("x"), plugin=store) as (two, _),
    ):
        _, begun = await one.post(PATH, asked(background=True))
        await slow.asked.wait()
        _, found = await two.get(f"{PATH}/{begun['id']}")
        assert found["status"] == "in_progress"
        _, found = await two.post(f"{PATH}/{begun['id']}/cancel", {})
        assert found["status"] == "cancelled"
        assert slow.left.is_set()


async def test_a_failure_in_the_background_is_the_response(tmp_path: Path) -> None:
    wrong = ProviderError("rejected", "it went wrong", provider="script")
    async with served(tmp_path, [wrong]) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        found = await over(one, begun["id"])
        assert (found["status"], "it went wrong" in found["error"]["message"]) == ("failed", True)


async def test_what_a_killed_gateway_ran_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hookgate.builtin_plugins.compat.kept import responses

    monkeypatch.setattr(responses, "LOST", -1)
    async with served(tmp_path, script=Slow(say("never"))) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        _, found = await one.get(f"{PATH}/{begun['id']}")
        assert (found["status"], "has stopped" in found["error"]["message"]) == ("failed", True)


async def test_what_is_deleted_while_it_runs_ends_and_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hookgate.builtin_plugins.compat.kept import responses

    monkeypatch.setattr(responses, "PULSE", 0.01)
    slow = Slow(say("never"))
    async with served(tmp_path, script=slow) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        await slow.asked.wait()
        assert (await delete(one, f"{PATH}/{begun['id']}"))[0] == 200
        await slow.left.wait()
        assert (await one.get(f"{PATH}/{begun['id']}"))[0] == 404


# -- in the background, streamed and asked for twice ---------------------------------------


def events_of(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data:")]
    return [json.loads(line) for line in lines]


async def begun_in(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return the response of a stream's first event, read while the stream runs."""
    while not (line := (await answer.content.readline()).decode()).startswith("data:"):
        pass
    response: dict[str, Any] = json.loads(line.removeprefix("data:"))["response"]
    return response


async def test_a_stream_in_the_background_runs_on_and_is_gone_on_with(tmp_path: Path) -> None:
    slow = Slow([*say("done")[:1], *say("and")[:1], *say("dusted")])
    async with served(tmp_path, script=slow) as (one, _):
        body = asked(background=True, stream=True)
        async with one.http.post(one.url + PATH, json=body) as answer:
            assert answer.status == 200
            begun = await begun_in(answer)
            assert (begun["status"], begun["background"]) == ("queued", True)
        # Its client has gone, and it runs on; whoever asks for the rest is given it as it comes.
        where = f"{one.url}{PATH}/{begun['id']}?stream=true"
        later = asyncio.ensure_future(one.http.get(f"{where}&starting_after=0"))
        async with await later as answer:
            slow.go.set()
            rest = events_of(await answer.text())
        assert [event["sequence_number"] for event in rest] == [*range(1, len(rest) + 1)]
        assert rest[-1]["type"] == "response.completed"
        assert text_of(rest[-1]["response"]) == "doneanddusted"
        assert rest[-1]["response"]["id"] == begun["id"]
        # Over, it is told again from wherever somebody wants.
        async with one.http.get(where) as answer:
            told = events_of(await answer.text())
        assert (told[0]["type"], told[1:]) == ("response.created", rest)
        async with one.http.get(f"{where}&starting_after={len(rest) - 1}") as answer:
            assert events_of(await answer.text()) == rest[-1:]
        assert text_of(await over(one, begun["id"])) == "doneanddusted"


async def test_a_stream_in_the_background_that_fails_says_so_at_its_end(tmp_path: Path) -> None:
    wrong = ProviderError("rejected", "it went wrong", provider="script")
    async with served(tmp_path, [wrong]) as (one, _):
        body = asked(background=True, stream=True)
        async with one.http.post(one.url + PATH, json=body) as answer:
            assert answer.status == 200
            first, *_, last = events_of(await answer.text())
        assert (first["type"], last["type"]) == ("response.created", "response.failed")
        assert (await over(one, first["response"]["id"]))["status"] == "failed"


async def test_a_stream_in_the_background_that_is_cancelled_ends(tmp_path: Path) -> None:
    slow = Slow(say("never"))
    async with served(tmp_path, script=slow) as (one, _):
        body = asked(background=True, stream=True)
        async with one.http.post(one.url + PATH, json=body) as answer:
            begun = await begun_in(answer)
            await one.post(f"{PATH}/{begun['id']}/cancel", {})
            (last,) = events_of(await answer.text())
        assert last["type"] == "response.failed"
        assert (await over(one, begun["id"]))["status"] == "cancelled"


async def test_at_another_gateway_a_stream_comes_once_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hookgate.builtin_plugins.compat.kept import responses

    monkeypatch.setattr(responses, "PULSE", 0.01)
    slow = Slow(say("done"))
    async with served(tmp_path, script=slow) as (one, _):
        body = asked(background=True, stream=True)
        async with one.http.post(one.url + PATH, json=body) as answer:
            begun = await begun_in(answer)
        compat: Any = one.gate.plugins.get("compat")
        running = compat._guard.kept._running  # as another one, which runs nothing of it
        kept = dict(running)
        other = asyncio.ensure_future(
            one.http.get(f"{one.url}{PATH}/{begun['id']}?stream=true&starting_after=0")
        )
        monkeypatch.setattr(compat._guard.kept, "_running", {})
        async with await other as answer:
            monkeypatch.setattr(compat._guard.kept, "_running", kept)
            slow.go.set()
            rest = events_of(await answer.text())
        assert rest[-1]["type"] == "response.completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_begins_one_response_in_the_background(stream: bool, tmp_path: Path) -> None:
    slow, headers = Slow(say("done")), {"Idempotency-Key": "k1"}
    body = asked(background=True, stream=stream)

    async def ask(**more: Any) -> Any:
        async with one.http.post(one.url + PATH, json={**body, **more}, headers=headers) as answer:
            if answer.status != 200 or not stream:
                told = await answer.json()
                return answer.status, told.get("id", told), answer.headers
            return answer.status, (await begun_in(answer))["id"], answer.headers

    async with served(tmp_path, script=slow) as (one, _):
        status, name, first = await ask()
        assert (status, "idempotent-replayed" in first) == (200, False)
        status, again, second = await ask()
        assert (status, again, second["idempotent-replayed"]) == (200, name, "true")
        status, told, _ = await ask(input="another")
        assert (status, told["error"]["code"]) == (409, "compat_key_reused")
        assert (await ask(background=None))[0] == 409
        slow.go.set()
        await over(one, name)
        assert (await ask())[1] == name
    assert len(slow.requests) == 1


async def test_what_is_asked_for_as_a_stream_was_begun_as_one(tmp_path: Path) -> None:
    slow = Slow(say("done"))
    slow.go.set()
    async with served(tmp_path, script=slow) as (one, _):
        _, begun = await one.post(PATH, asked(background=True))
        path = f"{PATH}/{begun['id']}?stream=true"
        status, told = await one.get(path)
        assert (status, told["error"]["param"]) == (400, "stream")
        body = asked(background=True, stream=True)
        async with one.http.post(one.url + PATH, json=body) as answer:
            begun = await begun_in(answer)
        for wrong in ("x", "-1", "1.5", ""):
            path = f"{PATH}/{begun['id']}?stream=true&starting_after={wrong}"
            status, told = await one.get(path)
            assert (status, told["error"]["param"]) == (400, "starting_after"), wrong
        assert (await one.get(f"{PATH}/resp_none?stream=true"))[0] == 404
        assert (await one.get(f"{PATH}/{begun['id']}?stream=maybe"))[0] == 400


WRONG: Sequence[tuple[dict[str, Any], str]] = [
    ({"background": True, "store": False}, "store"),
    ({"background": "yes"}, "background"),
    ({"store": 1}, "store"),
    ({"previous_response_id": 5}, "previous_response_id"),
    ({"previous_response_id": "resp_none"}, "previous_response_id"),
    ({"previous_response_id": "x" * 5000}, "previous_response_id"),
]


@pytest.mark.parametrize(("more", "param"), WRONG)
async def test_what_cannot_be_kept_or_gone_on_from_is_a_400(
    more: dict[str, Any], param: str, tmp_path: Path
) -> None:
    async with served(tmp_path, say("never")) as (one, script):
        status, told = await one.post(PATH, asked(**more))
        assert (status, told["error"]["param"]) == (400, param)
    assert script.requests == []


async def test_one_that_ends_with_its_request_cannot_be_cancelled(tmp_path: Path) -> None:
    async with served(tmp_path, say("x")) as (one, _):
        _, made = await one.post(PATH, asked())
        status, told = await one.post(f"{PATH}/{made['id']}/cancel", {})
        assert (status, "background" in told["error"]["message"]) == (400, True)
        assert (await one.get(f"{PATH}/{made['id']}?stream=true"))[0] == 400


# -- what an upstream keeps -------------------------------------------------------------------

STORED = {"status": "completed", "output": [], "id": "resp_there"}
THERE: list[Any] = [
    {"type": "response.created", "response": {**STORED, "status": "in_progress"}},
    {"type": "response.completed", "response": STORED},
]


@pytest.mark.parametrize("status", [200, 404, 405, 500])
async def test_what_is_deleted_here_is_deleted_at_its_upstream_as_well(
    status: int, tmp_path: Path
) -> None:
    over = {"kind": "openai", "api": "responses", "headers": {"openai-project": "p1"}}
    async with relayed(tmp_path, THERE, providers={"openai": over}) as (one, upstream):
        _, made = await one.post(PATH, asked(model="m"))
        assert made["id"] == "resp_there"

        async def script(wire: Any) -> None:
            await wire.answer(status, b'{"deleted": true}', content_type="application/json")

        upstream.script = script
        told, answer = await delete(one, f"{PATH}/resp_there")
        assert upstream.heads[-1].startswith("DELETE /v1/responses/resp_there ")
        # Without it that would be another project's, and not there.
        assert "\r\nopenai-project: p1\r\n" in upstream.heads[-1]
        assert "content-type" not in upstream.heads[-1]
        gone = status != 500
        assert told == (200 if gone else 502), answer
        assert gone or "500" in answer["error"]["message"]
        assert (await one.get(f"{PATH}/resp_there"))[0] == (404 if gone else 200)


async def test_an_id_that_another_key_has_as_well_is_not_deleted_there(tmp_path: Path) -> None:
    """An upstream may let its clients choose ids: nobody deletes another one's by it."""
    over = {"kind": "openai", "api": "responses"}
    section, made = tokens(a={"scopes": ["chat"]}, b={"scopes": ["chat"]})
    async with relayed(tmp_path, THERE, providers={"openai": over}, gateway=section) as (
        one,
        upstream,
    ):
        mine, other = bearer(made["a"]), bearer(made["b"])
        for headers in (mine, other):
            assert (await one.post(PATH, asked(model="m"), **headers))[1]["id"] == "resp_there"

        async def script(wire: Any) -> None:
            await wire.answer(200, b"{}", content_type="application/json")

        upstream.script = script
        assert (await delete(one, f"{PATH}/resp_there", **other))[0] == 200
        assert not any(head.startswith("DELETE") for head in upstream.heads)
        assert (await one.get(f"{PATH}/resp_there", **other))[0] == 404
        assert (await one.get(f"{PATH}/resp_there", **mine))[0] == 200
        assert (await delete(one, f"{PATH}/resp_there", **mine))[0] == 200
        assert upstream.heads[-1].startswith("DELETE /v1/responses/resp_there ")


async def test_what_was_not_made_there_is_asked_of_no_upstream(tmp_path: Path) -> None:
    over = {"kind": "openai", "api": "responses"}
    async with relayed(tmp_path, THERE, providers={"openai": over}) as (one, upstream):
        for name in ("resp_there", "resp_of_another"):
            assert (await delete(one, f"{PATH}/{name}"))[0] == 404
            assert (await one.get(f"{PATH}/{name}"))[0] == 404
            assert (await one.post(f"{PATH}/{name}/cancel", {}))[0] == 404
        assert upstream.heads == []


CALLS = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "clock"}
CALLS |= {"arguments": '{"text": "now"}'}
FIRST: list[Any] = [
    {"type": "response.created", "response": {**STORED, "id": "resp_of_second"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**CALLS, "arguments": ""}},
    {"type": "response.output_item.done", "output_index": 0, "item": CALLS},
    {
        "type": "response.completed",
        "response": {**STORED, "id": "resp_of_second", "output": [CALLS]},
    },
]


async def test_each_upstream_is_asked_to_forget_its_own_rounds_alone(tmp_path: Path) -> None:
    async with raw_server() as other:

        async def second(wire: Any) -> None:
            await wire.chunks(sse(*THERE))

        other.script = second
        there = {"kind": "openai", "api": "responses"}
        name = {"to": ["first/m", "second/m"], "mode": "assist", "tools": ["clock"]}
        async with relayed(
            tmp_path,
            FIRST,
            b"down",
            plugins=[Tools(echo_tool("clock"))],
            providers={"first": there, "second": {**there, "base_url": other.url}},
            compat={"aliases": {"timed": name}},
        ) as (one, upstream):
            status, made = await one.post(PATH, asked(model="timed"))
            assert status == 200, made

            async def gone(wire: Any) -> None:
                await wire.answer(200, b'{"deleted": true}', content_type="application/json")

            upstream.script = other.script = gone
            assert (await delete(one, f"{PATH}/{made['id']}"))[0] == 200
            asked_for = [
                [head.split()[1] for head in server.heads if head.startswith("DELETE")]
                for server in (upstream, other)
            ]
            assert asked_for == [["/v1/responses/resp_of_second"], ["/v1/responses/resp_there"]]
