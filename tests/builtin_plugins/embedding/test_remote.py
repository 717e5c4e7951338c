from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest
from tests.builtin_plugins.providers.raw import RawServer, Wire, raw_server

from hookgate import EmbeddingError
from hookgate.builtin_plugins.egress.service import CheckedEgress
from hookgate.builtin_plugins.embedding.remote import RemoteEngine
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings

KEY = "sk-canary-0123456789"


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with raw_server() as one:
        yield one


@pytest.fixture(scope="module")
def egress() -> CheckedEgress:
    return CheckedEgress()


@pytest.fixture
async def make(server: RawServer, egress: CheckedEgress) -> AsyncIterator[Callable[..., Any]]:
    made: list[RemoteEngine] = []

    def build(*, reach: Any = egress, key: str = KEY, **settings: Any) -> RemoteEngine:
        values = EmbeddingSettings.model_validate(
            {
                "embedder": "openai",
                "url": f"{server.url}/embeddings",
                "model": "tiny",
                "dimension": 3,
                "batch_texts": 2,
                **settings,
            }
        )
        engine = RemoteEngine(values, egress=lambda: reach, key=key, redact=str)
        made.append(engine)
        return engine

    yield build
    for engine in made:
        await engine.close()


def answering(server: RawServer, body: Any, status: int = 200, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def script(wire: Wire) -> None:
        await wire.answer(status, data, content_type="application/json", **headers)

    server.script = script


def row(*numbers: Any, **more: Any) -> dict[str, Any]:
    return {"object": "embedding", "embedding": list(numbers), **more}


def embedding_server(server: RawServer) -> None:
    """Answer as OpenAI's does, the last text first: the index tells whose vector it is."""

    async def script(wire: Wire) -> None:
        texts = server.requests[-1]["input"]
        rows = [row(len(text), 0, 4, index=place) for place, text in enumerate(texts)]
        body = {"object": "list", "data": rows[::-1], "model": "tiny"}
        await wire.answer(200, json.dumps(body).encode(), content_type="application/json")

    server.script = script


async def test_texts_are_sent_in_batches_and_vectors_come_in_their_order(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    embedding_server(server)
    made = await make().embed(["aaa", "", "a\ud800"])

    assert [request["input"] for request in server.requests] == [["aaa", ""], ["a?"]]
    assert server.requests[0]["model"] == "tiny"
    assert server.requests[0]["encoding_format"] == "float"
    assert all(f"authorization: bearer {KEY}" in head.lower() for head in server.heads)
    assert made.dtype == np.float32
    assert np.allclose(made[0], [0.6, 0, 0.8])
    assert np.allclose(made[1], [0, 0, 1])
    assert np.allclose(np.linalg.norm(made, axis=1), 1)


async def test_a_query_is_one_vector_and_no_text_is_no_request(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    embedding_server(server)
    engine = make(key="")

    assert (await engine.embed([])).shape == (0, 3)
    assert server.requests == []
    assert np.allclose((await engine.read("aaa")).vector, [0.6, 0, 0.8])
    assert "authorization" not in server.heads[0].lower()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "it is no JSON"),
        (b'{"data": [{"embedding": [NaN, 1, 1]}]}', "it is no JSON"),
        ([], "found no list `data`"),
        ({"data": {}}, "found no list `data`"),
        ({"data": []}, "found 0 vectors, expected 1"),
        ({"data": [row(1, 2, 3), row(1, 2, 3)]}, "found 2 vectors, expected 1"),
        ({"data": [[1, 2, 3]]}, "found no object in `data"),
        ({"data": [row(1, 2)]}, "found a vector of 2 numbers, expected 3"),
        ({"data": [row(1, 2, 3, 4)]}, "found a vector of 4 numbers, expected 3"),
        ({"data": [row(1, None, 3)]}, "expected a list of numbers"),
        ({"data": [row(1, "2", 3)]}, "expected a list of numbers"),
        ({"data": [row(True, 2, 3)]}, "expected a list of numbers"),
        ({"data": [{"embedding": "AAAA"}]}, "expected a list of numbers"),
        ({"data": [row(0, 0, 0)]}, "a vector without a direction"),
        (b'{"data": [{"embedding": [1e308, 1e308, 1e308]}]}', "a vector without a direction"),
        ({"data": [row(1, 2, 3, index=1)]}, "found the index 1"),
        ({"data": [row(1, 2, 3, index="0")]}, "found the index '0'"),
    ],
)
async def test_what_is_no_answer_is_refused(
    server: RawServer, make: Callable[..., RemoteEngine], body: Any, said: str
) -> None:
    answering(server, body)
    with pytest.raises(EmbeddingError, match=said) as caught:
        await make().embed(["a"])
    assert not caught.value.transient


async def test_an_index_that_comes_twice_is_refused(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    answering(server, {"data": [row(1, 2, 3, index=0), row(1, 2, 3, index=0)]})
    with pytest.raises(EmbeddingError, match="one index twice"):
        await make().embed(["a", "b"])


async def test_a_server_that_is_busy_says_when_to_come_again(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    answering(server, {"error": {"message": "slow down"}}, 429, retry_after="7")
    with pytest.raises(EmbeddingError, match=r"HTTP 429: slow down \(asks to wait 7 s\)") as caught:
        await make().read("a")
    assert (caught.value.transient, caught.value.retry_after) == (True, 7.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize("wait", ["Wed, 99 Oct 2026 07:28:00 GMT", "nan", "inf", ""])
async def test_a_wait_that_is_none_is_passed_over(
    server: RawServer, make: Callable[..., RemoteEngine], wait: str
) -> None:
    answering(server, b"", 503, retry_after=wait)
    with pytest.raises(EmbeddingError, match="HTTP 503") as caught:
        await make().read("a")
    assert (caught.value.transient, caught.value.retry_after) == (True, None)


@pytest.mark.parametrize("wait", ["9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_a_wait_is_a_day_at_most_also_where_it_is_a_date(
    server: RawServer, make: Callable[..., RemoteEngine], wait: str
) -> None:
    answering(server, b"", 503, retry_after=wait)
    with pytest.raises(EmbeddingError, match="HTTP 503") as caught:
        await make().read("a")
    assert (caught.value.transient, caught.value.retry_after) == (True, 86_400.0)


async def test_a_key_that_is_refused_is_named_and_never_shown(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    answering(server, {"error": {"message": f"the key {KEY} is unknown"}}, 401)
    with pytest.raises(EmbeddingError, match="api_key_env") as caught:
        await make().read("a")
    assert KEY not in str(caught.value)
    assert "[redacted]" in str(caught.value)
    assert not caught.value.transient


async def test_redirects_are_not_followed(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    answering(server, b"", 302, location="http://127.0.0.1:9/other")
    with pytest.raises(EmbeddingError, match="HTTP 302"):
        await make().read("a")


async def test_a_server_that_is_gone_is_a_failure_that_may_pass(
    make: Callable[..., RemoteEngine],
) -> None:
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    with pytest.raises(EmbeddingError, match="did not answer") as caught:
        await make(url=f"http://127.0.0.1:{port}/embeddings").read("a")
    assert caught.value.transient


async def test_a_server_that_is_silent_is_left_after_the_limit(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    async def silent(_: Wire) -> None:
        await asyncio.Event().wait()

    server.script = silent
    with pytest.raises(EmbeddingError, match="did not answer") as caught:
        await make(timeout_seconds=0.2).read("a")
    assert caught.value.transient


async def test_without_a_way_out_it_says_which_plugin_is_missing(
    make: Callable[..., RemoteEngine],
) -> None:
    with pytest.raises(EmbeddingError, match="enable the plugin `egress`"):
        await make(reach=None).read("a")


async def test_the_fingerprint_names_server_model_and_dimension(
    server: RawServer, make: Callable[..., RemoteEngine]
) -> None:
    assert make().fingerprint == f"openai:{server.url}/embeddings:tiny:3"
    assert make().fingerprint != make(dimension=4).fingerprint
