"""The most tokens that a request can be billed for."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin_plugins.providers.requests_made import FULL, SHOWN, request, user
from tests.support.script import Script, Scripted, gateway, say

from hookgate import Document, Image, ModelInfo, input_bound, upper_bound
from hookgate.builtin_plugins.providers.anthropic import AnthropicWire
from hookgate.builtin_plugins.providers.openai import OpenAIWire
from hookgate.core.domain.messages import Message, ToolUse
from hookgate.core.domain.models import (
    ModelRef,
    ModelRequest,
    SystemText,
)
from hookgate.core.host import QuarterTokens
from hookgate.core.turn.context import message_tokens
from hookgate.core.turn.tools.offer import schema_tokens
from hookgate.kit.tokens.bounds import picture_size, sizes_of, tiles

COUNTER = QuarterTokens()
ODD = "\U0001f600\U0001f469\u200d\U0001f467\u6f22\u5b57\u30ab\ud55c\ufdfa\u0301"
"""Emoji, one of them joined of several, CJK, a ligature of 18 letters, an accent by itself."""
ANY = st.text(st.characters(exclude_categories=["Cs"])) | st.text(ODD, max_size=200)


def png(width: int, height: int) -> Image:
    header = struct.pack(">II", width, height) + b"\x08\x06\0\0\0"
    chunk = b"IHDR" + header
    body = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk
    body += struct.pack(">I", zlib.crc32(chunk))
    return Image(media_type="image/png", data=b64encode(body).decode())


def counted(made: ModelRequest) -> int:
    return (
        sum(COUNTER.count(piece.text) for piece in made.system)
        + sum(message_tokens(message, COUNTER) for message in made.messages)
        + schema_tokens(made.tools, COUNTER)
    )


@given(st.lists(ANY, max_size=4), ANY)
def test_bound_is_never_below_the_count(texts: list[str], system: str) -> None:
    made = request(*map(user, texts), system=(SystemText(text=system),))
    assert upper_bound(made) >= counted(made)


@pytest.mark.parametrize("made", [FULL, SHOWN])
def test_bound_of_everything_that_a_request_can_hold_is_above_the_count(made: ModelRequest) -> None:
    assert upper_bound(made) >= counted(made)


@given(ANY)
def test_text_has_at_most_a_token_for_each_byte(text: str) -> None:
    plain, more = request(user("")), request(user(text))
    assert upper_bound(more) - upper_bound(plain) == len(text.encode())


@given(ANY)
def test_arguments_that_are_no_json_are_bounded_as_they_are_sent(text: str) -> None:
    call = Message(role="assistant", parts=(ToolUse(id="1", name="t", input=text),))
    sent = AnthropicWire("acme", "https://x", None).body(request(call))
    assert upper_bound(request(call)) >= COUNTER.count(repr(sent["messages"][1]["content"]))


def test_context_of_the_model_is_the_end_of_all_bounds() -> None:
    paper = Document(media_type="application/pdf", data="aGk=")
    made = request(user(paper))
    assert upper_bound(made) > 1_000_000
    assert upper_bound(made, ModelInfo(name="big", context_tokens=200_000)) == 200_000


# -- pictures ------------------------------------------------------------------------

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080258032001011100")
GIF = b"GIF89a" + struct.pack("<HH", 800, 600) + b"\0\0\0"
LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", 800, 600)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 799 | 599 << 14)
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X\n\0\0\0\0\0\0\0" + b"\x1f\x03\0" + b"\x57\x02\0"


@pytest.mark.parametrize("data", [JPEG, GIF, LOSSY, LOSSLESS, EXTENDED])
def test_size_of_a_picture_is_read_from_its_head(data: bytes) -> None:
    image = Image(media_type="image/x", data=b64encode(data).decode())
    assert picture_size(image) == (800, 600)
    assert picture_size(png(800, 600)) == (800, 600)


@given(st.binary(max_size=80), st.sampled_from([b"", JPEG[:2], GIF[:6], LOSSY[:12], b"\x89PNG"]))
def test_picture_that_is_none_has_no_size_and_the_largest_bound(data: bytes, head: bytes) -> None:
    image = Image(media_type="image/x", data=b64encode(head + data).decode())
    size = picture_size(image)
    assert size is None or min(size) > 0
    if size is None:
        assert upper_bound(request(user(image))) > 24_600


def test_a_request_is_looked_at_once_and_one_that_was_changed_anew() -> None:
    made = request(user("hello"))
    assert sizes_of(made) is sizes_of(made)
    longer = replace(made, messages=(user("hello"), user("and more")))
    assert upper_bound(longer) > upper_bound(made)


def test_what_a_picture_takes_is_what_each_asker_says_that_it_takes() -> None:
    made = request(user(png(800, 600)))
    assert upper_bound(made, picture=lambda _: 7) - upper_bound(made, picture=lambda _: 5) == 2


def test_anthropics_pictures_are_billed_by_patches_up_to_a_limit() -> None:
    wire = AnthropicWire("anthropic", "https://x", None)
    # Of the table in its documentation, by the formula width * height / 750.
    for (width, height), billed in {(200, 200): 54, (1000, 1000): 1334, (1092, 1092): 1590}.items():
        assert wire.picture(png(width, height), "claude") >= billed
    assert wire.picture(png(28, 29), "claude") == 2
    assert wire.picture(png(8000, 8000), "claude") == 4784


@pytest.mark.parametrize(
    ("size", "number"), [((1024, 1024), 4), ((2048, 4096), 6), ((512, 512), 1), ((8000, 10), 4)]
)
def test_openais_tiles_are_those_of_its_documentation(size: tuple[int, int], number: int) -> None:
    assert tiles(*size) == number


@pytest.mark.parametrize(
    ("model", "size", "billed"),
    [
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("gpt-4.1-mini", (4000, 1474), 2488),
        ("gpt-4.1-nano", (1024, 1024), 2520),
        # What was billed for a picture and five words.
        ("gpt-4o", (128, 64), 267 - 12),
        ("gpt-4o-mini", (128, 64), 8512 - 12),
    ],
)
def test_openais_bound_is_not_below_what_was_billed(
    model: str, size: tuple[int, int], billed: int
) -> None:
    assert OpenAIWire("openai", "https://x", None).picture(png(*size), model) >= billed


# -- providers -----------------------------------------------------------------------


class Knowing(Script):
    """A provider that says what its requests cost at most."""

    says: Any = 7

    def bound(self, request: ModelRequest) -> int:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says  # type: ignore[no-any-return]


async def test_provider_that_knows_its_bills_is_asked() -> None:
    made = ModelRequest(model=ModelRef("script", "m"), messages=(user("hi"),))
    model = Knowing(say("ok"))
    async with gateway(Scripted(model)) as gate:
        assert input_bound(gate.host, made) == 7
        for junk in (-1, "many", None, RuntimeError("no")):
            model.says = junk
            assert input_bound(gate.host, made) == upper_bound(made)


async def test_bound_is_never_below_the_estimate_of_the_request() -> None:
    made = ModelRequest(model=ModelRef("script", "m"), messages=(user("hi"),), input_tokens=5000)
    async with gateway(Scripted(Knowing(say("ok")))) as gate:
        assert input_bound(gate.host, made) == 5000


async def test_builtin_providers_bound_by_their_own_formula(tmp_path: Path) -> None:
    from hookgate import Gateway, Settings

    section = {"anthropic": {"api_key": "k"}, "openai": {"api_key": "k"}}
    settings = Settings.model_validate(
        {
            "home": tmp_path,
            "plugins": {"entry_points": False},
            "plugin": {"providers": section, "egress": {}},
        }
    )
    async with Gateway(settings, disabled=("storage", "embedding", "discovery")) as gate:

        def bound(model: str) -> int:
            made = ModelRequest(model=ModelRef.parse(model), messages=(user(png(1024, 1024)),))
            return input_bound(gate.host, made)

        assert bound("anthropic/claude") < bound("openai/gpt-4o") < bound("openai/gpt-4o-mini")
