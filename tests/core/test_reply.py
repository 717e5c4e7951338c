"""An answer as its client is told it: what it came as stays with what nobody has masked."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from hookgate import Settings, TextDelta, Turn
from hookgate.core.domain.models import Frame
from hookgate.core.settings.secret_store import SecretStore
from hookgate.core.turn.model.reply import Reply
from hookgate.wire import Raw, TextForm, TextFrames, came_as

WIRE = "anthropic-messages"
SECRET = "sesame-open-0123456789"


class Told:
    """A turn, as far as a reply needs one."""

    raw = object()
    id = "turn_1"

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def say(self, kind: str, text: str, value: Any = None) -> None:
        del kind
        self.events.append((text, value and value.raw and value.raw.data))

    def tell(self, event: Any) -> None:
        self.events.append((event.type, event.value.raw.data))


def reply(tmp_path: Path) -> tuple[Reply, list[tuple[str, Any]]]:
    secrets, told = SecretStore(Settings(home=tmp_path), {}), Told()
    secrets.register(SECRET)
    now = partial(datetime.now, UTC)
    return Reply(cast("Turn", told), secrets, most=8, now=now), told.events


def piece(text: str) -> TextDelta:
    return came_as(TextDelta(text), Raw(wire=WIRE, data={"text": text}))


@pytest.mark.parametrize("ends", [True, False])
def test_what_was_held_back_and_is_no_secret_is_told_as_it_came(tmp_path: Path, ends: bool) -> None:
    made, told = reply(tmp_path)
    texts = ["lock", "ses", "ame", "-o"] + ([] if ends else ["h no"])
    for text in texts:
        made.take(piece(text))
    made.message(frozenset(), whole=True)
    assert "".join(text for text, _ in told) == "".join(texts)
    came = [one for _, data in told for one in (data if isinstance(data, list) else [data])]
    assert came == [{"text": text} for text in texts]


def test_what_a_secret_was_masked_in_is_not(tmp_path: Path) -> None:
    made, told = reply(tmp_path)
    for text in ("is ", SECRET[:9], SECRET[9:], " and", " more"):
        made.take(piece(text))
    made.message(frozenset(), whole=True)
    text = "".join(text for text, _ in told)
    assert SECRET not in text
    assert text.startswith("is ")
    assert text.endswith(" and more")
    assert SECRET[:9] not in str([data for _, data in told])
    assert SECRET[9:] not in str([data for _, data in told])


@pytest.mark.parametrize("unparsed", [True, False])
def test_a_secret_beside_a_text_is_masked(tmp_path: Path, unparsed: bool) -> None:
    made, told = reply(tmp_path)
    for text in ("one", "two"):
        frame = {"text": text, "system_fingerprint": SECRET}
        form = TextForm.of(frame, "text", text)
        assert form is not None
        raw = TextFrames(WIRE, form, [text.encode()]) if unparsed else Raw(wire=WIRE, data=frame)
        made.take(came_as(TextDelta(text), raw))
    assert [(text, data["text"]) for text, data in told] == [("one", "one"), ("two", "two")]
    assert SECRET not in str(told)


def test_a_piece_of_which_some_was_told_before_is_not_told_as_it_came(tmp_path: Path) -> None:
    made, told = reply(tmp_path)
    for text in ("is ses", "ame", " oil"):
        made.take(piece(text))
    made.message(frozenset(), whole=True)
    assert told == [("is ", None), ("sesame oil", None)]


def test_pieces_of_one_form_stay_unparsed_where_they_are_held_back(tmp_path: Path) -> None:
    made, _ = reply(tmp_path)
    values: list[Any] = []
    made._turn.say = lambda kind, text, value=None: values.append(value)  # type: ignore[method-assign]
    form = TextForm.of({"text": "x"}, "text", "x")
    assert form is not None
    for text in ("ses", "ame", "-oil"):
        frames = TextFrames(WIRE, form, [text.encode()])
        made.take(came_as(TextDelta(text), frames))
    (value,) = values
    assert value.text == "sesame-oil"
    assert type(value.raw) is TextFrames
    assert value.raw.texts == [b"ses", b"ame", b"-oil"]


def test_a_secret_in_a_frame_is_masked_and_other_frames_are_as_they_came(tmp_path: Path) -> None:
    made, told = reply(tmp_path)
    clean = Raw(wire=WIRE, data={"id": "one", "n": [1, None]})
    made.take(Frame(clean))
    made.take(Frame(Raw(wire=WIRE, data={"id": f'"{SECRET}"', "n": 2})))
    made.take(piece("hi"))
    first, second, _ = told
    assert first[1] is clean.data
    assert SECRET not in str(second)
    assert second[1]["n"] == 2
