"""Whatever the handlers of a plugin raise or return, who asked is answered, and others too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from tests.support.wire import serving

from hookgate import Access, Empty, Host, Invocation, Operation, Routes, WireError, hookimpl


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def raising(error: Callable[[], BaseException]) -> Callable[[], Any]:
    def act() -> Any:
        raise error()

    return act


def coded(**data: Any) -> Callable[[], Any]:
    return raising(lambda: WireError.named("bad_later", "come back \ud800", **data))


class Bad:
    """Its route and its operation do what a test wants."""

    name = "bad"

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    async def serve(self, request: web.Request) -> web.Response:
        return self.act()  # type: ignore[no-any-return] - junk, mostly

    async def operate(self, invocation: Invocation, params: Empty) -> Empty:
        return self.act()  # type: ignore[no-any-return] - junk, mostly

    @hookimpl
    def add_routes(self, routes: Routes) -> None:
        routes.error_code("bad_later", 429, "Too early.")
        routes.add("GET", "/bad", self.serve, access=Access.scoped("chat"))

    @hookimpl
    def list_operations(self, host: Host) -> list[Operation[Any, Any]]:
        return [
            Operation(
                name="bad.act",
                summary="Do what a test wants.",
                handler=self.operate,
                params=Empty,
                result=Empty,
                scope="chat",
                quick=True,
            )
        ]


@pytest.mark.parametrize(
    "act",
    [
        raising(lambda: SystemExit(3)),
        raising(KeyboardInterrupt),
        raising(Unreadable),
        lambda: None,
        lambda: "text",
    ],
    ids=["SystemExit", "KeyboardInterrupt", "unreadable", "nothing", "text"],
)
async def test_what_is_no_answer_becomes_one_and_the_gateway_goes_on(act: Any) -> None:
    async with serving(Bad(act)) as served, served.socket() as socket:
        status, body = await served.get("/bad")
        assert (status, body["error"]["data"]["code"]) == (500, "internal")
        assert body["error"]["data"]["id"] in body["error"]["message"]
        frame = await socket.call("bad.act")
        assert frame["error"]["data"]["code"] == "internal"
        assert await socket.result("ping") == {"pong": True}
        assert (await served.get("/v1/status"))[0] == 200


@pytest.mark.parametrize(
    "odd",
    [
        {"retry_after": "soon"},
        {"retry_after": math.nan},
        {"retry_after": math.inf},
        {"retry_after": -1},
        {"retry_after": 10**400},
        {"more": {1, 2}},
        {"more": "\ud800"},
        {"more": object()},
    ],
    ids=lambda odd: str(odd)[:24],
)
async def test_odd_data_of_an_error_is_left_out_and_the_rest_is_told(odd: dict[str, Any]) -> None:
    async with serving(Bad(coded(**odd, kept=1))) as served, served.socket() as socket:
        status, body = await served.get("/bad")
        told = body["error"]
        assert (status, told["message"]) == (429, "come back ?")
        assert told["data"] == {"code": "bad_later", "action": "", "kept": 1}
        frame = await socket.call("bad.act")
        assert frame["error"]["data"] == told["data"]
        assert await socket.result("ping") == {"pong": True}
