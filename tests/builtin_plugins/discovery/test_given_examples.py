"""Example messages that a capability brings: how they are declared, and how they count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builtin_plugins.discovery.folders import manifest, problems, skill, write
from tests.builtin_plugins.discovery.searching import FakeEmbedder, row, snapshot
from tests.builtin_plugins.turns import make_host

from hookgate import Flags, Host, Tool, hookimpl
from hookgate.builtin_plugins.discovery.index import Surroundings
from hookgate.builtin_plugins.discovery.index.engine import SearchEngine
from hookgate.builtin_plugins.discovery.settings import DiscoverySettings
from hookgate.builtin_plugins.discovery.sources.collection import read_catalogue
from hookgate.builtin_plugins.discovery.sources.manifests import read_manifest, read_skill
from hookgate.builtin_plugins.embedding.onnx import OnnxModel, find_files
from hookgate.builtin_plugins.embedding.service import CachedEmbedder
from hookgate.builtin_plugins.embedding.settings import EmbeddingSettings
from hookgate.builtin_plugins.embedding.worker import ThreadEngine
from hookgate.core.domain.descriptors import Capability, ExamplesError, checked_examples
from hookgate.core.domain.errors import HookgateError, ToolDefinitionError
from hookgate.core.domain.turn import Principal
from hookgate.core.gateway.operations import Invocation
from hookgate.core.registry.catalogue import described
from hookgate.core.settings.schema import Settings
from hookgate.gateway import Gateway
from hookgate.kit.tooling import tool

FLOOR = DiscoverySettings().floor


# -- what they must be --------------------------------------------------------


def test_examples_are_kept_once_and_on_one_line() -> None:
    assert checked_examples(["will it\n rain", "will it rain", " how warm "]) == (
        "will it rain",
        "how warm",
    )


@pytest.mark.parametrize(
    ("examples", "said"),
    [
        ("will it rain", "found the examples 'will it rain', expected a list of messages"),
        ([""], "found the example '', expected a message"),
        ([3], "found the example 3, expected a message"),
        (["a\0b"], "expected a message in characters that can be printed"),
        (["x" * 201], "found an example of 201 characters, expected at most 200"),
        ([f"ask {n}" for n in range(9)], "found 9 examples, expected at most 8"),
    ],
)
def test_what_is_no_list_of_messages_is_named(examples: Any, said: str) -> None:
    with pytest.raises(ExamplesError, match=said):
        checked_examples(examples)


def test_a_manifest_a_skill_and_a_catalogue_may_bring_them(tmp_path: Path) -> None:
    lines = "examples: [will it rain, how warm]\n"
    (declared,) = read_manifest(manifest(tmp_path / "a", lines)).found
    assert declared.row.examples == ("will it rain", "how warm")
    listed = "metadata:\n  examples: |-\n    will it rain\n    how warm, and where\n"
    (declared,) = read_skill(skill(tmp_path / "b", listed)).found
    assert declared.row.examples == ("will it rain", "how warm, and where")
    path = write(tmp_path / "c.yaml", "- {name: x, description: y, examples: [a gif]}\n")
    (declared,) = read_catalogue(path).found
    assert declared.row.examples == ("a gif",)


def test_what_is_wrong_with_one_is_named_by_file_line_and_key(tmp_path: Path) -> None:
    path = manifest(tmp_path / "a", f"examples:\n- fine\n- {'x' * 201}\n")
    assert problems(read_manifest(path)) == [
        f"{path}:6:3: `examples[1]`: found an example of 201 characters, expected at most 200"
    ]
    path = manifest(tmp_path / "b", "examples: will it rain\n")
    assert "expected a list of messages" in problems(read_manifest(path))[0]
    many = "".join(f"    ask {number}\n" for number in range(9))
    path = skill(tmp_path / "c", f"metadata:\n  examples: |-\n{many}")
    (said,) = problems(read_skill(path))
    assert "`metadata.examples`: found 9 examples, expected at most 8" in said


def weather(city: str) -> str:
    """Look at the sky.

    Args:
        city: Where.
    """
    return city


def test_a_tool_may_bring_them_however_it_is_made() -> None:
    made = tool(weather, flags=Flags.none(), examples=["will  it rain", "how warm is it"])
    assert made.examples == ("will it rain", "how warm is it")
    with pytest.raises(ToolDefinitionError, match=r"weather.*found 9 examples"):
        tool(weather, flags=Flags.none(), examples=[str(number) for number in range(9)])
    host = make_host()
    own: Any = ["will it rain"]
    plain = Tool(name="plain", description="x", schema=made.schema, run=made.run, examples=own)
    host.tools.apply("mine", [plain])
    own.append("ignore all of it")
    assert host.tools.view()["plain"].examples == ("will it rain",)
    long = Tool(name="l", description="x", schema={}, run=made.run, examples=("x" * 201,))
    with pytest.raises(HookgateError, match="found an example of 201 characters"):
        host.tools.apply("mine", [long])


def test_a_capability_of_a_plugin_is_held_to_the_same() -> None:
    host = make_host()
    listed: Any = ["a", "b"]
    host.capabilities.apply("mine", [Capability(id="x", kind="skill", name="x", examples=listed)])
    assert host.capabilities.view()["x"].examples == ("a", "b")
    many = tuple(str(number) for number in range(9))
    with pytest.raises(HookgateError, match="capability 'y': found 9 examples"):
        row_ = Capability(id="y", kind="skill", name="y", examples=many)
        host.capabilities.apply("mine", [row_])


def test_what_describes_a_tool_adds_its_examples_in_front_and_no_more_than_eight_stay() -> None:
    own = row("a", examples=tuple(f"own {number}" for number in range(5)))
    said = row("a", examples=tuple(f"said {number}" for number in range(5)))
    merged = described(own, said).examples
    assert merged == (*said.examples, "own 0", "own 1", "own 2")


# -- how they count -----------------------------------------------------------

ROWS = [
    row("outside", "Look ahead for a place.", examples=("do I need an umbrella", "wellies or not")),
    row("mail", "Send a letter to somebody.", examples=("tell my aunt about it",)),
    row("pages", "Fetch a page."),
]


async def found(
    rows: Sequence[Capability], text: str, *, embedder: Any = None, floor: float = 0.0
) -> list[tuple[str, float]]:
    engine = SearchEngine(Surroundings(embedder=lambda: embedder))
    await engine.ready(snapshot(rows))
    came = await engine.find(snapshot(rows), text, limit=5, floor=floor)
    assert came.dense == (embedder is not None)
    await engine.close()
    return [(one.row.name, one.relevance) for one in came.found]


async def test_a_message_like_an_example_finds_its_capability_by_meaning() -> None:
    came = await found(ROWS, "need an umbrella?", embedder=FakeEmbedder())
    assert came[0][0] == "outside"
    bare = [row("outside", "Look ahead for a place."), *ROWS[1:]]
    assert [name for name, _ in await found(bare, "need an umbrella?", floor=FLOOR)] == []


async def test_a_message_like_an_example_finds_its_capability_by_words_alone() -> None:
    assert (await found(ROWS, "umbrella, do I need one", floor=FLOOR))[0][0] == "outside"
    assert await found(ROWS, "umbrella stands for shops", floor=FLOOR) == []


async def test_an_index_that_was_saved_holds_them(tmp_path: Path) -> None:
    model, path = FakeEmbedder(), tmp_path / "index.npz"
    for texts in ({"do I need an umbrella", "wellies or not", "tell my aunt about it"}, set()):
        engine = SearchEngine(Surroundings(embedder=lambda: model, path=path))
        await engine.ready(snapshot(ROWS))
        assert {one for row_ in ROWS for one in row_.examples} & set(model.texts) == texts
        model.texts.clear()
        came = await engine.find(snapshot(ROWS), "need an umbrella", limit=1)
        assert came.found[0].row.name == "outside"
        await engine.close()


async def test_of_two_that_bring_the_same_the_operators_own_comes_first() -> None:
    greedy = row("anything", "Does it.", whose="foreign", examples=ROWS[0].examples)
    for embedder in (FakeEmbedder(), None):
        came = await found([greedy, *ROWS], "do I need an umbrella", embedder=embedder)
        assert came[0][0] == "outside"


GREETINGS = (
    "hello",
    "thank you",
    "how are you",
    "okay",
    "good evening",
    "what do you think",
    "please help me",
    "can you do something for me",
)


async def test_small_talk_given_as_examples_finds_nothing_by_words() -> None:
    greedy = row("greedy", "Does it.", whose="foreign", examples=GREETINGS)
    for text in (*GREETINGS, "hello, how are you?"):
        assert await found([greedy, *ROWS], text, floor=FLOOR) == []


def minilm() -> CachedEmbedder:
    model = OnnxModel(find_files(EmbeddingSettings()))
    worker = ThreadEngine(model, failed=lambda why: pytest.fail(why))
    return CachedEmbedder(worker, kind="onnx", cache_size=64)


@pytest.mark.slow
async def test_a_capability_with_greedy_examples_pushes_nobody_out() -> None:
    greedy = row("greedy", "Does all sorts of things.", whose="foreign", examples=GREETINGS)
    rows = [greedy, row("letters", "Write an email or a letter."), row("sums", "Add up numbers.")]
    embedder = minilm()
    for text in ("hello there", "thanks a lot", "how do you feel today", "good evening"):
        assert await found(rows, text, embedder=embedder, floor=FLOOR) == [], text
    for text, wanted in (
        ("please help me write an email to my landlord", "letters"),
        ("can you add up these numbers for me", "sums"),
    ):
        came = await found(rows, text, embedder=embedder, floor=FLOOR)
        assert came[0][0] == wanted, came
    await embedder.close()


# -- through a gateway --------------------------------------------------------


class Umbrellas:
    """A plugin like anybody's, whose tool is found by what people say."""

    @hookimpl
    def list_tools(self, host: Host) -> list[Tool]:
        del host
        said = ["do I need an umbrella", "shall I take my wellies"]
        return [tool(weather, flags=Flags.none(), examples=said)]


async def ask(gate: Gateway, name: str, **params: Any) -> Mapping[str, Any]:
    operation = gate.host.operations[name]
    invocation = Invocation(host=gate.host, principal=Principal.owner())
    made = await operation.handler(invocation, operation.params(**params))
    return dict(made.model_dump())


async def test_a_tool_of_a_plugin_is_found_shown_and_not_taken_for_learned(tmp_path: Path) -> None:
    config = Settings.model_validate({"home": tmp_path, "plugins": {"entry_points": False}})
    builtin = ("control", "storage", "discovery")
    async with Gateway(config, builtin=builtin, plugins=[Umbrellas()]) as gate:
        came = await ask(gate, "discovery.discover", query="need an umbrella?")
        assert [one["id"] for one in came["found"]] == ["tool:weather"]
        # They are for the search alone: what a model reads holds none of them.
        assert "wellies" not in "".join(tier["text"] for tier in came["tiers"])
        shown = await ask(gate, "capabilities.show", id="tool:weather")
        assert shown["examples"] == ("do I need an umbrella", "shall I take my wellies")
        assert (await ask(gate, "discovery.examples"))["total"] == 0
        assert (await ask(gate, "discovery.forget", all=True))["forgotten"] == 0
        came = await ask(gate, "discovery.discover", query="need an umbrella?")
        assert [one["id"] for one in came["found"]] == ["tool:weather"]
