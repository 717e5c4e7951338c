from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiohttp
import pytest
from tests.support.script import Allow, Script, Scripted, Tools, call, echo_tool, settings
from tests.support.wire import Served, Socket, bearer, serving, tokens

from hookgate.core.domain.errors import (
    HookError,
    ProviderError,
    RefusedError,
    StoreUnavailableError,
    TurnError,
    WireError,
)
from hookgate.core.domain.events import Event
from hookgate.core.domain.models import Refusal
from hookgate.core.domain.turn import Turn
from hookgate.core.gateway.operations import Empty, Invocation, Operation, OperationModel
from hookgate.hookspecs import hookimpl

CANARIES = [f"canary-{number:02}-{'zyxwvut'[number % 7] * 9}" for number in range(12)]

# Each failure of an operation shows one of them in another way.
FAILURES: list[Callable[[str], Exception]] = [
    lambda canary: KeyError(canary),
    lambda canary: RuntimeError(f"calling https://user:{canary}@host/ failed"),
    lambda canary: WireError(-32006, f"no {canary}", data={"found": [canary, {canary: canary}]}),
    lambda canary: TurnError(
        f"no {canary}", code="odd", action=f"use {canary}", data={"k": canary}
    ),
    lambda canary: RefusedError(Refusal(code=canary, message=canary, action=canary)),
    lambda canary: StoreUnavailableError(f"postgresql://me:{canary}@db/"),
    lambda canary: ProviderError("auth", f"the key {canary} is wrong", provider="script"),
    lambda canary: HookError("before_turn", "some", f"raised {canary}"),
]


class Nothing(OperationModel):
    pass


class Leaky:
    """A plugin whose every failure shows a secret."""

    @hookimpl
    def list_operations(self, host: Any) -> list[Operation[Any, Any]]:
        def make(number: int, *, quick: bool) -> Operation[Any, Any]:
            async def fail(invocation: Invocation, _: Empty) -> Nothing:
                canary = CANARIES[number % len(CANARIES)]
                invocation.emit(Event("leak", {"text": canary, "deep": [{canary: canary}]}))
                raise FAILURES[number](canary)

            return Operation(
                name=f"leak.{number}{'.quick' if quick else ''}",
                summary="Leaks.",
                params=Empty,
                result=Nothing,
                handler=fail,
                quick=quick,
                streams=not quick,
            )

        return [
            make(number, quick=quick) for number in range(len(FAILURES)) for quick in (True, False)
        ]

    @hookimpl
    def before_turn(self, turn: Turn) -> Refusal | None:
        turn.emit(Event("note", {"text": CANARIES[8]}))
        if turn.message.text == "refuse":
            return Refusal(code="no", message=f"no {CANARIES[9]}", action=CANARIES[9])
        return None


def broken_tool() -> Any:
    async def run(turn: Turn, arguments: Mapping[str, Any]) -> str:
        raise RuntimeError(f"authorization: {CANARIES[10]}")

    return echo_tool("broken", run=run)


def hits(*texts: str) -> Iterator[str]:
    for text in texts:
        yield from (canary for canary in CANARIES if canary in text)


async def heard(socket: Socket, number: int) -> str:
    """Return all that is said about a request, up to its end."""
    frames = []
    while True:
        frame = await socket.next()
        frames.append(frame)
        mine = frame.get("params", {}).get("request") == number
        if (mine and frame["method"] == "done") or (frame.get("id") == number and "error" in frame):
            return json.dumps(frames, ensure_ascii=False)


async def test_no_failure_shows_a_secret_on_the_wire_or_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = Script(
        call(("c1", "broken", {"text": "x"})),
        [ProviderError("rejected", f"bad key {CANARIES[11]}", provider="script")],
    )
    secrets = {f"secret_{number}": canary for number, canary in enumerate(CANARIES)}
    said: list[str] = []
    async with (
        serving(
            *(Leaky(), Scripted(script), Tools(broken_tool()), Allow()),
            secrets=secrets,
            log={"level": "debug"},
        ) as served,
        served.socket() as watcher,
        served.socket() as socket,
    ):
        served.gate.host.standing("storage").bad(f"cannot open {CANARIES[0]}")
        await watcher.result("events.subscribe", spans=True)
        for number in range(len(FAILURES)):
            for name in (f"leak.{number}", f"leak.{number}.quick"):
                said.append(await heard(socket, await socket.send(name)))
                said.append(json.dumps(await served.post(f"/v1/operations/{name}")))
        said.append(await heard(socket, await socket.send("chat.send", content="hi")))
        said.append(await heard(socket, await socket.send("chat.send", content="refuse")))
        methods = ("status", "plugin.list", "session.list")
        said += [json.dumps(await socket.call(method)) for method in methods]
        said += [json.dumps(await served.get(path)) for path in ("/health", "/v1/status")]
        async with served.socket() as late:
            said.append(json.dumps(late.heard))
        await watcher.result("ping")
        said.append(json.dumps(watcher.heard))
    log = capfd.readouterr().err
    assert "internal error" in log
    assert list(hits(*said)) == []
    assert list(hits(log)) == []
    assert "".join(said).count("[redacted]") > len(FAILURES)


async def attempt(served: Served, request: str) -> str:
    return (await served.raw(request)).decode("latin-1")


async def test_a_token_shows_neither_in_answers_nor_in_the_log_however_it_came(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    section, made = tokens(ops={"scopes": ["read", "operate"]})
    token, wrong = made["ops"], "hgt_this-is-some-token-of-another-gateway"
    said: list[str] = []
    async with serving(wire=section, log={"level": "debug"}) as served:
        head = f"GET /v1/status HTTP/1.1\r\nHost: {served.host}\r\nConnection: close\r\n"
        for one in (token, wrong):
            said += [
                await attempt(served, f"{head}Authorization: Bearer {one}\r\n\r\n"),
                await attempt(served, f"{head}Authorization: Basic {one}\r\n\r\n"),
                await attempt(served, head.replace("status", f"status?token={one}") + "\r\n"),
                await attempt(served, head.replace("/v1/status", f"/{one}") + "\r\n"),
                await attempt(served, head.replace("status", f"operations/{one}") + "\r\n"),
            ]
            for protocols in (["hookgate", f"bearer.{one}"], [f"bearer.{one}"]):
                try:
                    async with served.socket(hello=False, protocols=protocols) as socket:
                        said.append(json.dumps(await socket.next()))
                except aiohttp.WSServerHandshakeError as error:
                    said.append(str(error.headers))
        # A line that cannot be read is shown by the server's parser, to who sent it alone.
        await attempt(served, f"{head}Authorization: Bearer {token}\x00\r\n\r\n")
        async with served.socket(**bearer(token)) as socket:
            for method in ("status", "token.list", "operation.list"):
                said.append(json.dumps(await socket.call(method)))
    log = capfd.readouterr().err + caplog.text
    for one in (token, wrong):
        assert one not in log
        assert [text for text in said if one in text] == []
    assert section["tokens"]["ops"]["digest"] not in "".join([*said, log])


def test_there_is_a_secret_for_each_way_to_fail() -> None:
    assert len(set(CANARIES)) == 12
    made = settings(secrets={f"s{n}": canary for n, canary in enumerate(CANARIES)})
    assert list(hits(repr(made))) == []
