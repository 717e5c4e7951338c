"""Embeddings: texts turned into vectors, as a turn that asks no model to write.

The shapes are those of https://platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

import asyncio
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hookgate import (
    Embed,
    Embedded,
    Event,
    Host,
    Message,
    ModelParameters,
    Origin,
    Principal,
    Provenance,
    Text,
    Turn,
    TurnRequest,
)
from hookgate.builtin_plugins.compat.fields import Fields, bad, kind_of
from hookgate.wire import Raw, came_as, dumps

WIRE = "openai-embeddings"
MOST_INPUTS = 2048
MOST_TOKENS = 65_536
"""Tokens of one input."""
LARGEST_TOKEN = 2**31 - 1
MOST_DIMENSIONS = 65_536
FORMATS = ("float", "base64")

WRITES_NOTHING = ModelParameters(max_output_tokens=1)
"""What is reserved of the output, of which there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedVectors:
    """A request, read.

    Attributes:
        model: The model as the client names it.
        embed: What is to be turned into vectors.
        packed: Whether the client wants each vector as base64.
        body: All of it, as it came.
    """

    model: str
    embed: Embed
    packed: bool
    body: Mapping[str, Any]


def read(body: dict[str, Any]) -> AskedVectors:
    """Read a request.

    Raises:
        WireError: It is none.
    """
    fields = Fields(body)
    model = fields.needed("model")
    packed = fields.text("encoding_format") or "float"
    if packed not in FORMATS:
        fields.wrong("encoding_format", "float or base64")
    dimensions = fields.count("dimensions")
    if dimensions is not None and dimensions > MOST_DIMENSIONS:
        fields.wrong("dimensions", f"{MOST_DIMENSIONS:,} at most")
    embed = Embed(inputs=_inputs(fields.raw.get("input")), dimensions=dimensions)
    return AskedVectors(model=model, embed=embed, packed=packed == "base64", body=body)


def _inputs(given: Any) -> tuple[str | tuple[int, ...], ...]:
    if isinstance(given, str) or (given and _are_tokens(given)):
        given = [given]
    if not isinstance(given, list) or not given:
        raise bad("input", f"found {kind_of(given)}, expected texts, or lists of tokens")
    if len(given) > MOST_INPUTS:
        raise bad("input", f"found {len(given):,} of them, expected {MOST_INPUTS:,} at most")
    return tuple(_input(one, f"input[{number}]") for number, one in enumerate(given))


def _input(given: Any, at: str) -> str | tuple[int, ...]:
    if isinstance(given, str) and given:
        return given
    if given and _are_tokens(given):
        if len(given) > MOST_TOKENS:
            raise bad(at, f"found {len(given):,} tokens, expected {MOST_TOKENS:,} at most")
        return tuple(given)
    raise bad(at, "expected text that is not empty, or a list of tokens that is not")


def _are_tokens(given: Any) -> bool:
    return isinstance(given, list) and all(
        type(one) is int and 0 <= one <= LARGEST_TOKEN for one in given
    )


async def embedded(
    host: Host, principal: Principal, asked: AskedVectors, request: TurnRequest
) -> tuple[Turn, Embedded]:
    """Return the turn that has made the vectors of a request, and the vectors.

    Raises:
        Exception: What the turn ended with.
    """
    made: list[Embedded] = []

    def take(event: Event) -> None:
        if event.type == "embedded" and isinstance(event.value, Embedded):
            made.append(event.value)

    origin = Origin(provenance=Provenance.EXTERNAL_USER, path="compat")
    turn = await host.start_turn(principal, origin, request, sink=take).wait()
    if turn.error is not None:
        raise turn.error
    return turn, made[-1]


def as_turn(asked: AskedVectors) -> dict[str, Any]:
    """Return what a turn is asked: the texts are there for whoever judges and counts them."""
    given = asked.embed.inputs
    parts = tuple(Text(one if isinstance(one, str) else str(list(one))) for one in given)
    message = came_as(Message(role="user", parts=parts), Raw(wire=WIRE, data=asked.body))
    return {
        "content": "",
        "client_history": (message,),
        "parameters": WRITES_NOTHING,
        "ephemeral": True,
        "verbatim": True,
        "embed": asked.embed,
        "raw": Raw(wire=WIRE, data=asked.body),
    }


async def answer(asked: AskedVectors, turn: Turn, made: Embedded) -> bytes:
    """Return the answer, written."""
    used = turn.usage.total_input

    def written() -> bytes:
        data = [
            {"object": "embedding", "index": number, "embedding": _vector(one, asked.packed)}
            for number, one in enumerate(made.vectors)
        ]
        usage = {"prompt_tokens": used, "total_tokens": used}
        return dumps({"object": "list", "data": data, "model": asked.model, "usage": usage})

    # Some million numbers take a while, in which others are to be answered.
    return await asyncio.to_thread(written)


def _vector(vector: Sequence[float], packed: bool) -> Any:
    if not packed:
        return list(vector)
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
