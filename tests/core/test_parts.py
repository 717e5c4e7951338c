"""Results of tools and messages that hold more than text."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.script import Allow, Events, Script, Scripted, Tools, call, echo_tool, say
from tests.support.script import gateway as started

from hookgate import Audio, Document, Image, Link, Message, ModelInfo, Text, ToolResult, hookimpl
from hookgate.core.domain.descriptors import Flags
from hookgate.core.domain.messages import ToolResultPart, new_id
from hookgate.core.domain.parts import Content, content_from_json, content_to_json, wrong_in_content
from hookgate.core.domain.ports import CONVERSATIONS
from hookgate.core.domain.turn import Turn

SECRET = "s3cret-of-the-tests"


def b64(data: bytes) -> str:
    return b64encode(data).decode()


PICTURE = Image(media_type="image/png", data=b64(b"\x89PNG a picture"))
SOUND = Audio(media_type="audio/wav", data=b64(b"RIFF a sound"))
PAPER = Document(media_type="application/pdf", data=b64(b"%PDF a paper"), name="paper.pdf")
PAGE = Link(uri="https://example.com/a", name="A", description="The page.")

texts = st.text(st.characters(exclude_categories=["Cs"]))
base64 = st.binary(min_size=1, max_size=40).map(b64)
parts = st.one_of(
    st.builds(Text, texts),
    st.builds(Image, media_type=st.just("image/png"), data=base64),
    st.builds(Audio, media_type=st.just("audio/mpeg"), data=base64),
    st.builds(Document, media_type=st.just("text/plain"), data=base64, name=texts),
    st.builds(Link, uri=texts, name=texts, description=texts, media_type=texts),
)
contents: st.SearchStrategy[Content] = texts | st.lists(parts, max_size=5).map(tuple)


@given(contents)
def test_content_comes_back_from_json_as_it_was(content: Content) -> None:
    assert wrong_in_content(content) == ""
    assert content_from_json(json.loads(json.dumps(content_to_json(content)))) == content


@given(st.lists(parts, max_size=4), contents)
def test_messages_come_back_from_json_as_they_were(said: list[Any], content: Content) -> None:
    result = ToolResultPart(tool_use_id="1", content=content, is_error=True)
    message = Message(role="tool", parts=(*said, result))
    assert Message.from_json(json.loads(json.dumps(message.to_json()))) == message


def test_row_of_an_earlier_version_is_read() -> None:
    row = {
        "role": "tool",
        "parts": [{"type": "tool_result", "tool_use_id": "1", "content": "4", "is_error": False}],
        "id": "msg_1",
        "created": "2026-01-01T00:00:00+00:00",
    }
    (part,) = Message.from_json(row).tool_results
    assert (part.content, part.text) == ("4", "4")
    assert Message.from_json(row).to_json()["parts"][0]["content"] == "4"


def test_part_of_a_later_version_is_named() -> None:
    with pytest.raises(ValueError, match="unknown type 'hologram'"):
        content_from_json([{"type": "hologram"}])


def test_text_names_what_is_none() -> None:
    result = ToolResult(content=(Text("Here:"), PICTURE, PAPER, PAGE))
    assert result.text.splitlines() == [
        "Here:",
        "[an image (image/png, 14 bytes)]",
        "[a document 'paper.pdf' (application/pdf, 12 bytes)]",
        "[A](https://example.com/a) The page.",
    ]


def test_list_of_parts_is_kept_as_one_that_cannot_change() -> None:
    given = [Text("a")]
    result = ToolResult(content=given)  # type: ignore[arg-type]
    given.append(Text("b"))
    assert result.content == (Text("a"),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (5, "of type int"),
        (("a",), "holds a str"),
        ((Text(5),), "something else than text"),  # type: ignore[arg-type]
        ((Image(media_type="image/png\n", data="aGk="),), "media of type"),
        ((Image(media_type="image/png", data="a picture"),), "no base64"),
        ((Image(media_type="image/png", data=""),), "no base64"),
    ],
)
def test_content_that_is_none_is_named(content: Any, said: str) -> None:
    assert said in wrong_in_content(content)


# -- in a turn -----------------------------------------------------------------------


class Shows:
    """A plugin whose tool returns what a test wants, for models that read what it says."""

    def __init__(self, *content: Any, **flags: bool) -> None:
        async def run(turn: Turn, arguments: Mapping[str, Any]) -> ToolResult:
            return ToolResult(content=content)

        tool = echo_tool("show", run=run, flags=Flags(**flags) if flags else Flags.none())
        self.script = Script(call(("c1", "show", {"text": ""})), say("seen"))
        self.plugins = (Scripted(self.script), Allow(), Tools(tool))

    @property
    def result(self) -> ToolResultPart:
        (part,) = self.script.requests[-1].messages[-1].tool_results
        return part


async def test_parts_of_a_result_reach_the_model_the_client_and_the_store() -> None:
    shows, events = Shows(Text("Here:"), PICTURE, SOUND, PAPER), Events()
    async with started(*shows.plugins) as gate:
        turn = await gate.chat("go", sink=events)
        kept = await gate.host[CONVERSATIONS].history(turn.session, turns=1)
    assert shows.result.content == (Text("Here:"), PICTURE, SOUND, PAPER)
    (told,) = events.of("tool_result")
    assert told["content"].startswith("Here:\n[an image (image/png")
    assert [part["type"] for part in told["parts"]] == ["text", "image", "audio", "document"]
    assert told["parts"][1]["data"] == PICTURE.data
    (part,) = next(item for item in kept if item.role == "tool").tool_results
    assert part.content == shows.result.content


async def test_plain_result_is_told_as_before() -> None:
    script = Script(call(("c1", "echo", {"text": "hi"})), say("ok"))
    events = Events()
    async with started(Scripted(script), Allow(), Tools(echo_tool())) as gate:
        await gate.chat("go", sink=events)
    (told,) = events.of("tool_result")
    assert told["content"] == "hi"
    assert "parts" not in told


async def test_parts_that_a_model_does_not_read_are_named_in_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shows = Shows(Text("Here:"), PICTURE, SOUND, PAPER, PAGE)
    monkeypatch.setattr(Script, "models", lambda _: [ModelInfo(name="*", documents=True)])
    async with started(*shows.plugins) as gate:
        await gate.chat("go")
    text, picture, sound, paper, page = shows.result.content
    assert (text, paper) == (Text("Here:"), PAPER)
    assert isinstance(picture, Text) and "image/png, 14 bytes): " in picture.text
    assert picture.text.endswith("reads no images]")
    assert isinstance(sound, Text) and "hears no audio" in sound.text
    assert page == Text("[A](https://example.com/a) The page.")


async def test_model_that_reads_only_text_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Document(media_type="text/plain", data=b64("Grüße".encode()), name="note.txt")
    shows = Shows(Text("Here:"), PICTURE, note)
    monkeypatch.setattr(Script, "models", lambda _: [ModelInfo(name="*")])
    async with started(*shows.plugins) as gate:
        await gate.chat("go")
    content = shows.result.content
    assert isinstance(content, str)
    assert content.startswith("Here:\n[left out: an image") and content.endswith("Grüße")


async def test_result_of_parts_is_tainted_as_a_whole() -> None:
    shows = Shows(PICTURE, reads_external_data=True)
    async with started(*shows.plugins) as gate:
        await gate.chat("go")
    assert shows.result.taint == {"tool:show"}


async def test_secrets_are_masked_in_every_text_of_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Link(uri=f"https://example.com/?key={SECRET}", name=SECRET, description=SECRET)
    note = Document(media_type="text/plain", data=b64(f"key: {SECRET}".encode()), name=SECRET)
    shows, events = Shows(Text(f"key: {SECRET}"), link, note), Events()
    async with started(*shows.plugins) as gate:
        gate.host.secrets.register(SECRET)
        await gate.chat("go", sink=events)
    assert SECRET not in repr(shows.result)
    assert SECRET not in repr(events.of("tool_result"))
    assert b64(SECRET.encode())[:12] not in repr(shows.result)


async def test_long_texts_are_cut_together_and_large_media_left_out() -> None:
    shows = Shows(Text("a" * 300), PICTURE, Text("b" * 300), Text("c"), PAPER)
    limits = {"result_tokens": 100, "result_media_bytes": 20}
    async with started(*shows.plugins, context=limits) as gate:
        await gate.chat("go")
    first, picture, second, paper = shows.result.content
    assert (first, picture) == (Text("a" * 300), PICTURE)
    assert isinstance(second, Text) and second.text.startswith("b" * 100 + "\n[cut here: the ")
    # What is behind the cut is not shown, but what is no text is named.
    assert isinstance(paper, Text) and "'paper.pdf'" in paper.text
    assert "at most 6 bytes" in paper.text


async def test_result_that_is_no_content_is_an_error_result() -> None:
    shows = Shows(Image(media_type="image/png", data="no base64!"))
    async with started(*shows.plugins) as gate:
        await gate.chat("go")
    assert shows.result.is_error
    assert "whose data is no base64" in shows.result.text


class Blur:
    """A plugin that takes the pictures out of results."""

    name = "blur"

    @hookimpl
    def after_tool_call(self, result: ToolResult) -> ToolResult | None:
        if isinstance(result.content, str):
            return None
        kept = tuple(part for part in result.content if not isinstance(part, Image))
        return ToolResult(content=kept)


async def test_plugin_may_change_the_parts_of_a_result() -> None:
    shows = Shows(Text("Here:"), PICTURE)
    async with started(*shows.plugins, Blur()) as gate:
        await gate.chat("go")
    assert shows.result.content == "Here:"


def test_ids_grow_and_no_two_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for millisecond in range(100):
        monkeypatch.setattr(
            time, "time_ns", lambda ms=millisecond: 1_772_442_000_000_000_000 + ms * 1_000_000
        )
        made.append({new_id("call") for _ in range(10)})
    assert sum(map(len, made)) == len(set().union(*made)) == 1000
    assert all(max(before) < min(after) for before, after in pairwise(made))
    assert all(re.fullmatch(r"call_[0-9a-f]{32}", one) for ids in made for one in ids)
