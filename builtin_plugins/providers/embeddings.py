"""Vectors of OpenAI's wire: what is asked for, and what comes back.

The shapes are those of https://platform.openai.com/docs/api-reference/embeddings.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import orjson

from hookgate import Embedded, ModelRequest, Usage
from hookgate.builtin_plugins.providers.wire.protocol import malformed
from hookgate.kit.usage import UsageError, count_of, table_of

WIRE = "openai-embeddings"
"""The wire whose requests are sent as they came."""


def body(request: ModelRequest) -> dict[str, Any]:
    """Return a request in the protocol's shape: as it came, where it is of this wire."""
    assert request.embed is not None, "it asks for vectors"
    first = request.baseline
    is_same = first is not None and first.embed is request.embed
    if is_same and request.raw is not None and request.raw.wire == WIRE:
        return {**request.raw.data, "model": request.model.model}
    asked: dict[str, Any] = {
        "model": request.model.model,
        "input": list(request.embed.inputs),
        "encoding_format": "float",
    }
    if request.embed.dimensions is not None:
        asked["dimensions"] = request.embed.dimensions
    return asked


def read(provider: str, data: bytes, complain: Callable[[str], None]) -> Embedded:
    """Return the vectors of an answer.

    Args:
        provider: Who has sent it.
        data: The answer.
        complain: Takes what is wrong with reported token counts; they count as missing.

    Raises:
        ProviderError: It is no answer of the protocol.
    """
    try:
        answer = orjson.loads(data)
        rows = answer["data"]
        placed = {_place(row, number): _vector(row["embedding"]) for number, row in enumerate(rows)}
        vectors = [placed[number] for number in range(len(rows))]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, struct.error):
        malformed(
            provider,
            f"{data[:200]!r}, expected an object with `data`, a list of objects with `embedding` "
            "and an `index` that counts from 0",
        )
    try:
        read_tokens = count_of(table_of(answer.get("usage")), "prompt_tokens", "total_tokens")
    except UsageError as error:
        complain(str(error))
        read_tokens = None
    usage = None if read_tokens is None else Usage(input_tokens=read_tokens)
    return Embedded(vectors=vectors, usage=usage)


def _place(row: dict[str, Any], number: int) -> int:
    place = row.get("index", number)
    if type(place) is not int:
        raise TypeError("expected a whole number")
    return place


def _vector(value: object) -> Sequence[float]:
    """Return a vector: numbers as they came, or the four bytes of each in base64."""
    if isinstance(value, str):
        packed = b64decode(value, validate=True)
        value = struct.unpack(f"<{len(packed) // 4}f", packed)
    if not isinstance(value, list | tuple) or not value:
        raise TypeError("expected numbers")
    if not all(type(one) in (int, float) and isfinite(one) for one in value):
        raise TypeError("expected numbers")
    return value
