"""`/v1/embeddings`: vectors of upstreams and of the own model, metered and bounded."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.script import Script, settings
from tests.support.wire import Served, bearer, tokens

from hookgate import (
    EMBEDDER,
    Embedded,
    Gateway,
    Message,
    ModelRequest,
    ProviderError,
    Refusal,
    Text,
    Turn,
    Usage,
)
from hookgate.builtin_plugins import BUILTIN
from hookgate.builtin_plugins.embedding.provider import OwnModel
from hookgate.core.gateway.serve import listen
from hookgate.hookspecs import hookimpl

PATH = "/v1/embeddings"
PLUGINS = ("control", "storage", "audit", "metering", "egress", "providers", "compat")
VECTORS = [[0.25, -1.5, 3.0], [1.0, 0.0, -0.125]]


class Upstream:
    """A server that makes vectors, and keeps what it was asked."""

    def __init__(self, answer: Any = None, status: int = 200) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer = answer
        self.status = status

    async def serve(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        if self.answer is not None:
            return web.json_response(self.answer, status=self.status)
        given = body["input"]
        count = 1 if isinstance(given, str) or isinstance(given[0], int) else len(given)
        packed = body.get("encoding_format") == "base64"
        rows = [
            {"object": "embedding", "index": n, "embedding": as_asked(VECTORS[n], packed)}
            for n in reversed(range(count))
        ]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return web.json_response({"object": "list", "data": rows, "model": "e", "usage": usage})


def as_asked(vector: list[float], packed: bool) -> Any:
    if not packed:
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


@asynccontextmanager
async def served(
    home: Path,
    upstream: Upstream | None = None,
    *plugins: Any,
    gateway: Mapping[str, Any] | None = None,
    plugin: Mapping[str, Any] | None = None,
) -> AsyncIterator[Served]:
    app = web.Application()
    app.router.add_post("/v1/embeddings", (upstream or Upstream()).serve)
    async with TestServer(app) as server:
        up = {"kind": "openai", "base_url": str(server.make_url("/v1"))}
        config = settings(
            home,
            agents={"main": {"model": "up/chat"}},
            gateway={"port": 0, **(gateway or {})},
            plugin={"compat": {"openai": "up"}, "providers": {"up": up}, **(plugin or {})},
        )
        names = [name for name in BUILTIN if name in PLUGINS]
        async with (
            Gateway(config, builtin=names, plugins=list(plugins)) as gate,
            listen(gate) as listener,
            aiohttp.ClientSession() as http,
        ):
            yield Served(gate, listener, http)


def vectors(answer: Mapping[str, Any]) -> list[Any]:
    return [row["embedding"] for row in answer["data"]]


@pytest.mark.parametrize("form", ["float", "base64"])
async def test_the_client_gets_the_vectors_of_an_upstream(form: str, tmp_path: Path) -> None:
    async with served(tmp_path) as one:
        body = {"model": "e", "input": ["a", "b"], "encoding_format": form}
        status, answer = await one.post(PATH, body)
        assert status == 200
        assert vectors(answer) == [as_asked(vector, form == "base64") for vector in VECTORS]
        assert [row["index"] for row in answer["data"]] == [0, 1]
        assert (answer["model"], answer["usage"]["prompt_tokens"]) == ("e", 7)
        _, told = await one.get("/v1/usage")
        assert told["whole"]["input_tokens"] == 7


async def test_the_upstream_gets_the_body_that_the_client_has_sent(tmp_path: Path) -> None:
    upstream = Upstream()
    body = {"input": [[5, 6], [7]], "model": "up/e", "dimensions": 3, "input_type": "query"}
    async with served(tmp_path, upstream) as one:
        status, answer = await one.post(PATH, body)
        assert (status, answer["model"]) == (200, "up/e")
        assert vectors(answer) == VECTORS
    assert upstream.asked == [{**body, "model": "e"}]


async def test_an_upstream_that_knows_numbers_alone_answers_a_client_of_base64(
    tmp_path: Path,
) -> None:
    rows = [{"embedding": VECTORS[0]}]
    async with served(tmp_path, Upstream({"data": rows})) as one:
        body = {"model": "e", "input": "a", "encoding_format": "base64"}
        _, answer = await one.post(PATH, body)
        assert vectors(answer) == [as_asked(VECTORS[0], packed=True)]
        _, told = await one.get("/v1/usage")
        assert told["whole"]["input_tokens"] > 0, "what nobody reports is estimated"


class Embeds:
    """An embedder that needs no model."""

    name = "embeds"
    provides = (EMBEDDER,)
    dimension = 2
    fingerprint = "test"

    @hookimpl
    @asynccontextmanager
    async def lifespan(self, host: Any) -> AsyncIterator[None]:
        host.provide(EMBEDDER, self)
        yield

    async def embed(self, texts: Any) -> Any:
        return np.asarray([[len(text), 0.5] for text in texts], np.float32)

    @hookimpl
    def list_providers(self) -> Any:
        return [OwnModel("minilm", lambda: self, most_tokens=256)]  # type: ignore[arg-type, return-value]


async def test_the_gateways_own_model_embeds_text_and_names_itself_where_it_cannot(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, None, Embeds()) as one:
        body = {"model": "hookgate/minilm", "input": ["a", "bc"]}
        _, answer = await one.post(PATH, body)
        assert vectors(answer) == [[1.0, 0.5], [2.0, 0.5]]
        for wrong, told in (
            ({"input": [1, 2]}, "hookgate/minilm reads text"),
            ({"input": "a", "dimensions": 7}, "makes vectors of 2 numbers"),
            ({"input": ["a"] * 257}, "256 at most"),
        ):
            status, answer = await one.post(PATH, {"model": "hookgate/minilm", **wrong})
            assert status == 400
            assert told in answer["error"]["message"]
        status, answer = await one.post(PATH, {"model": "hookgate/other", "input": "a"})
        assert (status, answer["error"]["code"]) == (404, "model_not_found")
        chat = {"model": "hookgate/minilm", "messages": [{"role": "user", "content": "x"}]}
        status, answer = await one.post("/v1/chat/completions", chat)
        assert (status, "/v1/embeddings" in answer["error"]["message"]) == (400, True)


BAD = [
    ({"input": ""}, "input[0]"),
    ({"input": []}, "input"),
    ({"input": [""]}, "input[0]"),
    ({"input": ["a"] * 2049}, "input"),
    ({"input": [[1, -1]]}, "input[0]"),
    ({"input": [1] * 65_537}, "input[0]"),
    ({"input": {"a": 1}}, "input"),
    ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ({"input": "a", "model": ""}, "model"),
]


@pytest.mark.parametrize(("wrong", "param"), BAD)
async def test_what_cannot_be_taken_is_a_400_and_nothing_is_sent(
    wrong: dict[str, Any], param: str, tmp_path: Path
) -> None:
    upstream = Upstream()
    async with served(tmp_path, upstream) as one:
        status, answer = await one.post(f"/openai{PATH}", {"model": "up/e", **wrong})
        assert (status, answer["error"]["param"]) == (400, param)
    assert upstream.asked == []


WRONG_ANSWERS: list[Any] = [
    {"data": [{"embedding": "%%%"}]},
    {"data": [{"embedding": []}]},
    {"data": [{"embedding": [True]}]},
    {"data": [{"embedding": [1.0], "index": 1}]},
    {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
    {"data": []},
    {"rows": []},
    [],
]


@pytest.mark.parametrize("answer", WRONG_ANSWERS)
async def test_an_upstream_that_answers_something_else_is_a_502(
    answer: Any, tmp_path: Path
) -> None:
    async with served(tmp_path, Upstream(answer)) as one:
        status, told = await one.post(PATH, {"model": "e", "input": "a"})
        assert (status, told["error"]["type"]) == (502, "server_error")


async def test_a_key_embeds_with_its_own_models_and_within_its_budget(tmp_path: Path) -> None:
    section, made = tokens(
        some={"scopes": ["chat"], "models": ["up/e"]}, other={"scopes": ["chat"], "models": ["x/*"]}
    )
    rule = {"few": {"tokens": 200, "window": "day"}}
    upstream = Upstream()
    async with served(
        tmp_path, upstream, gateway=section, plugin={"metering": {"budgets": rule}}
    ) as one:
        body = {"model": "e", "input": "a"}
        status, _ = await one.post(PATH, body, **bearer(made["other"]))
        assert status == 403
        long = {"model": "e", "input": "word " * 500}
        status, answer = await one.post(PATH, long, **bearer(made["some"]))
        assert (status, "budget" in answer["error"]["message"]) == (429, True)
        assert upstream.asked == []
        assert (await one.post(PATH, body, **bearer(made["some"])))[0] == 200


class Masks:
    """A plugin that masks what goes to models."""

    name = "masks"

    def __init__(self, *, whole: bool = True) -> None:
        self.whole = whole

    @hookimpl
    def prepare_model_call(self, turn: Turn, request: ModelRequest) -> ModelRequest:
        from dataclasses import replace

        parts = [
            Text(part.text.replace("secret", "***")) if isinstance(part, Text) else part
            for part in request.messages[0].parts
        ]
        message = Message(role="user", parts=tuple(parts if self.whole else parts[:1]))
        return replace(request, messages=(message,))


async def test_what_a_plugin_makes_of_the_texts_is_what_is_sent(tmp_path: Path) -> None:
    upstream = Upstream()
    async with served(tmp_path, upstream, Masks()) as one:
        await one.post(PATH, {"model": "e", "input": ["my secret", [3, 4]], "user": "u"})
        (sent,) = upstream.asked
        assert sent["input"] == ["my ***", [3, 4]]
    upstream = Upstream()
    async with served(tmp_path / "two", upstream, Masks(whole=False)) as one:
        status, answer = await one.post(PATH, {"model": "e", "input": ["secret", "b"]})
        assert (status, "a plugin has made 1" in answer["error"]["message"]) == (400, True)
    assert upstream.asked == []


class Refuses:
    name = "refuses"

    @hookimpl
    def before_model_call(self, turn: Turn, request: ModelRequest) -> Refusal | None:
        return Refusal(code="no", message="not this one") if request.embed else None


async def test_it_is_a_turn_that_plugins_can_refuse(tmp_path: Path) -> None:
    upstream = Upstream()
    async with served(tmp_path, upstream, Refuses()) as one:
        status, answer = await one.post(PATH, {"model": "e", "input": "a"})
        assert (status, "not this one" in answer["error"]["message"]) == (403, True)
    assert upstream.asked == []


class Third(Script):
    """A provider of a third party that makes vectors."""

    async def embed(self, turn: Turn, request: ModelRequest) -> Embedded:
        assert request.embed is not None
        if request.embed.inputs == ("fail",):
            raise ProviderError("overloaded", "too much", retry_after=0)
        return Embedded(vectors=[[1.0]] * len(request.embed.inputs), usage=Usage(input_tokens=3))


class Brings:
    name = "brings"

    def __init__(self, *providers: Any) -> None:
        self.providers = providers

    @hookimpl
    def list_providers(self) -> Any:
        return self.providers


async def test_providers_of_others_can_make_vectors_and_need_not(tmp_path: Path) -> None:
    brings = Brings(Third(name="third"), Script(name="writer"))
    async with served(tmp_path, None, brings) as one:
        _, answer = await one.post(PATH, {"model": "third/x", "input": ["a", "b"]})
        assert [row["embedding"] for row in answer["data"]] == [[1.0], [1.0]]
        assert answer["usage"]["total_tokens"] == 3
        status, answer = await one.post(PATH, {"model": "writer/x", "input": "a"})
        assert (status, "no models that make vectors" in answer["error"]["message"]) == (400, True)
        async with one.http.post(
            one.url + PATH, json={"model": "third/x", "input": "fail"}
        ) as told:
            assert told.status == 503


class Reads:
    name = "reads"

    @hookimpl
    def receive_message(self, turn: Turn, message: Message) -> Message:
        return message.with_texts(lambda text: text.replace("secret", "***"))


async def test_what_a_plugin_makes_of_the_message_is_what_is_sent(tmp_path: Path) -> None:
    upstream = Upstream()
    async with served(tmp_path, upstream, Reads()) as one:
        await one.post(PATH, {"model": "e", "input": ["my secret", [3, 4]]})
    (sent,) = upstream.asked
    assert sent["input"] == ["my ***", [3, 4]]
