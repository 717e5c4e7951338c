from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builtin_plugins.providers.raw import raw_server
from tests.support.script import until

from hookgate import EmbeddingError
from hookgate.builtin_plugins.embedding import onnx, transformer
from hookgate.builtin_plugins.embedding.onnx import TOKENIZER, find_files
from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.transformer import find_transformer
from hookgate.core import runtime
from hookgate.core.domain.errors import MissingKeyError, StartError
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Empty, Invocation
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.ports import EMBEDDER

SERVER = {"url": "http://127.0.0.1:9/v1/embeddings", "model": "m", "dimension": 3}


def gateway(home: Path, *, disabled: tuple[str, ...] = (), **section: Any) -> Gateway:
    settings = {"home": home, "plugins": {"entry_points": False}, "plugin": {"embedding": section}}
    return Gateway(
        Settings.model_validate(settings),
        builtin=("control", "storage", "egress", "embedding", "providers"),
        disabled=disabled,
    )


def embedder(gate: Gateway) -> CachedEmbedder:
    found = gate.host[EMBEDDER]
    assert isinstance(found, CachedEmbedder)
    return found


async def opened(gate: Gateway) -> None:
    async with gate:
        pass


async def asked(gate: Gateway, name: str) -> dict[str, Any]:
    operation = gate.host.operations[name]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    answer = await operation.handler(invocation, Empty())
    assert isinstance(answer, operation.result)
    return dict(answer.model_dump())


async def recorded(gate: Gateway, part: str) -> str:
    """Wait until `part` is degraded, and return why."""
    with gate.host.events.subscribe(scopes=frozenset({"read"})) as events:
        if part not in gate.host.degraded:
            async for event in events:
                if event.type == "degraded" and event.data["part"] == part:
                    break
    return gate.host.degraded[part]


async def test_a_gateway_without_settings_embeds_with_the_installed_model(tmp_path: Path) -> None:
    async with gateway(tmp_path) as gate:
        one = embedder(gate)
        known_before = (one.dimension, one.fingerprint, one.engine.loaded)
        cat, kitten = await one.embed(["cat", "kitten"])
        tax = await one.embed_query("tax")
        assert gate.host.degraded == {}
        assert known_before == (384, one.fingerprint, False)
        assert one.engine.loaded

    assert cat @ kitten > cat @ tax
    with pytest.raises(EmbeddingError, match="the gateway is stopping"):
        await one.embed_query("other")


async def test_the_model_is_loaded_beside_the_turns(tmp_path: Path) -> None:
    async with gateway(tmp_path, load_after_seconds=0.0) as gate:
        loading = [task for task in asyncio.all_tasks() if "embedding model" in task.get_name()]
        # On a busy machine it may be done by now.
        assert loading or embedder(gate).engine.loaded
        await asyncio.gather(*loading)
        assert embedder(gate).engine.loaded


async def test_status_says_that_words_alone_count_until_the_model_is_loaded(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, load_after_seconds=3600.0) as gate:
        assert "by words alone" in gate.host.notices["embedder"]
        assert not embedder(gate).loaded
        await embedder(gate).embed_query("hello")
        assert "embedder" not in gate.host.notices
        assert embedder(gate).loaded


async def test_status_tells_the_model_and_its_cache(tmp_path: Path) -> None:
    async with gateway(tmp_path, load_after_seconds=3600.0) as gate:
        before = await asked(gate, "embedding.status")
        for text in ("hello", "hello", "other"):
            await embedder(gate).embed_query(text)
        after = await asked(gate, "embedding.status")

    assert before == {
        "embedder": "onnx",
        "fingerprint": "onnx:all-MiniLM-L6-v2-int8:8199be6f699a:be50c3628f2b:256:mean",
        "dimension": 384,
        "loaded": False,
        "problem": "",
        "cached": 0,
        "hits": 0,
        "misses": 0,
    }
    assert after == {**before, "loaded": True, "cached": 2, "hits": 1, "misses": 2}


@pytest.mark.slow
async def test_two_gateways_in_one_process_have_two_embedders(tmp_path: Path) -> None:
    async with gateway(tmp_path / "1") as one, gateway(tmp_path / "2", cache_size=1) as two:
        first = await embedder(one).embed_query("hello")
        second = await embedder(two).embed_query("hello")
        assert first is not second
        assert np.array_equal(first, second)
        await embedder(two).embed_query("other")
        assert embedder(two).cached("hello") is None
        assert embedder(one).cached("hello") is first


# -- a model that is not there -------------------------------------------------------


async def test_a_missing_model_starts_and_is_said_in_status(tmp_path: Path) -> None:
    async with gateway(tmp_path, model_path=tmp_path / "nowhere") as gate:
        why = gate.host.status()["degraded"]["embedder"]
        with pytest.raises(EmbeddingError, match=r"model\.onnx cannot be read"):
            await embedder(gate).embed_query("hello")
        turn = await gate.chat("hello")

    assert "nowhere/model.onnx cannot be read: No such file" in why
    assert "search goes by words alone" in why
    assert turn.ending == "done"


async def test_a_missing_model_stops_the_start_where_that_was_asked_for(tmp_path: Path) -> None:
    # A short path: long messages are cut.
    gate = gateway(tmp_path, model_path=Path("/nowhere"), on_missing="refuse")
    with pytest.raises(StartError, match=r"cannot be read.*on_missing"):
        await opened(gate)


async def test_a_damaged_model_stops_the_start_where_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "MINILM_SHA256", "0" * 64)
    with pytest.raises(StartError, match="is damaged, or is another file than expected"):
        await opened(gateway(tmp_path, on_missing="refuse"))


async def test_a_damaged_model_is_said_in_status_as_soon_as_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "MINILM_SHA256", "0" * 64)
    async with gateway(tmp_path, load_after_seconds=0.0) as gate:
        why = await recorded(gate, "embedder")
        assert embedder(gate).engine.problem
        with pytest.raises(EmbeddingError, match="is damaged"):
            await embedder(gate).embed(["a"])

    assert "is damaged, or is another file than expected" in why


async def test_a_file_that_is_no_model_is_said_in_status(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(b"not a model")
    (folder / "tokenizer.json").symlink_to(TOKENIZER)
    async with gateway(tmp_path, model_path=folder, load_after_seconds=0.0) as gate:
        why = await recorded(gate, "embedder")

    assert "cannot be loaded" in why


async def test_sentence_transformers_that_are_not_installed_are_said_in_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer, "find_spec", lambda _: None)
    async with gateway(tmp_path, embedder="sentence-transformers") as gate:
        why = gate.host.degraded["embedder"]

    assert "not installed: sentence_transformers, torch" in why
    assert "extra `sentence-transformers`" in why


async def test_without_an_embedder_nothing_is_degraded_and_the_error_says_why(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, embedder="none") as gate:
        assert gate.host.degraded == {}
        with pytest.raises(EmbeddingError, match='embedder = "none"'):
            await embedder(gate).embed_query("hello")


# -- a server ------------------------------------------------------------------------


async def test_a_server_is_asked_by_the_checked_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-canary-0123456789")
    async with raw_server() as server:

        async def script(wire: Any) -> None:
            body = b'{"data": [{"index": 0, "embedding": [3, 0, 4]}]}'
            await wire.answer(200, body, content_type="application/json")

        server.script = script
        section = {**SERVER, "url": f"{server.url}/embeddings", "api_key_env": "MY_KEY"}
        async with gateway(tmp_path, embedder="openai", **section) as gate:
            vector = await embedder(gate).embed_query("hello")
            again = await embedder(gate).embed_query("hello")
            assert gate.host.degraded == {}
            assert gate.host.secrets.redact("sk-canary-0123456789") == "[redacted]"

    assert np.allclose(vector, [0.6, 0, 0.8])
    assert again is vector
    assert len(server.requests) == 1


async def test_a_server_without_its_key_is_said_in_status(tmp_path: Path) -> None:
    section = {**SERVER, "api_key_env": "HOOKGATE_TEST_NO_SUCH_KEY"}
    async with gateway(tmp_path, embedder="openai", **section) as gate:
        why = gate.host.degraded["embedder"]
        with pytest.raises(EmbeddingError, match="set HOOKGATE_TEST_NO_SUCH_KEY"):
            await embedder(gate).embed(["a"])
    assert "set HOOKGATE_TEST_NO_SUCH_KEY, which `api_key_env` names" in why


async def test_a_key_that_comes_later_or_is_rotated_is_shown_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "SECRETS_SECONDS", 0.01)
    path = tmp_path / "keys" / "my_key"
    path.parent.mkdir(mode=0o700)
    async with raw_server() as server:

        async def script(wire: Any) -> None:
            body = b'{"data": [{"index": 0, "embedding": [3, 0, 4]}]}'
            await wire.answer(200, body, content_type="application/json")

        server.script = script
        section = {**SERVER, "url": f"{server.url}/embeddings", "api_key_env": "my_key"}
        async with gateway(tmp_path, embedder="openai", **section) as gate:
            assert "embedder" in gate.host.degraded
            for key in ("sk-first-0123456789", "sk-second-0123456789"):
                path.write_text(key)
                path.chmod(0o600)
                await until(lambda key=key: getattr(embedder(gate).engine, "key", "") == key)
                assert "embedder" not in gate.host.degraded
                await embedder(gate).embed_query(key)
    shown = [re.findall(r"sk-[\w-]+", head) for head in server.heads]
    assert shown == [["sk-first-0123456789"], ["sk-second-0123456789"]]


async def test_a_server_without_a_way_out_is_said_in_status(tmp_path: Path) -> None:
    async with gateway(tmp_path, embedder="openai", disabled=("egress",), **SERVER) as gate:
        assert "enable the plugin `egress`" in gate.host.degraded["embedder"]


def test_a_server_without_a_way_out_stops_the_start_where_that_was_asked_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(MissingKeyError, match="requires the key 'egress'"):
        gateway(tmp_path, embedder="openai", disabled=("egress",), on_missing="refuse", **SERVER)


def test_the_installed_package_holds_the_model() -> None:
    assert find_files(EmbeddingSettings()).weights.name == "model.onnx"


def test_a_folder_where_one_stands_is_not_taken_for_a_model_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("sentence_transformers", "torch"):
        (tmp_path / "installed" / package).mkdir(parents=True)
    (tmp_path / "cloned" / "somebody" / "model").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path / "installed")
    monkeypatch.chdir(tmp_path / "cloned")
    settings = EmbeddingSettings(
        embedder="sentence-transformers", model="somebody/model", dimension=3
    )
    with pytest.raises(EmbeddingError, match="would be loaded in its place"):
        find_transformer(settings)
    monkeypatch.chdir(tmp_path)
    assert find_transformer(settings).dimension == 3
