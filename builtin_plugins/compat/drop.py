"""Fields of a request that the operator has dropped where another wire could not carry them.

All others are a 400 that names them: nothing is lost that nobody has listed.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from dataclasses import replace
from typing import Any

from hookgate import Host, ModelRef, Turn, TurnKey
from hookgate.builtin_plugins.compat.answers import ClientWire
from hookgate.builtin_plugins.compat.fields import Asked

DROPPED: TurnKey[tuple[str, ...]] = TurnKey("compat dropped")
"""The fields that the model which was asked last was not told."""
TOLD: TurnKey[ModelRef] = TurnKey("compat dropped for")


def without(asked: Asked, wire: ClientWire, listed: Collection[str]) -> Asked:
    """Return a request without the fields in `listed`, for models of other wires.

    Its body stays as it came: a model of the same wire is sent that one. A tool that a provider
    runs is no field, so none is dropped.
    """
    if not listed:
        return asked
    own = [name for name, value in asked.body.items() if name in listed and value is not None]
    inner = [place for place in asked.foreign if "." in place and _name(place) in listed]
    if not (own or inner):
        return asked
    left = wire.read({name: value for name, value in asked.body.items() if name not in own})
    return replace(
        asked,
        parameters=left.parameters,
        foreign=tuple(place for place in left.foreign if _name(place) not in listed),
        dropped=(*own, *inner),
    )


def tell(host: Host, turn: Turn, asked: Asked, model: ModelRef) -> Coroutine[Any, Any, None] | None:
    """Note that fields are dropped on the way to a model; return what records it, once for each."""
    if turn.get(TOLD) == model:
        return None
    data = {
        "turn": turn.id,
        "session": str(turn.session),
        "principal": turn.principal.id,
        "model": str(model),
        "fields": list(asked.dropped),
    }
    turn[DROPPED], turn[TOLD] = asked.dropped, model
    host.log.info("fields of a request dropped", **data)
    return host.record("compat_dropped", **data)


def forget(turn: Turn) -> None:
    """Note that the model which is asked now is told all."""
    if DROPPED in turn:
        turn[DROPPED] = ()


def header(turn: Turn) -> dict[str, str]:
    """Return the header that tells a client which of its fields were dropped."""
    dropped: tuple[str, ...] = turn.get(DROPPED, ())
    names = dict.fromkeys(map(_name, dropped))
    # Whatever the client has called them: a header takes plain words alone.
    plain = [name for name in names if name.isascii() and name.isprintable()]
    return {"x-hookgate-dropped": ", ".join(plain)} if plain else {}


def _name(place: str) -> str:
    return place.rpartition(".")[2]
