"""Saying an answer by a channel: features, splitting, and the channel for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.examples import examples

from hookgate import Address, ChannelError, HookFailure, Image, Link, Text, hookimpl
from hookgate.channels import deliver, split
from hookgate.kit.testing.channel import MemoryChannel
from hookgate.kit.testing.gateway import started
from hookgate.kit.testing.model import ScriptedModel, say

ADA = Address("memory_channel", "local", "ada")
PICTURE = Image(media_type="image/png", data="aGk=")

words = st.text("abcdefgh.,é漢😀", min_size=1, max_size=24)
spaces = st.sampled_from([" ", " ", " ", "\n", "\n\n", "\t"])
prose = st.lists(st.tuples(words, spaces), max_size=60).map(
    lambda pairs: "".join(word + space for word, space in pairs)
)
code = st.lists(words, max_size=12).map(lambda lines: "```python\n" + "\n".join(lines) + "\n```\n")
markdown = st.lists(prose | code, max_size=6).map("\n".join)


@given(prose, st.integers(32, 120))
def test_pieces_fit_and_hold_every_word_whole_and_in_order(text: str, most: int) -> None:
    pieces = split(text, most, markdown=False)
    assert all(len(piece) <= most for piece in pieces)
    assert [word for piece in pieces for word in piece.split()] == text.split()


@examples(300)
@given(markdown, st.integers(48, 160))
def test_every_piece_closes_the_code_that_it_opens(text: str, most: int) -> None:
    pieces = split(text, most)
    for piece in pieces:
        assert len(piece) <= most
        assert sum(line.startswith("```") for line in piece.split("\n")) % 2 == 0
    said = [word for piece in pieces for word in piece.split() if not word.startswith("```")]
    assert said == [word for word in text.split() if not word.startswith("```")]


@given(st.text("a`~ \n", max_size=200), st.integers(32, 60))
def test_whatever_is_split_fits_and_comes_to_an_end(text: str, most: int) -> None:
    assert all(0 < len(piece) <= most for piece in split(text, most))


def test_text_is_split_between_paragraphs_then_lines_then_words() -> None:
    assert split("one two three\n\nfour five six seven eight", 32) == [
        "one two three",
        "four five six seven eight",
    ]
    assert split("a b c d e f\ng h i j k l m n o p q r s", 32) == [
        "a b c d e f",
        "g h i j k l m n o p q r s",
    ]
    assert split("w" * 70, 32) == ["w" * 32, "w" * 32, "w" * 6]


def test_code_goes_into_the_next_piece_whole_where_it_fits() -> None:
    text = "Some words before it all.\n```sh\nls\ncd\npwd\n```"
    assert split(text, 40) == ["Some words before it all.", "```sh\nls\ncd\npwd\n```"]


def test_code_that_is_too_long_is_closed_and_opened_again() -> None:
    text = "```python\n" + "\n".join(f"line_{n}()" for n in range(9)) + "\n```"
    pieces = split(text, 48)
    assert len(pieces) > 2
    assert all(piece.startswith("```python\n") and piece.endswith("\n```") for piece in pieces)


def test_short_and_blank_texts() -> None:
    assert split("hi", 32) == ["hi"]
    assert split(" \n", 32) == []
    assert split("x" * 5000, 0) == ["x" * 5000]
    with pytest.raises(ValueError, match="at least 32"):
        split("x" * 50, 10)


async def test_answer_is_delivered_as_the_channel_can_show_it() -> None:
    content = (Text("Here:"), PICTURE, Link(uri="https://example.com/a", name="A"))
    plain = MemoryChannel(max_length=60)
    assert await deliver(plain, ADA, content, thread="m1") == ["ada-1", "ada-2"]
    assert list(plain.messages.values()) == [
        "Here:\n[an image (image/png, 2 bytes)]",
        "[A](https://example.com/a)",
    ]
    assert plain.threads == {}
    rich = MemoryChannel(images=True, threads=True)
    await deliver(rich, ADA, content, thread="m1")
    assert list(rich.messages.values()) == ["Here:", (PICTURE,), "[A](https://example.com/a)"]
    assert set(rich.threads.values()) == {"m1"}


async def test_message_that_is_not_sent_is_an_error_and_the_rest_is_not_sent() -> None:
    channel = MemoryChannel(max_length=32)
    channel.fails = True
    with pytest.raises(ChannelError) as caught:
        await deliver(channel, ADA, "one two three " * 10)
    assert caught.value.transient
    assert channel.messages == {}


async def test_message_is_changed_where_the_channel_can() -> None:
    channel = MemoryChannel(edit=True)
    (sent,) = await deliver(channel, ADA, "thinking")
    await channel.edit(ADA, sent, "done")
    assert channel.messages == {sent: "done"}
    with pytest.raises(ChannelError, match="cannot change"):
        await channel.edit(ADA, "nothing", "x")


async def test_person_is_answered_by_the_channel_that_they_wrote_by(tmp_path: Path) -> None:
    answer = "A long answer, with many words in it. " * 4
    channel = MemoryChannel(max_length=80)
    model = ScriptedModel(say(answer))
    async with started(channel, home=tmp_path, model=model) as gate:
        ids = await channel.hear("hello")
        assert set(gate.host.channels) == {"memory_channel"}
    assert len(ids) == 2
    assert " ".join(map(str, channel.messages.values())).split() == answer.split()
    assert model.requests[-1].messages[-1].provenance.value == "channel"


class Half:
    """Brings a channel that can say nothing, and hears what becomes of it."""

    name = "half"

    def __init__(self) -> None:
        self.failures: list[HookFailure] = []

    @hookimpl
    def list_channels(self) -> Any:
        return [type("Half", (), {"name": "half", "sandboxed": False})()]

    @hookimpl
    def hook_failed(self, failure: HookFailure) -> None:
        self.failures.append(failure)


async def test_channel_that_cannot_send_is_left_out_and_told(tmp_path: Path) -> None:
    half = Half()
    async with started(half, home=tmp_path, model=ScriptedModel(say("hi"))) as gate:
        assert gate.host.channels == {}
    (failure,) = half.failures
    assert (failure.hook, failure.plugin) == ("list_channels", "half")
    assert "expected Channel" in failure.message
