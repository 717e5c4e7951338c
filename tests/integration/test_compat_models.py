"""The names of models that a client can send: what they stand for, who answers, what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError
from tests.integration import test_compat
from tests.integration.test_compat import BOTH, CHAT, MESSAGES, NAMES, asked, error_of, text_of
from tests.support.script import Script, Scripted, Step, say, settings
from tests.support.wire import Served, bearer, tokens

from hookgate import ConfigError, Gateway, ProviderError
from hookgate.builtin_plugins.compat.settings import Alias, CompatSettings
from hookgate.core.gateway.serve import listen

OVERLOADED = ProviderError("overloaded", "too much", retry_after=0)
REJECTED = ProviderError("rejected", "not so")
CUT = ProviderError("cut", "it broke off")


@asynccontextmanager
async def served(
    home: Path,
    *,
    a: tuple[Step, ...] = (),
    b: tuple[Step, ...] = (),
    gateway: dict[str, Any] | None = None,
    **compat: Any,
) -> AsyncIterator[tuple[Served, Script, Script]]:
    """A gateway with the providers `a` and `b`."""
    one, two = Script(*a, name="a"), Script(*b, name="b")
    config = settings(
        home,
        agents={"main": {"model": "a/one"}},
        gateway={"port": 0, **(gateway or {})},
        plugin={"compat": compat},
    )
    async with (
        Gateway(config, builtin=NAMES, plugins=[Scripted(one, two)]) as gate,
        listen(gate) as listener,
        aiohttp.ClientSession() as http,
    ):
        yield Served(gate, listener, http), one, two


BOTH_OF_THEM = {"small": {"to": ["a/one", "b/two"]}}


@BOTH
async def test_the_next_model_is_asked_where_one_fails_before_it_says_anything(
    path: str, tmp_path: Path
) -> None:
    steps = ([REJECTED],)
    async with (
        served(tmp_path, a=steps, b=(say("here"),), aliases=BOTH_OF_THEM) as (one, first, second),
        one.http.post(one.url + path, json=asked(path, model="small")) as answer,
    ):
        told = await answer.json()
        assert (answer.status, text_of(path, told), told["model"]) == (200, "here", "small")
        assert answer.headers["x-hookgate-model"] == "b/two"
    assert [str(each.requests[0].model) for each in (first, second)] == ["a/one", "b/two"]


async def test_models_that_agents_and_keys_name_are_listed_though_no_server_lists_them(
    tmp_path: Path,
) -> None:
    section, made = tokens(
        every={"scopes": ["chat"]}, few={"scopes": ["chat"], "models": ["b/own", "b/x*", "no/b"]}
    )
    async with served(tmp_path, gateway=section) as (one, _, _):
        for who, expected in (("every", "a/one"), ("few", "b/own")):
            _, found = await one.get("/v1/models", **bearer(made[who]))
            named = [model["id"] for model in found["data"]]
            assert [name for name in named if not name.startswith("agent/")] == [expected]
            assert (await one.get(f"/v1/models/{expected}", **bearer(made[who])))[0] == 200


@BOTH
async def test_no_other_model_goes_on_with_what_one_has_begun(path: str, tmp_path: Path) -> None:
    torn = ([*say("half")[:1], CUT],)
    async with (
        served(tmp_path, a=torn, b=(say("never"),), aliases=BOTH_OF_THEM) as (one, _, second),
        one.http.post(one.url + path, json=asked(path, model="small", stream=True)) as answer,
    ):
        text = await answer.text()
        assert "half" in text
        assert "never" not in text
        assert answer.headers["x-hookgate-model"] == "a/one"
    assert second.requests == []


async def test_where_all_fail_the_last_failure_is_told(tmp_path: Path) -> None:
    steps: dict[str, tuple[Step, ...]] = {"a": ([REJECTED],), "b": ([REJECTED],)}
    async with served(tmp_path, **steps, aliases=BOTH_OF_THEM) as (one, _, _):
        status, answer = await one.post(CHAT, asked(CHAT, model="small"))
        assert (status, "not so" in error_of(CHAT, answer)["message"]) == (400, True)


async def test_a_key_is_answered_by_those_models_alone_that_it_may_use(tmp_path: Path) -> None:
    section, made = tokens(
        some={"scopes": ["chat"], "models": ["b/*"]}, none={"scopes": ["chat"], "models": ["c/*"]}
    )
    async with served(tmp_path, b=(say("here"),), gateway=section, aliases=BOTH_OF_THEM) as (
        one,
        first,
        _,
    ):
        body = asked(CHAT, model="small")
        status, answer = await one.post(CHAT, body, **bearer(made["some"]))
        assert (status, text_of(CHAT, answer)) == (200, "here")
        status, answer = await one.post(CHAT, body, **bearer(made["none"]))
        assert (status, "may not use" in answer["error"]["message"]) == (403, True)
        _, found = await one.get("/v1/models", **bearer(made["none"]))
        assert found["data"] == []
    assert first.requests == []


async def test_an_unknown_model_is_a_404_with_the_nearest_that_the_key_may_use(
    tmp_path: Path,
) -> None:
    section, made = tokens(
        some={"scopes": ["chat"], "models": ["b/*"]}, all={"scopes": ["chat"], "models": ["*"]}
    )
    aliases = {"gpt-small": "a/one", "gpt-sm": "b/two"}
    async with served(tmp_path, gateway=section, aliases=aliases) as (one, _, _):
        for key, near in (("all", "gpt-small"), ("some", "gpt-sm")):
            for path in (CHAT, MESSAGES):
                body = asked(path, model="gpt-smal")
                status, answer = await one.post(path, body, **bearer(made[key]))
                told = error_of(path, answer)
                assert (status, told["param"]) == (404, "model")
                assert f"did you mean '{near}'?" in told["message"]


async def test_requests_of_one_session_begin_with_one_model(tmp_path: Path) -> None:
    many = tuple(say("x") for _ in range(40))
    aliases = {"small": {"to": ["a/one", "b/two"], "weights": [1, 1]}}
    async with served(tmp_path, a=many, b=many, aliases=aliases) as (one, first, second):
        for number in range(20):
            for _ in range(2):
                headers = {"session-id": f"s{number}"}
                await one.post(CHAT, asked(CHAT, model="small"), headers=headers)
    counts = [len(each.requests) for each in (first, second)]
    assert sum(counts) == 40
    assert all(count % 2 == 0 and count for count in counts)


def test_weights_say_how_often_a_model_comes_first() -> None:
    alias = Alias(to=("a/1", "b/2", "c/3"), weights=(3, 1, 0))
    firsts = [str(alias.models(f"s{number}")[0]) for number in range(2000)]
    assert firsts.count("c/3") == 0
    assert 1400 < firsts.count("a/1") < 1600
    assert {len(set(alias.models(f"s{number}"))) for number in range(20)} == {3}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("one", "match pattern"),
        ({}, "expected `to`"),
        ({"to": []}, "expected `to`"),
        ({"to": ["a/b"], "weights": [1, 2]}, "found 2 weights for 1 models"),
        ({"to": ["a/b"], "weights": [0]}, "not all of them 0"),
        ({"to": ["a/b"], "weights": [-1]}, "greater than or equal to 0"),
        ({"to": ["a/b", "a/b"]}, "twice"),
        ({"to": ["a/b"], "mode": "assist"}, "no `tools` in the mode 'assist'"),
        ({"to": ["a/b"], "tools": ["x"]}, "a `tools` in the mode 'guard'"),
        ({"mode": "agent"}, "no `agent` in the mode 'agent'"),
        ({"to": ["a/b"], "agent": "main"}, "a `agent` in the mode 'guard'"),
    ],
)
def test_an_alias_that_cannot_be_is_named_at_the_start(wrong: Any, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        CompatSettings.model_validate({"aliases": {"small": wrong}})


async def test_a_path_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    async with served(tmp_path, a=(say("here"),), openai="a", off=["messages", "models"]) as (
        one,
        _,
        _,
    ):
        for path in (MESSAGES, f"/anthropic{MESSAGES}"):
            async with one.http.post(one.url + path, json=asked(path)) as answer:
                assert (answer.status, json.loads(await answer.text())["type"]) == (404, "error")
        assert (await one.get("/openai/v1/models"))[0] == 404
        assert (await one.post(CHAT, asked(CHAT)))[0] == 200


# -- aliases of agents ------------------------------------------------------------------


async def test_an_alias_of_an_agent_that_is_not_there_ends_the_start_and_names_the_nearest(
    tmp_path: Path,
) -> None:
    aliases = {"helper": {"mode": "agent", "agent": "mian"}}
    with pytest.raises(ConfigError) as caught:
        async with served(tmp_path, aliases=aliases):
            raise AssertionError("it has started")
    (problem,) = caught.value.problems
    assert (problem.key, problem.nearest) == ("plugin.compat.aliases.helper.agent", "main")
    assert problem.found == "the agent 'mian', which there is not"
    assert problem.expected == "one of main"


async def test_an_alias_of_the_one_agent_that_is_there_without_settings_is_known(
    tmp_path: Path,
) -> None:
    aliases = {"helper": {"mode": "agent", "agent": "main"}}
    async with test_compat.served(tmp_path, say("hi"), plugin={"compat": {"aliases": aliases}}) as (
        one,
        _,
    ):
        status, answer = await one.post(CHAT, {**asked(CHAT), "model": "helper", "tools": []})
        assert (status, text_of(CHAT, answer)) == (200, "hi")
