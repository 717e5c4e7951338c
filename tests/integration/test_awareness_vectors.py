"""The vectors of the tags' examples, from one start of a gateway to the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests.integration.test_awareness import running
from tests.integration.test_awareness_faults import JUMPER, WOOL, Embeds, prepared, shown

from hookgate import Message, Origin, Principal, Provenance, Text, TurnRequest


class Counts(Embeds):
    """Counts what it embeds in bulk."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.texts += len(texts)
        return await super().embed(texts)


async def test_a_second_start_embeds_nothing_and_finds_the_same(tmp_path: Path) -> None:
    embedded = []
    for _ in range(2):
        embeds = Counts()
        async with running(tmp_path, cards={"knitting": WOOL}, plugins=[embeds], meaning=True) as (
            gate,
            script,
        ):
            await prepared(gate)
            await gate.chat(JUMPER)
        embedded.append(embeds.texts)
        assert shown(script.requests)[-1]
    assert embedded[0] > 500
    assert embedded[1] == 0


async def test_a_damaged_file_costs_the_embedding_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path, cards={"knitting": WOOL}, plugins=[Embeds()], meaning=True) as (
        gate,
        _,
    ):
        await prepared(gate)
        path = gate.host.settings.home / "awareness" / "sentences.vectors"
    path.write_bytes(path.read_bytes()[:-100])
    embeds = Counts()
    async with running(tmp_path, cards={"knitting": WOOL}, plugins=[embeds], meaning=True) as (
        gate,
        script,
    ):
        await prepared(gate)
        await gate.chat(JUMPER)
        assert gate.host.degraded == {}
    assert embeds.texts > 500
    assert shown(script.requests) == [True]


class CountsMessages(Embeds):
    """Counts the messages that it is asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        self.asked += 1
        return await super().embed_query(text)


async def test_a_turn_that_shows_no_cards_has_its_message_embedded_by_nobody(
    tmp_path: Path,
) -> None:
    embeds = CountsMessages()
    async with running(tmp_path, cards={"knitting": WOOL}, plugins=[embeds], meaning=True) as (
        gate,
        _,
    ):
        await prepared(gate)
        await gate.chat(JUMPER)
        assert (before := embeds.asked) > 0
        said = Message(role="user", parts=(Text("Which yarn takes how much care?"),))
        request = TurnRequest(content="", client_history=(said,), verbatim=True, ephemeral=True)
        origin = Origin(provenance=Provenance.EXTERNAL_USER, path="compat")
        owner = Principal.owner("client")
        turn = await gate.host.start_turn(owner, origin, request).wait()
        assert turn.ending == "done"
    assert embeds.asked == before
