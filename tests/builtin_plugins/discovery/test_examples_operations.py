from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.builtin_plugins.discovery.lessons import SUCCESS, taught
from tests.builtin_plugins.turns import make_host

from hookgate.builtin_plugins.discovery.learn.examples import Examples
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.settings.secret_store import redact_json

if TYPE_CHECKING:
    from hookgate.core.host import Host


@pytest.fixture
def host() -> Host:
    return make_host()


@pytest.fixture
async def examples(host: Host) -> Examples:
    examples = Examples()
    await examples.open(host)
    await examples.learn(taught("Rain?", "weather", "radar"), SUCCESS)
    await examples.learn(taught("rain?", "weather"), SUCCESS)
    await examples.learn(taught("snow", "weather"), SUCCESS)
    return examples


async def ask(examples: Examples, host: Host, name: str, /, **params: Any) -> dict[str, Any]:
    known = {one.command: one for one in examples.operations()}
    operation = known.get(f"examples {name}") or next(
        one
        for one in examples.operations()
        if one.name == ("examples.import" if name == "import" else "examples.list")
    )
    invocation = Invocation(host=host, principal=Principal.owner())
    result = await operation.handler(invocation, operation.params(**params))
    # As it leaves the gateway.
    masked = redact_json(host.secrets, result.model_dump())
    return dict(type(result).model_validate(masked).model_dump())


def test_an_operator_alone_sees_and_erases() -> None:
    names = {one.name: one.scope for one in Examples().operations()}
    kinds = ("list", "export", "import", "forget")
    assert names == {f"examples.{kind}": "operate" for kind in kinds}


async def test_the_list_shows_all_that_is_kept_the_newest_first(
    examples: Examples, host: Host
) -> None:
    found = await ask(examples, host, "examples")
    assert found["examples"][1] == {
        "scope": "principal:loopback",
        "capability": "tool:weather",
        "text": "Rain?",
        "count": 2,
        "learned": "2024-02-29T12:00:00+00:00",
        "last_used": "2024-02-29T12:00:00+00:00",
        "foreign": False,
    }
    assert [row["text"] for row in found["examples"]] == ["snow", "Rain?", "Rain?"]
    assert (found["total"], found["enabled"], found["durable"]) == (3, True, False)


@pytest.mark.parametrize(
    ("params", "texts", "total"),
    [
        ({"text": "SNOW"}, ["snow"], 1),
        ({"capability": "tool:radar"}, ["Rain?"], 1),
        ({"scope": "principal:loopback", "limit": 1}, ["snow"], 3),
        ({"scope": "gateway"}, [], 0),
        ({"scope": "principal:loopback", "capability": "tool:weather"}, ["snow", "Rain?"], 2),
    ],
)
async def test_the_list_is_filtered(
    params: dict[str, Any], texts: list[str], total: int, examples: Examples, host: Host
) -> None:
    found = await ask(examples, host, "examples", **params)
    assert ([row["text"] for row in found["examples"]], found["total"]) == (texts, total)


async def test_a_secret_that_became_known_later_is_masked(examples: Examples, host: Host) -> None:
    host.secrets.register("snow")
    found = await ask(examples, host, "examples", text="snow")
    assert [row["text"] for row in found["examples"]] == ["***"]


@pytest.mark.parametrize(
    ("params", "left"),
    [
        ({"capability": "tool:weather"}, ["Rain?"]),
        ({"query": "rain?"}, ["snow"]),
        ({"scope": "gateway"}, ["Rain?", "Rain?", "snow"]),
        ({"all": True}, []),
    ],
)
async def test_what_is_erased_is_said_and_gone(
    params: dict[str, Any], left: list[str], examples: Examples, host: Host
) -> None:
    erased = await ask(examples, host, "forget", **params)
    assert erased == {"forgotten": 3 - len(left)}
    assert sorted(examples.of_scope("principal:loopback").texts) == left


@pytest.mark.parametrize("params", [{}, {"all": False}, {"all": True, "query": "rain?"}])
async def test_erasing_has_to_say_what(
    params: dict[str, Any], examples: Examples, host: Host
) -> None:
    with pytest.raises(ValidationError, match="say which examples to erase"):
        await ask(examples, host, "forget", **params)
    assert len(examples.of_scope("principal:loopback").texts) == 3


async def test_what_one_home_has_learned_is_taken_to_another(
    examples: Examples, host: Host
) -> None:
    first = await ask(examples, host, "export", limit=2)
    rest = await ask(examples, host, "export", limit=2, after=first["next"])
    rows = [*first["examples"], *rest["examples"]]
    assert rest["next"] == ""
    assert rows == [
        {"capability": "tool:radar", "text": "Rain?", "count": 1},
        {"capability": "tool:weather", "text": "Rain?", "count": 2},
        {"capability": "tool:weather", "text": "snow", "count": 1},
    ]
    there = Examples()
    await there.open(host)
    await there.learn(taught("snow", "weather"), SUCCESS)
    host.secrets.register("quokka")
    more = [{"capability": "tool:weather", "text": text} for text in ("a quokka", "x" * 501)]
    done = await ask(there, host, "import", examples=[*rows, *more])
    assert done == {"new": 2, "known": 1, "left_out": 2}
    found = (await ask(there, host, "list"))["examples"]
    assert [(row["text"], row["count"], row["foreign"]) for row in found] == [
        ("Rain?", 2, True),
        ("Rain?", 1, True),
        ("snow", 1, False),
    ]
    assert {row["scope"] for row in found} == {"principal:loopback"}


async def test_what_was_imported_counts_as_ones_own_once_it_was_used_well_or_is_trusted(
    host: Host,
) -> None:
    there = Examples()
    await there.open(host)
    rows = [{"capability": "tool:weather", "text": text} for text in ("rain", "snow")]
    await ask(there, host, "import", examples=rows[:1], scope="principal:loopback")
    await ask(there, host, "import", examples=rows[1:], trusted=True)
    before = there.of_scope("principal:loopback")
    assert before.foreign == {0}
    await there.learn(taught("Rain", "weather"), SUCCESS)
    after = there.of_scope("principal:loopback")
    assert (after.foreign, after.version > before.version) == (frozenset(), True)
